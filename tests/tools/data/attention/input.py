import torch


def _make_inputs(batch, heads, length, size):
    return {name: torch.randn(batch, heads, length, size) for name in ("q", "k", "v")}

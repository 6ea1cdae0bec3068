import torch


def _make_inputs(rows, depth):
    return {"x": torch.randn(rows, depth, dtype=torch.bfloat16)}

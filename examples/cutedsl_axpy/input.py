"""Inputs for one shape of the axpy task."""

import torch


def _make_inputs(rows: int, cols: int, dtype: str) -> dict[str, torch.Tensor]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return {
        name: torch.randn(rows, cols, device=device, dtype=torch.float32).to(getattr(torch, dtype))
        for name in ("x", "y")
    }

"""Inputs for one shape of the rmsnorm task."""

import torch


def _make_inputs(batch: int, length: int, dim: int, dtype: str) -> dict[str, torch.Tensor]:
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def draw() -> torch.Tensor:
        return torch.randn(batch, length, dim, device=device, dtype=torch.float32).to(getattr(torch, dtype))

    return {"x": draw(), "residual": draw()}

"""Inputs for one shape of the gemm task: a (rows, depth), b (cols, depth)."""

import torch


def _make_inputs(rows: int, cols: int, depth: int) -> dict[str, torch.Tensor]:
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def draw(count: int) -> torch.Tensor:
        return torch.randn(count, depth, device=device, dtype=torch.float32).to(torch.bfloat16)

    return {"a": draw(rows), "b": draw(cols)}

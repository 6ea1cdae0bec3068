"""RMSNorm with the residual addition fused in: the entry of the workspace."""

import torch
import torch.nn as nn
from norm_ops import add_rmsnorm


class Model(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6, dtype: str = "bfloat16"):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(dim).add_(0.5).to(getattr(torch, dtype)))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> dict[str, torch.Tensor]:
        rows = x.reshape(-1, x.shape[-1]).contiguous()
        others = residual.reshape(-1, residual.shape[-1]).contiguous()
        normed = torch.empty_like(rows)
        summed = torch.empty_like(rows)
        add_rmsnorm(rows, others, self.weight, normed, summed, self.eps)
        return {"normed": normed.view(x.shape), "residual": summed.view(x.shape)}

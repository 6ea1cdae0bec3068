"""What the axpy kernel must compute: alpha * x + y in float32, rounded once."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, alpha: float = 2.0):
        super().__init__()
        self.alpha = alpha

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        return torch.add(y.to(wide), x.to(wide), alpha=self.alpha).to(x.dtype)

"""Softmax over the last dimension: the entry of the workspace."""

import torch
import torch.nn as nn
from ops import build_softmax
from ops.common import launch_stream


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1]).contiguous()
        out = torch.empty_like(rows)
        launch = build_softmax(rows.shape[1], rows.dtype)
        launch(rows, out, rows.shape[0], stream=launch_stream(x))
        return out.view(x.shape)

import torch


def _make_inputs(rows: int, cols: int) -> dict[str, torch.Tensor]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return {name: torch.randn(rows, cols, device=device) for name in ("a", "b")}

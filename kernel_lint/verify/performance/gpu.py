"""Whether there is a GPU, for commands that are of no use without one."""

from __future__ import annotations

from kernel_lint.errors import KernelLintError


def need_gpu(what: str) -> None:
    """Raise :class:`KernelLintError` where torch is missing or sees no GPU."""
    try:
        import torch
    except ModuleNotFoundError:
        raise KernelLintError(f"{what} needs torch", "pip install 'kernel-lint[verify]'") from None
    if not torch.cuda.is_available():
        raise KernelLintError(
            f"{what} needs a GPU, and torch {torch.__version__} sees none",
            "run it where the GPU is; everywhere else the figures of public data sheets are used",
        )

"""The source model: what every other part asks about Python text."""

from kernel_lint.source.module import SourceError, SourceModule

__all__ = ["SourceError", "SourceModule"]

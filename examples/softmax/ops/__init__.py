"""Device code of the softmax example; the entry imports only what is listed here."""

from . import layout
from .softmax import build_softmax

__all__ = ["build_softmax", "layout"]

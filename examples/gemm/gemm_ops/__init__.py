"""Device code of the gemm example; the entry imports only what is listed here."""

from . import tiles
from .gemm import matmul_nt

__all__ = ["matmul_nt", "tiles"]

"""The CUDA driver, through ``cuda-bindings``: load PTX, launch."""

from __future__ import annotations

import ctypes
from typing import Any

from kernel_lint.errors import KernelLintError
from kernel_lint.nvptx.compile import Ptx


class CudaDriver:
    """Loads and launches in torch's context of the current device."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self._driver = driver
        self._context = self._call("cuCtxGetCurrent")

    def _enter(self) -> None:
        """Give a thread without a context, such as one of autograd's, that of the thread that began."""
        if not int(self._call("cuCtxGetCurrent")):
            self._call("cuCtxSetCurrent", self._context)

    def _call(self, name: str, *arguments: Any) -> Any:
        code, *results = getattr(self._driver, name)(*arguments)
        if int(code) != 0:
            raise KernelLintError(
                f"{name} failed: {code.name}", "the kernel or the launch is not sound on this GPU"
            )
        return results[0] if results else None

    def load(self, ptx: Ptx) -> Any:
        """Return the kernel's function."""
        self._enter()
        module = self._call("cuModuleLoadData", ptx.text.encode() + b"\0")
        return self._call("cuModuleGetFunction", module, ptx.entry.encode())

    def launch(
        self,
        function: Any,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        stream: int,
        parameters: list[bytes],
    ) -> None:
        """Launch with parameters as bytes, on a stream given by its handle."""
        self._enter()
        buffers = [ctypes.create_string_buffer(data, max(len(data), 1)) for data in parameters]
        pointers = (ctypes.c_void_p * len(buffers))(*[ctypes.addressof(b) for b in buffers])
        address = ctypes.addressof(pointers) if buffers else 0
        self._call("cuLaunchKernel", function, *grid, *block, 0, stream, address, 0)

"""The CUDA driver, through ``cuda-bindings``: load PTX, launch."""

from __future__ import annotations

import ctypes
from typing import Any

from kernel_lint.errors import KernelLintError
from kernel_lint.nvptx.compile import Ptx
from kernel_lint.nvptx.errors import REMEDY
from kernel_lint.nvptx.shared import STATIC_BYTES


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
        shared: int,
        stream: int,
        parameters: list[bytes],
    ) -> None:
        """Launch with parameters as bytes, on a stream given by its handle.

        Raises KernelLintError when a block cannot have ``shared`` bytes.
        """
        self._enter()
        if shared > STATIC_BYTES:
            self._allow(function, shared)
        buffers = [ctypes.create_string_buffer(data, max(len(data), 1)) for data in parameters]
        pointers = (ctypes.c_void_p * len(buffers))(*[ctypes.addressof(b) for b in buffers])
        address = ctypes.addressof(pointers) if buffers else 0
        self._call("cuLaunchKernel", function, *grid, *block, shared, stream, address, 0)

    def _allow(self, function: Any, shared: int) -> None:
        """Let a function have more shared memory than any function may."""
        attributes = self._driver.CUdevice_attribute
        optin = attributes.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        most = int(self._call("cuDeviceGetAttribute", optin, self._call("cuCtxGetDevice")))
        if shared > most:
            raise KernelLintError(
                f"a workgroup asks for {shared:,} bytes of LDS; a block of this GPU has up to {most:,}",
                REMEDY,
            )
        name = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call("cuFuncSetAttribute", function, name, shared)

"""Every thread launches in the context of the one that began."""

from __future__ import annotations

import sys
import threading
import types
from typing import ClassVar

import pytest
import torch

from kernel_lint.nvptx.driver import CudaDriver


class Driver(threading.local):
    """A driver whose threads begin without a context, as CUDA's do."""

    context = 0
    asked: ClassVar[list[int]] = []
    CUdevice_attribute = types.SimpleNamespace(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN="optin")
    CUfunction_attribute = types.SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="dynamic")

    def cuCtxGetCurrent(self) -> tuple[int, int]:
        return 0, self.context

    def cuCtxSetCurrent(self, context: int) -> tuple[int]:
        self.context = context
        return (0,)

    def cuCtxGetDevice(self) -> tuple[int, int]:
        return 0, 0

    def cuDeviceGetAttribute(self, name: str, device: int) -> tuple[int, int]:
        assert name == "optin"
        return 0, 232448

    def cuFuncSetAttribute(self, function: int, name: str, value: int) -> tuple[int]:
        assert name == "dynamic"
        self.asked.append(value)
        return (0,)

    def cuLaunchKernel(self, *_arguments: object) -> tuple[int]:
        assert self.context == 7
        return (0,)


def in_a_thread(call: object) -> None:
    """Run a call in a new thread; raises what it raises."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result()  # type: ignore[arg-type]


def install_bindings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Put a driver in the place of CUDA's; return the list of what functions were allowed to have."""
    bindings = types.ModuleType("cuda.bindings")
    bindings.driver = Driver()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda", types.ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    bindings.driver.cuCtxSetCurrent(7)
    Driver.asked.clear()
    return Driver.asked


def test_a_thread_without_a_context_gets_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    install_bindings(monkeypatch)
    driver = CudaDriver()
    in_a_thread(lambda: driver.launch(1, (1, 1, 1), (64, 1, 1), 0, 0, [b"12345678"]))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
def test_a_thread_loads_and_launches_on_the_gpu() -> None:
    from kernel_lint.nvptx.compile import Ptx

    torch.zeros(1, device="cuda")
    driver = CudaDriver()
    text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n ret;\n}\n"
    in_a_thread(lambda: driver.launch(driver.load(Ptx(text, "k")), (1, 1, 1), (64, 1, 1), 0, 0, []))
    torch.cuda.synchronize()

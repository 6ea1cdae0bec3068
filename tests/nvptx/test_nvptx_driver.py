"""Every thread launches in the context of the one that began."""

from __future__ import annotations

import sys
import threading
import types

import pytest
import torch

from kernel_lint.nvptx.driver import CudaDriver


class Driver(threading.local):
    """A driver whose threads begin without a context, as CUDA's do."""

    context = 0

    def cuCtxGetCurrent(self) -> tuple[int, int]:
        return 0, self.context

    def cuCtxSetCurrent(self, context: int) -> tuple[int]:
        self.context = context
        return (0,)

    def cuLaunchKernel(self, *_arguments: object) -> tuple[int]:
        assert self.context == 7
        return (0,)


def in_a_thread(call: object) -> None:
    """Run a call in a new thread; raises what it raises."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result()  # type: ignore[arg-type]


def test_a_thread_without_a_context_gets_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    bindings = types.ModuleType("cuda.bindings")
    bindings.driver = Driver()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda", types.ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    bindings.driver.cuCtxSetCurrent(7)
    driver = CudaDriver()
    in_a_thread(lambda: driver.launch(1, (1, 1, 1), (64, 1, 1), 0, [b"12345678"]))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
def test_a_thread_loads_and_launches_on_the_gpu() -> None:
    from kernel_lint.nvptx.compile import Ptx

    torch.zeros(1, device="cuda")
    driver = CudaDriver()
    text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n ret;\n}\n"
    in_a_thread(lambda: driver.launch(driver.load(Ptx(text, "k")), (1, 1, 1), (64, 1, 1), 0, []))
    torch.cuda.synchronize()

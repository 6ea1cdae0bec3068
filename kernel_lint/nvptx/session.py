"""Takes the emulator's place behind its hook: launches go to the GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol

from kernel_lint.emulator.decode import decode_module
from kernel_lint.emulator.host import HostMachine, read_value
from kernel_lint.emulator.ir import Function
from kernel_lint.emulator.memory import GlobalMemory
from kernel_lint.emulator.options import EmulatorOptions
from kernel_lint.emulator.session import EmulatedLaunch, Session, unobserved
from kernel_lint.emulator.translate import translate
from kernel_lint.nvptx.apart import compile_apart
from kernel_lint.nvptx.compile import Ptx, lowered_text
from kernel_lint.nvptx.facts import Known
from kernel_lint.nvptx.layout import divisors, pack


class Driver(Protocol):
    """What a launch needs of the CUDA driver."""

    def load(self, ptx: Ptx) -> Any:
        """Return a function that can be launched."""

    def launch(
        self,
        function: Any,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        shared: int,
        stream: int,
        parameters: list[bytes],
    ) -> None:
        """Launch it with so many bytes of shared memory besides what it declares itself."""


class _Addresses(GlobalMemory):
    """Pointers as they are: on a GPU an address needs no tensor."""

    def pointer(self, address: int) -> Any:
        """Return the address."""
        return address

    def add(self, tensors: Any, names: Any = None) -> None:
        """Remember nothing."""


class NvptxProgram:
    """One compiled artifact of FlyDSL, whose kernels become PTX at their first launch."""

    def __init__(self, module: Any, entry: str, session: NvptxSession) -> None:
        self._decoded = decode_module(module)
        self._text = lowered_text(module)
        self._entry, self._session = entry, session
        self._host: Callable[..., Any] | None = None
        # The driver's function and the bytes of shared memory to ask for, by kernel and what is known of it.
        self._loaded: dict[Any, tuple[Any, int]] = {}

    def __call__(self, packed: Any) -> None:
        """Run the host function with FlyDSL's packed arguments."""
        function = self._decoded.hosts[self._entry]
        with self._session.lock, unobserved():
            if self._host is None:
                self._host = translate(function, self._session.env(self._entry))
            machine = HostMachine(self._decoded, self._launcher, streams=True)
            self._host(machine, None, *self._arguments(function, packed))

    def _arguments(self, function: Function, packed: Any) -> list[Any]:
        pointers = ctypes.cast(packed, ctypes.POINTER(ctypes.c_void_p))
        out: list[Any] = []
        for number, mtype in enumerate(function.body.arg_types):
            address = pointers[number]
            size = 8 if mtype.kind == "other" else mtype.size
            data = ctypes.string_at(address, size) if address else bytes(size)
            if mtype.kind == "other":
                # An async token: the stream's handle.
                out.append(int.from_bytes(data, "little"))
            else:
                out.append(read_value(data, mtype, self._session.memory))
        return out

    def _launcher(
        self,
        kernel: str,
        grid: tuple[Any, ...],
        block: tuple[Any, ...],
        dynamic: Any,
        args: tuple[Any, ...],
        stream: int,
    ) -> None:
        blocks, threads = (tuple(int(size) for size in sizes) for sizes in (grid, block))
        self._session.launches.append(EmulatedLaunch(kernel, blocks, threads))  # type: ignore[arg-type]
        if 0 in blocks or 0 in threads:
            return
        values = list(args)
        found = divisors(values)
        key = (kernel, threads, tuple(sorted(found.items())))
        loaded = self._loaded.get(key)
        if loaded is None:
            known = Known(threads, found, self._session.options.target)  # type: ignore[arg-type]
            ptx = compile_apart(self._text, kernel, known, self._session.chip)
            self._session.compiled.append(ptx)
            loaded = self._loaded[key] = self._session.driver.load(ptx), ptx.shared
        function, shared = loaded
        types = self._decoded.kernels[kernel].body.arg_types
        parameters = [pack(mtype, value) for mtype, value in zip(types, values, strict=True)]
        shared += int(dynamic)
        self._session.driver.launch(function, blocks, threads, shared, stream, parameters)


class NvptxSession(Session):
    """A session whose programs run on the GPU."""

    def __init__(self, options: EmulatorOptions, driver: Driver, chip: str) -> None:
        super().__init__(options)
        self.memory = _Addresses(options.device)
        self.driver, self.chip = driver, chip
        self.compiled: list[Ptx] = []

    def program(self, module: Any, entry: str) -> Any:
        """Keep a lowered module for launches."""
        return NvptxProgram(module, entry, self)


def install_on_gpu(target: str = "gfx942") -> NvptxSession:
    """Make FlyDSL launch on torch's current GPU; creates its context.

    Raises what torch raises where there is none.
    """
    import torch

    from kernel_lint.emulator.registry import load_all
    from kernel_lint.nvptx.driver import CudaDriver

    torch.cuda.init()  # type: ignore[no-untyped-call]
    torch.zeros(1, device="cuda")
    load_all()
    major, minor = torch.cuda.get_device_capability()
    return install(CudaDriver(), f"sm_{major}{minor}", target)


def install(driver: Driver, chip: str, target: str = "gfx942") -> NvptxSession:
    """Make FlyDSL launch on the GPU, in this process, until the session is closed.

    ``target`` is the AMD architecture that kernels are traced for.
    """
    from kernel_lint.emulator import hook

    version = hook.flydsl_version()
    hook.check_version(version)
    session = NvptxSession(EmulatorOptions(target, "cuda", "none"), driver, chip)
    try:
        hook.hook_session(session, version)
    except BaseException:
        session.close()
        raise
    return session

"""A session of emulation: decodes artifacts, launches kernels, collects launches and findings."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernel_lint.emulator.checks import NoChecks
from kernel_lint.emulator.decode import decode_module
from kernel_lint.emulator.findings import Finding, Findings
from kernel_lint.emulator.host import HostMachine, read_arguments
from kernel_lint.emulator.ir import DecodedModule, Function
from kernel_lint.emulator.machine import Grid, Machine
from kernel_lint.emulator.memory import GlobalMemory
from kernel_lint.emulator.options import EmulatorOptions
from kernel_lint.emulator.registry import Env
from kernel_lint.emulator.trace import Tracer
from kernel_lint.emulator.translate import translate
from kernel_lint.emulator.values import Value

_WAVE = {"gfx942": 64, "gfx950": 64}


@dataclass(frozen=True, slots=True)
class EmulatedLaunch:
    """One kernel launch: name, workgroups and threads in x, y, z."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


class Program:
    """One compiled artifact, ready to run: its functions are translated at their first use."""

    def __init__(self, module: DecodedModule, entry: str, session: Session) -> None:
        self.module, self.entry, self.session = module, entry, session
        self._functions: dict[str, Callable[..., Any]] = {}

    def translated(self, function: Function, kernel: str) -> Callable[..., Any]:
        """The Python function of a kernel or host function."""
        run = self._functions.get(function.name)
        if run is None:
            run = self._functions[function.name] = translate(function, self.session.env(kernel))
        return run

    def __call__(self, packed: Any) -> None:
        """Run the host function with FlyDSL's packed arguments."""
        function = self.module.hosts[self.entry]
        with self.session.lock:
            arguments = read_arguments(function, packed, self.session.memory)
            host = HostMachine(self.module, self._launch)
            self.translated(function, self.entry)(host, None, *arguments)

    def _launch(self, kernel: str, grid: tuple[int, ...], block: tuple[int, ...], dynamic: int, args: tuple[Value, ...]) -> None:
        shape = Grid((grid[0], grid[1], grid[2]), (block[0], block[1], block[2]), int(dynamic))
        self.session.launches.append(EmulatedLaunch(kernel, shape.blocks, shape.threads))
        if shape.workgroups == 0 or shape.lanes == 0:
            return
        run = self.translated(self.module.kernels[kernel], kernel)
        env = self.session.env(kernel)
        checker = NoChecks()
        per_chunk = max(1, self.session.options.chunk_lanes // max(shape.lanes, 1))
        for first in range(0, shape.workgroups, per_chunk):
            count = min(per_chunk, shape.workgroups - first)
            machine = Machine(env, shape, first, count, self.session.memory, self.session.findings, checker)
            machine.tracer = self.session.trace
            machine.place_lds(self.module.globals)
            run(machine, machine.mask, *args)
            checker.finish(machine)


class Session:
    """Collects what happens while it is installed; see :func:`kernel_lint.emulator.install`."""

    def __init__(self, options: EmulatorOptions) -> None:
        self.options = options
        self.memory = GlobalMemory(options.device)
        self.findings = Findings()
        self.launches: list[EmulatedLaunch] = []
        self.lock = threading.RLock()
        self.trace = Tracer(options.trace_lanes, options.trace_workgroup)
        self._undo: list[Callable[[], None]] = []

    def env(self, kernel: str) -> Env:
        """What translations of this session are specialised for."""
        o = self.options
        return Env(o.device, o.target, _WAVE[o.target], o.enabled, kernel, o.trace_lines)

    def program(self, module: Any, entry: str) -> Program:
        """Decode a lowered MLIR module into something that runs."""
        return Program(decode_module(module), entry, self)

    def found(self) -> tuple[Finding, ...]:
        """All findings so far."""
        return self.findings.all()

    def clear(self) -> None:
        """Forget launches and findings."""
        self.findings.clear()
        self.launches.clear()
        self.trace.clear()

    def on_close(self, undo: Callable[[], None]) -> None:
        """Register what :meth:`close` must undo, last first."""
        self._undo.append(undo)

    def close(self) -> None:
        """Take every hook out again."""
        while self._undo:
            self._undo.pop()()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

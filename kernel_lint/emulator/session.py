"""A session of emulation: decodes artifacts, launches kernels, collects launches and findings."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from kernel_lint.emulator.analysis import KernelFacts, facts
from kernel_lint.emulator.checks import Checks, NoChecks
from kernel_lint.emulator.decode import decode_module
from kernel_lint.emulator.findings import Finding, Findings
from kernel_lint.emulator.host import HostMachine, read_arguments
from kernel_lint.emulator.ir import DecodedModule, Function
from kernel_lint.emulator.machine import Grid, Machine
from kernel_lint.emulator.memory import GlobalMemory, Ptr, Region
from kernel_lint.emulator.nan import FirstNan, NanTracer, NanWatch
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


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Hide the emulator's own torch operations from modes that watch the candidate's."""
    with torch.no_grad(), torch._C.DisableTorchFunction(), _disable_current_modes():
        yield


class Program:
    """One compiled artifact, ready to run: its functions are translated at their first use."""

    def __init__(self, module: DecodedModule, entry: str, session: Session) -> None:
        self.module, self.entry, self.session = module, entry, session
        self._functions: dict[tuple[str, Env], Callable[..., Any]] = {}
        self._facts: dict[str, KernelFacts] = {}

    def translated(self, function: Function, env: Env) -> Callable[..., Any]:
        """The Python function of a kernel or host function."""
        key = (function.name, env)
        if key not in self._functions:
            self._functions[key] = translate(function, env)
        return self._functions[key]

    def facts(self, function: Function) -> KernelFacts:
        """What the kernel's text says."""
        if function.name not in self._facts:
            self._facts[function.name] = facts(function)
        return self._facts[function.name]

    def __call__(self, packed: Any) -> None:
        """Run the host function with FlyDSL's packed arguments."""
        function = self.module.hosts[self.entry]
        with self.session.lock, unobserved():
            arguments = read_arguments(function, packed, self.session.memory)
            host = HostMachine(self.module, self._launch)
            try:
                self.translated(function, self.session.env(self.entry))(host, None, *arguments)
            finally:
                self.session.memory.clear()

    def _launch(
        self,
        kernel: str,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        dynamic: int,
        args: tuple[Value, ...],
    ) -> None:
        shape = Grid((grid[0], grid[1], grid[2]), (block[0], block[1], block[2]), int(dynamic))
        shape.check(kernel)
        self.session.launches.append(EmulatedLaunch(kernel, shape.blocks, shape.threads))
        if self.session.idle or shape.workgroups == 0 or shape.lanes == 0:
            return
        Launch(self, kernel, shape, args).run()


class Launch:
    """One launch of a kernel: its chunks, its checks, and the search for the first NaN."""

    def __init__(self, program: Program, kernel: str, grid: Grid, args: tuple[Value, ...]) -> None:
        self.program, self.session, self.grid, self.args = program, program.session, grid, args
        self.kernel = kernel
        self.function = program.module.kernels[kernel]
        self.facts = program.facts(self.function)
        self.stored = self._regions(self.facts.stored_arguments)

    def _regions(self, arguments: frozenset[int] | None) -> dict[int, Region]:
        """The regions of pointer arguments, all of them for None."""
        out = {}
        for i, value in enumerate(self.args):
            if isinstance(value, Ptr) and value.region is not None and (arguments is None or i in arguments):
                out[value.region.base] = value.region
        return out

    def run(self) -> None:
        """Run all chunks."""
        options = self.session.options
        checker: NoChecks = NoChecks()
        if options.enabled:
            checker = Checks(
                options.enabled, options.load_errors, frozenset(self.stored), self.facts.synchronizes
            )
        watch = (
            NanWatch(self.stored.values(), self._regions(None).values()) if "nan" in options.enabled else None
        )
        env = self.session.env(self.kernel)
        self._chunks(self.program.translated(self.function, env), env, checker)
        if watch is not None and watch.appeared():
            self._find_nan(watch)

    def _chunks(self, run: Callable[..., Any], env: Env, checker: NoChecks, tracer: Any = None) -> None:
        session, grid = self.session, self.grid
        lanes = -(-grid.lanes // env.wave) * env.wave
        per_chunk = grid.workgroups if self.facts.spins else max(1, session.options.chunk_lanes // lanes)
        for first in range(0, grid.workgroups, per_chunk):
            count = min(per_chunk, grid.workgroups - first)
            machine = Machine(env, grid, first, count, session.memory, session.findings, checker)
            machine.tracer = tracer or session.trace
            checker.begin(machine)
            machine.place_lds(self.program.module.globals)
            run(machine, machine.mask, *self.args)
            checker.finish(machine)

    def _find_nan(self, watch: NanWatch) -> None:
        """Run the launch again from the same memory, looking at every float, and report the first NaN."""
        env = replace(self.session.env(self.kernel), nan_trace=True)
        tracer = NanTracer()
        with watch.replaying():
            try:
                self._chunks(self.program.translated(self.function, env), env, NoChecks(), tracer)
            except FirstNan as found:
                self.session.findings.add(found.finding)
                return
        self.session.findings.add(watch.unexplained(self.kernel, self.function.place))


class Session:
    """Collects what happens while it is installed; see :func:`kernel_lint.emulator.install`."""

    def __init__(self, options: EmulatorOptions) -> None:
        self.options = options
        self.memory = GlobalMemory(options.device)
        self.findings = Findings()
        self.launches: list[EmulatedLaunch] = []
        self.lock = threading.RLock()
        # Launches are noted and not run: what is then left of the outputs did not come from kernels.
        self.idle = False
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

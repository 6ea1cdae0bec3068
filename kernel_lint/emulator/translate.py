"""From a decoded function to one Python function.

The generated function takes the machine and the arguments. Every operation becomes one call of
the function that its builder made; values are local variables, deleted after their last use;
``scf`` becomes Python control flow with masks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel_lint.emulator import control
from kernel_lint.emulator.analysis import undefined_uses
from kernel_lint.emulator.ir import Function, Op, Region
from kernel_lint.emulator.registry import Env, lookup, unknown

_YIELDS = ("scf.yield", "scf.reduce", "gpu.return", "func.return", "llvm.return", "gpu.terminator")


def translate(function: Function, env: Env) -> Callable[..., Any]:
    """Translate a kernel or a host function; the result is called as ``f(machine, mask, *arguments)``.

    Raises :class:`~.registry.UnknownOperationError` for an operation that the table lacks.
    """
    writer = _Writer(env)
    writer.function(function)
    source = "\n".join(writer.lines)
    namespace = writer.names
    exec(compile(source, f"<emulated {function.name}>", "exec"), namespace)  # noqa: S102
    run: Callable[..., Any] = namespace["run"]
    return run


def uses(op: Op) -> set[int]:
    """Values that an operation reads, its regions included."""
    out = set(op.operands)
    for region in op.regions:
        for inner in region.ops:
            out |= uses(inner)
    return out


class _Writer:
    """Writes the generated source, and holds the functions that it calls by name."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"C": control}
        self.counter = 0
        self.undefined: frozenset[int] = frozenset()

    def function(self, function: Function) -> None:
        args = "".join(f", v{n}" for n in function.body.args)
        if "uninitialized" in self.env.checks:
            self.undefined = undefined_uses(function)
        self.lines.append(f"def run(m, k0{args}):")
        self.region(function.body, "k0", 1)
        self.lines.append("    return ()")

    def emit(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def bind(self, thing: Any, prefix: str = "f") -> str:
        """Give an object a name in the generated function's globals."""
        self.counter += 1
        name = f"{prefix}{self.counter}"
        self.names[name] = thing
        return name

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def region(
        self, region: Region, mask: str, depth: int, keep: frozenset[int] = frozenset()
    ) -> tuple[int, ...]:
        """Write a region's operations; returns the values that its terminator yields."""
        last: dict[int, int] = {}
        defined: set[int] = set()
        for place, op in enumerate(region.ops):
            for value in uses(op):
                last[value] = place
            defined.update(op.results)
        yielded: tuple[int, ...] = ()
        for place, op in enumerate(region.ops):
            if op.name in (*_YIELDS, "scf.condition"):
                yielded = op.operands
                break
            self.operation(op, mask, depth)
            dead = [
                v
                for v in uses(op) | set(op.results)
                if v in defined and last.get(v, place) == place and v not in keep
            ]
            if dead:
                self.emit(depth, "del " + ", ".join(f"v{v}" for v in sorted(dead)))
        return yielded

    def operation(self, op: Op, mask: str, depth: int) -> None:
        writers = {"scf.if": self.scf_if, "scf.for": self.scf_for, "scf.while": self.scf_while}
        structured = writers.get(op.name)
        if structured:
            structured(op, mask, depth)
        else:
            self.call(op, mask, depth)
        if self.env.trace_lines and op.place.line in self.env.trace_lines and op.results:
            name = self.bind(op, "o")
            values = ", ".join(f"v{r}" for r in op.results)
            self.emit(depth, f"m.tracer.record(m, {mask}, {name}, ({values},))")

    def call(self, op: Op, mask: str, depth: int) -> None:
        if op.regions and any(r.ops for r in op.regions):
            raise unknown(op, self.env, "with a region")
        entry = lookup(op, self.env)
        name = self.bind(entry.build(op, self.env))
        args = [f"v{v}" for v in op.operands]
        if entry.context:
            args = ["m", mask, *args]
        target = ", ".join(f"v{r}" for r in op.results)
        if op.results and op.results[0] in self.undefined:
            self.emit(depth, f"m.checker.undefined(m, {mask}, {self.bind(op.place, 'p')})")
        call = f"{name}({', '.join(args)})"
        self.emit(depth, f"{target} = {call}" if target else call)
        if self.env.nan_trace and target and op.result_types[0].kind == "float":
            operands = "".join(f"v{v}, " for v in op.operands)
            self.emit(depth, f"m.tracer.nan(m, {mask}, {self.bind(op, 'o')}, ({target},), ({operands}))")

    def scf_if(self, op: Op, mask: str, depth: int) -> None:
        """``scf.if``: both sides under their masks, results chosen per lane."""
        cond = f"v{op.operands[0]}"
        then, other = op.regions[0], op.regions[1] if len(op.regions) > 1 else Region((), (), ())
        then_mask, else_mask = self.fresh("k"), self.fresh("k")
        run_then, run_else = self.fresh("r"), self.fresh("r")
        self.emit(depth, f"{then_mask}, {else_mask}, {run_then}, {run_else} = C.branch(m, {mask}, {cond})")
        temporaries = {run: [self.fresh("t") for _ in op.results] for run in (run_then, run_else)}
        for run, region, inner in ((run_then, then, then_mask), (run_else, other, else_mask)):
            if len(region.ops) <= 1 and not op.results:
                continue
            self.emit(depth, f"if {run}:")
            yielded = self.region(region, inner, depth + 1, frozenset(self._terminator(region)))
            for name, value in zip(temporaries[run], yielded, strict=True):
                self.emit(depth + 1, f"{name} = v{value}")
            self.forget(region, yielded, depth + 1)
            if not op.results and len(region.ops) <= 1:
                self.emit(depth + 1, "pass")
        for result, mtype, a, b in zip(
            op.results, op.result_types, temporaries[run_then], temporaries[run_else], strict=True
        ):
            kind = self.bind(mtype, "y")
            self.emit(
                depth,
                f"v{result} = C.choose(m, {cond}, {a}, {b}, {kind}) "
                f"if {run_then} and {run_else} else {a} if {run_then} else {b}",
            )
        if op.results:
            names = temporaries[run_then] + temporaries[run_else]
            self.emit(depth, " = ".join(names) + " = None")

    @staticmethod
    def _terminator(region: Region) -> tuple[int, ...]:
        return region.ops[-1].operands if region.ops else ()

    def forget(self, region: Region, yielded: tuple[int, ...], depth: int) -> None:
        """Drop yielded values that the region defined, once they have been copied."""
        inside = {r for op in region.ops for r in op.results}
        dead = sorted(set(yielded) & inside)
        if dead:
            self.emit(depth, "del " + ", ".join(f"v{v}" for v in dead))

    def scf_for(self, op: Op, mask: str, depth: int) -> None:
        """``scf.for``: a Python loop when the bounds are uniform, else one that runs while a lane has
        trips left."""
        low, high, step, *inits = op.operands
        body = op.regions[0]
        index, *carried = body.args
        state = [self.fresh("s") for _ in carried]
        for name, init in zip(state, inits, strict=True):
            self.emit(depth, f"{name} = v{init}")
        loop_mask, trip, everyone = self.fresh("k"), self.fresh("i"), self.fresh("g")
        types = [self.bind(t, "y") for t in op.result_types]
        flag = bool(op.attrs.get("unsignedCmp", False))
        self.emit(
            depth,
            f"for {trip}, {loop_mask}, {everyone} in C.trips(m, {mask}, v{low}, v{high}, v{step}, {flag}):",
        )
        self.emit(depth + 1, f"v{index} = {trip}")
        for value, name in zip(carried, state, strict=True):
            self.emit(depth + 1, f"v{value} = {name}")
        yielded = self.region(body, loop_mask, depth + 1, frozenset(self._terminator(body)))
        if state:
            news = ", ".join(f"v{v}" for v in yielded) + ","
            olds = ", ".join(state) + ","
            self.emit(
                depth + 1,
                f"{olds} = ({news}) if {everyone} else "
                f"C.advance(m, {loop_mask}, ({news}), ({olds}), ({', '.join(types)},))",
            )
        self.forget(body, yielded, depth + 1)
        for result, name in zip(op.results, state, strict=True):
            self.emit(depth, f"v{result} = {name}")
        if state:
            self.emit(depth, " = ".join(state) + " = None")

    def scf_while(self, op: Op, mask: str, depth: int) -> None:
        """``scf.while``: lanes leave one by one; results are those of the pass in which a lane left."""
        before, after = op.regions
        state = [self.fresh("s") for _ in op.operands]
        out = [self.fresh("t") for _ in op.results]
        alive, cond, guard = self.fresh("k"), self.fresh("c"), self.fresh("g")
        for name, init in zip(state, op.operands, strict=True):
            self.emit(depth, f"{name} = v{init}")
        for name in out:
            self.emit(depth, f"{name} = None")
        place = self.bind(op.place, "p")
        self.emit(depth, f"{alive} = {mask}")
        self.emit(depth, f"for {guard} in C.passes(m, {place}):")
        for value, name in zip(before.args, state, strict=True):
            self.emit(depth + 1, f"v{value} = {name}")
        yielded = self.region(before, alive, depth + 1, frozenset(self._terminator(before)))
        condition, *forwarded = yielded
        self.emit(depth + 1, f"{cond} = v{condition}")
        types = [self.bind(t, "y") for t in op.result_types]
        if out:
            news = ", ".join(f"v{v}" for v in forwarded) + ","
            olds = ", ".join(out) + ","
            self.emit(depth + 1, f"{olds} = C.leave(m, {alive}, ({news}), ({olds}), ({', '.join(types)},))")
        self.emit(depth + 1, f"{alive}, {guard} = C.still(m, {alive}, {cond})")
        self.emit(depth + 1, f"if not {guard}:")
        self.emit(depth + 2, "break")
        for value, source in zip(after.args, forwarded, strict=True):
            self.emit(depth + 1, f"v{value} = v{source}")
        nexts = self.region(after, alive, depth + 1, frozenset(self._terminator(after)))
        for name, value in zip(state, nexts, strict=True):
            self.emit(depth + 1, f"{name} = v{value}")
        for result, name in zip(op.results, out, strict=True):
            self.emit(depth, f"v{result} = {name}")

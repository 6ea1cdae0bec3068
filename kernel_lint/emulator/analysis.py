"""What a kernel's text says before it runs: the arguments it may store through, whether it orders workgroups,
and the values that nothing sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernel_lint.emulator.ir import Function, Op, Region

_POISON = ("ub.poison", "llvm.mlir.poison", "llvm.mlir.undef")
_KEEPS_POISON = (
    "vector.extract",
    "vector.bitcast",
    "llvm.bitcast",
    "arith.bitcast",
    "vector.extract_strided_slice",
    "vector.shape_cast",
    "vector.broadcast",
)
_COMPUTES = ("arith.", "math.", "rocdl.mfma", "rocdl.cvt", "rocdl.exp", "rocdl.rcp")
_HARMLESS = ("arith.select", "arith.bitcast", "arith.constant")


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """``stored_arguments`` are indices of kernel arguments that a store or atomic may go through, None
    when one
    goes through a pointer of unknown origin; ``synchronizes`` is whether global atomics or fences occur;
    ``spins`` whether a loop waits on memory, so that all workgroups must run together."""

    stored_arguments: frozenset[int] | None
    synchronizes: bool
    spins: bool


def walk(region: Region) -> Iterator[Op]:
    """All operations of a region, inner ones after their parent."""
    for op in region.ops:
        yield op
        for inner in op.regions:
            yield from walk(inner)


def facts(function: Function) -> KernelFacts:
    """Collect the facts of a kernel."""
    origins = _origins(function)
    stored: set[int] | None = set()
    synchronizes = False
    for op in walk(function.body):
        pointer = _stored_pointer(op)
        if pointer is not None:
            roots = origins.get(pointer, {None})
            if None in roots:
                stored = None
            elif stored is not None:
                stored.update(r for r in roots if r is not None)
        synchronizes = synchronizes or _orders_workgroups(op)
    spins = any(op.name == "scf.while" and _reads_memory(op.regions[0]) for op in walk(function.body))
    return KernelFacts(None if stored is None else frozenset(stored), synchronizes, spins)


def _stored_pointer(op: Op) -> int | None:
    """The pointer or resource that an operation stores through, outside LDS and private memory."""
    for operand, mtype in zip(op.operands, op.operand_types, strict=True):
        is_store = (
            op.name == "llvm.store"
            or "atomic" in op.name
            or op.name == "llvm.cmpxchg"
            or op.name.endswith("buffer.store")
            or (op.name == "llvm.inline_asm" and "_store_" in str(op.attrs["asm_string"]))
        )
        if is_store and mtype.kind == "ptr" and mtype.space not in (3, 5):
            # llvm.store has the stored value, perhaps a pointer itself, before its address.
            return op.operands[-1] if op.name == "llvm.store" else operand
    return None


def _orders_workgroups(op: Op) -> bool:
    if op.name == "llvm.fence":
        return True
    atomic = "atomic" in op.name or op.name == "llvm.cmpxchg" or op.attrs.get("ordering", 0) not in (0, None)
    return atomic and any(t.kind == "ptr" and t.space not in (3, 5) for t in op.operand_types)


def _reads_memory(region: Region) -> bool:
    return any(
        "load" in op.name or "atomic" in op.name or op.name in ("llvm.cmpxchg", "llvm.inline_asm")
        for op in walk(region)
    )


def _origins(function: Function) -> dict[int, set[int | None]]:
    """For each value, the kernel arguments that it may be derived from (None: something else)."""
    out: dict[int, set[int | None]] = {v: {i} for i, v in enumerate(function.body.args)}
    changed = True
    while changed:
        changed = False
        for op in walk(function.body):
            for result, sources in _flows(op):
                roots: set[int | None] = set()
                for source in sources:
                    roots |= out.get(source, set())
                if op.name in ("llvm.load", "llvm.mlir.addressof", "llvm.inline_asm"):
                    roots = {None}
                if not roots <= out.get(result, set()):
                    out[result] = out.get(result, set()) | roots
                    changed = True
    return out


def _flows(op: Op) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Pairs of a value and the values that it takes its bits from."""
    for result in op.results:
        yield result, op.operands
    for region in op.regions:
        if region.ops:
            yielded = region.ops[-1].operands
            if op.name == "scf.while" and region is op.regions[0]:
                yielded = yielded[1:]
                yield from ((a, (v,)) for a, v in zip(op.regions[1].args, yielded, strict=False))
            yield from ((r, (v,)) for r, v in zip(op.results, yielded, strict=False))
        carried = region.args[1:] if op.name == "scf.for" else region.args
        inits = op.operands[3:] if op.name == "scf.for" else op.operands
        yield from ((a, (v,)) for a, v in zip(carried, inits, strict=False))


def undefined_uses(function: Function) -> frozenset[int]:
    """Results of operations that compute with a value that nothing has set, on the first pass at the latest.

    A value is identified by its first result, a number that is unique in the function.
    """
    poison: set[int] = set()
    found: set[int] = set()
    _mark(function.body, poison, found)
    return frozenset(found)


def _mark(region: Region, poison: set[int], found: set[int]) -> None:
    for op in region.ops:
        if op.name in _POISON or (op.name in _KEEPS_POISON and op.operands and op.operands[0] in poison):
            poison.update(op.results)
        elif (
            op.name.startswith(_COMPUTES)
            and op.name not in _HARMLESS
            and op.results
            and poison.intersection(op.operands)
        ):
            found.add(op.results[0])
        if op.name == "scf.for":
            poison.update(
                a for a, v in zip(op.regions[0].args[1:], op.operands[3:], strict=True) if v in poison
            )
        for inner in op.regions:
            _mark(inner, poison, found)

"""The emulator's own picture of lowered MLIR: types, operations, regions, places in the source.

All of it is plain frozen data without a reference to MLIR's objects, so that a decoded
kernel outlives the context that it came from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class MType:
    """A type of MLIR's builtin, LLVM or gpu dialect.

    ``kind`` is ``int``, ``index``, ``float``, ``ptr``, ``struct``, ``array`` or ``other``;
    ``name`` is the MLIR spelling of a float (``bf16``, ``f8E4M3FNUZ``); ``bits`` the width of
    one element; ``shape`` the vector shape, () for a scalar; ``space`` a pointer's address
    space; ``fields`` a struct's members or the one element type of an array of ``count``.
    """

    kind: str
    name: str
    bits: int = 0
    shape: tuple[int, ...] = ()
    space: int = 0
    fields: tuple[MType, ...] = ()
    count: int = 0
    packed: bool = False

    @property
    def elements(self) -> int:
        """How many elements a value of this type has (1 for a scalar)."""
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    @property
    def element(self) -> MType:
        """The scalar type of one element."""
        return MType(self.kind, self.name, self.bits, (), self.space, self.fields, self.count, self.packed)

    @property
    def size(self) -> int:
        """Bytes in memory; vectors are dense (LLVM LangRef, "Vector Type"), pointers 8 bytes, LDS and
        private 4."""
        if self.kind == "struct":
            return self.struct_layout()[1]
        if self.kind == "array":
            return self.count * self.fields[0].size
        return (self.elements * self.bits + 7) // 8

    @property
    def alignment(self) -> int:
        """Natural alignment in bytes (LLVM's AMDGPU data layout: vectors to their size, rounded up)."""
        if self.kind == "struct":
            return 1 if self.packed else max((f.alignment for f in self.fields), default=1)
        if self.kind == "array":
            return self.fields[0].alignment
        return 1 << max(self.size - 1, 0).bit_length()

    def struct_layout(self) -> tuple[tuple[int, ...], int]:
        """Return the byte offset of each field and the size of the struct."""
        offsets, at, widest = [], 0, 1
        for member in self.fields:
            if not self.packed:
                at = -(-at // member.alignment) * member.alignment
                widest = max(widest, member.alignment)
            offsets.append(at)
            at += member.size
        return tuple(offsets), -(-at // widest) * widest

    def __str__(self) -> str:
        return f"vector<{'x'.join(map(str, self.shape))}x{self.name}>" if self.shape else self.name


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """Where in the kernel's Python source an operation comes from; line 0 when unknown.

    ``chain`` lists the place and its call sites outwards, ``file:line`` each, without FlyDSL's and
    Python's own.
    """

    file: str = ""
    line: int = 0
    column: int = 0
    chain: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else "unknown place"

    def described(self) -> str:
        """The place and, for a helper, the line that called it."""
        return f"{self}, called at {self.chain[1]}" if len(self.chain) > 1 else str(self)


@dataclass(frozen=True, slots=True)
class Op:
    """One operation. Values are numbers, unique in their function."""

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    operand_types: tuple[MType, ...]
    result_types: tuple[MType, ...]
    attrs: dict[str, Any]
    regions: tuple[Region, ...]
    place: Place

    @property
    def result_type(self) -> MType:
        """The type of the only result."""
        return self.result_types[0]


@dataclass(frozen=True, slots=True)
class Region:
    """A region of one block: its arguments and its operations, the terminator last."""

    args: tuple[int, ...]
    arg_types: tuple[MType, ...]
    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel or a host function."""

    name: str
    body: Region
    attrs: dict[str, Any]
    place: Place
    values: int


@dataclass(frozen=True, slots=True)
class LdsGlobal:
    """A global variable of a gpu.module: LDS (space 3) or constant memory."""

    name: str
    size: int
    alignment: int
    space: int
    init: bytes | None = None


@dataclass(frozen=True, slots=True)
class DecodedModule:
    """What one compiled artifact holds."""

    kernels: dict[str, Function]
    hosts: dict[str, Function]
    globals: dict[str, LdsGlobal] = field(default_factory=dict)

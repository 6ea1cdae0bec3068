"""From MLIR's Python bindings to :mod:`kernel_lint.emulator.ir`, once per compiled artifact."""

from __future__ import annotations

import re
from typing import Any

from kernel_lint.emulator.ir import DecodedModule, Function, LdsGlobal, MType, Op, Place, Region
from kernel_lint.errors import KernelLintError

_PLACE = re.compile(r'"([^"]+)":(\d+):(\d+)')
# Frames of the tracer and of Python itself say nothing to the author of a kernel.
_FOREIGN = re.compile(
    r"[/\\](site-packages|dist-packages)[/\\]flydsl[/\\]|[/\\]lib[/\\]python3\.\d+[/\\](?!site-packages)|^<"
)
_FLOAT_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "tf32": 32}
_SPACE_BITS = {3: 32, 5: 32, 7: 160, 8: 128}
_NARROW = re.compile(r"f(\d+)E\d+M\d+")


def decode_module(module: Any) -> DecodedModule:
    """Decode a ``flydsl._mlir.ir.Module`` lowered up to structured control flow.

    Raises :class:`KernelLintError` for an operation with several blocks: the pipeline went
    past ``convert-scf-to-cf``, where control flow is no longer structured.
    """
    decoder = _Decoder()
    out = DecodedModule({}, {}, {})
    for view in module.body.operations:
        op = view.operation
        if op.name == "gpu.module":
            for inner in op.regions[0].blocks[0].operations:
                _collect(decoder, inner.operation, out, in_gpu_module=True)
        else:
            _collect(decoder, op, out, in_gpu_module=False)
    return out


def _collect(decoder: _Decoder, op: Any, out: DecodedModule, *, in_gpu_module: bool) -> None:
    if op.name in ("gpu.func", "func.func", "llvm.func"):
        if len(op.regions[0].blocks) == 0:
            return
        function = decoder.function(op)
        (out.kernels if in_gpu_module else out.hosts)[function.name] = function
    elif op.name in ("llvm.mlir.global", "memref.global"):
        variable = decoder.variable(op)
        out.globals[variable.name] = variable


class _Decoder:
    """Decodes functions; keeps the types and places that it has seen."""

    def __init__(self) -> None:
        self._types: dict[Any, MType] = {}
        self._places: dict[str, Place] = {}
        self._numbers: dict[Any, int] = {}

    def function(self, op: Any) -> Function:
        self._numbers = {}
        attrs = self._attrs(op)
        body = self._region(op.regions[0])
        return Function(str(attrs["sym_name"]), body, attrs, self._place(op.location), len(self._numbers))

    def variable(self, op: Any) -> LdsGlobal:
        attrs = self._attrs(op)
        mtype = attrs.get("global_type") or attrs["type"]
        init = attrs.get("value")
        data = init.encode("latin-1") if isinstance(init, str) else None
        return LdsGlobal(
            str(attrs["sym_name"]),
            mtype.size,
            int(attrs.get("alignment", 16)),
            int(attrs.get("addr_space", 0)),
            data,
        )

    def _region(self, region: Any) -> Region:
        blocks = list(region.blocks)
        if not blocks:
            return Region((), (), ())
        if len(blocks) > 1:
            raise KernelLintError(
                "the kernel's control flow is not structured (a region with several blocks)",
                "emulate the IR before convert-scf-to-cf; "
                "a kernel that branches by cf or llvm.br cannot be emulated",
            )
        block = blocks[0]
        args = tuple(self._number(a) for a in block.arguments)
        types = tuple(self.type(a.type) for a in block.arguments)
        return Region(args, types, tuple(self._op(view.operation) for view in block.operations))

    def _op(self, op: Any) -> Op:
        operands, results = list(op.operands), list(op.results)
        return Op(
            name=op.name,
            operands=tuple(self._numbers[v] for v in operands),
            results=tuple(self._number(v) for v in results),
            operand_types=tuple(self.type(v.type) for v in operands),
            result_types=tuple(self.type(v.type) for v in results),
            attrs=self._attrs(op),
            regions=tuple(self._region(r) for r in op.regions),
            place=self._place(op.location),
        )

    def _number(self, value: Any) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def _place(self, location: Any) -> Place:
        text = str(location)
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = parse_place(text)
        return place

    def _attrs(self, op: Any) -> dict[str, Any]:
        # Iteration gives NamedAttribute or names, depending on the version of the bindings.
        out = {}
        for entry in op.attributes:
            name = entry if isinstance(entry, str) else entry.name
            out[name] = self._attr(op.attributes[name])
        return out

    def _attr(self, attr: Any) -> Any:
        from flydsl._mlir import ir

        simple = (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr, ir.StringAttr, ir.FlatSymbolRefAttr)
        for cls in simple:
            if isinstance(attr, cls):
                return cls(attr).value
        if isinstance(attr, ir.SymbolRefAttr):
            return ".".join(ir.SymbolRefAttr(attr).value)
        if isinstance(attr, ir.UnitAttr):
            return True
        if isinstance(attr, ir.TypeAttr):
            return self.type(ir.TypeAttr(attr).value)
        if isinstance(attr, ir.ArrayAttr):
            return tuple(self._attr(a) for a in ir.ArrayAttr(attr))
        if isinstance(attr, ir.DenseElementsAttr):
            return self._dense(attr)
        for name in (
            "DenseI64ArrayAttr",
            "DenseI32ArrayAttr",
            "DenseI16ArrayAttr",
            "DenseI8ArrayAttr",
            "DenseBoolArrayAttr",
        ):
            cls = getattr(ir, name)
            if isinstance(attr, cls):
                return tuple(cls(attr))
        return str(attr)

    def _dense(self, attr: Any) -> Any:
        from flydsl._mlir import ir

        splat = ir.DenseElementsAttr(attr)
        if splat.is_splat:
            return (self._attr(splat.get_splat_value()),)
        cls = ir.DenseFPElementsAttr if isinstance(attr, ir.DenseFPElementsAttr) else ir.DenseIntElementsAttr
        return tuple(cls(attr))

    def type(self, mlir_type: Any) -> MType:
        """Decode one type, once."""
        known = self._types.get(mlir_type)
        if known is None:
            known = self._types[mlir_type] = parse_type(str(mlir_type))
        return known


def parse_place(text: str) -> Place:
    """Choose, of a location's call chain, the innermost frame that is the kernel author's."""
    frames = [(m.group(1), int(m.group(2)), int(m.group(3))) for m in _PLACE.finditer(text)]
    if not frames:
        return Place()
    own = [f for f in frames if not _FOREIGN.search(f[0])] or frames
    return Place(*own[0], tuple(f"{file}:{line}" for file, line, _ in own))


def parse_type(text: str) -> MType:
    """Parse the MLIR spelling of a type.

    >>> parse_type("vector<4xf32>").size
    16
    """
    mtype, rest = _parse(text.strip())
    if rest.strip():
        return MType("other", text)
    return mtype


def _parse(text: str) -> tuple[MType, str]:
    text = text.removeprefix("!llvm.")
    if match := re.match(r"vector<((?:\d+x)+)", text):
        shape = tuple(int(n) for n in match.group(1).split("x")[:-1])
        element, rest = _parse(text[match.end() :])
        return MType(
            element.kind, element.name, element.bits, shape + element.shape, element.space
        ), rest.removeprefix(">")
    if match := re.match(r"ptr(?:<(\d+)>)?", text):
        space = int(match.group(1) or 0)
        return MType("ptr", match.group(0), _SPACE_BITS.get(space, 64), (), space), text[match.end() :]
    if match := re.match(r"struct<(packed )?\(", text):
        fields, rest = [], text[match.end() :]
        while not rest.startswith(")"):
            member, rest = _parse(rest)
            fields.append(member)
            rest = rest.removeprefix(", ")
        return MType("struct", "struct", fields=tuple(fields), packed=bool(match.group(1))), rest[2:]
    if match := re.match(r"array<(\d+) x ", text):
        element, rest = _parse(text[match.end() :])
        return MType("array", "array", fields=(element,), count=int(match.group(1))), rest.removeprefix(">")
    return _parse_scalar(text)


def _parse_scalar(text: str) -> tuple[MType, str]:
    if match := re.match(r"[su]?i(\d+)", text):
        bits = int(match.group(1))
        # No tensor holds wider integers; they only carry bits from loads to bitcasts, as registers of 32
        # bits.
        wide = bits > 64 and bits % 32 == 0
        mtype = MType("int", match.group(0), 32 if wide else bits, (bits // 32,) if wide else ())
        return mtype, text[match.end() :]
    if text.startswith("index"):
        return MType("index", "index", 64), text[5:]
    if match := re.match(r"(b?f\d+|tf32)(E\w+)?", text):
        name = match.group(0)
        narrow = _NARROW.match(name)
        bits = int(narrow.group(1)) if narrow else _FLOAT_BITS[name]
        return MType("float", name, bits), text[match.end() :]
    match = re.match(r"[^,)>]*(<[^>]*>)?", text)
    assert match is not None
    return MType("other", match.group(0)), text[match.end() :]

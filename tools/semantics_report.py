"""The description of a reference as text, Markdown or JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernel_lint.tools import semantics, semantics_pattern
from kernel_lint.tools.semantics import OperatorCall, ShapeSemantics, TensorInfo

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def to_json(reference: Path, shapes: list[ShapeSemantics]) -> dict[str, Any]:
    """Return the whole description as one JSON object."""
    return {
        "reference": str(reference),
        "dependencies": semantics.dependencies(reference),
        "shapes": [_shape_json(shape) for shape in shapes],
    }


def to_markdown(reference: Path, shapes: list[ShapeSemantics]) -> str:
    """Return the description as Markdown."""
    lines = [f"# What {reference.name} computes", "", _summary(shapes), ""]
    lines += [f"Dependencies: {', '.join(semantics.dependencies(reference)) or 'none'}", ""]
    for shape in shapes:
        lines += [f"## Shape {shape.shape}", ""]
        lines += [f"- {line}" for line in _facts(shape)]
        for title, (heads, rows) in _tables(shape):
            lines += [
                "",
                f"### {title}",
                "",
                markdown_row(heads),
                markdown_row(("---",) * len(heads)),
                *map(markdown_row, rows),
            ]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def to_text(reference: Path, shapes: list[ShapeSemantics]) -> str:
    """Return the description for a terminal."""
    dependencies = ", ".join(semantics.dependencies(reference)) or "none"
    lines = [f"{reference}: {_summary(shapes)}", f"  dependencies: {dependencies}"]
    for shape in shapes:
        lines += ["", f"shape {shape.shape}", *(f"  {line}" for line in _facts(shape))]
        for title, (heads, rows) in _tables(shape):
            cells = [heads, *rows]
            widths = [max(len(line[index]) for line in cells) for index in range(len(heads))]
            lines.append(f"  {title.lower()}:")
            lines += ["    " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
    return "\n".join(lines)


def _summary(shapes: list[ShapeSemantics]) -> str:
    names = dict.fromkeys(semantics_pattern.recognize(shape).name for shape in shapes)
    return " / ".join(names)


def _facts(shape: ShapeSemantics) -> list[str]:
    pattern = semantics_pattern.recognize(shape)
    facts = [
        f"pattern: {pattern.name}",
        f"FLOPs: {shape.flops:,} ({shape.matmul_flops:,} of matrix products)",
        f"bytes: {shape.bytes:,} ({shape.bytes_read:,} read, {shape.bytes_written:,} written, each once)",
        f"arithmetic intensity: {'unknown' if shape.intensity is None else f'{shape.intensity:.4g} FLOP/B'}",
        f"broadcasts: {'; '.join(pattern.broadcasts) or 'none'}",
        f"masks: {'; '.join(pattern.masks) or 'none'}",
        f"special values: {'; '.join(pattern.special_values) or 'none'}",
    ]
    facts += [f"input {name} = {value}" for name, value in shape.input_values.items()]
    return [*facts, *(f"note: {note}" for note in shape.notes)]


def _tables(shape: ShapeSemantics) -> list[tuple[str, Table]]:
    tensor_heads = ("name", "shape", "stride", "dtype", "device", "layout")
    tables: list[tuple[str, Table]] = [("Inputs", (tensor_heads, _tensor_rows(shape.inputs)))]
    if shape.parameters:
        tables.append(("Parameters and buffers", (tensor_heads, _tensor_rows(shape.parameters))))
    outputs = _tensor_rows(shape.outputs)
    limits = [_threshold(shape.thresholds[name]) for name in shape.outputs]
    rows = [(*row, limit) for row, limit in zip(outputs, limits, strict=True)]
    tables.append(("Outputs", ((*tensor_heads, "rel_err under"), rows)))
    operators = [_operator_row(index, call) for index, call in enumerate(shape.operators)]
    tables.append(
        ("Operators in order", (("", "operator", "inputs", "outputs", "constants", "FLOPs"), operators))
    )
    return tables


def _tensor_rows(tensors: dict[str, TensorInfo]) -> list[tuple[str, ...]]:
    return [
        (name, str(list(t.shape)), str(list(t.stride)), t.dtype, t.device, t.layout)
        for name, t in tensors.items()
    ]


def _operator_row(index: int, call: OperatorCall) -> tuple[str, ...]:
    flops = call.matmul_flops + call.other_flops
    inputs, outputs = (", ".join(map(_brief, group)) for group in (call.inputs, call.outputs))
    return str(index), call.name, inputs, outputs, ", ".join(call.scalars), f"{flops:,}" if flops else "-"


def _brief(tensor: TensorInfo) -> str:
    return f"{tensor.dtype}{list(tensor.shape)}"


def _threshold(value: float | None) -> str:
    return "exact" if value is None else f"{value:g}"


def markdown_row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shape_json(shape: ShapeSemantics) -> dict[str, Any]:
    plain = asdict(shape)
    operators = plain.pop("operators")
    return {
        **plain,
        "pattern": asdict(semantics_pattern.recognize(shape)),
        "flops": shape.flops,
        "matmul_flops": shape.matmul_flops,
        "bytes": shape.bytes,
        "arithmetic_intensity": shape.intensity,
        "operators": operators,
    }

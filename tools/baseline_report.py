"""``baseline_report.md`` (clause B10), from measured data and from what the memory holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernel_lint.tools import semantics_pattern, semantics_report, workspace
from kernel_lint.tools.kernel_cases import TIMEOUT_FAIL

if TYPE_CHECKING:
    from kernel_lint.tools.baseline import Baseline

UNMEASURED = "not measured"


def render(found: Baseline, memory: dict[str, Any]) -> str:
    """Return the report as Markdown."""
    gpu = found.workspace.gpu
    name = found.workspace.folder.resolve().name
    sections = [
        f"# Baseline of {name} on {gpu.name} ({gpu.framework}, {gpu.target})",
        f"Quality gate: **{'passed' if found.passed else 'FAILED'}**",
        _table(("check", "result", "detail"), [(c.name, _verdict(c.passed), c.detail) for c in found.checks]),
        "## Files\n\n- kernel: `kernel.py` (tested as: "
        + found.base["candidate"]
        + ")\n- test: `test_kernel.py`",
        "## Reference\n\n" + _reference(found),
        "## Sources consulted\n\n" + _sources(found, memory),
        "## Configuration\n\n" + _configuration(found, memory),
        "## Correctness\n\n" + _correctness(found),
        "## Performance\n\n" + _performance(found),
        "## Utilization\n\n" + _utilization(found),
    ]
    return "\n\n".join(sections) + "\n"


def _reference(found: Baseline) -> str:
    lines = []
    for shape in found.shapes:
        pattern = semantics_pattern.recognize(shape)
        operators = ", ".join(dict.fromkeys(call.base for call in shape.operators if not call.free))
        inputs = ", ".join(
            f"{name} {tensor.dtype}{list(tensor.shape)}" for name, tensor in shape.inputs.items()
        )
        outputs = ", ".join(
            f"{name} {tensor.dtype}{list(tensor.shape)}" for name, tensor in shape.outputs.items()
        )
        lines.append(
            f"- `{shape.shape}`: {pattern.name}; operators {operators}; inputs {inputs}; outputs {outputs}; "
            f"{shape.flops:,} FLOPs, {shape.bytes:,} bytes"
        )
    return "\n".join(["`reference.py`, as `kernel-lint describe reference.py` shows it in full:", "", *lines])


def _sources(found: Baseline, memory: dict[str, Any]) -> str:
    """Return the sources of the limits, and the references and searches that the memory lists."""
    lines = [
        f"- {source}"
        for source in dict.fromkeys(row[2] for row in workspace.limits_table(found.workspace.gpu))
    ]
    for entry in memory["references"]:
        used = f" ({entry['used_for']})" if entry.get("used_for") else ""
        lines.append(f"- {entry['title']}{used}{', ' + entry['url'] if entry.get('url') else ''}")
    lines += [
        f"- search {entry['query']!r}: {entry.get('finding') or 'no finding noted'}"
        for entry in memory["search_log"]
    ]
    return "\n".join(lines)


def _configuration(found: Baseline, memory: dict[str, Any]) -> str:
    rows = []
    for launch in found.base["launches"]:
        block = launch.get("block")
        threads = block[0] * block[1] * block[2] if block else None
        rows.append(
            (launch["shape"], launch["kernel"], _plain(launch.get("grid")), _plain(block), _plain(threads))
        )
    launches = (
        _table(("shape", "kernel", "grid", "block", "threads"), rows)
        if rows
        else "No launches were reported."
    )
    noted = {k: v for k, v in memory["optimization"]["configuration"].items() if k != "launches"}
    lines = [f"- {name.replace('_', ' ')}: {value}" for name, value in noted.items()]
    lines += [
        f"- {name}: not recorded" for name in ("tile", "data movement") if name.replace(" ", "_") not in noted
    ]
    registers = {k: v for k, v in memory["isa_metric_progress"].items() if isinstance(v, int)}
    lines += [f"- {name}: {value}" for name, value in registers.items()]
    return launches + "\n\n" + "\n".join(lines)


def _correctness(found: Baseline) -> str:
    runs = [found.base, *([found.seeds] if found.seeds else [])]
    rows = [
        (
            case["name"],
            str(case["seed"]),
            case["status"],
            _plain(case["rel_err"]),
            _plain(case["threshold"]),
            str(case["checks"]),
        )
        for run in runs
        for case in run["cases"]
    ]
    late = [row[0] for row in rows if row[2] == TIMEOUT_FAIL]
    errors = [run["max_rel_err"] for run in runs if run["max_rel_err"] is not None]
    lines = [
        f"Ran on: {found.base['backend']} ({found.base['target']}).",
        f"Maximum rel_err: {_plain(max(errors, default=None))}. TIMEOUT_FAIL: {', '.join(late) or 'none'}.",
        "",
        _table(("case", "seed", "status", "rel_err", "limit", "comparisons"), rows),
    ]
    messages = [
        f"- {case['name']}: {case['message']}" for run in runs for case in run["cases"] if case["message"]
    ]
    return "\n".join(lines + (["", *messages] if messages else []))


def _performance(found: Baseline) -> str:
    heads = (
        "shape",
        "latency us",
        "TFLOPS",
        "GB/s",
        "% of peak TFLOPS",
        "% of peak bandwidth",
        "reference us",
        "speedup",
    )
    names = (
        "latency_us",
        "tflops",
        "gbs",
        "percent_peak_tflops",
        "percent_peak_bandwidth",
        "reference_latency_us",
        "speedup",
    )
    measured = {row["shape"]: row for row in (found.base["performance"] or {}).get("per_shape", [])}
    rows = []
    for shape in found.shapes:
        row = measured.get(shape.shape, {})
        rows.append((shape.shape, *(_plain(row.get(name), UNMEASURED) for name in names)))
    return _table(heads, rows)


def _utilization(found: Baseline) -> str:
    if not found.utilization:
        return "Not computed: no time was measured, or the launch or a peak is not known."
    rows = []
    for entry in found.utilization:
        result = entry["result"]
        figures = (result["intensity"], result["ridge"], result["utilization"], result["waves"])
        rows.append((entry["shape"], str(result["bound"]), *map(_plain, figures)))
    return _table(("shape", "bound", "FLOP/B", "ridge", "utilization %", "waves"), rows)


def _verdict(passed: bool | None) -> str:
    return "-" if passed is None else "passed" if passed else "FAILED"


def _plain(value: Any, missing: str = "-") -> str:
    if value is None:
        return missing
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return "\n".join(semantics_report.markdown_row(line) for line in (heads, ("---",) * len(heads), *rows))

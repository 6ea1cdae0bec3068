"""Turn the times of a test run into the figures of clause B6: latency, TFLOPS, GB/s, shares of the peaks.

Work is counted on the reference (:mod:`kernel_lint.tools.semantics`), peaks come from the sourced hardware
table. What was not timed is left out; nothing here estimates a time.
"""

from __future__ import annotations

import math
from typing import Any

from kernel_lint.hardware import find_gpu, normalize_dtype
from kernel_lint.tools.kernel_cases import PASS, CaseResult
from kernel_lint.tools.workspace import Workspace

FIGURES = ("latency_us", "tflops", "gbs", "percent_peak_tflops", "percent_peak_bandwidth")


def performance(workspace: Workspace, results: list[CaseResult]) -> dict[str, Any] | None:
    """Return the performance object of a run, or None when no case carries a time."""
    timed = [(case, case.data.get("performance") or {}) for case in results if case.status == PASS]
    timed = [(case, data) for case, data in timed if _microseconds(data, "candidate") is not None]
    if not timed:
        return None
    from kernel_lint.tools import semantics

    work = {shape.shape: shape for shape in semantics.describe(workspace.folder / "reference.py")}
    rows = [_row(workspace, work[case.shape], data) for case, data in timed]
    return {
        "device": _device(timed[0][1]),
        "method": timed[0][1].get("method"),
        **{
            name: _mean([row[name] for row in rows]) for name in (*FIGURES, "reference_latency_us", "speedup")
        },
        "per_shape": rows,
    }


def compute_dtype(shape: Any) -> str:
    """Return the dtype that a shape's peak is looked up for: that of its largest floating input."""
    floats = [tensor for tensor in shape.inputs.values() if "float" in tensor.dtype]
    return normalize_dtype(max(floats, key=lambda tensor: tensor.bytes).dtype) if floats else "fp32"


def _row(workspace: Workspace, shape: Any, data: dict[str, Any]) -> dict[str, Any]:
    """Return one shape's figures; a share is None where the peak is not published."""
    gpu = find_gpu(_device(data) or "") or workspace.gpu
    microseconds, reference = _microseconds(data, "candidate"), _microseconds(data, "reference")
    assert microseconds is not None
    tflops = shape.flops / microseconds / 1e6
    gbs = shape.bytes / microseconds / 1e3
    return {
        "shape": shape.shape,
        "latency_us": microseconds,
        "tflops": tflops,
        "gbs": gbs,
        "percent_peak_tflops": _percent(tflops, gpu.peak(compute_dtype(shape)).value),
        "percent_peak_bandwidth": _percent(gbs, gpu.bandwidth.value),
        "reference_latency_us": reference,
        "speedup": reference / microseconds if reference is not None else None,
    }


def _microseconds(data: dict[str, Any], side: str) -> float | None:
    """Return the median that verify's performance stage measured for a side, or None."""
    value = (data.get("microseconds", {}).get(side) or {}).get("value")
    return float(value) if isinstance(value, (int, float)) else None


def _device(data: dict[str, Any]) -> str | None:
    name = (data.get("device") or {}).get("name")
    return str(name) if name else None


def _percent(value: float, peak: float | None) -> float | None:
    return None if peak is None else 100 * value / peak


def _mean(values: list[Any]) -> float | None:
    """Return the geometric mean, None where a value is missing or not positive."""
    if not values or any(not isinstance(value, (int, float)) or value <= 0 for value in values):
        return None
    return math.exp(sum(math.log(value) for value in values) / len(values))

"""The roofline of one kernel: what it reached, what the hardware allows, and who says so.

A tile (one workgroup's work) of F operations and B bytes has the arithmetic intensity F/B; the
device can at best run it at ``min(peak, F/B x bandwidth)`` (Williams, Waterman, Patterson,
"Roofline: an insightful visual performance model", CACM 52(4), 2009). Utilization is the share of
that bound that the measured time reached. Waves are the rounds in which the grid's blocks fill the
compute units; a last round that is mostly empty costs as much as a full one.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from kernel_lint.errors import KernelLintError
from kernel_lint.hardware import UNKNOWN, Figure, Gpu, Source, find_gpu, get_gpu, normalize_dtype

TARGET_PERCENT = 90.0
"""The utilization that the workbench calls good enough; below it the command exits 2."""

GIVEN = Source("given on the command line", "")


@dataclass(frozen=True, slots=True)
class Limits:
    """The hardware's side of the roofline.

    ``peak`` in TFLOPS, ``bandwidth`` in GB/s, ``compute_units`` a count.
    """

    gpu: str
    dtype: str
    peak: Figure
    bandwidth: Figure
    compute_units: Figure


@dataclass(frozen=True, slots=True)
class Work:
    """The kernel's side: operations and bytes of one tile, blocks in the grid, time in ms.

    ``scope`` says what the counts were taken of: of a ``tile``, whose loads a cache may serve, or of
    the whole ``kernel``, whose bytes must all cross the memory bus.
    """

    tile_flops: float
    tile_bytes: float
    grid_blocks: int
    time_ms: float
    blocks_per_unit: int = 1
    scope: str = "tile"


@dataclass(frozen=True, slots=True)
class Utilization:
    """What :func:`compute` found. Rates in TFLOPS and GB/s, times in ms, shares in percent.

    ``bound`` names the resource that limits a tile, ``memory`` or ``compute``; ``utilization`` is the
    share of that resource's bound which was reached. A field is None where the figures that
    it needs are unknown.
    """

    gpu: str
    dtype: str
    intensity: float | None
    ridge: float | None
    bound: str | None
    achieved_tflops: float
    achieved_gbs: float
    attainable_tflops: float | None
    percent_peak_tflops: float | None
    percent_peak_bandwidth: float | None
    roofline_time_ms: float | None
    utilization: float | None
    waves: int | None
    wave_efficiency: float | None
    idle_units: int | None
    possible: bool

    @property
    def good(self) -> bool:
        """Whether the utilization is known, possible, and reaches :data:`TARGET_PERCENT`."""
        return self.possible and self.utilization is not None and self.utilization >= TARGET_PERCENT


def limits_for(
    name: str,
    dtype: str,
    peak_tflops: float | None = None,
    bandwidth_gbs: float | None = None,
    compute_units: int | None = None,
) -> Limits:
    """Return the limits of a GPU for a dtype; figures given by the caller come first.

    Raises :class:`KernelLintError` when the GPU is unknown and not both rates are given, or
    when no public source gives the peak for the dtype.
    """
    given_both = peak_tflops is not None and bandwidth_gbs is not None
    gpu = find_gpu(name) if given_both else get_gpu(name)
    key = normalize_dtype(dtype)
    peak = _choose(peak_tflops, gpu.peak(key) if gpu else UNKNOWN)
    if peak.value is None:
        known = ", ".join(sorted(gpu.peaks)) if gpu else ""
        raise KernelLintError(
            f"no public source gives the {key} peak of the {name}",
            f"give it with --peak-tflops, or use one of: {known}",
        )
    bandwidth = _choose(bandwidth_gbs, gpu.bandwidth if gpu else UNKNOWN)
    units = _choose(compute_units, gpu.compute_units if gpu else UNKNOWN)
    for label, figure in (
        ("--peak-tflops", peak),
        ("--bandwidth-gbs", bandwidth),
        ("--compute-units", units),
    ):
        if figure.value is not None and not (math.isfinite(figure.value) and figure.value > 0):
            raise KernelLintError(f"{label} is {figure.value}", "give a positive number")
    return Limits(gpu.name if gpu else name, key, peak, bandwidth, units)


def compute(limits: Limits, work: Work) -> Utilization:
    """Put a measured kernel under its roofline.

    Raises :class:`KernelLintError` when the time, the grid, or both counts are not positive.
    """
    _check(work)
    seconds = work.time_ms / 1e3
    flops = work.tile_flops * work.grid_blocks
    moved = work.tile_bytes * work.grid_blocks
    peak, bandwidth = limits.peak.value, limits.bandwidth.value
    compute_ms = None if peak is None else flops / (peak * 1e12) * 1e3
    memory_ms = None if bandwidth is None else moved / (bandwidth * 1e9) * 1e3
    best_ms = None if compute_ms is None or memory_ms is None else max(compute_ms, memory_ms)
    waves, efficiency, idle = _waves(limits, work)
    intensity = work.tile_flops / work.tile_bytes if work.tile_bytes else None
    ridge = None if peak is None or bandwidth is None else peak * 1e3 / bandwidth
    of_peak, of_bandwidth = _percent(compute_ms, work.time_ms), _percent(memory_ms, work.time_ms)
    return Utilization(
        gpu=limits.gpu,
        dtype=limits.dtype,
        intensity=intensity,
        ridge=ridge,
        bound=None if best_ms is None else ("memory" if memory_ms == best_ms else "compute"),
        achieved_tflops=flops / seconds / 1e12,
        achieved_gbs=moved / seconds / 1e9,
        attainable_tflops=None if not best_ms else flops / (best_ms / 1e3) / 1e12,
        percent_peak_tflops=of_peak,
        percent_peak_bandwidth=of_bandwidth,
        roofline_time_ms=best_ms,
        utilization=_percent(best_ms, work.time_ms),
        waves=waves,
        wave_efficiency=efficiency,
        idle_units=idle,
        possible=(of_peak or 0) <= 100 and (work.scope == "tile" or (of_bandwidth or 0) <= 100),
    )


def notes(result: Utilization) -> list[str]:
    """Return what the figures mean for the next step, as sentences."""
    found = []
    if not result.possible:
        found.append("Faster than the hardware allows: the time, the counts or the GPU's name is wrong.")
    elif result.utilization is not None and result.utilization > 100:
        found.append(
            "More bytes than the memory can deliver: a cache served part of the tiles' loads. "
            "For a bound that holds, count compulsory bytes and pass --scope kernel."
        )
    if result.wave_efficiency is not None and result.wave_efficiency < TARGET_PERCENT:
        found.append(
            f"The last wave leaves {result.idle_units} compute units idle: "
            "choose a grid that divides evenly, or smaller tiles."
        )
    if result.bound == "memory" and not result.good:
        found.append("Memory-bound: wider loads, fewer bytes a tile, or more reuse raise the ceiling.")
    if result.bound == "compute" and not result.good:
        found.append("Compute-bound: look at matrix-core occupancy, dependency stalls and LDS conflicts.")
    return found


def to_json(limits: Limits, work: Work, result: Utilization) -> dict[str, Any]:
    """Return inputs, peaks with their sources, and the result as one JSON object."""
    return {
        "limits": asdict(limits),
        "work": asdict(work),
        "result": asdict(result),
        "target_percent": TARGET_PERCENT,
        "pass": result.good,
        "notes": notes(result),
    }


def to_text(limits: Limits, work: Work, result: Utilization) -> str:
    """Return the report for a terminal."""
    rows = [
        ("arithmetic intensity", _show(result.intensity, "FLOP/B", f"ridge {_show(result.ridge, 'FLOP/B')}")),
        ("bound", result.bound or "unknown"),
        ("achieved", f"{_show(result.achieved_tflops, 'TFLOPS')}, {_show(result.achieved_gbs, 'GB/s')}"),
        ("attainable", _show(result.attainable_tflops, "TFLOPS")),
        ("of peak TFLOPS", _show(result.percent_peak_tflops, "%")),
        ("of peak bandwidth", _show(result.percent_peak_bandwidth, "%")),
        ("roofline time", _show(result.roofline_time_ms, "ms", f"measured {work.time_ms:g} ms")),
        ("waves", _wave_text(result, limits)),
        ("utilization", _show(result.utilization, "%", f"target {TARGET_PERCENT:g} %")),
    ]
    width = max(len(label) for label, _ in rows)
    each = f"{work.tile_flops:g} FLOP and {work.tile_bytes:g} B each"
    lines = [f"{limits.gpu} {limits.dtype}: {work.grid_blocks} blocks, {each}"]
    lines += [f"  {label:<{width}}  {value}" for label, value in rows]
    lines += [f"  note: {note}" for note in notes(result)]
    lines.append("sources:")
    for label, figure, unit in (
        ("peak", limits.peak, "TFLOPS"),
        ("bandwidth", limits.bandwidth, "GB/s"),
        ("compute units", limits.compute_units, ""),
    ):
        lines.append(f"  {label} {_show(figure.value, unit)}: {_source(figure)}")
    return "\n".join(lines)


def describe_gpu(gpu: Gpu) -> str:
    """Return one GPU's table, each figure with its source."""
    lines = [
        f"{gpu.name}: {gpu.vendor} {gpu.architecture}, {gpu.target}, wave {gpu.wave_size}, {gpu.framework}"
    ]
    figures = [
        ("compute units", gpu.compute_units, ""),
        ("LDS a unit", gpu.lds_kib, "KiB"),
        ("memory", gpu.memory_gb, "GB"),
        ("bandwidth", gpu.bandwidth, "GB/s"),
        *((f"peak {dtype}", figure, "TFLOPS") for dtype, figure in gpu.peaks.items()),
    ]
    for label, figure, unit in figures:
        lines.append(f"  {label:<14} {_show(figure.value, unit):<15} {_source(figure)}")
    return "\n".join(lines)


def _check(work: Work) -> None:
    """Refuse work that has no rate."""
    if not (math.isfinite(work.time_ms) and work.time_ms > 0):
        raise KernelLintError(f"--time-ms is {work.time_ms}", "give the measured time in milliseconds")
    if work.grid_blocks < 1 or work.blocks_per_unit < 1:
        raise KernelLintError(
            "--grid-blocks and --blocks-per-unit count from 1", "give the launch's number of blocks"
        )
    if work.tile_flops < 0 or work.tile_bytes < 0 or work.tile_flops + work.tile_bytes == 0:
        raise KernelLintError(
            "the tile does no work", "--flops-expr and --bytes-expr must give counts above zero"
        )


def _waves(limits: Limits, work: Work) -> tuple[int | None, float | None, int | None]:
    """Return rounds over the compute units, their fill in percent, idle units in the last round."""
    if limits.compute_units.value is None:
        return None, None, None
    slots = int(limits.compute_units.value) * work.blocks_per_unit
    waves = math.ceil(work.grid_blocks / slots)
    empty = waves * slots - work.grid_blocks
    return waves, 100 * work.grid_blocks / (waves * slots), empty // work.blocks_per_unit


def _choose(given: float | None, table: Figure) -> Figure:
    return table if given is None else Figure(float(given), GIVEN)


def _percent(part: float | None, whole: float) -> float | None:
    return None if part is None else 100 * part / whole


def _show(value: float | None, unit: str, extra: str = "") -> str:
    """Format a figure, or say that it is unknown."""
    text = (
        "unknown"
        if value is None
        else f"{value:,.4g} {unit}".rstrip()
        if value < 1000
        else f"{value:,.1f} {unit}".rstrip()
    )
    return f"{text} ({extra})" if extra else text


def _source(figure: Figure) -> str:
    if figure.source is None:
        return "no public source"
    return str(figure.source).removesuffix(", ")


def _wave_text(result: Utilization, limits: Limits) -> str:
    if result.waves is None or limits.compute_units.value is None:
        return "unknown"
    units = int(limits.compute_units.value)
    return f"{result.waves} over {units} compute units, {result.wave_efficiency:.1f} % full"

"""What the hardware could do: the least time for some work, and the share that a kernel reaches.

Two limits, with different uses. The *ceiling* is what a kernel can be expected to reach: measured on
this device where ``kernel-lint bench ceiling`` has run, else the data sheet's. The *bound* is what no
kernel can beat, from the data sheet only; a time below it is no time.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kernel_lint.hardware import Gpu, find_gpu, normalize_dtype
from kernel_lint.verify.performance.ceilings import Ceilings, load_ceilings
from kernel_lint.verify.performance.work import Work


@dataclass(frozen=True, slots=True)
class Limits:
    """Rates of one device for one dtype; None is unknown.

    ``peak`` in FLOP/s, ``vector`` in FLOP/s (fp32), ``bandwidth`` in bytes/s; ``*_source`` say whence.
    """

    peak: float | None
    vector: float | None
    bandwidth: float | None
    peak_source: str
    bandwidth_source: str

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Placement:
    """A time under its roofline. ``limit_seconds`` is the least time by the ceilings, ``percent`` its share.

    ``bound`` is ``memory`` or ``compute``; ``gbs`` is 10^9 bytes a second, ``tflops`` 10^12 operations a
    second of the matrix products (of the vector operations where there are none).
    """

    limit_seconds: float | None
    percent: float | None
    bound: str
    gbs: float
    tflops: float
    bandwidth_percent: float | None
    limits: Limits

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def limits_of(device: str, dtype: str, ceilings: Ceilings | None = None) -> Limits:
    """Return the ceilings of a device (torch's name of it) for a dtype, measured ones first."""
    gpu = find_gpu(device)
    measured = ceilings if ceilings is not None else load_ceilings(device)
    key = normalize_dtype(dtype)
    peak, peak_source = _peak(gpu, key)
    bandwidth, bandwidth_source = _bandwidth(gpu)
    if measured and measured.copy_gbs:
        bandwidth, bandwidth_source = measured.copy_gbs * 1e9, f"copy measured {measured.date}"
    if measured and measured.matrix_tflops.get(key):
        peak, peak_source = measured.matrix_tflops[key] * 1e12, f"matrix product measured {measured.date}"
    return Limits(peak, _peak(gpu, "fp32")[0], bandwidth, peak_source, bandwidth_source)


def place(seconds: float, work: Work, limits: Limits) -> Placement:
    """Put a time under the roofline of ``limits``."""
    memory = work.bytes / limits.bandwidth if limits.bandwidth else None
    compute = work.matrix_flops / limits.peak if limits.peak else None
    vector = work.vector_ops / limits.vector if limits.vector and not work.matrix_flops else 0.0
    known = [value for value in (memory, compute, vector) if value is not None]
    least = max(known) if memory is not None and (compute is not None or not work.matrix_flops) else None
    flops = work.matrix_flops or work.vector_ops
    return Placement(
        least,
        100 * least / seconds if least is not None else None,
        "memory" if (memory or 0.0) >= max(compute or 0.0, vector) else "compute",
        work.bytes / seconds * 1e-9,
        flops / seconds * 1e-12,
        100 * memory / seconds if memory is not None else None,
        limits,
    )


def bound_seconds(device: str, work: Work, cache_bytes: float) -> tuple[float | None, str]:
    """Return the time that no kernel on ``device`` can beat, and why; None where nothing is published.

    Arithmetic counts at the fastest rate of any dtype, because less precision inside is allowed. What may
    still lie in the last-level cache when the kernel ends need not have moved, and of a reference that
    reads its inputs in part only the outputs count.
    """
    gpu = find_gpu(device)
    if gpu is None:
        return None, ""
    rates = [figure.value for figure in gpu.peaks.values() if figure.value]
    compute = work.matrix_flops / (max(rates) * 1e12) if rates else 0.0
    must_move = (work.input_bytes if work.dense else 0.0) + work.output_bytes - cache_bytes
    rate = gpu.bandwidth.value
    memory = max(0.0, must_move) / (rate * 1e9) if rate else 0.0
    if memory >= compute:
        return memory, f"{must_move * 1e-6:.1f} MB at {rate:g} GB/s"
    return compute, f"{work.matrix_flops * 1e-9:.1f} GFLOP at {max(rates):g} TFLOPS"


def _peak(gpu: Gpu | None, key: str) -> tuple[float | None, str]:
    figure = gpu.peak(key) if gpu else None
    if figure is None or figure.value is None:
        return None, "unknown"
    return figure.value * 1e12, str(figure.source)


def _bandwidth(gpu: Gpu | None) -> tuple[float | None, str]:
    if gpu is None or gpu.bandwidth.value is None:
        return None, "unknown"
    return gpu.bandwidth.value * 1e9, str(gpu.bandwidth.source)

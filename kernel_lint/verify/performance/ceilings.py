"""Ceilings measured on the device at hand: copy bandwidth and matrix products, kept per device."""

from __future__ import annotations

import datetime
import json
import os
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

if TYPE_CHECKING:
    from kernel_lint.verify.performance.clocks import Clock

_COPY_BYTES = 4 << 30
_MATRIX_SIZE = 8192
_SAMPLES = 20
_WARMUP = 5
_MATRIX_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What one device reached. GB/s count bytes read plus bytes written (10^9); TFLOPS 2 M N K operations."""

    device: str
    copy_gbs: float | None = None
    matrix_tflops: dict[str, float] = field(default_factory=dict)
    date: str = ""
    torch: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def ceilings_file() -> Path:
    """Return where the figures are kept: ``KERNEL_LINT_CEILINGS``, or a file of the user's data folder."""
    given = os.environ.get("KERNEL_LINT_CEILINGS")
    return Path(given) if given else Path(platformdirs.user_data_dir("kernel-lint"), "ceilings.json")


def load_ceilings(device: str, path: Path | None = None) -> Ceilings | None:
    """Return the ceilings kept for a device (torch's name of it), or None."""
    try:
        kept = json.loads((path or ceilings_file()).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    entry = kept.get(device)
    return Ceilings(**entry) if entry else None


def store_ceilings(found: Ceilings, path: Path | None = None) -> Path:
    """Keep the ceilings of a device beside those of others; returns the file."""
    path = path or ceilings_file()
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kept[found.device] = found.to_json()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    partial.replace(path)
    return path


def measure_ceilings(copy_bytes: int = _COPY_BYTES, size: int = _MATRIX_SIZE) -> Ceilings:
    """Measure the first GPU: a large copy, and square products of random matrices.

    Medians of cold samples. Zeros are avoided: a product of zeros draws less power and runs faster.
    """
    import torch

    from kernel_lint.verify.performance.clocks import DeviceClock

    clock = DeviceClock()
    half = copy_bytes // 2
    source = torch.randint(-128, 127, (half,), dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    seconds = _median(clock, _copy(target, source))
    del source, target
    rates = {}
    for key, name in _MATRIX_DTYPES.items():
        a, b = (torch.randn(size, size, device="cuda").to(getattr(torch, name)) for _ in range(2))
        out = torch.empty_like(a)
        rates[key] = 2.0 * size**3 / _median(clock, _product(torch.mm, a, b, out)) * 1e-12
    return Ceilings(
        torch.cuda.get_device_name(),
        2 * half / seconds * 1e-9,
        rates,
        datetime.date.today().isoformat(),
        torch.__version__,
    )


def _copy(target: Any, source: Any) -> Callable[[], Any]:
    return lambda: target.copy_(source)


def _product(mm: Callable[..., Any], a: Any, b: Any, out: Any) -> Callable[[], Any]:
    return lambda: mm(a, b, out=out)


def _median(clock: Clock, call: Callable[[], Any]) -> float:
    for _ in range(_WARMUP):
        call()
    return statistics.median(clock.sample(call)[0] for _ in range(_SAMPLES))

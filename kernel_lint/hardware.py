"""What the GPUs can do at most: peak rates, bandwidth, compute units, and who says so.

Every figure carries its public source. A figure that no public source gives is None, and
whoever needs it must ask the user for it. Peaks are dense (no structured sparsity), in
TFLOPS (TOPS for integers), at the boost clock; bandwidth is that of the device memory.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from kernel_lint.errors import KernelLintError

PLATFORMS = ("mi300x", "mi308x", "mi355x", "h100", "h20", "h200")
"""The platforms that a baseline workspace can be for (the contract's section on it)."""

DTYPE_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "float64": "fp64",
        "double": "fp64",
        "float32": "fp32",
        "float": "fp32",
        "float16": "fp16",
        "half": "fp16",
        "bfloat16": "bf16",
        "float8": "fp8",
        "float8_e4m3fn": "fp8",
        "float8_e4m3fnuz": "fp8",
        "float8_e5m2": "fp8",
        "float8_e5m2fnuz": "fp8",
        "mxfp8": "fp8",
        "mxfp6": "fp6",
        "mxfp4": "fp4",
        "float4_e2m1fn_x2": "fp4",
    }
)
"""Spellings of torch and of the OCP formats, and the key that the tables use."""


@dataclass(frozen=True, slots=True)
class Source:
    """A public document. ``note`` says how the figure follows from it where that is not plain."""

    title: str
    url: str
    note: str = ""

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"{self.title}{note}, {self.url}"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its source; ``value`` is None where no public source gives it."""

    value: float | None
    source: Source | None = None


UNKNOWN = Figure(None)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU model.

    ``target`` is the compiler's name (``gfx942``, ``sm_90a``), ``framework`` the kernel language
    of its workspaces, ``wave_size`` in lanes, ``lds_kib`` the shared memory of one compute unit
    in KiB, ``memory_gb`` in 10^9 bytes as marketed, ``bandwidth`` in GB/s (10^9 bytes a second),
    ``peaks`` dtype key -> TFLOPS.
    """

    name: str
    vendor: str
    architecture: str
    target: str
    framework: str
    wave_size: int
    compute_units: Figure
    lds_kib: Figure
    memory_gb: Figure
    bandwidth: Figure
    peaks: Mapping[str, Figure] = field(hash=False)
    aliases: tuple[str, ...] = ()

    def peak(self, dtype: str) -> Figure:
        """Return the peak rate for a dtype, a :data:`UNKNOWN` figure where none is published."""
        return self.peaks.get(normalize_dtype(dtype), UNKNOWN)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as plain JSON values, figures with their sources."""
        plain = ("name", "vendor", "architecture", "target", "framework", "wave_size")
        figures = ("compute_units", "lds_kib", "memory_gb", "bandwidth")
        return {
            **{key: getattr(self, key) for key in plain},
            **{key: asdict(getattr(self, key)) for key in figures},
            "peaks": {dtype: asdict(figure) for dtype, figure in self.peaks.items()},
        }


_CDNA3 = Source(
    "AMD CDNA 3 Architecture white paper, MI300 series product offerings (page 23)",
    "https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs/white-papers/amd-cdna-3-white-paper.pdf",
)
_CDNA4_URL = (
    "https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs/white-papers/"
    "amd-cdna-4-architecture-whitepaper.pdf"
)
_CDNA4 = Source("AMD CDNA 4 Architecture white paper, MI350 series product offerings (page 18)", _CDNA4_URL)
_ROCM = Source(
    "ROCm documentation, AMD GPU specifications",
    "https://rocm.docs.amd.com/en/latest/reference/gpu-specs.html",
)
_MI325X = Source(
    "AMD Instinct MI325X product page",
    "https://www.amd.com/en/products/accelerators/instinct/mi300/mi325x.html",
    "the compute dies and their clock are the MI300X's",
)
_IREE = Source(
    "IREE, KnownTargets.cpp, chip table",
    "https://github.com/iree-org/iree/blob/main/compiler/src/iree/compiler/Codegen/Dialect/GPU/TargetUtils/KnownTargets.cpp",
    "third party; AMD publishes no data sheet for the MI308X",
)
_HOPPER = Source(
    "NVIDIA H100 Tensor Core GPU Architecture white paper",
    "https://resources.nvidia.com/en-us-tensor-core/gtc22-whitepaper-hopper",
)
_H100 = Source("NVIDIA H100 product page", "https://www.nvidia.com/en-us/data-center/h100/")
_H200 = Source(
    "NVIDIA H200 product page",
    "https://www.nvidia.com/en-us/data-center/h200/",
    "listed with sparsity there; the dense rate is half",
)
_CUDA = Source(
    "CUDA C++ Programming Guide, technical specifications of compute capability 9.0",
    "https://docs.nvidia.com/cuda/cuda-c-programming-guide/",
)
_H20 = Source(
    "H20 specifications as reported by TweakTown",
    "https://www.tweaktown.com/news/95224/nvidias-tweaked-h20-ai-gpu-enters-mass-production-in-q2-2024-destined-for-china/index.html",
    "third party; NVIDIA's own sheet is not public",
)
_H20_RATES = Source(
    "H20 dense rates as reported by zangshuxian.com",
    "https://zangshuxian.com/new/674733024499207168",
    "third party; NVIDIA's own sheet is not public",
)


def _figures(source: Source, **values: float) -> dict[str, Figure]:
    """Give several dtypes' peaks the same source."""
    return {dtype: Figure(value, source) for dtype, value in values.items()}


def _cdna4_rates(clock_ghz: float, vector_fp32: float) -> dict[str, Figure]:
    """Return CDNA 4 peaks: 256 compute units, FLOP per clock and unit as published.

    The white paper prints them rounded (2.5, 5.0, 10 PFLOPS for the MI355X); the products give
    the unrounded figures.
    """

    def rate(per_clock: int) -> Figure:
        value = round(256 * per_clock * clock_ghz / 1000, 1)
        note = f"256 compute units x {per_clock:,} FLOP a clock x {clock_ghz} GHz"
        return Figure(value, Source(_CDNA4.title, _CDNA4.url, note))

    return {
        "fp32": Figure(vector_fp32, _CDNA4),
        "fp16": rate(4096),
        "bf16": rate(4096),
        "fp8": rate(8192),
        "int8": rate(8192),
        "fp6": rate(16384),
        "fp4": rate(16384),
    }


def _amd(
    name: str,
    architecture: str,
    target: str,
    units: Figure,
    memory: Figure,
    bandwidth: Figure,
    peaks: dict[str, Figure],
) -> Gpu:
    """Build an Instinct entry: wave of 64; 64 KiB of LDS, 160 on gfx950 (ROCm's table)."""
    lds = Figure(160.0 if target == "gfx950" else 64.0, _ROCM)
    table = MappingProxyType(peaks)
    aliases = (f"amd instinct {name.lower()}",)
    return Gpu(name, "AMD", architecture, target, "FlyDSL", 64, units, lds, memory, bandwidth, table, aliases)


def _hopper(
    name: str,
    units: Figure,
    memory: Figure,
    bandwidth: Figure,
    peaks: dict[str, Figure],
    aliases: tuple[str, ...] = (),
) -> Gpu:
    """Build a Hopper entry: warp of 32, 228 KiB of shared memory an SM."""
    lds = Figure(228.0, _CUDA)
    table = MappingProxyType(peaks)
    return Gpu(
        name, "NVIDIA", "Hopper", "sm_90a", "CuteDSL", 32, units, lds, memory, bandwidth, table, aliases
    )


_CDNA3_RATES = {
    "fp64": 163.4,
    "fp32": 163.4,
    "tf32": 653.7,
    "fp16": 1307.4,
    "bf16": 1307.4,
    "fp8": 2614.9,
    "int8": 2614.9,
}
_GH100_RATES = {
    "fp64": 66.9,
    "fp32": 66.9,
    "tf32": 494.7,
    "fp16": 989.4,
    "bf16": 989.4,
    "fp8": 1978.9,
    "int8": 1978.9,
}

GPUS: tuple[Gpu, ...] = (
    _amd(
        "MI300X",
        "CDNA3",
        "gfx942",
        Figure(304, _CDNA3),
        Figure(192, _CDNA3),
        Figure(5300, _CDNA3),
        _figures(_CDNA3, **_CDNA3_RATES),
    ),
    _amd(
        "MI308X",
        "CDNA3",
        "gfx942",
        Figure(80, _IREE),
        UNKNOWN,
        Figure(5300, _IREE),
        _figures(_IREE, fp16=188.4, bf16=188.4, fp8=176.8),
    ),
    _amd(
        "MI325X",
        "CDNA3",
        "gfx942",
        Figure(304, _ROCM),
        Figure(256, _MI325X),
        Figure(6000, _MI325X),
        _figures(_MI325X, **_CDNA3_RATES),
    ),
    _amd(
        "MI350X",
        "CDNA4",
        "gfx950",
        Figure(256, _ROCM),
        Figure(288, _CDNA4),
        Figure(8000, _CDNA4),
        _cdna4_rates(2.2, 144.2),
    ),
    _amd(
        "MI355X",
        "CDNA4",
        "gfx950",
        Figure(256, _ROCM),
        Figure(288, _CDNA4),
        Figure(8000, _CDNA4),
        _cdna4_rates(2.4, 157.3),
    ),
    _hopper(
        "H100",
        Figure(132, _HOPPER),
        Figure(80, _HOPPER),
        Figure(3350, _H100),
        _figures(_HOPPER, **_GH100_RATES),
        ("h100-sxm", "h100 sxm", "nvidia h100 80gb hbm3"),
    ),
    _hopper(
        "H100-PCIe",
        Figure(114, _HOPPER),
        Figure(80, _HOPPER),
        Figure(2000, _HOPPER),
        _figures(_HOPPER, fp64=51.2, fp32=51.2, tf32=378.0, fp16=756.0, bf16=756.0, fp8=1513.0, int8=1513.0),
        ("h100 pcie", "nvidia h100 pcie"),
    ),
    _hopper(
        "H200",
        Figure(132, _HOPPER),
        Figure(141, _H200),
        Figure(4800, _H200),
        _figures(_H200, fp64=67.0, fp32=67.0, tf32=494.5, fp16=989.5, bf16=989.5, fp8=1979.0, int8=1979.0),
        ("h200-sxm", "h200 sxm", "nvidia h200"),
    ),
    _hopper(
        "H20",
        Figure(78, _H20_RATES),
        Figure(96, _H20),
        Figure(4000, _H20),
        {
            **_figures(_H20_RATES, fp64=1.0, fp32=44.0, tf32=74.0, fp16=148.0, bf16=148.0, int8=296.0),
            "fp8": Figure(296.0, _H20),
        },
        ("nvidia h20",),
    ),
)


def normalize_dtype(dtype: str) -> str:
    """Return the tables' key for a dtype's name: ``torch.bfloat16`` and ``BF16`` are ``bf16``."""
    key = dtype.lower().removeprefix("torch.")
    return DTYPE_ALIASES.get(key, key)


def find_gpu(name: str) -> Gpu | None:
    """Return the GPU of that name or alias, in any case and with or without dashes, or None."""
    wanted = _key(name)
    for gpu in GPUS:
        if wanted in {_key(gpu.name), *map(_key, gpu.aliases)}:
            return gpu
    return None


def get_gpu(name: str) -> Gpu:
    """Return the GPU of that name.

    Raises :class:`KernelLintError`, with the nearest known names, where there is none.
    """
    gpu = find_gpu(name)
    if gpu is None:
        known = [entry.name for entry in GPUS]
        close = difflib.get_close_matches(name.upper(), known, n=2) or known
        raise KernelLintError(f"no GPU named {name!r} is known", f"did you mean {' or '.join(close)}?")
    return gpu


def _key(name: str) -> str:
    """Fold case, dashes and spaces away."""
    return name.lower().replace("-", "").replace(" ", "").replace("_", "")

"""The pytest plugin with which FlyDSL's own device tests run in the emulator, or as PTX on an NVIDIA GPU.

For the emulator it answers torch's questions about a GPU and takes the device "cuda" for the CPU. It makes
each benchmark loop call its kernel once, and writes one line of JSON for each test.
``emulator_flydsl_tests.py`` starts the processes that load it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TARGET, CHECKS, TIMEOUT, REPORT = "KL_EMU_TARGET", "KL_EMU_CHECKS", "KL_EMU_TIMEOUT", "KL_EMU_REPORT"
BACKEND = "KL_EMU_BACKEND"


FACTORIES = (
    "empty",
    "empty_strided",
    "zeros",
    "ones",
    "full",
    "rand",
    "randn",
    "randint",
    "randperm",
    "arange",
    "linspace",
    "logspace",
    "eye",
    "tensor",
    "as_tensor",
    "empty_like",
    "zeros_like",
    "ones_like",
    "full_like",
    "rand_like",
    "randn_like",
    "randint_like",
    "tril_indices",
    "triu_indices",
)


class TestTimeoutError(Exception):
    """A test took too long."""


class FakeEvent:
    """A CUDA event without a device; every interval is a millisecond."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.recorded = False

    def record(self, stream: object = None) -> None:
        self.recorded = True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: object = None) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: object) -> float:
        return 1.0


def pretend_gpu() -> None:
    """Let ``torch.cuda`` say that there is a GPU, whose queues are always empty."""
    import torch

    from kernel_lint.verify.backends.standin import install_cuda_standins

    install_cuda_standins(os.environ[TARGET])
    replacements: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "Event": FakeEvent,
        "empty_cache": lambda: None,
        "mem_get_info": lambda *_: (1 << 36, 1 << 37),
        "memory_reserved": lambda *_: 0,
        "memory_stats": lambda *_: {},
        "reset_peak_memory_stats": lambda *_: None,
        "manual_seed": lambda *_: None,
        "manual_seed_all": lambda *_: None,
        "_sleep": lambda *_: None,
    }
    for name, value in replacements.items():
        setattr(torch.cuda, name, value)


def to_cpu(value: Any) -> Any:
    """The device "cpu" for the device "cuda", anything else unchanged."""
    import torch

    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    return "cpu" if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")) else value


def redirect(owner: Any, name: str) -> None:
    """Let a function that takes a device take "cuda" for the CPU."""
    original = getattr(owner, name)

    def on_cpu(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["device"] = to_cpu(kwargs["device"])
        kwargs.pop("pin_memory", None)
        return original(*(to_cpu(a) for a in args), **kwargs)

    setattr(owner, name, on_cpu)


def redirect_devices() -> None:
    """Let the whole process take "cuda" for the CPU, and say that there is a GPU."""
    import torch

    pretend_gpu()
    # Only what takes a device: a mode over all of torch would slow the tests' own references down tenfold.
    for name in FACTORIES:
        redirect(torch, name)
    for name in ("to", "new_empty", "new_zeros", "new_ones", "new_full", "new_tensor", "new_empty_strided"):
        redirect(torch.Tensor, name)
    torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign]
    torch.Tensor.is_cuda = property(lambda self: True)  # type: ignore[assignment]
    torch.nn.Module.cuda = lambda self, *_, **__: self  # type: ignore[method-assign]
    generator = torch.Generator

    class Generator(generator):  # type: ignore[misc, valid-type]
        def __new__(cls, device: Any = "cpu") -> Any:
            return generator(device=to_cpu(device))

    torch.Generator = Generator  # type: ignore[misc]


def call_once() -> None:
    """Replace the benchmark loops of the tests by one call."""
    import importlib

    def run_perftest(func: Any, *args: Any, **kwargs: Any) -> Any:
        for name in ("num_iters", "num_warmup", "testGraph", "num_rotate_args", "needTrace"):
            kwargs.pop(name, None)
        return func(*args, **kwargs), 1.0

    def bench(fn: Any, *args: Any, **kwargs: Any) -> float:
        fn()
        return 1.0

    common = importlib.import_module("tests.test_common")
    common.run_perftest = run_perftest  # type: ignore[attr-defined]
    benchmarks = importlib.import_module("tests.kernels.benchmark_common")
    benchmarks.bench_gpu_us_torch = bench  # type: ignore[attr-defined]
    if hasattr(benchmarks, "bench_kernel_us"):
        setattr(benchmarks, "bench_kernel_us", bench)  # noqa: B010


def in_emulator() -> Any:
    """Have FlyDSL launch in the emulator."""
    from kernel_lint.emulator import EmulatorOptions, install

    return install(EmulatorOptions(target=os.environ[TARGET], checks=os.environ[CHECKS]))


def on_gpu() -> Any:
    """Have FlyDSL launch on the NVIDIA GPU."""
    from kernel_lint.nvptx.session import install_on_gpu

    return install_on_gpu(os.environ[TARGET])


class Plugin:
    """The pytest side: one session of emulation, and a line of JSON for each test."""

    def __init__(self, config: Any) -> None:
        self.session = on_gpu() if os.environ[BACKEND] == "nvptx" else in_emulator()
        self.report = Path(os.environ[REPORT])
        self.root, self.start = config.rootpath, config.invocation_params.dir

    def name(self, nodeid: str) -> str:
        """A test's id from the folder in which pytest was started: pytest's own begins at its ini file."""
        file, _, rest = nodeid.partition("::")
        return f"{os.path.relpath(self.root / file, self.start)}::{rest}"

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        """Bound a test's processor time: other work on the machine does not count."""

        def late(*_: object) -> None:
            raise TestTimeoutError(f"longer than {os.environ[TIMEOUT]} s of processor time")

        self.session.clear()
        signal.signal(signal.SIGPROF, late)
        signal.setitimer(signal.ITIMER_PROF, float(os.environ[TIMEOUT]))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_collection_finish(self, session: Any) -> None:
        """With ``--collect-only``, write the tests' ids instead."""
        if session.config.option.collectonly:
            self.report.write_text(
                "".join(f"{self.name(item.nodeid)}\n" for item in session.items), encoding="utf-8"
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Write one line."""
        if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
            launches = len(self.session.launches)
            row = {
                "test": self.name(report.nodeid),
                "outcome": report.outcome,
                "seconds": round(report.duration, 2),
                "launches": launches,
                "error": str(report.longrepr)[-1600:] if report.outcome == "failed" else "",
                "findings": [f.to_json() for f in self.session.found()],
            }
            with self.report.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")


def stand_in_for_triton() -> None:
    """Some helpers of the tests import Triton for kernels that only a GPU could run."""
    if importlib.util.find_spec("triton") is not None:
        return
    triton, language = types.ModuleType("triton"), types.ModuleType("triton.language")
    triton.jit = lambda function=None, **_: function or (lambda f: f)  # type: ignore[attr-defined]
    triton.cdiv = lambda a, b: -(-a // b)  # type: ignore[attr-defined]
    triton.language = language  # type: ignore[attr-defined]
    language.constexpr = int  # type: ignore[attr-defined]
    sys.modules.update({"triton": triton, "triton.language": language})


def pytest_configure(config: Any) -> None:
    """Prepare the process, once torch and FlyDSL can be imported."""
    stand_in_for_triton()
    if os.environ[BACKEND] == "emulate":
        redirect_devices()
    call_once()
    config.pluginmanager.register(Plugin(config), "kernel-lint-emulator")

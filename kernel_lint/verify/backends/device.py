"""Backend ``device``: the candidate runs on the GPU that torch sees, and is timed.

For candidates whose kernel language runs natively there: CuteDSL on NVIDIA GPUs, FlyDSL on AMD GPUs
(``rocm`` adds FlyDSL's registers and spills), or ordinary torch modules with
``--no-require-launch``. Launches are seen by torch's profiler, which reports the kernels that the device ran;
those of torch's own libraries do not count as the candidate's.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernel_lint.verify.backends import (
    MAXIMUM_LISTED,
    Artifact,
    BackendContext,
    BackendUnavailableError,
    Launch,
    Observation,
    Observer,
    require_modules,
)

# Kernels of torch and of the libraries it calls, by the start or a part of their (demangled) names.
_LIBRARY = re.compile(
    r"at::|c10::|at_cuda_detail|cub::|thrust::|cublas|cudnn|cutlass_\d|ampere_|sm\d\d_|hopper_|nvjet|gemv|splitK|"
    r"Memcpy|Memset|memcpy|memset|rocblas|Cijk_|miopen|rocprim|hipcub|void gemm|distribution_"
)


class DeviceBackend:
    """See the module's docstring; the protocol is :class:`kernel_lint.verify.backends.Backend`."""

    name = "device"

    def stages(self) -> frozenset[str]:
        """Return all stages."""
        return frozenset({"compile", "correctness", "integrity", "performance"})

    def limitation(self) -> str:
        """Say why there are no times: only when they are switched off."""
        return "times were switched off (-O timing=off)"

    def times(self, options: Mapping[str, str]) -> bool:
        """Take times with device events."""
        return True

    def check(self) -> None:
        """Raise when torch sees no GPU."""
        require_modules("torch")
        import torch

        if not torch.cuda.is_available():
            raise BackendUnavailableError(
                f"torch {torch.__version__} sees no GPU",
                "run where a GPU and torch for it are present, or use --backend emulate",
            )

    def default_targets(self) -> tuple[str, ...]:
        """Return the first GPU's architecture (``sm_90``, ``gfx942``), or ``gpu`` where none can be asked."""
        if importlib.util.find_spec("torch") is None:
            return ("gpu",)
        import torch

        if not torch.cuda.is_available():
            return ("gpu",)
        # The GPU is asked for through the driver's list, without a context that a fork would break.
        return (_architecture(),)

    def device(self, options: Mapping[str, str]) -> str:
        """Return ``cuda``, which is also what torch calls a ROCm device."""
        return "cuda"

    def describe(self, target: str) -> str:
        """Return the target and that it was real."""
        return f"run on {target}"

    def preload(self) -> tuple[str, ...]:
        """Return torch; the GPU must not be touched before the fork, and is not."""
        return ("torch",)

    def environment(self, context: BackendContext) -> dict[str, str]:
        """Return a cache folder for CuteDSL that belongs to this process."""
        return {"CUTE_DSL_CACHE_DIR": str(context.scratch)}

    def readable(self) -> tuple[Path, ...]:
        """Return where drivers and CUDA lie besides the usual places."""
        return tuple(filter(Path.exists, (Path("/usr/local/nvidia"), Path("/etc/alternatives"))))

    def install(self, context: BackendContext) -> Observer:
        """Create the device's context, while all files are still open, and return the observer."""
        import torch

        torch.cuda.init()  # type: ignore[no-untyped-call]
        torch.zeros(1, device="cuda")
        return ProfilerObserver(context.target)


class ProfilerObserver:
    """Counts the kernels that the device ran between two calls, by torch's profiler."""

    def __init__(self, target: str) -> None:
        import torch
        from torch.profiler import ProfilerActivity, profile

        self._target = target
        self._profile, self._activities = profile, [ProfilerActivity.CUDA]
        self._synchronize = torch.cuda.synchronize
        self._running: Any = None
        self._begin_once()

    def _begin_once(self) -> None:
        """Load the profiler's libraries before the file system is closed."""
        self.begin()
        self.synchronize()
        self.end()

    def begin(self) -> None:
        """Start to look."""
        self._stop()
        self._running = self._profile(activities=self._activities, acc_events=True)
        self._running.__enter__()

    def synchronize(self) -> None:
        """Wait for all streams."""
        self._synchronize()

    def end(self) -> Observation:
        """Return the kernels seen since :meth:`begin`."""
        found = self._stop()
        if found is None:
            return Observation()
        names = [event.name for event in found.events() if str(event.device_type).endswith("CUDA")]
        own = [name for name in names if not _LIBRARY.search(name)]
        return Observation(
            tuple(Artifact(name, self._target) for name in dict.fromkeys(own)),
            tuple(Launch(name) for name in own[:MAXIMUM_LISTED]),
            len(own),
        )

    def _stop(self) -> Any:
        running, self._running = self._running, None
        if running is not None:
            running.__exit__(None, None, None)
        return running


def _architecture() -> str:
    """Return the first GPU's architecture, asked in a process of its own: this one will be forked."""
    import subprocess
    import sys

    code = (
        "import torch; p = torch.cuda.get_device_properties(0); "
        "print(p.gcnArchName.split(':')[0] if torch.version.hip else f'sm_{p.major}{p.minor}')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "gpu"


BACKEND = DeviceBackend()

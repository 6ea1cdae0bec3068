"""Backend ``torch``: the candidate is an ordinary torch module on the CPU.

It serves development and the harness's own tests: nothing but torch is needed, and every part
of the protocol except the launches is the same. A candidate that launches no kernel fails
with ``NO_LAUNCH`` unless ``--no-require-launch`` says, in the report too, that it need not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kernel_lint.verify.backends import BackendContext, Observation, Observer, require_modules


class TorchBackend:
    """See the module's docstring; the protocol is :class:`kernel_lint.verify.backends.Backend`."""

    name = "torch"

    def stages(self) -> frozenset[str]:
        """Return everything but performance."""
        return frozenset({"compile", "correctness", "integrity"})

    def limitation(self) -> str:
        """Say why there are no times."""
        return "times of a CPU say nothing about a GPU kernel"

    def times(self, options: Mapping[str, str]) -> bool:
        """Take times only when asked to (``-O timing=wall``): they are of the CPU, by the wall."""
        return options.get("timing") == "wall"

    def check(self) -> None:
        """Raise when torch is missing."""
        require_modules("torch")

    def default_targets(self) -> tuple[str, ...]:
        """Return ``cpu``."""
        return ("cpu",)

    def device(self, options: Mapping[str, str]) -> str:
        """Return ``cpu``."""
        return "cpu"

    def describe(self, target: str) -> str:
        """Return what the report calls it."""
        return "plain torch on the CPU"

    def preload(self) -> tuple[str, ...]:
        """Return torch."""
        return ("torch",)

    def environment(self, context: BackendContext) -> dict[str, str]:
        """Return nothing."""
        return {}

    def readable(self) -> tuple[Path, ...]:
        """Return nothing."""
        return ()

    def install(self, context: BackendContext) -> Observer:
        """Install the stand-ins for ``torch.cuda``."""
        from kernel_lint.verify.backends.standin import install_cuda_standins

        install_cuda_standins(context.target)
        return NoLaunches()


class NoLaunches:
    """An observer that sees no launches, because there are none to see."""

    def begin(self) -> None:
        """Forget nothing."""

    def synchronize(self) -> None:
        """Return at once: torch's CPU operators block."""

    def end(self) -> Observation:
        """Return an empty observation."""
        return Observation()


BACKEND = TorchBackend()

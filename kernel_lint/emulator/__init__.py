"""Run FlyDSL kernels without an AMD GPU, and see what one hides.

    from kernel_lint.emulator import EmulatorOptions, install

    with install(EmulatorOptions(target="gfx942")) as session:
        model(x)  # FlyDSL launches run here, on CPU tensors
        for finding in session.found():
            print(finding)

See ``docs/emulator.md`` for how it works.
"""

from __future__ import annotations

from kernel_lint.emulator.findings import Finding
from kernel_lint.emulator.hook import install
from kernel_lint.emulator.options import CHECKS, TARGETS, EmulatorOptions
from kernel_lint.emulator.session import EmulatedLaunch, Session

__all__ = ["CHECKS", "TARGETS", "EmulatedLaunch", "EmulatorOptions", "Finding", "Session", "install"]

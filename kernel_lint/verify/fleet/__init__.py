"""Verify many candidates: every shape of every candidate is a task of its own, judged where there is room.

:mod:`.plan` finds candidates and makes tasks, :mod:`.execute` does one, :mod:`.local` and
:mod:`.ray_executor` spread them over processes of this machine or over a Ray cluster, :mod:`.journal`
keeps what is finished, :mod:`.driver` is the loop around them, and :mod:`.report` and :mod:`.render` say what
came out. ``docs/fleet.md`` explains the order of events and what it costs.
"""

from __future__ import annotations

from kernel_lint.verify.fleet.driver import FleetOptions, verify_fleet
from kernel_lint.verify.fleet.plan import find_candidates
from kernel_lint.verify.fleet.report import FleetReport

__all__ = ["FleetOptions", "FleetReport", "find_candidates", "verify_fleet"]

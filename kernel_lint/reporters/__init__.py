"""Writers of results: each module turns a CheckResult into one format's text.

A reporter is a module with ``render(result, options) -> str``; the format's name is the
module's with dashes for underscores.
"""

from __future__ import annotations

import importlib
import os

from kernel_lint.engine import CheckResult
from kernel_lint.errors import KernelLintError
from kernel_lint.records import dataclass


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """How to write: with colour or not; ``source`` gives the text of stdin by its name."""

    color: bool = False
    source: tuple[str, str] | None = None


def formats() -> list[str]:
    """Return the names of all formats."""
    names = (name[:-3] for name in os.listdir(os.path.dirname(__file__)) if name.endswith(".py"))
    return sorted(name.rstrip("_").replace("_", "-") for name in names if not name.startswith("_"))


def render(name: str, result: CheckResult, options: ReportOptions) -> str:
    """Write a result in the format called ``name``; raises KernelLintError for an unknown one."""
    if name not in formats():
        raise KernelLintError(f"no output format is called '{name}'", f"choose one of {', '.join(formats())}")
    module_name = name.replace("-", "_")
    module = importlib.import_module(f"kernel_lint.reporters.{'json_' if name == 'json' else module_name}")
    text: str = module.render(result, options)
    return text

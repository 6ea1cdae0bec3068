"""What ``python tools/NAME.py`` does: find kernel-lint and hand it the command line.

It works in a checkout whether or not kernel-lint is installed, and in a workspace (where ``init``
copies it) with any Python that has kernel-lint. This file imports only the standard library.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def launch(*command: str) -> int:
    """Run ``kernel-lint COMMAND...`` with this script's arguments after it and return its exit code.

    Without kernel-lint, or without a library that it needs, says so in one sentence and
    returns 2.
    """
    here = Path(__file__).resolve().parent
    # The script's own folder would otherwise offer sandbox.py and others as top-level modules.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    if importlib.util.find_spec("kernel_lint") is None and (here.parent / "kernel_lint" / "cli.py").is_file():
        sys.path.insert(0, str(here.parent))
    try:
        from kernel_lint.cli import main
    except ModuleNotFoundError as error:
        package = "kernel-lint" if error.name == "kernel_lint" else error.name
        sys.stderr.write(
            f"kernel-lint: error: {sys.executable} has no {package}; "
            "install it there with `pip install kernel-lint`, or run this with a Python that has it\n"
        )
        return 2
    return main([*command, *sys.argv[1:]])

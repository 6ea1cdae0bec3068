"""``python -m kernel_lint``: the same as the ``kernel-lint`` command."""

from __future__ import annotations

import os
import sys

from kernel_lint import shortcut


def entry() -> None:
    """Console-script entry point: the short cut where it will do, else the whole command line."""
    code = shortcut.run(sys.argv[1:])
    if code is None:
        from kernel_lint.cli import main

        sys.exit(main())
    if not _watched():
        # Taking modules and trees apart, object by object, takes as long as linting 200 lines.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _watched() -> bool:
    """Tell whether a debugger, a profiler or coverage waits for the end of the program."""
    if sys.gettrace() is not None or sys.getprofile() is not None or sys.flags.inspect:
        return True
    monitoring = getattr(sys, "monitoring", None)
    return monitoring is not None and any(map(monitoring.get_tool, range(6)))


if __name__ == "__main__":
    entry()

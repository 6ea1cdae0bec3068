"""``python -m kernel_lint``: the same as the ``kernel-lint`` command."""

from __future__ import annotations

import sys

from kernel_lint import shortcut


def entry() -> None:
    """Console-script entry point: the short cut where it will do, else the whole command line."""
    code = shortcut.run(sys.argv[1:])
    if code is None:
        from kernel_lint.cli import main

        code = main()
    sys.exit(code)


if __name__ == "__main__":
    entry()

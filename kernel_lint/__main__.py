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
    if sys.gettrace() is None and sys.getprofile() is None and not sys.flags.inspect:
        # Taking modules and trees apart, object by object, takes as long as linting 200 lines.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    entry()

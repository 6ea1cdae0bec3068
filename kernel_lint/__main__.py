"""``python -m kernel_lint``: the same as the ``kernel-lint`` command."""

from kernel_lint.cli import entry

if __name__ == "__main__":
    entry()

"""The ``kernel-lint`` command: finds the sub-command's module and runs it.

Each module of :mod:`kernel_lint.commands` is one sub-command and defines ``command``, a
:class:`click.Command`. They are found by walking that package, and imported only when
they are named, so that ``kernel-lint FILE`` loads nothing but the linter.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from pathlib import Path

import click

from kernel_lint import __version__
from kernel_lint.errors import KernelLintError

DEFAULT_COMMAND = "check"
# The extra of pyproject.toml that brings each optional package, by the name it is imported by.
EXTRAS = {
    **dict.fromkeys(("torch", "flydsl", "numpy", "safetensors", "ziglang"), "verify"),
    **dict.fromkeys(("pygls", "lsprotocol"), "lsp"),
    **dict.fromkeys(("jinja2", "matplotlib"), "report"),
    "ray": "fleet",
}


class LazyGroup(click.Group):
    """A group whose commands are the modules of :mod:`kernel_lint.commands`.

    A first argument that names no command belongs to the default one, so that
    ``kernel-lint FILE`` means ``kernel-lint check FILE``.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        folder = Path(__file__).with_name("commands")
        modules = (path.stem for path in folder.glob("*.py"))
        return sorted(name.rstrip("_").replace("_", "-") for name in modules if not name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, or None where there is none of that name."""
        module_name = "kernel_lint.commands." + cmd_name.replace("-", "_")
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name != module_name:
                raise
            return None
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command where the first argument is not a command."""
        if (
            args
            and args[0] not in ("--help", "-h", "--version", "-V")
            and args[0] not in self.list_commands(ctx)
        ):
            args = [DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
@click.version_option(__version__, "-V", "--version", prog_name="kernel-lint", message="%(prog)s %(version)s")
def cli() -> None:
    """Lint, package and verify FlyDSL GPU kernels.

    `kernel-lint FILE...` is short for `kernel-lint check FILE...`.
    """


# What writing to a full disk, a closed file or a gone reader gives; such errors name no file.
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF, errno.EPIPE)


def _settle_streams() -> None:
    """Escape what the encoding of a stream lacks, and let nothing fail where a stream is closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: nothing found, or all stages passed. 1: findings, or a stage failed. 2: usage,
    configuration or internal error.
    """
    _settle_streams()
    try:
        result = cli.main(args=argv, prog_name="kernel-lint", standalone_mode=False)
        # The language server closes what it spoke through.
        if not sys.stdout.closed:
            sys.stdout.flush()
    except click.exceptions.Abort:
        click.echo("kernel-lint: interrupted", err=True)
        return 2
    except click.ClickException as error:
        error.show()
        return 2
    except KernelLintError as error:
        click.echo(f"kernel-lint: error: {error}", err=True)
        return 2
    except OSError as error:
        if error.filename is not None or error.errno not in _UNWRITABLE:
            raise
        click.echo(f"kernel-lint: error: the output cannot be written ({error.strerror})", err=True)
        # What is left in the buffer would fail again at exit.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        return 2
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        remedy = f"pip install 'kernel-lint[{EXTRAS[package]}]'"
        missing = KernelLintError(f"this needs {package}, which is not installed", remedy)
        click.echo(f"kernel-lint: error: {missing}", err=True)
        return 2
    return result if isinstance(result, int) else 0

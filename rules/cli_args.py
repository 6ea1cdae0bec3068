"""KL108."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import chain

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Fix, Severity
from kernel_lint.patterns import lazy
from kernel_lint.rule import Context, Finding, Invalid, cases
from kernel_lint.rules._edits import removal
from kernel_lint.rules._imports import unused_import
from kernel_lint.rules._modules import COMMAND_LINE, REPORTING
from kernel_lint.rules._paths import shown
from kernel_lint.rules._reads import is_own
from kernel_lint.rules._shallow import ShallowPaths
from kernel_lint.source.domain import Qual, constants
from kernel_lint.source.references import Reference

if TYPE_CHECKING:
    from typing import ClassVar

_LINE = "reads a command line"
_REPORT = "writes a report"
_ENDS = "ends the process that imports the file"
_PARSING = frozenset(
    {"parse_args", "parse_known_args", "parse_intermixed_args", "add_argument", "add_subparsers"}
)
_WRITING = frozenset(
    {
        "to_csv",
        "to_markdown",
        "to_html",
        "to_excel",
        "to_latex",
        "savefig",
        "writerow",
        "writerows",
        "write_text",
        "write_bytes",
    }
)
_ASKED = _PARSING | _WRITING
_REPORT_NAME = lazy(
    r"(?:^|_)(?:report|to_markdown|write_csv|save_results|dump_results|print_table|leaderboard)(?:_|$)",
    words=(
        "report",
        "to_markdown",
        "write_csv",
        "save_results",
        "dump_results",
        "print_table",
        "leaderboard",
    ),
)
_OPENERS = frozenset({"builtins.open", "os.fdopen", "codecs.open", "pathlib.Path().open"})


class CliArgs(ShallowPaths):
    """
    ## What it does
    Finds the parts of a script: command lines (`argparse`, `click`, `typer`, `fire`, `sys.argv`), reports written to
    files or drawn, and calls that end the process.

    ## Why is this bad?
    The evaluator imports the file and calls `Model`; its own command line is what `sys.argv` holds there. A report has no
    reader, and `sys.exit` takes the evaluator down with it.

    ## What is allowed
    `*args` and `**kwargs`, a parser of your own for layouts, names such as `click_count`.

    ## How to fix it
    Remove it. Settings of the kernel are constants in the file; scripts and reports live beside it.

    ## Example
    ```python
    parser = argparse.ArgumentParser()
    ```

    ## Fix safety
    Removing an import that nothing uses is safe.

    ## References
    - Contract clause X5: no command-line parsing, no report generation.
    """

    code = "KL108"
    name = "cli-args"
    clauses = ("X5",)
    FORBIDDEN: ClassVar[Mapping[str, str]] = {
        "sys.argv": _LINE,
        "sys.orig_argv": _LINE,
        "sys.exit": _ENDS,
        "builtins.exit": _ENDS,
        "builtins.quit": _ENDS,
        "builtins.SystemExit": _ENDS,
        "os._exit": _ENDS,
        "os.abort": _ENDS,
        "os.kill": _ENDS,
        "os.killpg": _ENDS,
        "signal.raise_signal": _ENDS,
        "cmd": _LINE,
        "readline": _LINE,
        "curses": _LINE,
        "prompt_toolkit": _LINE,
        "questionary": _LINE,
        "plac": _LINE,
        "cyclopts": _LINE,
        "tap": _LINE,
        "jsonargparse": _LINE,
        "configargparse": _LINE,
        "gooey": _LINE,
        "invoke": _LINE,
        "pandas": _REPORT,
        "csv": _REPORT,
        "jinja2": _REPORT,
        "markdown": _REPORT,
        "reportlab": _REPORT,
        "docx": _REPORT,
        "openpyxl": _REPORT,
        "xlsxwriter": _REPORT,
        "bokeh": _REPORT,
        "altair": _REPORT,
        "texttable": _REPORT,
        "wandb": _REPORT,
        "mlflow": _REPORT,
        "tensorboard": _REPORT,
        "tensorboardX": _REPORT,
        "torch.utils.tensorboard": _REPORT,
        "json.dump": _REPORT,
        "yaml.dump": _REPORT,
        "numpy.savetxt": _REPORT,
        **dict.fromkeys(sorted(COMMAND_LINE), _LINE),
        **dict.fromkeys(sorted(REPORTING), _REPORT),
    }
    HELP = "remove it; the file holds the kernel, scripts and reports live beside it"
    VALID = cases(
        lambda: (
            "def call(f, *args, **kwargs):\n    return f(*args, **kwargs)\n",
            "class Parser:\n    def parse(self, s):\n        return s.split(',')\n\nP = Parser().parse('8,16')\n",
            "class Parser:\n    def parse_args(self):\n        return 1\n\nP = Parser().parse_args()\n",
            "click_count = 3\nargv = [click_count]\n",
            "TEXT = 'argparse'\n",
            "import sys\nBIG = sys.maxsize\n",
            "def exit(x):\n    return x\n\nexit(1)\n",
            "import json\nK = json.dumps({'a': 1})\n",
        )
    )
    INVALID = cases(
        lambda: (
            Invalid(
                "import argparse\n\ndef f():\n    p = argparse.ArgumentParser()\n    return p.parse_args()\n",
                lines=(1, 4),
            ),
            Invalid("import click\nx = 1\n", lines=(1,), fixed="x = 1\n"),
            Invalid("from sys import argv\nN = len(argv)\n", lines=(1,)),
            Invalid("import sys\nN = sys.argv[1:]\n", lines=(2,)),
            Invalid("import sys as s\nN = getattr(s, 'ar' + 'gv')\n", lines=(2,)),
            Invalid("import os\nN = os.sys.argv\n", lines=(2,)),
            Invalid("import sys\nN = vars(sys)['argv']\n", lines=(2,)),
            Invalid("A = __import__('argparse')\n", lines=(1,)),
            Invalid("import typer\nAPP = typer.Typer()\n", lines=(1, 2)),
            Invalid("import matplotlib.pyplot as plt\n", lines=(1,), fixed=""),
            Invalid("def f(p):\n    return p.parse_args()\n", lines=(2,)),
            Invalid("import sys\n\ndef f():\n    sys.exit(0)\n", lines=(4,)),
            Invalid("def f():\n    raise SystemExit(0)\n", lines=(2,)),
            Invalid(
                "def f(rows):\n    with open('report.md', 'w') as out:\n        out.write(rows)\n", lines=(2,)
            ),
            Invalid("from pathlib import Path\nPath('report.md').write_text('x')\n", lines=(2,)),
            Invalid(
                "import csv\n\ndef f(rows, out):\n    csv.writer(out).writerows(rows)\n", lines=(1, 4, 4)
            ),
            Invalid("def f(frame):\n    frame.to_csv('r.csv')\n", lines=(2,)),
            Invalid("import json\n\ndef f(r, out):\n    json.dump(r, out)\n", lines=(4,)),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield forbidden paths, then parsers and writers that came from elsewhere."""
        seen = set()
        for finding in super().check(context):
            seen.add(finding.where)
            yield finding
        attributes = context.module.scopes.attributes
        for node in chain.from_iterable(attributes[name] for name in attributes.keys() & _ASKED):
            parsing = node.attr in _PARSING
            if node not in seen and not _is_reported(context, node.value):
                if isinstance(node.ctx, ast.Load):
                    yield Finding(node, f"`{node.attr}` {_LINE if parsing else _REPORT}", self.HELP)
        used = context.module.flow.reachable | context.module.flow.init_reachable
        for function in context.module.scopes.of_type(ast.FunctionDef):
            if function not in used and _REPORT_NAME.search(function.name):
                yield Finding(function, f"`{function.name}` {_REPORT}", self.HELP)
        for call in context.module.survey.calls_of(_OPENERS):
            if _writes(context, call):
                yield Finding(call, f"a file is opened to write: it {_REPORT}", self.HELP)

    def finding(self, context: Context, reference: Reference, why: str) -> Finding | None:
        """Offer to remove an import that nothing uses; what ends the process is a warning in a helper file."""
        fix: Fix | None = None
        unused = unused_import(context, reference.node)
        if unused is not None:
            fix = removal(context.module, unused, "the unused import")
        severity = Severity.WARNING if why == _ENDS and not context.candidate else None
        return Finding(reference.node, f"`{shown(reference.path)}` {why}", self.HELP, fix, severity)


def _is_reported(context: Context, node: ast.expr) -> bool:
    """An object of a class of the file, or one that was reported where it was made."""
    made = [v.name.partition(".")[0] for v in context.module.values.of(node) if isinstance(v, Qual)]
    return is_own(context, node) or any(root in COMMAND_LINE for root in made)


def _writes(context: Context, call: ast.Call) -> bool:
    modes = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    if (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "open"
        and Qual("builtins.open") not in context.module.values.of(call.func)
    ):
        modes.extend(call.args[:1])
    texts = [
        text for mode in modes for text in constants(context.module.values.of(mode)) if isinstance(text, str)
    ]
    return any(set(text) & set("wax+") and len(text) <= 4 for text in texts)

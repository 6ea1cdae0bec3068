"""CPU time and imports of ``kernel-lint FILE`` on a 1,000-line file, beside its peers.

    python benchmarks/lint_startup.py [--repetitions N] [--json FILE]

Peers are measured when they are installed beside this Python. Fails when a run loads what it must
not: heavy packages cold, and nearly anything warm.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import lint_speed
from lint_commands import Others, ours, program
from lint_corpus import kernel_file
from machine import machine
from measure import once
from tables import write_tables

HEAVY = ("torch", "flydsl", "libcst", "pygls", "matplotlib", "yaml", "jsonschema", "numpy")
COLD = (*HEAVY, "click", "inspect", "dataclasses", "multiprocessing", "asyncio")
WARM = (*COLD, "typing", "re", "enum", "json", "pathlib", "ast", "hashlib")


def main() -> None:
    """Print the table and the imports, and fail when something heavy is imported."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(machine())
    table, _ = lint_speed.one_file(1000, options.repetitions, Others())
    print(table.text())
    write_tables(options.json, [table])
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "generated_kernel.py")
        path.write_text(kernel_file(1000), encoding="utf-8")
        cold, warm = ours(path, Path(name))
        once(warm)
        failed = [_check(command.argv, forbidden) for command, forbidden in ((cold, COLD), (warm, WARM))]
    sys.exit(1 if any(failed) else 0)


def _check(argv: tuple[str, ...], forbidden: tuple[str, ...]) -> bool:
    """Print what a run imports beyond Python's own start; tell whether something forbidden is among it."""
    modules = imports(argv) - imports(())
    own = sum(name.startswith("kernel_lint") for name in modules)
    bad = sorted(set(forbidden) & {name.partition(".")[0] for name in modules})
    kind = "cold" if "--no-cache" in argv else "warm"
    among = f"among them {', '.join(bad)}" if bad else f"none of {', '.join(forbidden)}"
    print(f"{kind}: {len(modules)} modules, {own} of them ours; {among}")
    return bool(bad)


def imports(argv: tuple[str, ...]) -> set[str]:
    """Return the modules that are loaded at the end of a run of ours (of Python alone without words)."""
    words = list(argv[len(program()) :])
    call = f"from kernel_lint import shortcut; shortcut.run({words!r})" if words else "pass"
    code = f"import sys\n{call}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


if __name__ == "__main__":
    main()

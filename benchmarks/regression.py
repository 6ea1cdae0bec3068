"""Compare the instructions of two commits; fails when a scenario takes more than 10% more.

    python benchmarks/regression.py BASE HEAD [--limit 1.10] [--only lint-cold,lint-warm,...] [--json FILE]

Both are checked out into temporary worktrees and run by this Python, on the same inputs: linting a
file of 1,000 lines without and with a cache, linting many files, and packaging a workspace.
Instructions are counted by perf where the processor lets it, else by valgrind, so that another program's
load changes nothing. What is not committed is not measured.

Exit codes: 0 none over the limit, 1 a scenario over the limit, 2 it could not be measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import packager_speed
from counting import NO_COUNTER, counter
from lint_corpus import kernel_file, write_tree
from measure import Command, Table, instructions, once, say

ROOT = Path(__file__).resolve().parents[1]


def _run(tree: Path, *words: str, ok: tuple[int, ...] = (0,)) -> Command:
    """Return a command of one checkout: PYTHONPATH comes before whatever is installed."""
    argv = (sys.executable, "-m", "kernel_lint", *words)
    return Command(f"{tree.name}: {words[0]}", argv, ok, (("PYTHONPATH", str(tree)),), str(tree.parent))


def lint_cold(tree: Path, folder: Path) -> Command:
    """Lint a clean candidate without a cache."""
    path = folder / "generated_kernel.py"
    path.write_text(kernel_file(1000), encoding="utf-8")
    return _run(tree, "check", str(path), "--isolated", "--no-cache")


def lint_warm(tree: Path, folder: Path) -> Command:
    """Lint it again with a cache."""
    path = folder / "generated_kernel.py"
    path.write_text(kernel_file(1000), encoding="utf-8")
    return _run(tree, "check", str(path), "--isolated", "--cache-dir", str(folder / f"cache-{tree.name}"))


def lint_files(tree: Path, folder: Path) -> Command:
    """Lint forty files in two processes."""
    write_tree(folder / "tree", 40, 60)
    return _run(tree, "check", str(folder / "tree"), "--isolated", "--no-cache", "--jobs", "2")


def package(tree: Path, folder: Path) -> Command:
    """Package a workspace of ten modules."""
    entry = packager_speed.write_workspace(folder / "work", 10)
    return _run(tree, "package", str(entry), "-o", str(folder / "out.py"))


SCENARIOS: dict[str, Callable[[Path, Path], Command]] = {
    "lint-cold": lint_cold,
    "lint-warm": lint_warm,
    "lint-files": lint_files,
    "package": package,
}


def commit_of(name: str, repository: Path = ROOT) -> str:
    """Return the commit that a name stands for; raises SystemExit where there is none."""
    words = ["git", "-C", str(repository), "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
    done = subprocess.run([*words, "--"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} is no commit of {repository}; git log --oneline lists them")
    return done.stdout.split()[0]


def is_dirty(repository: Path = ROOT) -> bool:
    """Whether tracked files have changes that no commit holds."""
    words = ["git", "-C", str(repository), "status", "--porcelain", "--untracked-files=no"]
    return bool(subprocess.run(words, capture_output=True, check=False).stdout.strip())


@contextmanager
def worktree(commit: str, folder: Path, repository: Path = ROOT) -> Iterator[Path]:
    """Check a commit out beside the repository's own files, and take it away again."""
    git = ["git", "-C", str(repository), "worktree"]
    done = subprocess.run(
        [*git, "add", "--detach", "--quiet", str(folder), commit], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{commit} cannot be checked out: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=False)


def count(tree: Path, name: str, folder: Path) -> int:
    """Return the instructions of one scenario in one checkout, once its bytecode and cache are written."""
    say(f"  {tree.name}: {name}")
    command = SCENARIOS[name](tree, folder)
    where = "import kernel_lint, sys; sys.exit(not kernel_lint.__file__.startswith(sys.argv[1]))"
    argv = (sys.executable, "-c", where, str(tree))
    once(Command("the checkout is what runs", argv, (0,), command.env, command.cwd))
    once(command)
    once(command)
    return instructions(command)


def compared(base: dict[str, int], head: dict[str, int], limit: float) -> tuple[Table, list[str]]:
    """Return the table, and the scenarios over the limit."""
    ratios = {name: head[name] / base[name] for name in base}
    rows = tuple((name, base[name] / 1e6, head[name] / 1e6, ratio) for name, ratio in ratios.items())
    columns = ("", "base, M instructions", "head, M instructions", "head / base")
    note = f"limit {limit:.2f}, counted by {counter() or 'nothing'}"
    over = [name for name, ratio in ratios.items() if ratio > limit]
    return Table("Instructions", columns, rows, note), over


def counted(commits: tuple[str, str], names: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the instructions of each scenario in two commits."""
    with tempfile.TemporaryDirectory(prefix="kernel-lint-regression-") as name:
        folder, counts = Path(name).resolve(), []
        for side, commit in zip(("base", "head"), commits, strict=True):
            with worktree(commit, folder / side) as tree:
                counts.append({scenario: count(tree, scenario, folder) for scenario in names})
    return counts[0], counts[1]


def main(argv: list[str] | None = None) -> int:
    """Compare; see the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base")
    parser.add_argument("head", nargs="?", default="HEAD", help="default: HEAD")
    parser.add_argument("--limit", type=float, default=1.10)
    parser.add_argument("--only", default=",".join(SCENARIOS), help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--json", type=Path, help="write the figures there")
    arguments = parser.parse_args(argv)
    names = [name.strip() for name in arguments.only.split(",")]
    if unknown := set(names) - set(SCENARIOS):
        parser.error(f"--only: no scenario is called {', '.join(sorted(unknown))}; see --help")
    if counter() is None:
        parser.error(NO_COUNTER)
    try:
        commits = commit_of(arguments.base), commit_of(arguments.head)
        if is_dirty():
            say("note: there are changes that are not committed; they are not measured")
        base, head = counted(commits, names)
    except SystemExit as error:
        # What cannot be measured must not look like a regression.
        print(f"error: {error}", file=sys.stderr)
        return 2
    table, over = compared(base, head, arguments.limit)
    print(table.text())
    if arguments.json:
        data = {"base": base, "head": head, "over": over, "counter": counter()}
        arguments.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if over:
        print(f"more than {arguments.limit:.2f} times the instructions: {', '.join(over)}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""All benchmarks with one command: prints tables, writes results.json and plots.

    python -m benchmarks [--quick] [--only lint,files,...] [--output FOLDER] [--update-docs]

Peers are measured where they are installed: ``pip install 'kernel-lint[bench]'``. ``--quick`` takes
a minute or two: small inputs, few repetitions. ``--update-docs`` also writes the figures into the pages of
docs/ and the README, and keeps them in benchmarks/results.json. A part that fails is reported, and the
others are measured and written all the same. Exit codes: 0 all measured, 1 a part failed or is over its
own limit, 2 a usage error.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import counting
import parts
import results
from lint_commands import BENCH, Others
from machine import headline, machine, sources, versions
from measure import say
from parts import PARTS, Options, Section

DISTRIBUTIONS = ("kernel-lint", "click", "flydsl", "torch", "ray")
# The packagers that can do the entries of packager_speed.py; the others' notes are in packager_peers.py.
PACKAGERS = ("cribo", "stickytape")


def main(argv: list[str] | None = None) -> int:
    """Run what was asked for."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    names = [name.strip() for name in arguments.only.split(",")]
    others = Others(arguments.semgrep, arguments.kernelbench)
    if problem := _problem(arguments, names, others):
        parser.error(problem)
    options = Options(
        arguments.repetitions, arguments.quick, arguments.instructions, others, tuple(arguments.checkout)
    )
    where = machine()
    found = {**versions(DISTRIBUTIONS), **others.found(), **versions(PACKAGERS)}
    print(headline(where, found), flush=True)
    for line in [*others.missing(), *(f"{name}: {BENCH}" for name in PACKAGERS if name not in found)]:
        print(f"not measured, since it is not here: {line}", flush=True)
    failed: list[str] = []
    fresh: dict[str, results.Result] = {}
    try:
        for name in names:
            section = _measured(name, options, failed)
            if section.tables:
                shown = found if section.compared else versions(DISTRIBUTIONS)
                fresh[name] = results.Result(tuple(section.tables), where, shown)
                # Kept after each part: what comes later may fail, or be interrupted.
                _keep(section, fresh, arguments)
    except KeyboardInterrupt:
        failed.append("interrupted")
    if fresh:
        print(f"\nwritten: {arguments.output / 'results.json'}, and the plots beside it")
    for line in failed:
        print(f"FAILED: {line}", file=sys.stderr)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a minute or two: small inputs, few runs")
    known = ", ".join(f"{name} ({part.about})" for name, part in PARTS.items())
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, with commas between: {known}")
    parser.add_argument("--repetitions", type=int, default=9, help="rounds of each comparison (default 9)")
    parser.add_argument(
        "--instructions", action="store_true", help="count instructions too, by perf or valgrind"
    )
    parser.add_argument("--semgrep", metavar="PROGRAM", help="a semgrep that is not on PATH")
    parser.add_argument(
        "--kernelbench", type=Path, metavar="CHECKOUT", help="a checkout of KernelBench, for its checker"
    )
    parser.add_argument(
        "--checkout", type=Path, action="append", default=[], metavar="FOLDER", help="lint its files, too"
    )
    parser.add_argument("--output", type=Path, default=Path("build", "benchmarks"), metavar="FOLDER")
    parser.add_argument("--update-docs", action="store_true", help="write the figures into the pages, too")
    return parser


def _problem(arguments: argparse.Namespace, names: list[str], others: Others) -> str | None:
    """Return what keeps this command line from being run, before any time is spent on it."""
    if unknown := set(names) - set(PARTS):
        return f"--only: no part is called {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}"
    if arguments.repetitions < 1:
        return "--repetitions: at least 1"
    if arguments.quick and arguments.update_docs:
        return "--update-docs: the pages show whole runs; leave --quick out"
    if arguments.instructions and counting.counter() is None:
        return f"--instructions: {counting.NO_COUNTER}"
    for checkout in arguments.checkout:
        if not any(checkout.rglob("*.py")):
            return f"--checkout {checkout}: there is no Python file in it"
    return others.problem()


def _measured(name: str, options: Options, failed: list[str]) -> Section:
    """Measure one part and print its tables; what went wrong is added to ``failed``."""
    section = Section(name)
    say(f"\n{name}: {PARTS[name].about}")
    started, before = time.perf_counter(), sources()
    try:
        parts.measure(name, section, options)
    except (Exception, SystemExit) as error:
        kind = "" if isinstance(error, SystemExit) else f"{type(error).__name__}: "
        failed.append(f"{name}: {kind}{error}")
    if sources() != before:
        # Whoever edits them empties the cache in the middle of a warm run.
        section.reached_end = False
        section.problems.append("kernel-lint's own files changed meanwhile: measure again")
    failed += [f"{name}: {problem}" for problem in section.problems]
    for table in section.tables:
        print(f"\n{table.text()}", flush=True)
    for line in section.left_out:
        print(f"\nleft out: {line}", flush=True)
    say(f"{name}: {time.perf_counter() - started:.0f} s")
    return section


def _keep(section: Section, fresh: dict[str, results.Result], arguments: argparse.Namespace) -> None:
    """Write the results so far, the part's plots and, if asked to, the pages."""
    results.write(arguments.output / "results.json", fresh)
    _draw(section, arguments.output / f"{section.name}.png")
    if not arguments.update_docs:
        return
    if not section.whole:
        say(f"{section.name}: the pages keep their figures, since this part is not whole")
        return
    committed = {**results.read(), section.name: fresh[section.name]}
    results.write(results.RESULTS, committed)
    pages = results.update_pages(committed, {section.name: fresh[section.name]})
    _draw(section, results.ROOT / "docs" / "images" / f"speed-{section.name}.png")
    say(f"{section.name}: written into {', '.join(pages)}")


def _draw(section: Section, path: Path) -> None:
    if not section.growths and not section.compared:
        return
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        say("no plots: matplotlib is not installed (pip install 'kernel-lint[bench]')")
        return
    import plots

    if section.growths:
        plots.plot_growth(section.growths, path)
    else:
        plots.plot_comparisons(section.compared, path)


if __name__ == "__main__":
    raise SystemExit(main())

"""All benchmarks with one command: prints tables, writes results.json and plots.

    python -m benchmarks [--quick] [--only lint,files,package,growth,scripts] [--output FOLDER]

Peers are measured where they are installed: ``pip install 'kernel-lint[bench]'``. ``--quick`` takes
about a minute: small inputs, few repetitions. ``--update-docs`` writes the tables into docs/speed.md.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import growth
import lint_speed
import packager_speed
from lint_commands import PEERS, ROOT
from measure import Measured, Table, machine, versions

PAGE = ROOT / "docs" / "speed.md"
DISTRIBUTIONS = ("kernel-lint", "click", "flydsl", "torch", *PEERS, *packager_speed.PEERS)


@dataclass(frozen=True, slots=True)
class Options:
    """How much to measure."""

    repetitions: int = 9
    quick: bool = False
    counted: bool = False
    kernelbench: Path | None = None


@dataclass(slots=True)
class Section:
    """One part's tables, and what is drawn of it."""

    name: str
    tables: list[Table] = field(default_factory=list)
    growths: list[growth.Growth] = field(default_factory=list)
    compared: list[tuple[str, list[Measured]]] = field(default_factory=list)

    def add(self, made: tuple[Table, list[Measured]]) -> None:
        """Take a comparison in."""
        self.tables.append(made[0])
        self.compared.append((made[0].title, made[1]))

    def grow(self, made: growth.Growth | None) -> None:
        """Take something that grows in."""
        if made is not None:
            self.growths.append(made)
            self.tables.append(made.table())


def lint(options: Options) -> Section:
    """Lint one file."""
    section = Section("lint")
    runs = 3 if options.quick else options.repetitions
    section.add(
        lint_speed.one_file(
            1000, runs, counted=options.counted, slow=not options.quick, kernelbench=options.kernelbench
        )
    )
    return section


def files(options: Options) -> Section:
    """Lint many files."""
    section = Section("files")
    for count, lines in ((24, 60),) if options.quick else ((577, 100), (1000, 100)):
        runs = 1 if options.quick else max(options.repetitions // 3, 3)
        section.add(lint_speed.many_files(count, lines, runs, kernelbench=options.kernelbench))
    return section


def package(options: Options) -> Section:
    """Package workspaces."""
    section = Section("package")
    runs = 2 if options.quick else options.repetitions
    section.add(packager_speed.workspaces(10 if options.quick else 50, runs, counted=options.counted))
    section.add(packager_speed.example(runs, counted=options.counted))
    return section


def grow(options: Options) -> Section:
    """Grow every input."""
    section = Section("growth")
    quick = options.quick
    section.grow(growth.file_lines((100, 300, 1000) if quick else growth.LINES))
    section.grow(growth.many_files((1, 10, 30) if quick else growth.FILES))
    section.grow(growth.known_files((10, 30, 100) if quick else growth.FILES))
    section.grow(growth.modules((1, 10, 30) if quick else growth.MODULES))
    if not quick:
        section.grow(growth.emulator_rows(growth.ROWS))
    return section


def scripts(options: Options) -> Section:
    """Run what measures itself: the language server, verify's overhead, the emulator."""
    section = Section("scripts")
    chosen = {
        "How long after the last key": ("language_server.py",),
        "What verify costs a shape": ("verify_overhead.py",),
        "The emulator": ("emulator_speed.py",),
    }
    for title, words in chosen.items():
        if not options.quick:
            section.tables.append(_script(title, words))
    return section


def _script(title: str, words: tuple[str, ...]) -> Table:
    """Run a script and take its lines; one that cannot run here says why in its table."""
    argv = [sys.executable, str(ROOT / "benchmarks" / words[0]), *words[1:]]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines() or done.stderr.strip().splitlines()[-1:]
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    note = f"benchmarks/{words[0]}, exit {done.returncode}"
    if rows:
        columns = tuple(rows[0])
        return Table(title, columns, tuple(tuple(row[key] for key in columns) for row in rows), note)
    return Table(title, ("what it prints",), tuple((line,) for line in lines), note)


SECTIONS: dict[str, Callable[[Options], Section]] = {
    "lint": lint,
    "files": files,
    "package": package,
    "growth": grow,
    "scripts": scripts,
}


def main(argv: list[str] | None = None) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="about a minute: small inputs, few runs")
    parser.add_argument("--only", default=",".join(SECTIONS), help="parts, with commas")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument(
        "--instructions", action="store_true", help="count instructions too, by perf or valgrind"
    )
    parser.add_argument("--kernelbench", type=Path, help="a checkout of KernelBench, for its static checker")
    parser.add_argument("--output", type=Path, default=Path("build", "benchmarks"))
    parser.add_argument("--update-docs", action="store_true", help="write the tables into docs/speed.md")
    arguments = parser.parse_args(argv)
    names = arguments.only.split(",")
    if unknown := set(names) - set(SECTIONS):
        parser.error(
            f"--only: no part is called {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}"
        )
    options = Options(arguments.repetitions, arguments.quick, arguments.instructions, arguments.kernelbench)
    where = machine()
    print(_headline(where), flush=True)
    sections = []
    for name in names:
        started = time.perf_counter()
        sections.append(SECTIONS[name](options))
        for table in sections[-1].tables:
            print(f"\n{table.text()}", flush=True)
        print(f"\n{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
    write(sections, where, arguments.output)
    print(f"\nwritten: {arguments.output}")
    if arguments.update_docs:
        PAGE.write_text(updated(PAGE.read_text(encoding="utf-8"), sections, where), encoding="utf-8")
        _draw(sections, ROOT / "docs" / "images", "speed-")
    return 0


def _headline(where: dict[str, str]) -> str:
    found = ", ".join(f"{name} {version}" for name, version in versions(DISTRIBUTIONS).items())
    return (
        f"{where['processor']}, {where['cores']} cores, {where['system']}, Python {where['python']}; "
        f"load {where['load']}; instructions by {where['counter']}\n{found}"
    )


def write(sections: list[Section], where: dict[str, str], folder: Path) -> None:
    """Write results.json and the plots."""
    folder.mkdir(parents=True, exist_ok=True)
    data: dict[str, Any] = {
        "machine": where,
        "versions": versions(DISTRIBUTIONS),
        "tables": [{"part": s.name, **asdict(table)} for s in sections for table in s.tables],
    }
    (folder / "results.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    _draw(sections, folder, "")


def _draw(sections: list[Section], folder: Path, prefix: str) -> None:
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        print("no plots: matplotlib is not installed", file=sys.stderr)
        return
    import plots

    for section in sections:
        if section.growths:
            plots.plot_growth(section.growths, folder / f"{prefix}{section.name}.png")
        if section.compared:
            plots.plot_comparison(*section.compared[0], folder / f"{prefix}{section.name}.png")


def updated(page: str, sections: list[Section], where: dict[str, str]) -> str:
    """Return a page with the text between ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` replaced."""
    for name, text in _blocks(sections, where):
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.S)
        found = pattern.search(page)
        if found is None:
            raise SystemExit(f"{PAGE.name} has no place for {name}")
        page = f"{page[: found.start()]}{found[1]}\n{text}\n\n{found[2]}{page[found.end() :]}"
    return page


def _blocks(sections: list[Section], where: dict[str, str]) -> Iterator[tuple[str, str]]:
    for section in sections:
        tables = "\n\n".join(table.markdown() for table in section.tables)
        yield section.name, f"{tables}\n\n{_headline(where)}.".replace("\n" + "kernel-lint ", " kernel-lint ")


if __name__ == "__main__":
    raise SystemExit(main())

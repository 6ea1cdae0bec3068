"""The committed results, and the pages that show them.

``results.json`` holds the tables of each part, with the machine and the versions that they came from. What
stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` in a page is made from it, here and nowhere
else; a test holds the two against each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from machine import headline
from tables import Table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"
SPEED = "docs/speed.md"
FLEET = "docs/fleet.md"


@dataclass(frozen=True, slots=True)
class Result:
    """One part's tables and what they were measured with."""

    tables: tuple[Table, ...]
    machine: dict[str, str]
    versions: dict[str, str]

    def markdown(self) -> str:
        """Return the tables and, below, where they come from."""
        tables = "\n\n".join(table.markdown() for table in self.tables)
        return f"{tables}\n\n{headline(self.machine, self.versions)}"


Results = dict[str, Result]


@dataclass(frozen=True, slots=True)
class Block:
    """A place in a page, the parts that it is made from, and how."""

    name: str
    page: str
    parts: tuple[str, ...]
    render: Callable[[Results], str]


def read(path: Path = RESULTS) -> Results:
    """Return the committed results; none where there is no such file."""
    if not path.exists():
        return {}
    data = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: Result(tuple(map(Table.from_json, part["tables"])), part["machine"], part["versions"])
        for name, part in data.items()
    }


def write(path: Path, found: Mapping[str, Result]) -> None:
    """Write results as JSON."""
    data = {name: asdict(result) for name, result in sorted(found.items())}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _whole(name: str) -> Callable[[Results], str]:
    return lambda found: found[name].markdown()


def _fleet(*numbers: int) -> Callable[[Results], str]:
    def render(found: Results) -> str:
        return "\n\n".join(found["fleet"].tables[number].markdown() for number in numbers)

    return render


def _machine_of(name: str) -> Callable[[Results], str]:
    return lambda found: headline(found[name].machine, found[name].versions)


_PEERS = {
    "kernel-lint": "kernel-lint, cold",
    "the same again": "kernel-lint, warm cache",
    "ruff": "ruff, no cache",
    "flake8": "flake8",
    "pylint": "pylint",
    "semgrep, 3 rules": "semgrep (the same rules)",
}


def readme(found: Results) -> str:
    """Return the figures in the README: those of the pages, rounded to milliseconds."""
    one, many = found["lint"].tables[0], found["files"].tables[0]
    rows = []
    for table in (one, many):
        title = table.title[0].lower() + table.title[1:]
        rows.append((title, *(_milliseconds(table, row) for row in _PEERS.values())))
    kept = [0, *(n for n in range(1, len(_PEERS) + 1) if any(row[n] for row in rows))]
    heads = ("CPU time", *_PEERS)
    made = Table("", tuple(heads[n] for n in kept), tuple(tuple(row[n] for n in kept) for row in rows))
    packaged = found["package"].tables[0]
    others = [f"{name} {_milliseconds(packaged, name)}" for name in ("cribo", "stickytape")]
    return (
        "\n".join(made.markdown().splitlines()[2:])
        + f"\n\nPackaging {packaged.title[0].lower()}{packaged.title[1:]} takes "
        + f"{_milliseconds(packaged, 'kernel-lint package')} of CPU time; "
        + f"others that join files without leaving anything out: {', '.join(others)}."
    )


def _milliseconds(table: Table, row: str) -> str:
    try:
        value: Any = table.cell(row, "CPU ms")
    except KeyError:
        return ""
    return f"{value:,.0f} ms"


BLOCKS = (
    *(
        Block(name, SPEED, (name,), _whole(name))
        for name in ("lint", "files", "package", "growth", "editor", "verify", "emulator")
    ),
    Block("fleet-machine", FLEET, ("fleet",), _machine_of("fleet")),
    Block("fleet-tasks", FLEET, ("fleet",), _fleet(0)),
    Block("fleet-rates", FLEET, ("fleet",), _fleet(1)),
    Block("fleet-sizes", FLEET, ("fleet",), _fleet(2)),
    Block("readme-speed", "README.md", ("lint", "files", "package"), readme),
)


def shown(page: str, name: str) -> str:
    """Return what a page has in a block; raises ValueError when it has no such place."""
    found = _place(name).search(page)
    if found is None:
        raise ValueError(f"there is no place for {name}: <!-- begin {name} --> and <!-- end {name} -->")
    return found[2].strip()


def updated(page: str, name: str, text: str) -> str:
    """Return a page with a block's text replaced; raises ValueError when it has no such place."""
    shown(page, name)
    return _place(name).sub(lambda found: f"{found[1]}\n{text}\n\n{found[3]}", page)


def _place(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- begin {name} -->\n)(.*?)(<!-- end {name} -->)", re.S)


def update_pages(found: Results, fresh: Mapping[str, Result], root: Path = ROOT) -> list[str]:
    """Write into the pages what hangs on the fresh parts; returns the names of the pages."""
    changed = []
    for block in BLOCKS:
        if not set(block.parts) & set(fresh) or not set(block.parts) <= set(found):
            continue
        path = root / block.page
        page = path.read_text(encoding="utf-8")
        path.write_text(updated(page, block.name, block.render(found)), encoding="utf-8")
        changed.append(block.page)
    return list(dict.fromkeys(changed))

"""Package a Model over every builder of a FlyDSL checkout's ``kernels/`` and compare what is compiled.

Usage::

    python benchmarks/packager_flydsl.py --flydsl CHECKOUT [--only TEXT] [--peers BIN] [--results FILE]

A builder is a public function of ``kernels/`` named as ``PREFIXES`` says, a top-level ``@flyc.jit``
launcher, or a host function of ``CALLS`` (see ``flydsl_entries.py``, which also says with what each is
called). For each one the script writes a small Model over it and prints, as it goes: packaged, imports
alone, IR equal and code objects identical for its target, bytes in (its modules) and out, seconds of CPU
to package. A builder whose original does not compile here is listed with the reason and does not count.

``--peers BIN`` names a folder of installed peers (see ``packager_peers.py``), which package the same
entries in the same run. With ``--results`` rows go to a file, one JSON line each; a run that was
interrupted goes on from there.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import json
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from flydsl_entries import builders, name_of, shape_of, targets_of, write_entry
from packager_peers import OURS, PEERS, Peer, run_peer, workspace

from kernel_lint.packager import PackageError, PackageResult, package
from kernel_lint.packager.proof import Job, compare, pair, trace

FAILS = "does not compile here"


@dataclass
class Row:
    """What came out for one builder. ``seconds`` are of CPU; ``peers`` holds what each peer did."""

    name: str
    target: str = ""
    packaged: bool = False
    imports: bool = False
    verdict: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    note: str = ""
    digest: str = ""  # of what was written, to tell whether a later packager writes the same
    peers: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class Case:
    """A builder with what is needed to judge it."""

    row: Row
    module: str
    node: ast.FunctionDef
    jit: bool
    folder: Path
    result: PackageResult | None = None


def package_case(case: Case, checkout: Path) -> Path:
    """Write and package one entry and note the figures; return the entry."""
    row = case.row
    entry = write_entry(case.folder, case.module, case.node, case.jit)
    began = time.process_time()
    try:
        case.result = package(entry, roots=[checkout])
    except PackageError as error:
        row.note = "refused: " + str(error).replace("\n", " ")[:200]
        return entry
    row.seconds = time.process_time() - began
    row.packaged = True
    row.digest = hashlib.sha256(case.result.text.encode()).hexdigest()[:16]
    row.bytes_in, row.bytes_out = case.result.report.bytes_in, case.result.report.bytes_out
    return entry


def jobs_of(case: Case, checkout: Path, scratch: Path, timeout: float) -> list[Job]:
    """Return the traces of a case: the original, then, if that works, what was packaged."""
    assert case.result is not None
    entry = case.folder / "kernel.py"
    shape = shape_of(case.node, case.jit)
    name = case.row.name
    texts = {"packaged": case.result.text}
    for peer, outcome in case.row.peers.items():
        if outcome.get("text") and peer != OURS.name:
            texts[peer] = outcome["text"]
    jobs: list[Job] = []
    for side, text in texts.items():
        first, second = pair(name, entry, text, case.folder, [checkout], scratch, shape, timeout)
        jobs = jobs or [first]
        values = {**{key: getattr(second, key) for key in Job.__slots__}, "id": f"{name}/{side}"}
        jobs.append(Job(**{**values, "after": first.id}))
    return jobs


def judge(case: Case, outcomes: dict[str, dict[str, Any]], target: str) -> None:
    """Set a row's verdict, and its peers', from the outcomes of its traces."""
    row, first = case.row, outcomes[f"{case.row.name}/original"]
    row.target = target
    assert case.result is not None
    second = outcomes[f"{row.name}/packaged"]
    row.verdict, row.note = _verdict(first, second, row, target, case.result)
    row.imports = _imported(second)
    for peer, outcome in row.peers.items():
        other = outcomes.get(f"{row.name}/{peer}")
        if other is not None:
            verdict, note = _verdict(first, other, row, target, case.result)
            outcome["verdict"] = verdict
            outcome["imports"] = _imported(other)
            if verdict == "DIFFERS":
                outcome["note"] = note


def _imported(outcome: dict[str, Any]) -> bool:
    """Whether the file was imported alone: nothing failed, or not while it was imported."""
    if "error" not in outcome:
        return True
    return "trace" in outcome and "exec_module" not in outcome["trace"]


def _verdict(
    first: dict[str, Any], second: dict[str, Any], row: Row, target: str, result: PackageResult
) -> tuple[str, str]:
    if "error" in first and first["error"] == second.get("error") and first.get("modules"):
        # Traced alike up to what this machine lacks (bitcode of the device library): the IR is there.
        bare = [{key: value for key, value in side.items() if key != "error"} for side in (first, second)]
        if compare(bare[0], bare[1], row.name, target, result).status.value == "passed":
            return "IR equal", first["error"][:300]
    if "error" not in first and second.get("late"):
        return "no answer in time", second["error"]
    stage = compare(first, second, row.name, target, result)
    if stage.status.value == "passed":
        return ("identical" if stage.data.get("objects_equal") else "IR equal"), ""
    if stage.status.value == "error":
        return FAILS, first.get("error", stage.message)[:200]
    return "DIFFERS", stage.message[:300]


def run_round(
    cases: list[Case], target: str, checkout: Path, scratch: Path, options: argparse.Namespace
) -> list[Case]:
    """Trace cases for one target in one warm process, reporting each; return those that do not compile."""
    waiting = {case.row.name: case for case in cases}
    outcomes: dict[str, dict[str, Any]] = {}
    jobs = [job for case in cases for job in jobs_of(case, checkout, scratch, options.timeout)]
    last = {job.id.rpartition("/")[0]: job.id for job in jobs}
    failed: list[Case] = []

    def seen(outcome: dict[str, Any]) -> None:
        outcomes[outcome["id"]] = outcome
        name = outcome["id"].rpartition("/")[0]
        if last[name] != outcome["id"]:
            return
        case = waiting[name]
        judge(case, outcomes, target)
        if case.row.verdict == FAILS and target != targets_of(name)[-1]:
            failed.append(case)
        else:
            finish(case.row, options.results)

    trace(jobs, target, scratch / target, options.python, seen)
    return failed


def finish(row: Row, results: Path | None) -> None:
    """Print a row, and write it down."""
    peers = "".join(
        f" {name}:{peer.get('verdict') or peer.get('note', 'no file')[:40]}"
        for name, peer in row.peers.items()
    )
    print(
        f"{row.name:72} {row.target:8} packaged={row.packaged!s:5} imports={row.imports!s:5} "
        f"{row.verdict:21} {row.bytes_in:>8,} -> {row.bytes_out:>8,} {row.seconds:5.2f} s{peers}  {row.note}",
        flush=True,
    )
    if results is not None:
        values = asdict(row)
        for peer in values["peers"].values():
            peer.pop("text", None)
        with results.open("a") as stream:
            stream.write(json.dumps(values) + "\n")


def main() -> int:
    """Run the comparison; exit 1 when anything that compiles is not packaged identically."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flydsl", type=Path, required=True, help="a checkout of FlyDSL")
    parser.add_argument("--only", action="append", default=[], help="only builders whose name contains this")
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter that has the matching FlyDSL"
    )
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for each trace")
    parser.add_argument("--peers", type=Path, help="the folder of the peers' commands")
    parser.add_argument("--peer", action="append", choices=[peer.name for peer in PEERS], help="default: all")
    parser.add_argument("--results", type=Path, help="write rows there, and go on from it")
    parser.add_argument("--no-trace", action="store_true", help="only package: sizes and times")
    options = parser.parse_args()
    checkout = options.flydsl.resolve()
    scratch = Path(tempfile.mkdtemp(prefix="packager-flydsl-"))
    rows = _done(options.results)
    peers = [peer for peer in PEERS if options.peers and (not options.peer or peer.name in options.peer)]
    peers = [OURS, *peers] if peers else []
    beside = workspace(scratch / "peers", checkout) if peers else scratch
    cases = []
    for module, node, jit in builders(checkout):
        name = name_of(module, node)
        if name in rows or (options.only and not any(text in name for text in options.only)):
            continue
        rows[name] = Row(name)
        case = Case(rows[name], module, node, jit, scratch / "entries" / str(len(rows)))
        cases.append(case)
        _package(case, peers, checkout, beside, options)
    for target in ["gfx950", "gfx942", "gfx1250", "gfx1201", "gfx1100"]:
        mine = [case for case in cases if case.result is not None and target in targets_of(case.row.name)]
        mine = [case for case in mine if case.row.verdict in ("", FAILS)]
        if mine and not options.no_trace:
            run_round(mine, target, checkout, scratch, options)
    summary(list(rows.values()))
    shutil.rmtree(scratch, ignore_errors=True)
    return int(any(not row.packaged or row.verdict == "DIFFERS" for row in rows.values()))


def _package(
    case: Case, peers: list[Peer], checkout: Path, beside: Path, options: argparse.Namespace
) -> None:
    entry = package_case(case, checkout)
    for peer in peers:
        case.row.peers[peer.name] = run_peer(peer, options.peers, entry, beside)
    if case.result is None or options.no_trace:
        finish(case.row, options.results)


def _done(results: Path | None) -> dict[str, Row]:
    if results is None or not results.exists():
        return {}
    found = [Row(**json.loads(line)) for line in results.read_text().splitlines()]
    return {row.name: row for row in found}


def _as_processes(name: str, both: list[tuple[Row, dict[str, Any]]]) -> None:
    """Print how our process's CPU time compares with a peer's, over the entries that both can do."""
    pairs = [
        (row.peers[OURS.name]["seconds"], peer["seconds"])
        for row, peer in both
        if row.peers.get(OURS.name, {}).get("bytes")
    ]
    if pairs:
        ratios = sorted(ours / theirs for ours, theirs in pairs)
        total = sum(ours for ours, _ in pairs) / sum(theirs for _, theirs in pairs)
        above = sum(ratio > 3 for ratio in ratios)
        print(
            f"  as processes: {total:.2f} times {name} over {len(pairs)} entries; median "
            f"{statistics.median(ratios):.2f}, at most {ratios[-1]:.2f}, over 3 in {above}"
        )


def summary(rows: list[Row]) -> None:
    """Print the sums, for the packager and for each peer."""
    compiled = [row for row in rows if row.verdict not in (FAILS, "", "no answer in time")]
    packaged = [row for row in rows if row.packaged]
    same = [row for row in compiled if row.verdict == "identical"]
    seconds = [row.seconds for row in rows] or [0.0]
    print(
        f"\n{len(rows)} builders; packaged {len(packaged)}; {len(compiled)} compile here, of these "
        f"{sum(row.imports for row in compiled)} import alone, {len(same)} identical; "
        f"{sum(row.bytes_in for row in packaged):,} bytes in, {sum(row.bytes_out for row in packaged):,} "
        f"out; {sum(seconds):.1f} s of CPU, slowest {max(seconds):.2f}"
    )
    for name in dict.fromkeys(name for row in rows for name in row.peers):
        mine = [(row, row.peers[name]) for row in rows if name in row.peers]
        both = [(row, peer) for row, peer in mine if peer.get("bytes") and row.packaged]
        print(
            f"{name}: wrote {len(both)} of {len(mine)}; of the {len(compiled)} that compile "
            f"{sum(bool(peer.get('imports')) for row, peer in mine if row in compiled)} import alone, "
            f"{sum(peer.get('verdict') == 'identical' for _, peer in mine)} identical; "
            f"{sum(peer['bytes'] for _, peer in both):,} bytes where we write "
            f"{sum(row.bytes_out for row, _ in both):,}; {sum(peer['seconds'] for _, peer in both):.2f} s of "
            f"CPU where we take {sum(row.seconds for row, _ in both):.2f}"
        )
        if name != OURS.name:
            _as_processes(name, both)
    found = importlib.util.find_spec("flydsl")
    print(f"FlyDSL: {found.origin if found else 'not installed'}")


if __name__ == "__main__":
    sys.exit(main())

"""The same fleet on Ray: a private one, and a cluster of two nodes of which one is killed in the middle."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from fleet_cases import ADD, KILLS_ITS_JUDGE, QUICK, WRONG_SECOND, write_candidate, write_task

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed (pip install 'kernel-lint[fleet]')"
)
# Tells of each time that it is imported; a reference is trusted, and the candidate's name is all it needs.
COUNTING = (
    """import os

_log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
os.write(_log, b"%d\\n" % os.getpid())
os.close(_log)
"""
    + ADD
)


def environment(address: str | None, folder: Path) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    variables.update(RAY_TMPDIR=str(folder), RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", OMP_NUM_THREADS="1")
    return {**variables, **({"RAY_ADDRESS": address} if address else {})}


def command(folder: Path, *arguments: str) -> list[str]:
    return [
        *(sys.executable, "-m", "kernel_lint", "verify", *QUICK, "--task", str(folder / "task")),
        *("--state-dir", str(folder / "state"), "--executor", "ray", "--output-format", "json"),
        *(*arguments, *map(str, sorted(folder.glob("c*")))),
    ]


@pytest.fixture
def short() -> Iterator[Path]:
    """Give a folder whose name leaves room for the names of sockets, and check that nothing stays behind."""
    folder = Path(tempfile.mkdtemp(prefix="klr-", dir="/tmp"))
    yield folder
    left = [p for p in psutil.process_iter(["cmdline"]) if str(folder) in " ".join(p.info["cmdline"] or ())]
    _, alive = psutil.wait_procs(left, timeout=20)
    for process in alive:
        process.kill()
    shutil.rmtree(folder, ignore_errors=True)
    assert not alive, "processes of Ray outlived the test"


class Cluster:
    """The process of :mod:`cluster`."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("cluster.py")), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(None, folder),
        )
        self.address = self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill_node(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("kill\n")
        self._process.stdin.flush()
        assert self._line() == "killed"

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture
def cluster(short: Path) -> Iterator[Cluster]:
    started = Cluster(short)
    try:
        assert started.address.startswith("127.0.0.1:")
        yield started
    finally:
        started.close()


class Run:
    """A driver on the cluster, and what it said so far."""

    def __init__(self, folder: Path, environment: dict[str, str], *arguments: str) -> None:
        self._state = folder / "state"
        self.process = subprocess.Popen(
            command(folder, *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.text = ""

    def until(self, tasks: int, nodes: int = 0) -> None:
        """Read until so many tasks are finished, by workers of so many nodes."""
        assert self.process.stderr is not None
        while len(self.finished()) < tasks or len(self.places()) < nodes:
            line = self.process.stderr.readline()
            assert line, self.text
            self.text += line

    def finish(self) -> dict[str, Any]:
        """Wait for the end and return the report."""
        out, err = self.process.communicate(timeout=240)
        self.text += err
        assert self.process.returncode == 1, self.text
        report: dict[str, Any] = json.loads(out)
        return report

    def finished(self) -> list[str]:
        """Return the tasks that it told to be finished."""
        return re.findall(r"^  \[\d+/24\] (\S+ \S+)  ", self.text, re.MULTILINE)

    def journal(self) -> list[dict[str, Any]]:
        """Return the lines of the journal, whole ones."""
        lines = [
            line for path in self._state.glob("fleet-*.jsonl") for line in path.read_text().split("\n")[1:-1]
        ]
        return [json.loads(line) for line in lines]

    def places(self) -> set[str]:
        """Return the workers that judged, by what the journal says."""
        return {entry["place"] for entry in self.journal()}


def test_a_driver_and_then_a_node_are_killed_in_the_middle(
    tmp_path: Path, short: Path, cluster: Cluster
) -> None:
    """Nothing is lost, nothing is judged twice, and the verdicts are right."""
    log = tmp_path / "imports"
    write_task(tmp_path / "task", COUNTING.format(log=str(log)))
    for number in range(8):
        write_candidate(tmp_path / f"c{number}", (WRONG_SECOND if number == 3 else ADD) + f"# {number}\n")
    first = Run(tmp_path, environment(cluster.address, short))
    first.until(tasks=3)
    first.process.kill()
    first.process.communicate()
    kept = first.journal()
    assert len({entry["key"] for entry in kept}) == len(kept) >= 3

    second = Run(tmp_path, environment(cluster.address, short), "--resume")
    before = first.places()
    second.until(tasks=2)
    while len(second.places() - before) < 2:
        second.until(tasks=len(second.finished()) + 1)
    assert len(second.finished()) < 24 - len(kept) - 2, "nothing was left to do"
    cluster.kill_node()
    report = second.finish()
    assert report["counts"] == {"FAIL": 1, "PASS": 7}
    assert report["candidates"][3]["reason"] == "VALUE"
    # The driver learns from broken connections that a node is lost; the cluster takes longer to say so.
    assert report["executor"] in (
        "ray: 1 worker of 1 Ray node (1 node lost on the way)",
        "ray: 2 workers of 2 Ray nodes",
    )
    assert report["tasks"]["resumed"] == len(kept)
    assert (
        report["tasks"]["judged"] == len(second.finished()) == len(set(second.finished())) == 24 - len(kept)
    )
    assert not set(first.finished()) & set(second.finished()), "a task was judged twice"
    # What was in hand when the driver died (two at most) and when the node died (one) was begun again.
    assert 24 <= len(log.read_text().splitlines()) <= 27
    assert list((tmp_path / "state").iterdir()) == []


def test_who_kills_the_judge_fails_and_nobody_else(tmp_path: Path, short: Path) -> None:
    """A private Ray: the candidate's doing is a verdict, found after Ray's own retries."""
    write_task(tmp_path / "task")
    write_candidate(tmp_path / "c0", KILLS_ITS_JUDGE)
    write_candidate(tmp_path / "c1")
    run = subprocess.run(
        command(tmp_path, "--no-isolate", "--jobs", "1"), capture_output=True, text=True, timeout=300,
        env=environment(None, short), check=False,
    )  # fmt: skip
    report = json.loads(run.stdout)
    assert run.returncode == 1, run.stderr
    assert [each["verdict"] for each in report["candidates"]] == ["FAIL", "PASS"]
    assert report["candidates"][0]["reason"] == "CRASH"
    assert "(shape second)" in report["candidates"][0]["headline"]
    assert report["tasks"]["judged"] == 6


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense"])
def test_a_cluster_that_is_not_there(tmp_path: Path, short: Path, address: str) -> None:
    write_task(tmp_path / "task")
    write_candidate(tmp_path / "c0")
    run = subprocess.run(
        command(tmp_path), capture_output=True, text=True, timeout=120,
        env=environment(address, short), check=False,
    )  # fmt: skip
    assert run.returncode == 2, run.stderr
    assert f"the Ray cluster at RAY_ADDRESS={address} cannot be reached" in run.stderr
    assert "Traceback" not in run.stderr

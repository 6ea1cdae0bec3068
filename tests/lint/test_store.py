"""The folder behind the cache: several runs at once, a killed one, a full disk, too many entries."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernel_lint.store import Store

_KEYS = 40
# Writes and reads the same entries as its siblings; an entry is its key, many times: a torn one shows.
_RUN = f"""
import sys
from kernel_lint.store import Store
store = Store(sys.argv[1])
for round in range(int(sys.argv[2])):
    for number in range({_KEYS}):
        key = f"{{number:02x}}" * 20
        store.write(key, key.encode() * (1 + round % 3 * 500))
        found = store.read(key)
        assert found and not found.replace(key.encode(), b""), "torn"
"""


def _start(folder: Path, rounds: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _RUN, str(folder), str(rounds)],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_runs_share_a_folder_and_one_is_killed(tmp_path: Path) -> None:
    victim = _start(tmp_path, 100_000)
    runs = [_start(tmp_path, 30) for _ in range(4)]
    while not _files(tmp_path):
        time.sleep(0.01)
    time.sleep(0.1)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    for run in runs:
        _, said = run.communicate()
        assert run.returncode == 0, said.decode()
    store = Store(str(tmp_path))
    for number in range(_KEYS):
        key = f"{number:02x}" * 20
        found = store.read(key)
        assert found is not None
        assert not found.replace(key.encode(), b"")
    # The killed run may have left the one file that it was writing.
    assert len([path for path in _files(tmp_path) if path.name.startswith(".")]) <= 1


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    code = """
import resource, signal, sys
from kernel_lint.store import Store
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
store = Store(sys.argv[1])
store.write("ab" * 20, b"x" * 5000)
assert store.read("ab" * 20) is None
store.write("cd" * 20, b"x" * 500)
assert store.read("cd" * 20) == b"x" * 500
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert [path.name for path in _files(tmp_path)] == ["cd" * 20]


def test_an_entry_that_cannot_be_put_in_its_place_leaves_nothing(tmp_path: Path) -> None:
    key = "ef" * 20
    (tmp_path / "ef" / key).mkdir(parents=True)
    Store(str(tmp_path)).write(key, b"x")
    assert _files(tmp_path) == []


@pytest.mark.parametrize("place", ["file", "file/below", "missing/\0"])
def test_a_folder_that_cannot_be_is_no_error(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = Store(str(tmp_path / place))
    store.write("ab" * 20, b"x")
    store.prune()
    assert store.read("ab" * 20) is None


def test_what_goes_away_while_it_is_pruned_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(str(tmp_path))
    for number in range(20):
        store.write(f"{number:02x}" * 20, b"x")
    monkeypatch.setattr("kernel_lint.store.MAX_ENTRIES", 10)
    unlink, gone = os.unlink, []

    def race(path: str) -> None:
        if not gone:
            gone.append(path)
            unlink(path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", race)
    store.prune()
    assert gone
    assert len(_files(tmp_path)) == 5

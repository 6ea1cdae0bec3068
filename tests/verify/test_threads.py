"""Threads that go on after a call: found, with the place of their start; others are nobody's fault."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from verify_tasks import ADD_ONE, judge

from kernel_lint.diagnostics import Reason
from kernel_lint.verify import Verdict

_TOP = "import _thread, threading, time\nfrom concurrent.futures import ThreadPoolExecutor\nimport torch\n"
_SLEEP = "\ndef sleep():\n    time.sleep(60)\n\n\n"


def _candidate(forward: str, top: str = "", init: str = "pass") -> str:
    lines = "".join(f"        {line}\n" for line in forward.splitlines())
    return (
        f"{_TOP}{top}{_SLEEP}class Model(torch.nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n        {init}\n\n    def forward(self, a, b):\n"
        f"{lines}        return a + b\n"
    )


@pytest.mark.parametrize(
    ("source", "name", "place"),
    [
        (_candidate("threading.Thread(target=sleep).start()"), "Thread-1 (sleep)", "at line 15 in forward"),
        (
            _candidate("threading.Thread(target=sleep, name='bg', daemon=True).start()"),
            "bg",
            "at line 15 in forward",
        ),
        (_candidate("threading.Timer(60, sleep).start()"), "Thread-1", "at line 15 in forward"),
        (_candidate("_thread.start_new_thread(sleep, ())"), "sleep", "at line 15 in forward"),
        (
            _candidate(
                "list(pool.map(abs, [1]))", top="pool = ThreadPoolExecutor(1, thread_name_prefix='pool')\n"
            ),
            "pool_0",
            "at line 16 in forward",
        ),
        (
            _candidate("pass", top="threading.Thread(target=time.sleep, args=(60,)).start()\n"),
            "",
            "at line 4",
        ),
        (
            _candidate("pass", init="threading.Thread(target=sleep).start()"),
            "Thread-1",
            "at line 12 in __init__",
        ),
        (
            _candidate("exec('import threading; threading.Thread(target=sleep).start()', {'sleep': sleep})"),
            "",
            "at line 15 in forward",
        ),
    ],
    ids=["thread", "daemon", "timer", "bare", "pool", "import", "construction", "exec"],
)
def test_a_thread_that_goes_on_is_reported(source: str, name: str, place: str, tmp_path: Path) -> None:
    report = judge(tmp_path, ADD_ONE, source)
    assert (report.verdict, report.reason) == (Verdict.FAIL, Reason.TAMPERING), report.headline
    assert f"left the thread '{name}" in report.headline
    assert f"started {place}, running when the call was over" in report.headline
    assert "join() the thread" in report.headline


def test_a_daemon_thread_of_the_import_is_told_and_no_more(tmp_path: Path) -> None:
    """It may wait for ever without a hand in any call, and ends with the process."""
    top = "threading.Thread(target=time.sleep, args=(60,), daemon=True, name='bg').start()\n"
    report = judge(tmp_path, ADD_ONE, _candidate("pass", top=top))
    assert report.verdict is Verdict.PASS, report.headline
    [stage] = [stage for stage in report.stages if stage.stage == "integrity"]
    assert "; left the daemon thread 'bg', started at line 4, running all the time" in stage.message
    assert stage.message.count("daemon") == len([note for note in stage.data["notes"] if "bg" in note]) == 1


def test_one_place_is_one_finding_however_many_threads_it_starts(tmp_path: Path) -> None:
    source = _candidate("for _ in range(3):\n    threading.Thread(target=sleep).start()")
    report = judge(tmp_path, ADD_ONE, source)
    [stage] = [stage for stage in report.stages if stage.stage == "integrity"]
    assert len(stage.data["findings"]) == 1


@pytest.mark.parametrize(
    "forward",
    [
        "worker = threading.Thread(target=time.sleep, args=(0.01,))\nworker.start()\nworker.join()",
        "with ThreadPoolExecutor(2) as pool:\n    assert sum(pool.map(abs, [1, -2])) == 3",
        "done = threading.Event()\ndef work():\n    done.set()\n    time.sleep(0.02)\n"
        "threading.Thread(target=work).start()\ndone.wait()",
        "ThreadPoolExecutor(1).submit(abs, 1).result()",
    ],
    ids=["joined", "pool in a with", "about to end", "pool let go of"],
)
def test_a_thread_that_has_ended_is_none_of_these(forward: str, tmp_path: Path) -> None:
    report = judge(tmp_path, ADD_ONE, _candidate(forward))
    assert report.verdict is Verdict.PASS, report.headline


def test_native_threads_of_torch_do_not_count(tmp_path: Path) -> None:
    source = _candidate(
        "torch.set_num_threads(4)\ntorch.ones(512, 512) @ torch.ones(512, 512)\n"
        "x = torch.ones(9, requires_grad=True)\n"
        "with torch.enable_grad():\n    (x * 2).sum().backward()"
    )
    report = judge(tmp_path, ADD_ONE, source)
    assert report.verdict is Verdict.PASS, report.headline


_PROBE = """
import json, sys
from pathlib import Path
from kernel_lint.verify import audit
home, library = map(Path, sys.argv[1:])
sys.path.insert(0, str(library))
log = audit.install(home, (), (), (library, Path(sys.base_prefix), Path(sys.prefix)))
exec(compile(home.read_text(), str(home), "exec"), {"__name__": "generated_kernel"})
print(json.dumps(log.threads.left()), flush=True)
import os
os._exit(0)
"""


@pytest.mark.parametrize(("own", "count"), [(False, 0), (True, 1)])
def test_a_librarys_threads_are_its_own(own: bool, count: int, tmp_path: Path) -> None:
    """A library keeps a pool when the candidate calls it; the candidate's own in the same call counts."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "helper.py").write_text(
        "import concurrent.futures, threading, time\npool = concurrent.futures.ThreadPoolExecutor(1)\n"
        "def use():\n    pool.submit(abs, 1).result()\n"
        "    threading.Thread(target=time.sleep, args=(60,)).start()\n"
    )
    source = "import helper, threading, time\nhelper.use()\n"
    source += "threading.Thread(target=time.sleep, args=(60,)).start()\n" if own else ""
    (tmp_path / "candidate.py").write_text(source)
    run = subprocess.run(
        [sys.executable, "-c", _PROBE, str(tmp_path / "candidate.py"), str(library)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert len(json.loads(run.stdout)) == count

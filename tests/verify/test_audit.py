"""Who is blamed for an event. The hook cannot be removed, so each question has its own process."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

_PROBE = """
import json, sys
from pathlib import Path
from kernel_lint.verify import audit
home, secret, library = map(Path, sys.argv[1:4])
libraries = (library, Path(sys.base_prefix), Path(sys.prefix))
log = audit.install(home / "candidate.py", (home,), (secret,), libraries)
code = compile((home / "candidate.py").read_text(), str(home / "candidate.py"), "exec")
try:
    exec(code, {"__name__": "generated_kernel", "SECRET": str(secret)})
except OSError:
    pass
records = [[reason.value, message] for reason, message in log.records]
print(json.dumps(records))
"""


def _records(tmp_path: Path, source: str) -> list[list[str]]:
    home, secret, library = (tmp_path / name for name in ("home", "secret", "library"))
    for folder in (home, secret, library):
        folder.mkdir()
    (secret / "reference.py").write_text("")
    (library / "helper.py").write_text("def read(path):\n    return open(path).read()\n")
    (home / "candidate.py").write_text(
        f"import sys\nsys.path.insert(0, {str(library)!r})\n" + textwrap.dedent(source)
    )
    run = subprocess.run(
        [sys.executable, "-c", _PROBE, str(home), str(secret), str(library)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    records: list[list[str]] = json.loads(run.stdout.splitlines()[-1])
    return records


@pytest.mark.parametrize(
    "source",
    [
        "import collections\nP = collections.namedtuple('P', 'a b')\nP(1, 2)",
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int = 0\nA()",
        "open(SECRET.replace('secret', 'home') + '/candidate.py').read()",
        "import warnings\nwarnings.simplefilter('ignore')\nwarnings.warn('x')",
        "import helper\nhelper.read('/etc/hostname')",
        "import json, decimal, fractions, logging\nlogging.getLogger('x').debug('y')",
        "import functools, inspect\ninspect.signature(functools.partial(print, 1))",
        "import gc\ngc.collect()",
        "import socket\nsocket.gethostname()",
    ],
)
def test_ordinary_code_is_not_blamed(tmp_path: Path, source: str) -> None:
    assert _records(tmp_path, source) == []


@pytest.mark.parametrize(
    ("source", "reason", "words"),
    [
        ("open('/etc/hostname')", "FILE_ACCESS", "/etc/hostname"),
        ("import pathlib\npathlib.Path('/etc/hostname').read_text()", "FILE_ACCESS", "/etc/hostname"),
        ("import os\nos.listdir('/')", "FILE_ACCESS", "os.listdir"),
        ("import helper\nhelper.read(SECRET + '/reference.py')", "FILE_ACCESS", "reference.py"),
        ("exec(\"open('/etc/hostname')\")", "FILE_ACCESS", "/etc/hostname"),
        ("import os\nos.kill(os.getpid(), 0)", "TAMPERING", "signal"),
        ("import sys\nsys._getframe()", "TAMPERING", "frames"),
        ("import gc\ngc.get_objects()", "TAMPERING", "garbage"),
        ("import sys\nsys.settrace(None)", "TAMPERING", "traced"),
        ("import os\nos.system('true')", "TAMPERING", "process"),
        ("import socket\nsocket.getaddrinfo('localhost', 1)", "FILE_ACCESS", "network"),
    ],
)
def test_what_the_candidate_does_is_recorded(tmp_path: Path, source: str, reason: str, words: str) -> None:
    records = _records(tmp_path, source)
    assert any(found == reason and words in message for found, message in records), records

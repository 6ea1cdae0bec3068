"""How the language server ends when its editor does."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("pygls")


def _message(method: str, **more: Any) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "method": method, **more}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def test_the_server_ends_without_a_word() -> None:
    talk = (
        _message("initialize", id=1, params={"processId": None, "rootUri": None, "capabilities": {}})
        + _message("initialized", params={})
        + _message("shutdown", id=2)
        + _message("exit")
    )
    done = subprocess.run(
        [sys.executable, "-m", "kernel_lint", "server"],
        input=talk,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert done.returncode == 0

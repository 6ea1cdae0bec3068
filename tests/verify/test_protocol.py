from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lint.diagnostics import Reason
from kernel_lint.verify.isolation import Limits
from kernel_lint.verify.protocol import Job, decode_reply, encode

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
_CLAIMS = ("observation", "aten", "tampering", "changed_inputs", "damage")


def test_a_job_survives_the_way() -> None:
    job = Job(
        "candidate",
        "/f",
        "/f/m.py",
        "torch",
        "cpu",
        "cpu",
        {"a": "b"},
        {"PATH": "/"},
        ("/x",),
        ("/y",),
        Limits(7),
    )
    assert Job.from_json(job.to_json()) == job


def test_a_reply_is_read() -> None:
    line = encode({"op": "run", "ok": False, "reason": "VALUE", "message": "m", "data": {"damage": ["d"]}})
    assert line.endswith(b"\n")
    reply = decode_reply(line, "run", 1.0)
    assert (reply.ok, reply.reason, reply.message, reply.data) == (
        False,
        Reason.VALUE,
        "m",
        {"damage": ["d"]},
    )


@pytest.mark.parametrize(
    "line",
    [
        b"PASS\n",
        b"null\n",
        b"[]\n",
        b'{"op": "other", "ok": true}\n',
        b'{"op": "run"}\n',
        b'{"op": "run", "ok": 1}\n',
        b'{"op": "run", "ok": false}\n',
        b'{"op": "run", "ok": false, "reason": "FINE"}\n',
        b'{"op": "run", "ok": true, "data": []}\n',
        b'{"op": "run", "ok": true, "data": {"tampering": [{"reason": "x"}]}}\n',
        b'{"op": "run", "ok": true, "data": {"observation": {"launch_count": -1}}}\n',
        b'{"op": "run", "ok": true, "data": {"aten": {"work": "1"}}}\n',
        b'{"op": "run", "ok": true, "data": {"aten": {"operators": {"mm": true}}}}\n',
        b'{"op": "run", "ok": true, "data": {"damage": [1]}}\n',
        b'{"op": "run", "ok": true, "data": {"observation": {"artifacts": [1]}}}\n',
        b"\xff\xfe\n",
    ],
)
def test_what_is_no_reply_is_refused(line: bytes) -> None:
    with pytest.raises((ValueError, TypeError)):
        decode_reply(line, "run", 0.0)


@given(st.dictionaries(st.sampled_from(_CLAIMS), _JSON, max_size=3))
def test_claims_are_read_or_refused_but_never_break_the_judge(data: dict[str, Any]) -> None:
    line = json.dumps({"op": "run", "ok": True, "data": data}).encode()
    try:
        decode_reply(line, "run", 0.0)
    except (ValueError, TypeError, AttributeError):
        return
    for name in ("tampering", "changed_inputs", "damage"):
        assert isinstance(data.get(name) or [], list)

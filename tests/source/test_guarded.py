"""What depends on itself is worked out in good time, and not for ever."""

from __future__ import annotations

import time

import pytest

from kernel_lint import engine
from kernel_lint.config import Settings
from kernel_lint.rules._samples import candidate
from kernel_lint.source import SourceModule


def _codes(text: str) -> set[str]:
    module = SourceModule.from_text(text, "generated_kernel.py")
    return {finding.code for finding in engine.check_module(module, Settings())}


def test_functions_that_all_call_each_other() -> None:
    names = [f"_f{n}" for n in range(40)]
    steps = "".join(f"    t = {name}(t, u)\n    u = {name}(u, t)\n" for name in names)
    top = "".join(f"def {name}(t, u):\n{steps}    return u\n\n" for name in names)
    began = time.process_time()
    assert "KL202" not in _codes(candidate(top=top, before="_f0(x, y)"))
    assert time.process_time() - began < 30


@pytest.mark.parametrize(
    "top",
    [
        "def _pair(t):\n    a, b = _pair(t)\n    return _pair(t)\n\n",
        "def _pair(t):\n    a, b = _other(t)\n    return _other(t)\n\n"
        "def _other(t):\n    return _pair(t)\n\n",
    ],
)
def test_functions_that_return_themselves(top: str) -> None:
    assert "KL203" not in _codes(candidate(top=top, before="a, b = _pair(x)\nn = a.numel()"))


def test_a_number_as_a_key() -> None:
    text = candidate(imports="import operator\n", before="n = operator.itemgetter(0)(x.shape)")
    assert "KL203" not in _codes(text)

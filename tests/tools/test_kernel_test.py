"""test_kernel.py: cases, their limits, and the line that says what came out.

The kernels here are plain torch modules under the verify engine's ``torch`` backend, so that these tests
need no FlyDSL; the walkthrough runs real ones.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from workbench_schemas import conforms

from kernel_lint.errors import KernelLintError
from kernel_lint.tools import kernel_cases, kernel_test, workspace
from kernel_lint.tools.memory_store import MemoryStore

REFERENCE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2 + 1
"""
INPUTS = """
import torch


def _make_inputs(n):
    return {"x": torch.randn(n, 8, dtype=torch.bfloat16)}
"""
SHAPES = {
    name: {"init_kwargs": {}, "input_kwargs": {"n": n}} for name, n in (("one", 1), ("two", 2), ("seven", 7))
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    (source / "reference.py").write_text(REFERENCE)
    (source / "input.py").write_text(INPUTS)
    (source / "shapes.json").write_text(json.dumps(SHAPES))
    workspace.create(source / "w", source / "reference.py", "mi300x")
    (source / "w/kernel.py").write_text(REFERENCE)
    return source / "w"


@pytest.fixture
def folder(tmp_path: Path, template: Path) -> Path:
    shutil.copytree(template, tmp_path / "w")
    return tmp_path / "w"


def run(folder: Path, *arguments: str, limit: str = "120") -> tuple[int, dict[str, object], str]:
    command = [sys.executable, "test_kernel.py", "--version", "v0", "--backend", "torch", *arguments]
    environment = {**os.environ, "TEST_TIMEOUT_SEC": limit, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    result = kernel_test.parse_result(done.stdout)
    assert done.stdout.splitlines()[-1].startswith("[test_kernel] RESULT_JSON={")
    conforms("test-kernel", result)
    return done.returncode, result, done.stdout


def statuses(result: dict[str, object]) -> dict[str, str]:
    cases = result["cases"]
    assert isinstance(cases, list)
    return {case["name"]: case["status"] for case in cases}


@pytest.mark.slow
def test_a_right_kernel_passes(folder: Path) -> None:
    code, result, _ = run(folder, "--no-memory", "--shape", "two")
    assert (code, result["passed"]) == (0, True)
    assert statuses(result) == {"two": "PASS", "two/variants": "PASS"}
    assert result["max_rel_err"] == 0.0
    assert result["threshold"] == 0.01
    assert result["performance"] is None
    assert not list((folder / "memory").glob("v*.json"))


@pytest.mark.slow
def test_a_wrong_shape_fails_and_the_rest_go_on(folder: Path) -> None:
    kernel = REFERENCE.replace("return x * 2 + 1", "return x * 2 + (1 if x.shape[0] < 7 else 1.5)")
    (folder / "kernel.py").write_text(kernel)
    code, result, output = run(folder, "--no-memory")
    assert (code, result["passed"]) == (1, False)
    found = statuses(result)
    assert {name for name, status in found.items() if status == "FAIL"} == {"seven", "seven/variants"}
    assert "rel_err" in output


@pytest.mark.slow
def test_a_hanging_case_is_ended_and_the_rest_go_on(folder: Path) -> None:
    hang = (
        "if x.shape[0] == 2:\n            import os, signal, time\n"
        "            signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "            while True: time.sleep(1)\n        return x * 2 + 1"
    )
    (folder / "kernel.py").write_text(REFERENCE.replace("return x * 2 + 1", hang))
    started = time.monotonic()
    code, result, _ = run(folder, "--no-memory", limit="20")
    assert code == 1
    found = statuses(result)
    assert {name for name, status in found.items() if status == "TIMEOUT_FAIL"} == {"two", "two/variants"}
    assert result["timeouts"] == ["two", "two/variants"]
    assert {found[name] for name in ("one", "seven", "one/variants", "seven/variants")} == {"PASS"}
    assert time.monotonic() - started < 300


@pytest.mark.slow
def test_further_seeds(folder: Path) -> None:
    _, result, _ = run(folder, "--no-memory", "--multi-seed", "2", "--shape", "one", "--seed", "5")
    assert statuses(result) == {"one/seed 6": "PASS", "one/seed 7": "PASS"}
    assert result["seeds"] == [6, 7]


@pytest.mark.slow
def test_the_memory_is_written(folder: Path) -> None:
    run(folder, "--shape", "one")
    memory = MemoryStore(folder).read("v0")
    assert memory["correctness"]["status"] == "passed"
    assert [case["case"] for case in memory["correctness"]["cases"]] == ["one", "one/variants"]
    assert memory["performance"]["latency_us"] is None
    assert memory["platform"] == "MI300X"


def test_local_modules_are_packaged(folder: Path) -> None:
    (folder / "helper.py").write_text("def twice(x):\n    return x * 2\n")
    kernel = REFERENCE.replace("import torch\n", "import torch\nfrom helper import twice\n", 1)
    (folder / "kernel.py").write_text(kernel.replace("x * 2", "twice(x)"))
    text, origin = kernel_test.candidate_source(folder)
    assert "import twice" not in text
    assert "def twice" in text
    assert "packaged" in origin


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import torch", []),
        ("import ops.common", ["ops"]),
        ("from helper import x", ["helper"]),
        ("def f():\n    import helper", ["helper"]),
        ("from . import x", ["."]),
        ("not python", []),
    ],
)
def test_local_modules(tmp_path: Path, source: str, found: list[str]) -> None:
    (tmp_path / "helper.py").touch()
    (tmp_path / "ops").mkdir()
    assert kernel_test.local_modules(tmp_path, source) == found


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon", ""])
def test_a_bad_limit_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TIMEOUT_SEC", text)
    with pytest.raises(KernelLintError, match="TEST_TIMEOUT_SEC"):
        kernel_test.time_limit()


def test_the_default_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_TIMEOUT_SEC", raising=False)
    assert kernel_test.time_limit() == 30


@pytest.mark.parametrize(
    ("output", "said"), [("", "0 RESULT_JSON"), ("[test_kernel] RESULT_JSON={}\n" * 2, "2 RESULT_JSON")]
)
def test_there_is_one_result_line(output: str, said: str) -> None:
    with pytest.raises(KernelLintError, match=said):
        kernel_test.parse_result(output)


@pytest.mark.parametrize("arguments", [["--shape", "nope"], ["--backend", "nope"], ["--multi-seed", "-1"]])
def test_usage_errors(folder: Path, arguments: list[str]) -> None:
    command = [sys.executable, "test_kernel.py", "--version", "v0", "--no-memory", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr


@pytest.mark.parametrize(
    ("gpu", "vendor", "backend"),
    [
        ("H200", "NVIDIA", "device"),
        ("MI300X", "AMD", "device"),
        ("MI300X", None, "emulate"),
        ("MI355X", "NVIDIA", "emulate"),
    ],
)
def test_the_backend_is_chosen_by_what_is_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch, gpu: str, vendor: str | None, backend: str
) -> None:
    monkeypatch.setattr(kernel_test, "_device_vendor", lambda: vendor)
    made = workspace.Workspace(folder, workspace.get_gpu(gpu), ())
    assert kernel_test.choose_backend(made, None)[0] == backend


@pytest.mark.parametrize("vendor", [None, "AMD"])
def test_cutedsl_needs_an_nvidia_gpu(
    folder: Path, monkeypatch: pytest.MonkeyPatch, vendor: str | None
) -> None:
    monkeypatch.setattr(kernel_test, "_device_vendor", lambda: vendor)
    hopper = workspace.Workspace(folder, workspace.get_gpu("H200"), ())
    with pytest.raises(KernelLintError, match="CuteDSL kernels run only on an NVIDIA GPU"):
        kernel_test.choose_backend(hopper, None)


def report(verdict: str, *stages: tuple[str, str, str | None, dict[str, object]]) -> dict[str, object]:
    listed = [
        {"stage": name, "status": status, "reason": reason, "message": "m", "shape": "s", "data": data}
        for name, status, reason, data in stages
    ]
    return {"verdict": verdict, "stages": listed, "headline": "h"}


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (report("PASS", ("correctness", "passed", None, {})), "PASS"),
        (report("COMPILED", ("compile", "passed", None, {})), "ERROR"),
        (report("FAIL", ("correctness", "failed", "VALUE", {})), "FAIL"),
        (report("FAIL", ("correctness", "failed", "TIMEOUT", {})), "TIMEOUT_FAIL"),
        (report("ERROR", ("compile", "error", "ENV_ERROR", {})), "ERROR"),
    ],
)
def test_what_a_report_means(found: dict[str, object], status: str) -> None:
    assert kernel_cases.interpret(kernel_cases.Case("s", "s", 0), found, 1.0).status == status


def test_the_output_nearest_to_its_limit_is_reported() -> None:
    leaves = [{"rel_err": 0.009, "rel_err_threshold": 0.01}, {"rel_err": 0.05, "rel_err_threshold": 0.1}]
    found = report("PASS", ("correctness", "passed", None, {"cases": [{"leaves": leaves}]}))
    result = kernel_cases.interpret(kernel_cases.Case("s", "s", 0), found, 1.0)
    assert (result.rel_err, result.threshold, result.checks) == (0.009, 0.01, 1)

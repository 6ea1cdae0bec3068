"""The compile backend: real code objects for two targets, with and without a linker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from flydsl_candidate import DOUBLE, SOURCE
from verify_tasks import judge

from kernel_lint.diagnostics import Reason, StageStatus
from kernel_lint.verify import Verdict, VerifyReport
from kernel_lint.verify.backends import compile as compile_backend

pytestmark = pytest.mark.flydsl
_OPTIONS = {"backend": "compile", "require_launch": True}


def _kernels(report: VerifyReport) -> list[dict[str, object]]:
    return [kernel for result in report.stages for kernel in result.data.get("kernels", [])]


def test_every_shape_and_target_gets_registers_and_a_code_object(tmp_path: Path) -> None:
    report = judge(tmp_path, DOUBLE, SOURCE, **_OPTIONS)
    assert (report.verdict, report.exit_code) == (Verdict.COMPILED, 0), report.headline
    compiled = [(r.shape, r.target, r.status) for r in report.stages if r.stage == "compile"]
    good = StageStatus.PASSED
    assert compiled == [(s, t, good) for t in ("gfx942", "gfx950") for s in ("even", "tail")]
    for kernel in _kernels(report):
        assert kernel["kernel"] == "double_0"
        assert isinstance(kernel["vgprs"], int)
        assert 0 < kernel["vgprs"] <= 64
        assert (kernel["vgpr_spills"], kernel["sgpr_spills"], kernel["lds_bytes"]) == (0, 0, 0)
        assert len(str(kernel["code_sha256"])) == 64


def test_the_other_stages_say_unmeasured_and_why(tmp_path: Path) -> None:
    report = judge(tmp_path, DOUBLE, SOURCE, **_OPTIONS, targets=("gfx942",), shapes=("even",))
    rest = {r.stage: r for r in report.stages if r.stage in ("correctness", "integrity", "performance")}
    assert len(rest) == 3
    for result in rest.values():
        assert (result.status, result.reason) == (StageStatus.SKIPPED, Reason.UNMEASURED)
        assert "runs nothing" in result.message
    assert report.passed is False


def test_without_a_linker_it_stops_at_assembly_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_backend, "linker", lambda: None)
    report = judge(tmp_path, DOUBLE, SOURCE, **_OPTIONS, targets=("gfx942",), shapes=("even",))
    assert report.verdict is Verdict.COMPILED, report.headline
    [kernel] = _kernels(report)
    assert isinstance(kernel["vgprs"], int)
    assert kernel["code_sha256"] is None
    assert "as far as assembly" in report.description
    assert "no linker for AMD GPU code objects" in report.notes[0]


def test_a_broken_kernel_is_a_compile_error_at_its_line(tmp_path: Path) -> None:
    broken = SOURCE.replace("held.load() * 2.0", "held.load() * undefined_name")
    report = judge(tmp_path, DOUBLE, broken, **_OPTIONS, targets=("gfx942",), shapes=("even",))
    assert (report.verdict, report.reason) == (Verdict.FAIL, Reason.COMPILE_ERROR)
    assert "undefined_name" in report.headline


def test_an_abort_inside_llvm_does_not_end_the_judge(tmp_path: Path) -> None:
    aborting = SOURCE.replace("launch(x, out", "__import__('os').abort()\n        launch(x, out")
    report = judge(tmp_path, DOUBLE, aborting, **_OPTIONS, targets=("gfx942",))
    assert (report.verdict, report.reason) == (Verdict.FAIL, Reason.CRASH)
    assert "SIGABRT" in report.headline


def test_torch_alone_launches_nothing(tmp_path: Path) -> None:
    plain = (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n"
    )
    report = judge(tmp_path, DOUBLE, plain, **_OPTIONS, targets=("gfx942",))
    assert (report.verdict, report.reason) == (Verdict.FAIL, Reason.NO_LAUNCH)


def test_compiling_ahead_of_the_call_is_understood(tmp_path: Path) -> None:
    ahead = SOURCE.replace(
        "launch(x, out, x.numel(), (x.numel() + 63) // 64, stream)",
        "arguments = (x, out, x.numel(), (x.numel() + 63) // 64, stream)\n"
        "        flyc.compile(launch, *arguments)(*arguments)",
    )
    report = judge(tmp_path, DOUBLE, ahead, **_OPTIONS, targets=("gfx942",), shapes=("even",))
    assert report.verdict is Verdict.COMPILED, report.headline
    assert json.dumps(report.to_json())


def test_emulated_it_passes_with_its_launches_counted(tmp_path: Path) -> None:
    pytest.importorskip("kernel_lint.verify.backends.emulate")
    report = judge(tmp_path, DOUBLE, SOURCE, backend="emulate", require_launch=True)
    assert report.verdict is Verdict.PASS, report.headline
    assert report.headline.endswith("emulated gfx942; performance UNMEASURED")
    [first, _second] = [r for r in report.stages if r.stage == "integrity"]
    assert set(first.data["launches"]) == {1}


def test_torch_doing_the_work_beside_a_launch_is_seen(tmp_path: Path) -> None:
    pytest.importorskip("kernel_lint.verify.backends.emulate")
    cheat = SOURCE.replace("return out", "return x * 2.0")
    report = judge(tmp_path, DOUBLE, cheat, backend="emulate", require_launch=True, shapes=("even",))
    assert (report.verdict, report.reason) == (Verdict.FAIL, Reason.TORCH_COMPUTE)

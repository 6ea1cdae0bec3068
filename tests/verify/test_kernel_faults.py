"""Launches that no GPU takes are the candidate's fault; what this machine lacks is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from flydsl_candidate import DOUBLE, SOURCE
from verify_tasks import judge

from kernel_lint.diagnostics import Reason
from kernel_lint.emulator.control import passes
from kernel_lint.emulator.ir import Place
from kernel_lint.emulator.machine import Grid
from kernel_lint.errors import KernelFaultError, KernelLintError
from kernel_lint.verify.faults import classify

_EMULATED = {"backend": "emulate", "require_launch": True, "timeout": 120.0, "shapes": ("even",)}
_LDS = (
    "\n\n@fx.struct\nclass Shared:\n    line: fx.Array[fx.Float32, 20000, 16]\n\n\n@flyc.kernel\ndef double"
)


@pytest.mark.flydsl
@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("block=(64, 1, 1)", "block=(2048, 1, 1)", "launched with 2048 threads a workgroup"),
        (
            "    held = fx",
            "    line = fx.SharedAllocator().allocate(Shared).peek().line.view(fx.make_layout(20000, 1))\n"
            "    line[place] = fx.Float32(0.0)\n    held = fx",
            "uses 80000 bytes of LDS; gfx942 has 65536",
        ),
    ],
)
def test_a_launch_that_no_gpu_takes_fails(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    source = SOURCE.replace("\n\n@flyc.kernel\ndef double", _LDS).replace(old, new)
    report = judge(tmp_path, DOUBLE, source, **_EMULATED)
    assert (report.reason, report.exit_code) == (Reason.RUNTIME_ERROR, 1), report.headline
    assert sentence in report.headline


@pytest.mark.parametrize(
    ("blocks", "threads"), [((1, 1, 1), (1025, 1, 1)), ((1, 1, 1), (32, 33, 1)), ((2**26, 1, 1), (64, 1, 1))]
)
def test_sizes_that_the_runtime_refuses(blocks: tuple[int, int, int], threads: tuple[int, int, int]) -> None:
    with pytest.raises(KernelFaultError, match="kernel k is launched with"):
        Grid(blocks, threads).check("k")


def test_the_largest_sizes_are_taken() -> None:
    Grid((2**22 - 1, 65535, 65535), (1024, 1, 1)).check("k")


def _raised(make: object) -> tuple[Reason, str]:
    try:
        make()  # type: ignore[operator]
    except Exception as error:
        return classify(error, Reason.RUNTIME_ERROR, "Model.forward", "/work/generated_kernel.py")
    raise AssertionError("nothing was raised")


def test_a_loop_without_end_is_the_kernels_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace
    from typing import Any

    machine: Any = SimpleNamespace(env=SimpleNamespace(kernel="k"))
    monkeypatch.setattr("kernel_lint.emulator.control.MAX_PASSES", 3)
    reason, message = _raised(lambda: list(passes(machine, Place("k.py", 7))))
    assert reason is Reason.RUNTIME_ERROR
    assert "has not ended after 3 passes" in message


def test_a_missing_device_library_is_the_machines_fault() -> None:
    def link() -> None:
        raise RuntimeError("ROCm amdgcn bitcode path: /opt/rocm/amdgcn/bitcode does not exist")

    reason, message = _raised(link)
    assert reason is Reason.ENV_ERROR
    assert message.startswith("the kernel needs ROCm's device library, which this machine lacks")


def test_an_error_that_the_candidate_raises_itself_is_its_own() -> None:
    """The same words, raised in the candidate's file, and an error of the tool's raised elsewhere."""
    code = compile(
        "raise RuntimeError('bitcode path: x does not exist')", "/work/generated_kernel.py", "exec"
    )
    assert _raised(lambda: exec(code))[0] is Reason.RUNTIME_ERROR  # noqa: S102

    def pretend() -> None:
        raise KernelLintError("the machine is broken")

    assert _raised(pretend)[0] is Reason.RUNTIME_ERROR

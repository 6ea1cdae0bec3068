"""The command line: exit codes, formats, and one clear sentence on stderr."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch
from verify_tasks import ADD_ONE, HEADER

from kernel_lint.cli import main
from kernel_lint.verify import linker as linkers

_COMMON = ["--backend", "torch", "--no-lint", "--no-require-launch", "--seeds", "2", "--no-variants", "-q"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(ADD_ONE.write(tmp_path / "work"))
    (tmp_path / "work" / "generated_kernel.py").write_text(HEADER + ADD_ONE.reference)
    return tmp_path / "work"


def test_the_candidate_and_its_task_are_found_here(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *_COMMON]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].startswith("PASS: correct on 1 shape;")
    assert err == ""


def test_progress_goes_to_stderr(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *_COMMON[:-1], "--output-format", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["verdict"] == "PASS"
    assert "correctness only cpu passed" in err


def test_a_wrong_candidate_exits_with_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "generated_kernel.py").write_text(HEADER + ADD_ONE.reference.replace("a + b", "a - b"))
    assert main(["verify", *_COMMON, "--output-format", "junit", "--output-file", "report.xml"]) == 1
    [suite] = ElementTree.parse(folder / "report.xml").getroot()
    assert suite.find("testcase/failure").get("type") == "VALUE"  # type: ignore[union-attr]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.py"], "nowhere.py cannot be read"),
        (["--backend", "magic"], "there is no verify backend 'magic'"),
        (["--shape", "nine"], "shapes.json has no shape 'nine'"),
        (["--tolerance", "vague"], "unknown tolerance 'vague'"),
        (["-O", "novalue"], "not KEY=VALUE"),
        (["--timeout", "0"], "0"),
        (["--target", "mi300"], "'mi300' is not the name of a target"),
    ],
)
def test_errors_of_use_exit_with_two(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["verify", *_COMMON, *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_task_without_a_reference_is_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "reference.py").unlink()
    assert main(["verify", *_COMMON]) == 2
    err = capsys.readouterr().err
    assert len(err.strip().splitlines()) == 1
    assert "error: INVALID_TASK: reference.py: does not exist in the current folder; put reference.py" in err


def _words(text: str) -> str:
    """The text with its lines joined, however they were wrapped."""
    return " ".join(text.split())


_SENTENCE = 'reference.py: Model.forward for shape "only": raised ValueError at line 6: no luck'


@pytest.mark.parametrize("apart", [False, True], ids=["one place", "two places"])
def test_what_is_wrong_with_the_task_is_told_once_where_one_looks(folder: Path, apart: bool) -> None:
    broken = ADD_ONE.reference.replace("return a + b", "raise ValueError('no luck')")
    (folder / "reference.py").write_text(HEADER + broken)
    run = subprocess.run(
        [sys.executable, "-m", "kernel_lint", "verify", *_COMMON[:-1]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if apart else subprocess.STDOUT,
        text=True,
        timeout=100,
    )
    assert run.returncode == 2
    out = _words(run.stdout)
    assert out.count(_SENTENCE) == 1
    assert "ERR correctness only cpu INVALID_TASK: see below" in out
    assert out.index("see below") < out.index(f"INVALID_TASK: {_SENTENCE}")
    if apart:
        assert _words(run.stderr).count(_SENTENCE) == 1
        assert f"kernel-lint: error: INVALID_TASK: {_SENTENCE}" in run.stderr


def test_a_report_in_a_file_leaves_the_sentence_to_stderr(folder: Path) -> None:
    (folder / "shapes.json").write_text("{}")
    run = subprocess.run(
        [sys.executable, "-m", "kernel_lint", "verify", *_COMMON, "--output-file", "report.txt"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100,
    )  # fmt: skip
    assert run.stdout.count("has no shapes, so nothing could be verified") == 1
    assert _words((folder / "report.txt").read_text()).count("has no shapes, so nothing") == 1


def test_a_machine_that_cannot_is_told_once_for_all_shapes(folder: Path) -> None:
    """Every stage of every shape fails for the one reason."""
    from kernel_lint.diagnostics import Reason
    from kernel_lint.verify.render import render_text
    from kernel_lint.verify.report import Verdict, VerifyReport
    from kernel_lint.verify.stages import failed

    stages = tuple(failed("compile", Reason.ENV_ERROR, "no GPU here", shape, "gfx942") for shape in "abc")
    shapes = ("a", "b", "c")
    report = VerifyReport(Verdict.ERROR, "k.py", ".", "rocm", "a GPU", ("gfx942",), shapes, stages)
    text = render_text(report)
    assert text.count("no GPU here") == 1
    assert text.splitlines()[-1] == "ERROR: compile (shape a): ENV_ERROR: no GPU here"
    assert text.count("ENV_ERROR: see below") == 3


def test_doctor_says_what_each_absence_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) in (0, 1)
    text = capsys.readouterr().out
    assert "verify backends:" in text
    assert text.count("without it:") == text.count("absent  ") + text.count("MISSING ")


class TestLinker:
    """What counts as a linker for AMD GPU code objects."""

    @pytest.fixture
    def lld(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        path = tmp_path / "rocm" / "llvm" / "bin" / "ld.lld"
        path.parent.mkdir(parents=True)
        monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
        monkeypatch.setenv("PATH", "/nowhere")
        monkeypatch.delenv("ROCM_HOME", raising=False)
        return path

    @staticmethod
    def _write(path: Path, version: str) -> None:
        path.write_text(f"#!/bin/sh\necho 'LLD {version} (compatible with GNU linkers)'\n")
        path.chmod(0o755)

    def test_rocms_own_is_preferred_and_used_in_place(self, lld: Path, tmp_path: Path) -> None:
        self._write(lld, "18.0.0")
        found, refused = linkers.find_linker()
        assert found is not None
        assert (found.version, found.source, refused) == ("18.0.0", "$ROCM_PATH", ())
        assert linkers.write_rocm_shim(found, tmp_path / "shim") == lld.parents[2]

    def test_an_old_one_is_refused_by_its_version(self, lld: Path) -> None:
        self._write(lld, "14.0.6")
        _found, refused = linkers.find_linker()
        assert refused[0] == "$ROCM_PATH: LLD 14.0.6 is older than 17"

    def test_a_shim_passes_arguments_on(self, tmp_path: Path) -> None:
        import subprocess

        linker = linkers.Linker(("/bin/echo", "it's"), "22.0", "a test")
        script = linkers.write_rocm_shim(linker, tmp_path) / "llvm" / "bin" / "ld.lld"
        run = subprocess.run([script, "-o", "a b"], capture_output=True, text=True, check=True)
        assert run.stdout == "it's -o a b\n"


def test_cutedsl_goes_to_the_device(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(
        ["verify", "--framework", "cutedsl", "-q", "--output-format", "json", "--output-file", "report.json"]
    )

    assert json.loads(Path("report.json").read_text())["backend"] == "device"


def test_cutedsl_is_not_sent_to_a_backend_of_flydsl(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--framework", "cutedsl", "--backend", "emulate"]) == 2

    assert "--backend emulate runs FlyDSL kernels; --framework cutedsl needs --backend device." in (
        capsys.readouterr().err
    )


def test_the_linter_is_told_the_framework(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = Path(__file__).parents[2] / "examples" / "cutedsl_axpy"
    common = ["verify", str(task / "kernel.py"), "--backend", "torch", "--shape", "small_f32", "-q"]
    common += ["--output-format", "json"]

    main([*common, "--framework", "cutedsl"])
    as_cutedsl = json.loads(capsys.readouterr().out)["stages"][0]
    main(common)
    as_flydsl = json.loads(capsys.readouterr().out)["stages"][0]

    assert (as_cutedsl["stage"], as_cutedsl["status"]) == ("lint", "passed")
    assert (as_flydsl["stage"], as_flydsl["status"]) == ("lint", "failed")


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch sees a GPU")
def test_without_a_gpu_the_device_backend_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--backend", "device", "--no-lint", "-q"]) == 2

    assert re.search(r"torch \S+ sees no GPU", capsys.readouterr().err)

"""A tired user's mistakes and a bad machine: one sentence with a remedy, exit 2, no traceback, no hang."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from verify_tasks import ADD_ONE, HEADER, TaskText, judge

from kernel_lint.cli import main
from kernel_lint.diagnostics import Reason
from kernel_lint.errors import KernelLintError
from kernel_lint.verify import Verdict, VerifyOptions, reference_worker
from kernel_lint.verify.faults import no_room

_COMMON = ["--backend", "torch", "--no-lint", "--no-require-launch", "--seeds", "2", "--no-variants", "-q"]
_CANDIDATE = HEADER + ADD_ONE.reference


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(ADD_ONE.write(tmp_path / "work"))
    (tmp_path / "work" / "generated_kernel.py").write_text(_CANDIDATE)
    return tmp_path / "work"


def _refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["verify", *_COMMON, *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.parametrize("name", ["generated_kernel.py", "reference.py", "input.py", "shapes.json"])
def test_the_report_does_not_replace_what_is_judged(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / name).read_bytes()
    assert f"the report would replace {name}" in _refused(capsys, "--output-file", name)
    assert (folder / name).read_bytes() == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--timeout", "nan"), "timeout is nan: no number of seconds"),
        (("--seed", str(1 << 127)), "the seed has more than 127 bits"),
        (("--keep", "shapes.json"), "shapes.json is not a folder"),
        (("-O", "cheks=none"), "no backend has an option 'cheks' (-O)\n  remedy: did you mean checks?"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    folder: Path, words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in _refused(capsys, *words)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-O", "checks=foo"), "there is no emulator check 'foo'"),
        (("-O", "device=tpu"), "the emulator has no device 'tpu'"),
        (("--target", "gfx906"), "the emulator does not know the target 'gfx906'"),
    ],
)
@pytest.mark.flydsl
def test_settings_of_the_emulator_are_looked_at_before_it_starts(
    folder: Path, words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "--backend", "emulate", "--no-lint", "-q", *words]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("name", ["generated_kernel.py", "reference.py", "input.py", "shapes.json"])
def test_a_pipe_is_not_waited_for(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert main(["verify", *_COMMON]) == 2
    assert "cannot be read (not a regular file)" in capsys.readouterr().err


def test_the_current_folder_may_be_gone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    assert "the current folder has been removed" in _refused(capsys, str(folder / "generated_kernel.py"))


def test_a_folder_that_cannot_be_written_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *_COMMON, "--state-dir", "shapes.json"]) == 2
    assert "ENV_ERROR: what is finished cannot be kept (File exists), name another" in capsys.readouterr().err


def test_a_full_disk_is_named_with_the_remedy() -> None:
    sentence = no_room(OSError(errno.ENOSPC, "No space left on device"), Path("/scratch"))
    assert sentence == "/scratch takes no more (No space left on device); set TMPDIR to a folder with room"


def test_a_full_disk_under_the_reference_is_no_fault_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernel_lint.verify.protocol import Job

    job = Job("reference", "/scratch/run/reference-1", "/task/reference.py", "torch", "cpu", "cpu")
    worker = reference_worker._Reference(job)

    def full(_request: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(worker, "do_run", full, raising=False)
    answer = worker.answer({"op": "run"})
    assert (answer["reason"], answer["ok"]) == ("ENV_ERROR", False)
    assert answer["message"].startswith("/scratch takes no more")


def test_a_process_that_cannot_start_is_ours(tmp_path: Path) -> None:
    """With so few open files allowed, the worker's own code fails before any of the task's runs."""
    ADD_ONE.write(tmp_path)
    (tmp_path / "generated_kernel.py").write_text(_CANDIDATE)
    code = (
        "import resource, sys\nfrom kernel_lint.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))\nsys.exit(main(sys.argv[1:]))"
    )
    words = [
        "verify",
        *_COMMON,
        "--state-dir",
        str(tmp_path / "state"),
        str(tmp_path / "generated_kernel.py"),
    ]
    run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=100)
    assert run.returncode == 2
    assert "HARNESS_ERROR: the reference's process could not start" in run.stderr
    assert "Traceback" not in run.stderr


def test_output_that_cannot_be_written_is_one_sentence(folder: Path) -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "kernel_lint", "verify", *_COMMON],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=100,
        )  # fmt: skip
    assert run.returncode == 2
    assert run.stderr == "kernel-lint: error: the output cannot be written (No space left on device)\n"


def test_names_that_the_terminal_lacks_are_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ADD_ONE.write(tmp_path / "ünï")
    (folder / "generated_kernel.py").write_text(_CANDIDATE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert main(["verify", *_COMMON, str(folder / "generated_kernel.py")]) == 0
    assert rb"\xfcn\xef/generated_kernel.py" in raw.getvalue()


@pytest.mark.parametrize(
    "reference",
    [
        "if True:\n    class Model(nn.Module):\n        def forward(self, a, b):\n            return a + b\n",
        "class Add(nn.Module):\n    def forward(self, a, b):\n        return a + b\n\n\nModel = Add\n",
        "class _A:\n    class Add(nn.Module):\n        def forward(self, a, b):\n            return a + b\n\n"
        "\ntry:\n    Model = _A.Add\nfinally:\n    pass\n",
    ],
)
def test_the_reference_may_bind_its_names_in_any_way(reference: str, tmp_path: Path) -> None:
    inputs = "_make_inputs = lambda rows, columns: {'a': torch.randn(rows, columns), 'b': torch.ones(1)}\n"
    text = TaskText(reference, inputs, ADD_ONE.shapes, {})
    report = judge(tmp_path, text, _CANDIDATE)
    assert report.verdict is Verdict.PASS, report.headline


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("torch.eye(3).to_sparse()", "a sparse_coo tensor"),
        ("torch.ones(2, device='meta')", "a tensor on the device meta"),
    ],
)
def test_inputs_without_plain_values_are_the_tasks_fault(value: str, kind: str, tmp_path: Path) -> None:
    inputs = f"def _make_inputs(rows, columns):\n    return {{'a': {value}, 'b': torch.ones(2)}}\n"
    report = judge(tmp_path, TaskText(ADD_ONE.reference, inputs, ADD_ONE.shapes, {}), _CANDIDATE)
    assert (report.reason, report.exit_code) == (Reason.INVALID_TASK, 2)
    assert f"returned {kind} at ['a']" in report.headline


def test_a_lazy_layer_of_the_reference_is_the_tasks_fault(tmp_path: Path) -> None:
    reference = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = nn.LazyLinear(4)\n\n"
        "    def forward(self, a, b):\n        return self.layer(a)\n"
    )
    report = judge(tmp_path, TaskText(reference, ADD_ONE.inputs, ADD_ONE.shapes, {}), _CANDIDATE)
    assert (report.reason, report.exit_code) == (Reason.INVALID_TASK, 2)
    assert "its parameter layer.weight has no shape before the first call" in report.headline


def test_an_output_that_no_one_can_take_is_the_tasks_fault(tmp_path: Path) -> None:
    reference = "class Model(nn.Module):\n    def forward(self, a, b):\n        return {1, 2}\n"
    report = judge(tmp_path, TaskText(reference, ADD_ONE.inputs, ADD_ONE.shapes, {}), HEADER + reference)
    assert (report.reason, report.exit_code) == (Reason.INVALID_TASK, 2)
    assert "reference.py: Model.forward: its result cannot be used: it is a set" in report.headline


def test_options_are_looked_at_wherever_they_come_from() -> None:
    with pytest.raises(KernelLintError, match="no number of seconds"):
        VerifyOptions(import_timeout=float("nan"))

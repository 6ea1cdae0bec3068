"""action.yml and .pre-commit-hooks.yaml: their scripts run, their commands exist."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from kernel_lint.cli import cli

ROOT = Path(__file__).parents[2]


def _yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def _lint_step(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the action's last step as a runner does: its script in bash, inputs as variables."""
    action = _yaml("action.yml")
    step = action["runs"]["steps"][-1]
    given = {name: str(item["default"]) for name, item in action["inputs"].items()} | inputs
    env = dict(os.environ)
    env["PATH"] = str(folder / "bin") + os.pathsep + env["PATH"]
    for name, value in step["env"].items():
        env[name] = given[value.removeprefix("${{ inputs.").removesuffix(" }}")]
    words = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
    return subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout with a bad file, and the installed command on PATH."""
    script = tmp_path / "bin" / "kernel-lint"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kernel_lint "$@"\n')
    script.chmod(0o755)
    (tmp_path / "generated_kernel.py").write_text("print(1)\n")
    return tmp_path


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_the_action_annotates_and_fails(folder: Path) -> None:
    run = _lint_step(folder, args="--isolated --select KL102")
    assert run.returncode == 1, run.stderr
    assert run.stdout.startswith("::error title=kernel-lint (KL102),file=generated_kernel.py,line=1,")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_an_input_is_never_a_command(folder: Path) -> None:
    run = _lint_step(folder, paths="generated_kernel.py; touch owned $(touch owned)", args="--isolated")
    assert run.returncode == 2
    assert not (folder / "owned").exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_a_report_for_code_scanning(folder: Path) -> None:
    options = {"output-format": "sarif", "output-file": "out.sarif", "args": "--isolated --exit-zero"}
    run = _lint_step(folder, **options)
    assert run.returncode == 0, run.stderr
    assert '"version": "2.1.0"' in (folder / "out.sarif").read_text()


def test_scripts_hold_no_expressions() -> None:
    for step in _yaml("action.yml")["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


@pytest.mark.parametrize("hook", _yaml(".pre-commit-hooks.yaml"), ids=lambda hook: str(hook["id"]))
def test_hooks_are_complete_and_their_commands_exist(hook: dict[str, Any]) -> None:
    wanted = {
        "id", "name", "description", "entry", "language", "types_or", "files", "require_serial",
        "minimum_pre_commit_version",
    }  # fmt: skip
    assert set(hook) == wanted
    assert hook["language"] == "python"
    assert hook["require_serial"] is True
    program, *words = hook["entry"].split()
    assert program == "kernel-lint"
    command: click.Command = cli
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None, word
        command = found

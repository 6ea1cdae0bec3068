"""Workspaces: what `kernel-lint init` makes, and what it assumes for a reference that says little."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from kernel_lint.cli import main  # noqa: E402
from kernel_lint.errors import KernelLintError  # noqa: E402
from kernel_lint.tools import derive_task, semantics, workspace  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RMSNORM = EXAMPLES / "rmsnorm" / "reference.py"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def reference(folder: Path, forward: str, init: str = "", head: str = "", tail: str = "") -> Path:
    path = folder / "source" / "reference.py"
    path.parent.mkdir()
    init_text = (
        f"    def __init__(self, {init}):\n        super().__init__()\n        self.size = 64\n\n"
        if init
        else ""
    )
    lines = ["import torch", "import torch.nn as nn", head, "class Model(nn.Module):"]
    path.write_text("\n".join([*lines, f"{init_text}    {forward}", tail]))
    return path


def test_the_workspace_of_the_contract(tmp_path: Path) -> None:
    assert main(["init", str(tmp_path / "w"), "--reference", str(RMSNORM), "--platform", "mi355x"]) == 0
    made = tmp_path / "w"
    names = {str(path.relative_to(made)) for path in made.rglob("*") if ".git/" not in str(path)}
    wanted = "kernel.py reference.py input.py shapes.json test_kernel.py README.md plans memory"
    wanted += " reference/v_iteration.schema.json tools/sandbox.py tools/memory_manager.py"
    wanted += " tools/compute_utilization.py"
    assert set(wanted.split()) <= names
    assert (made / "reference.py").read_text() == RMSNORM.read_text()
    status = git(made, "status", "--short").split("\n")
    assert status == ["?? README.md", "?? kernel.py", "?? test_kernel.py", ""]
    assert git(made, "log", "--format=%s") == "Set up the workspace\n"


@pytest.mark.parametrize(
    ("platform", "framework"),
    [
        ("mi300x", "flydsl"),
        ("MI308X", "flydsl"),
        ("mi355x", "flydsl"),
        ("h100", "cutlass"),
        ("h20", "cutlass"),
        ("h200", "cutlass"),
    ],
)
def test_the_platform_decides_the_framework(tmp_path: Path, platform: str, framework: str) -> None:
    made = workspace.create(tmp_path / "w", RMSNORM, platform)
    tree = ast.parse((tmp_path / "w/kernel.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    assert framework in {alias.name.split(".")[0] for node in imports for alias in node.names}
    readme = (tmp_path / "w/README.md").read_text()
    assert made.gpu.name == platform.upper()
    assert "| memory bandwidth |" in readme
    for figure in made.gpu.peaks.values():
        assert figure.source is not None
        assert figure.source.url in readme


def test_the_skeleton_takes_the_references_parameters(tmp_path: Path) -> None:
    workspace.create(tmp_path / "w", RMSNORM, "mi300x")
    outline = workspace.read_outline(tmp_path / "w/kernel.py")
    assert "self.weight = nn.Parameter" in outline.init
    assert (outline.first, outline.signature) == ("x", "self, x: torch.Tensor, residual: torch.Tensor")


@pytest.mark.flydsl
def test_the_flydsl_skeleton_compiles(tmp_path: Path) -> None:
    from kernel_lint.verify import Verdict, VerifyOptions, verify

    folder = tmp_path / "w"
    workspace.create(folder, EXAMPLES / "softmax/reference.py", "mi300x")
    options = VerifyOptions(backend="compile", lint=False, shapes=("tail_f32",))
    report = verify(folder / "kernel.py", folder, options)
    assert report.verdict is Verdict.COMPILED, report.headline


def test_the_minimal_workspace_says_what_it_assumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = reference(tmp_path, "def forward(self, a, b): return a @ b.transpose(-1, -2)")
    assert main(["init", str(tmp_path / "w"), "--reference", str(path)]) == 0
    said = capsys.readouterr().out
    assert "platform: MI300X, as none was named" in said
    assert "shape base: float32 a [64, 64], b [64, 64]" in said
    readme = (tmp_path / "w/README.md").read_text()
    assert "shape odd: float32 a [37, 37], b [37, 37]" in readme
    assert semantics.describe(tmp_path / "w/reference.py")[0].matmul_flops == 2 * 64**3


@pytest.mark.parametrize(
    ("forward", "init", "expected"),
    [
        ("def forward(self, x): return torch.softmax(x, -1)", "", {"x_shape": [64, 64]}),
        (
            "def forward(self, x): return nn.functional.embedding(x, torch.ones(64, 8))",
            "",
            {"x_shape": [64, 64]},
        ),
        (
            "def forward(self, x, s: float = 2.0): return x.sum((0, 1, 2, 3)) * s",
            "",
            {"x_shape": [2, 4, 64, 64]},
        ),
        (
            "def forward(self, x): return x + torch.ones(self.size)",
            "dim: int, eps: float, flag: bool",
            {"x_shape": [64, 64]},
        ),
        ("def forward(self, x, v): return torch.mv(x, v)", "", {"x_shape": [64, 64], "v_shape": [64]}),
    ],
)
def test_the_smallest_inputs_that_run(
    tmp_path: Path, forward: str, init: str, expected: dict[str, list[int]]
) -> None:
    path = reference(tmp_path, forward, init)
    derived = derive_task.derive(path)
    entry = json.loads(derived.shapes)["base"]
    assert entry["input_kwargs"] == expected
    assert set(entry["init_kwargs"]) == {part.split(":")[0].strip() for part in init.split(",") if part}
    assert derived.assumptions


def test_kernelbench_style_references(tmp_path: Path) -> None:
    tail = "\ndef get_inputs():\n    return [torch.randn(5, 7)]\n\ndef get_init_inputs():\n    return [3]\n"
    path = reference(tmp_path, "def forward(self, x): return x * 2", "n", tail=tail)
    workspace.create(tmp_path / "w", path)
    found = semantics.describe(tmp_path / "w/reference.py")[0]
    assert found.inputs["x"].shape == (5, 7)
    assert json.loads((tmp_path / "w/shapes.json").read_text())["base"]["init_kwargs"] == {"n": 3}


def test_two_workspaces_in_one_process(tmp_path: Path) -> None:
    """Both have a module called reference; the first must not stand in for the second."""
    for name, factor in (("one", 5), ("two", 7)):
        (tmp_path / name).mkdir()
        tail = f"\ndef get_inputs():\n    return [torch.randn({factor}, 7)]\n"
        path = reference(tmp_path / name, "def forward(self, x): return x * 2", tail=tail)
        workspace.create(tmp_path / name / "w", path)
        found = semantics.describe(tmp_path / name / "w/reference.py")
        assert found[0].inputs["x"].shape == (factor, 7)


def test_a_reference_with_a_dataclass(tmp_path: Path) -> None:
    head = "from dataclasses import dataclass\n\n@dataclass\nclass Sizes:\n    n: 'int' = 3\n"
    path = reference(tmp_path, "def forward(self, x): return x * Sizes().n", head=head)
    workspace.create(tmp_path / "w", path)


def test_inputs_without_shapes_when_all_has_defaults(tmp_path: Path) -> None:
    path = reference(tmp_path, "def forward(self, x): return x * 2")
    (path.parent / "input.py").write_text(
        "import torch\n\ndef _make_inputs(n=3): return {'x': torch.ones(n)}\n"
    )
    workspace.create(tmp_path / "w", path)
    assert json.loads((tmp_path / "w/shapes.json").read_text()) == {
        "base": {"init_kwargs": {}, "input_kwargs": {}}
    }


def test_given_files_are_taken(tmp_path: Path) -> None:
    path = reference(tmp_path, "def forward(self, x): return x * 2")
    (tmp_path / "i.py").write_text("import torch\n\ndef _make_inputs(n): return {'x': torch.ones(n)}\n")
    (tmp_path / "s.json").write_text('{"a": {"init_kwargs": {}, "input_kwargs": {"n": 3}}}')
    made = workspace.create(tmp_path / "w", path, "h200", tmp_path / "i.py", tmp_path / "s.json")
    assert made.assumptions == ()
    assert workspace.Workspace.open(tmp_path / "w").gpu.name == "H200"


@pytest.mark.parametrize(
    ("forward", "said"),
    [
        ("def backward(self, x): return x", "no class Model with a forward"),
        ("def forward(self): return 1", "no class Model with a forward"),
        ("def forward(self, x): raise ValueError", "no small tensors were found"),
        ("def forward(self, x) return x", "reference.py: line"),
    ],
)
def test_a_reference_that_cannot_be_used(tmp_path: Path, forward: str, said: str) -> None:
    path = reference(tmp_path, forward)
    with pytest.raises(KernelLintError, match=said):
        workspace.create(tmp_path / "w", path)
    assert not (tmp_path / "w").exists()


def test_a_folder_with_content_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("x")
    assert main(["init", str(tmp_path), "--reference", str(RMSNORM)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


def test_no_identity_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    workspace.create(tmp_path / "w", RMSNORM)
    assert git(tmp_path / "w", "log", "--format=%an") == "kernel-lint\n"


def test_not_a_workspace(tmp_path: Path) -> None:
    with pytest.raises(KernelLintError, match="is no workspace"):
        workspace.Workspace.open(tmp_path)

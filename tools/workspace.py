"""Make a baseline workspace: everything that belongs to one kernel, ready to run."""

from __future__ import annotations

import ast
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from kernel_lint.errors import KernelLintError
from kernel_lint.hardware import Figure, Gpu, get_gpu
from kernel_lint.tools import derive_task, git
from kernel_lint.tools.derive_task import DerivedTask
from kernel_lint.tools.memory_schema import SCHEMA_FILE

DEFAULT_PLATFORM = "mi300x"
SETTINGS_FILE = Path("reference") / "workspace.json"
SET_UP_SUBJECT = "Set up the workspace"
BASELINE_FILES = ("kernel.py", "test_kernel.py", "baseline_report.md", "memory/v0.json", "README.md")
"""What the commit `V0: baseline kernel` holds (clause B11)."""

_TEMPLATES = Path(__file__).resolve().parent / "templates"
_SCRIPTS = ("launcher.py", "compute_utilization.py", "memory_manager.py", "sandbox.py")
_IGNORED = "__pycache__/\n*.py[cod]\n.*.lock\n.*.tmp\ngenerated_kernel*\nprofile/\n.kernel_lint_cache/\n"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace's folder and what it is for."""

    folder: Path
    gpu: Gpu
    assumptions: tuple[str, ...]

    @classmethod
    def open(cls, folder: Path) -> Workspace:
        """Read an existing workspace.

        Raises :class:`KernelLintError` when the folder is not one.
        """
        path = folder / SETTINGS_FILE
        try:
            settings = json.loads(path.read_text(encoding="utf-8"))
            return cls(folder, get_gpu(settings["platform"]), tuple(settings["assumptions"]))
        except FileNotFoundError as error:
            raise KernelLintError(
                f"{folder} is no workspace: it has no {SETTINGS_FILE}", "make one with `kernel-lint init`"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise KernelLintError(f"{path} is damaged: {error}", "restore it with git") from error


def create(
    folder: Path,
    reference: Path,
    platform: str | None = None,
    inputs: Path | None = None,
    shapes: Path | None = None,
) -> Workspace:
    """Make a workspace in an empty or new folder, and commit its set-up.

    Raises :class:`KernelLintError` when the folder holds anything, or no inputs can be made.
    """
    if not reference.is_file():
        raise KernelLintError(f"{reference} does not exist", "name the file that defines class Model")
    if folder.is_dir() and any(entry.name != ".git" for entry in folder.iterdir()):
        raise KernelLintError(f"{folder} is not empty", "name a new or empty folder")
    outline = read_outline(reference)
    derived = derive_task.derive(reference, inputs, shapes)
    assumptions = list(derived.assumptions)
    if platform is None:
        assumptions.insert(0, f"platform: {DEFAULT_PLATFORM.upper()}, as none was named")
    gpu = get_gpu(platform or DEFAULT_PLATFORM)
    workspace = Workspace(folder, gpu, tuple(assumptions))
    with tempfile.TemporaryDirectory(prefix="kernel-lint-") as name:
        _write_task(Path(name), reference, derived)
        pattern = _check_runs(Path(name))
    folder.mkdir(parents=True, exist_ok=True)
    _write_task(folder, reference, derived)
    _write_rest(workspace, outline, pattern)
    _commit_set_up(folder)
    return workspace


@dataclass(frozen=True, slots=True)
class Outline:
    """What a skeleton takes over: imports, the text of ``__init__``, the parameters of ``forward``."""

    imports: str
    init: str
    signature: str
    first: str


def read_outline(reference: Path) -> Outline:
    """Parse a reference for the shape of its Model.

    Raises :class:`KernelLintError` when it has no ``Model.forward`` with an input.
    """
    text = reference.read_text(encoding="utf-8")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise KernelLintError(
            f"{reference}: line {error.lineno}: {error.msg}", "mend the reference"
        ) from error
    model = next(
        (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"), None
    )
    methods = {node.name: node for node in (model.body if model else ()) if isinstance(node, ast.FunctionDef)}
    forward = methods.get("forward")
    if forward is None or len(forward.args.args) < 2:
        raise KernelLintError(
            f"{reference} has no class Model with a forward(self, input, ...)", "see the contract, F5"
        )
    init = methods.get("__init__")
    body = ""
    if init is not None:
        lines = text.splitlines()[init.lineno - 1 : init.end_lineno]
        body = "\n".join(lines) + "\n\n"
    imports = [ast.unparse(node) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    known = {
        "import torch",
        "import torch.nn as nn",
        "from torch import nn",
        "from __future__ import annotations",
    }
    more = "".join(f"{line}\n" for line in imports if line not in known)
    return Outline(more, body, ast.unparse(forward.args), forward.args.args[1].arg)


def limits_table(gpu: Gpu) -> list[tuple[str, str, str]]:
    """Return a GPU's figures as rows of name, value and source; unknown ones say so."""
    figures: list[tuple[str, Figure, str]] = [
        ("compute units", gpu.compute_units, ""),
        ("LDS or shared memory a unit", gpu.lds_kib, "KiB"),
        ("memory", gpu.memory_gb, "GB"),
        ("memory bandwidth", gpu.bandwidth, "GB/s"),
        *((f"peak {dtype}", figure, "TFLOPS") for dtype, figure in gpu.peaks.items()),
    ]
    # The documents that give the LDS's size give the wave's too.
    rows = [("wave size", f"{gpu.wave_size} lanes", str(gpu.lds_kib.source))]
    for name, figure, unit in figures:
        value = "unknown" if figure.value is None else f"{figure.value:,g} {unit}".strip()
        rows.append((name, value, str(figure.source) if figure.source else "no public source"))
    return rows


def _write_task(folder: Path, reference: Path, derived: DerivedTask) -> None:
    shutil.copyfile(reference, folder / "reference.py")
    (folder / "input.py").write_text(derived.inputs, encoding="utf-8")
    (folder / "shapes.json").write_text(derived.shapes, encoding="utf-8")


def _check_runs(folder: Path) -> str:
    """Run the reference under fake tensors at every shape and return its pattern."""
    from kernel_lint.tools import semantics, semantics_pattern

    shapes = semantics.describe(folder / "reference.py")
    return " / ".join(dict.fromkeys(semantics_pattern.recognize(shape).name for shape in shapes))


def _write_rest(workspace: Workspace, outline: Outline, pattern: str) -> None:
    """Write what is the same for every task: skeleton, test, notes, tools."""
    folder, gpu = workspace.folder, workspace.gpu
    names: dict[str, Any] = {
        "gpu": gpu.name,
        "target": gpu.target,
        "framework": gpu.framework,
        "pattern": pattern,
    }
    names |= {
        "imports": outline.imports,
        "init": outline.init,
        "signature": outline.signature,
        "first": outline.first,
    }
    names["name"] = folder.resolve().name
    names["limits"] = "\n".join(f"| {' | '.join(row)} |" for row in limits_table(gpu))
    names["assumptions"] = "\n".join(f"- {text}" for text in workspace.assumptions) or "Nothing."
    skeleton = f"kernel_{gpu.framework.lower()}.py.txt"
    templates = {"kernel.py": skeleton, "test_kernel.py": "test_kernel.py.txt", "README.md": "README.md"}
    for target, template in templates.items():
        text = (_TEMPLATES / template).read_text(encoding="utf-8")
        (folder / target).write_text(Template(text).substitute(names), encoding="utf-8")
    for name in ("plans", "memory", "reference", "tools"):
        (folder / name).mkdir()
    (folder / "plans" / "README.md").write_text(
        "One file a version: what to try, why it should help, how to tell.\n"
    )
    (folder / "memory" / ".gitkeep").touch()
    shutil.copyfile(SCHEMA_FILE, folder / "reference" / SCHEMA_FILE.name)
    settings = {"platform": gpu.name, "assumptions": list(workspace.assumptions)}
    (folder / SETTINGS_FILE).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    for script in _SCRIPTS:
        shutil.copyfile(Path(__file__).resolve().parent / script, folder / "tools" / script)
    (folder / ".gitignore").write_text(_IGNORED, encoding="utf-8")


def _commit_set_up(folder: Path) -> None:
    """Make the repository, and commit everything that the baseline's own commit will not hold."""
    if not git.is_root(folder):
        git.run(folder, "init", "-q")
    untracked = git.run(folder, "ls-files", "--others", "--exclude-standard").splitlines()
    git.commit(folder, SET_UP_SUBJECT, [path for path in untracked if path not in BASELINE_FILES])

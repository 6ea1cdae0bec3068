"""The example workspaces, as folders and as loaded modules."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class Workspace:
    """One example folder: its shapes, and its reference and inputs as modules of their own."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.folder = folder
        self.shapes: dict[str, dict[str, Any]] = json.loads((folder / "shapes.json").read_text("utf-8"))

    def module(self, stem: str) -> ModuleType:
        """Load ``stem``.py under a name that no other workspace uses."""
        spec = importlib.util.spec_from_file_location(f"{self.name}_{stem}", self.folder / f"{stem}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def method(self, stem: str, name: str) -> ast.FunctionDef | None:
        """``Model.name`` of ``stem``.py, or None; read as text, so that no FlyDSL is needed."""
        tree = ast.parse((self.folder / f"{stem}.py").read_text("utf-8"))
        (model,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model")
        methods = {n.name: n for n in model.body if isinstance(n, ast.FunctionDef)}
        return methods.get(name)


# The FlyDSL workspaces; a CuteDSL one has a kernel compiler and a target of its own.
WORKSPACES = [
    Workspace(path.parent)
    for path in sorted(EXAMPLES.glob("*/kernel.py"))
    if not path.parent.name.startswith("cutedsl_")
]

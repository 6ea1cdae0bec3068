"""Small tasks for the tests of verify: folders of reference.py, input.py and shapes.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_lint.verify import VerifyOptions, VerifyReport, verify
from kernel_lint.verify.isolation import Limits

HEADER = "import torch\nfrom torch import nn\n\n"
TWO_ROWS_COUNTS = {"first": {"rows": 5, "columns": 12}, "second": {"rows": 7, "columns": 33}}
ONE_SHAPE = {"only": {"rows": 6, "columns": 16}}


@dataclass(frozen=True, slots=True)
class TaskText:
    """The text of a task; ``shapes`` maps an id to the keyword arguments of ``_make_inputs``."""

    reference: str
    inputs: str
    shapes: dict[str, dict[str, Any]]
    init: dict[str, Any]

    def write(self, folder: Path) -> Path:
        """Write the three files and return the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "reference.py").write_text(HEADER + self.reference)
        (folder / "input.py").write_text(HEADER + self.inputs)
        entries = {k: {"init_kwargs": self.init, "input_kwargs": v} for k, v in self.shapes.items()}
        (folder / "shapes.json").write_text(json.dumps(entries))
        return folder


def task(
    reference: str, inputs: str, shapes: dict[str, dict[str, Any]] | None = None, **init: Any
) -> TaskText:
    """Make a task from a Model's body-level text and ``_make_inputs``'s."""
    return TaskText(reference, inputs, ONE_SHAPE if shapes is None else shapes, init)


_PAIR = """
def _make_inputs(rows, columns):
    return {"a": torch.randn(rows, columns), "b": torch.randn(rows, columns)}
"""
_ONE = """
def _make_inputs(rows, columns):
    return {"x": torch.randn(rows, columns)}
"""
ADD = task(
    "class Model(nn.Module):\n    def forward(self, a, b):\n        return a + b\n", _PAIR, TWO_ROWS_COUNTS
)
ADD_ONE = task(ADD.reference, _PAIR)
SOFTMAX = task(
    "class Model(nn.Module):\n    def forward(self, x):\n        return torch.softmax(x, dim=-1)\n",
    _ONE,
    {"wide": {"rows": 4, "columns": 2048}},
)
SOFTMAX_SMALL = task(SOFTMAX.reference, _ONE)

OPTIONS: dict[str, Any] = {
    "backend": "torch",
    "lint": False,
    "require_launch": False,
    "seeds": 2,
    "variants": False,
    "timeout": 20.0,
    "import_timeout": 20.0,
    "limits": Limits(memory_bytes=2 << 30, processes=40),
}


def judge(folder: Path, text: TaskText, source: str, **changes: Any) -> VerifyReport:
    """Write a task and a candidate into ``folder`` and verify the one against the other."""
    text.write(folder / "task")
    candidate = folder / "candidate" / "generated_kernel.py"
    candidate.parent.mkdir(exist_ok=True)
    candidate.write_text(source.replace("{task}", str(folder / "task")))
    options = VerifyOptions(**{**OPTIONS, "state_dir": folder / "state", **changes})
    return verify(candidate, folder / "task", options)

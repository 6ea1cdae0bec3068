"""What `kernel-lint describe` finds out about references of known cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from workbench_schemas import conforms  # noqa: E402

from kernel_lint.cli import main  # noqa: E402
from kernel_lint.errors import KernelLintError  # noqa: E402
from kernel_lint.tools import semantics, semantics_pattern  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, n: int = 64):
        super().__init__()
        self.linear = nn.Linear(n, 2 * n, dtype=torch.bfloat16)
        self.unused = nn.Parameter(torch.zeros(1000))

    def forward(self, x, y=None, mask=None):
"""
INPUTS = """
import torch


def _make_inputs(rows: int = 4, n: int = 64):
    return ENTRIES
"""
X = '{"x": torch.randn(rows, n, dtype=torch.bfloat16)}'
QK = '{"x": torch.randn(2, 8, rows, n), "y": torch.randn(2, 8, rows, n)}'


def describe(
    folder: Path, body: str, entries: str = X, shapes: dict[str, object] | None = None
) -> semantics.ShapeSemantics:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    (folder / "reference.py").write_text(HEAD + lines)
    (folder / "input.py").write_text(INPUTS.replace("ENTRIES", entries))
    (folder / "shapes.json").write_text(json.dumps(shapes or {"s": {"init_kwargs": {}, "input_kwargs": {}}}))
    return semantics.describe(folder / "reference.py")[0]


@pytest.mark.parametrize(
    ("body", "entries", "name"),
    [
        ("return x + 1", X, "elementwise"),
        ("return x.clone()", X, "copy"),
        ("return x.sum(-1)", X, "reduction"),
        ("return torch.softmax(x, -1)", X, "softmax"),
        ("return self.linear(x)", X, "GEMM"),
        ("return F.gelu(self.linear(x))", X, "GEMM + GELU"),
        ("return x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)", X, "normalization"),
        ("return F.layer_norm(x, (64,))", X, "normalization"),
        ("return torch.softmax(x @ y.mT / 8, -1) @ y", QK, "attention"),
        ("return F.scaled_dot_product_attention(x, y, y, is_causal=True)", QK, "attention"),
        ("return x.cumsum(-1)", X, "scan"),
        ("return torch.topk(x, 2)[0]", X, "routing"),
        ("return x[:, torch.tensor([3, 1])]", X, "indexing"),
        ("return F.conv1d(x.float()[None], x.float()[None, :, :3].expand(4, 4, 3))", X, "convolution"),
    ],
)
def test_pattern(tmp_path: Path, body: str, entries: str, name: str) -> None:
    assert semantics_pattern.recognize(describe(tmp_path, body, entries)).name == name


def test_gemm_costs(tmp_path: Path) -> None:
    found = describe(
        tmp_path, "return self.linear(x)", shapes={"s": {"init_kwargs": {}, "input_kwargs": {"rows": 32}}}
    )
    assert found.matmul_flops == 2 * 32 * 64 * 128
    assert found.bytes_read == 2 * (
        32 * 64 + 64 * 128 + 128
    )  # x, weight and bias; the unused parameter is not read
    assert found.bytes_written == 2 * 32 * 128
    assert set(found.parameters) == {"linear.weight", "linear.bias", "unused"}
    assert found.thresholds == {"output": 0.01}


def test_attention_costs(tmp_path: Path) -> None:
    found = describe(tmp_path, "return F.scaled_dot_product_attention(x, y, y)", QK)
    assert found.matmul_flops == 2 * (2 * 2 * 8 * 4 * 4 * 64)


def test_pointwise_and_reduction_costs(tmp_path: Path) -> None:
    assert describe(tmp_path, "return (x * 2).sum(-1)").flops == 4 * 64 + 4 * 64


def test_expanded_inputs_are_read_once(tmp_path: Path) -> None:
    found = describe(tmp_path, "return x + 1", '{"x": torch.randn(1, n).expand(rows, n)}')
    assert found.bytes_read == 4 * 64
    assert found.inputs["x"].layout == "broadcast (stride 0)"


def test_layouts(tmp_path: Path) -> None:
    entries = (
        '{"x": torch.randn(rows, n).t(), "y": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)}'
    )
    found = describe(tmp_path, "return x + 1, {'b': y + 1}", entries)
    assert found.inputs["x"].stride == (1, 64)
    assert found.inputs["x"].layout == "transposed (last two)"
    assert found.inputs["y"].layout == "channels last"
    assert list(found.outputs) == ["0", "1.b"]


def test_masks_broadcasts_and_constants(tmp_path: Path) -> None:
    entries = '{"x": torch.randn(rows, n), "mask": torch.ones(n, dtype=torch.bool)}'
    found = describe(tmp_path, "return x.masked_fill(mask, float('-inf')) + 1e-6", entries)
    pattern = semantics_pattern.recognize(found)
    assert pattern.masks == ("input mask is a mask (bool)", "masked_fill (-inf)")
    assert pattern.broadcasts == ("masked_fill: 64 to 4x64",)
    assert pattern.special_values == ("-inf in masked_fill", "1e-06 in add")


def test_an_enormous_shape_costs_nothing(tmp_path: Path) -> None:
    shapes = {"s": {"init_kwargs": {}, "input_kwargs": {"rows": 2**40}}}
    assert describe(tmp_path, "return x + 1", shapes=shapes).flops == 2**46


def test_control_flow_on_values_falls_back_to_real_tensors(tmp_path: Path) -> None:
    found = describe(tmp_path, "return x + 1 if x.sum().item() > -1e9 else x")
    assert "values decide" in found.notes[0]
    assert found.outputs["output"].shape == (4, 64)


def test_the_task_may_set_its_own_tolerance(tmp_path: Path) -> None:
    entry = {"init_kwargs": {}, "input_kwargs": {}, "tolerance": {"rel_err": 0.05}}
    assert describe(tmp_path, "return x + 1", shapes={"s": entry}).thresholds == {"output": 0.05}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("reference.py", "raise ValueError('no')", "does not import: ValueError: no"),
        ("reference.py", "x = 1", "defines no Model"),
        ("input.py", "def _make_inputs(**k): return 3", "no dict of named inputs"),
        ("input.py", "def _make_inputs(): raise KeyError('rows')", "shape 's'"),
        ("shapes.json", "[]", "shapes.json"),
        ("input.py", None, "does not exist"),
    ],
)
def test_a_broken_task_is_explained(tmp_path: Path, name: str, text: str | None, said: str) -> None:
    describe(tmp_path, "return x + 1")
    (tmp_path / name).unlink() if text is None else (tmp_path / name).write_text(text)
    with pytest.raises(KernelLintError, match=said.replace("(", r"\(")):
        semantics.describe(tmp_path / "reference.py")


@pytest.mark.parametrize("output_format", ["text", "json", "markdown"])
@pytest.mark.parametrize("example", ["rmsnorm", "softmax", "gemm"])
def test_the_examples(example: str, output_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    reference = EXAMPLES / example / "reference.py"
    assert main(["describe", str(reference), "--output-format", output_format]) == 0
    text = capsys.readouterr().out
    assert {"rmsnorm": "normalization", "softmax": "softmax", "gemm": "GEMM"}[example] in text
    if output_format == "json":
        conforms("describe", json.loads(text))
        shapes = json.loads(text)["shapes"]
        assert [shape["shape"] for shape in shapes] == list(
            json.loads((EXAMPLES / example / "shapes.json").read_text())
        )


def test_output_file(tmp_path: Path) -> None:
    target = tmp_path / "d.md"
    reference = str(EXAMPLES / "gemm/reference.py")
    assert main(["describe", reference, "--output-format", "markdown", "--output-file", str(target)]) == 0
    assert target.read_text().startswith("# What reference.py computes\n")

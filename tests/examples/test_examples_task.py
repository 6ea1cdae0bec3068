"""The task side of each example: reference, inputs and shapes agree with each other and with the kernel."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from example_workspaces import WORKSPACES, Workspace

torch = pytest.importorskip("torch")

each_workspace = pytest.mark.parametrize("workspace", WORKSPACES, ids=lambda w: w.name)

# Per workspace and output: the shape and dtype that the first shape of shapes.json must give.
FIRST_OUTPUT = {
    "gemm": {"": ((256, 256), torch.bfloat16)},
    "rmsnorm": {
        "normed": ((2, 32, 4096), torch.bfloat16),
        "residual": ((2, 32, 4096), torch.bfloat16),
    },
    "softmax": {"": ((64, 4096), torch.bfloat16)},
}


def run_reference(workspace: Workspace, shape: dict[str, Any]) -> dict[str, torch.Tensor]:
    inputs = workspace.module("input")._make_inputs(**shape["input_kwargs"])
    with torch.no_grad():
        result = workspace.module("reference").Model(**shape["init_kwargs"]).to(device_of(inputs))(**inputs)
    return result if isinstance(result, dict) else {"": result}


def device_of(inputs: dict[str, torch.Tensor]) -> torch.device:
    return next(iter(inputs.values())).device


def parameters(method: ast.FunctionDef | None) -> list[str]:
    return [] if method is None else [argument.arg for argument in method.args.args if argument.arg != "self"]


def test_there_are_three() -> None:
    assert {workspace.name for workspace in WORKSPACES} == {"softmax", "rmsnorm", "gemm"}


@each_workspace
def test_shapes_have_the_two_keys(workspace: Workspace) -> None:
    assert len(workspace.shapes) >= 3
    assert {frozenset(shape) for shape in workspace.shapes.values()} == {
        frozenset({"init_kwargs", "input_kwargs"})
    }


@each_workspace
def test_kernel_and_reference_take_the_same_arguments(workspace: Workspace) -> None:
    for name in ("__init__", "forward"):
        kernel, reference = workspace.method("kernel", name), workspace.method("reference", name)
        assert parameters(kernel) == parameters(reference)


@each_workspace
def test_forward_parameters_are_the_input_keys(workspace: Workspace) -> None:
    for shape in workspace.shapes.values():
        inputs = workspace.module("input")._make_inputs(**shape["input_kwargs"])
        assert parameters(workspace.method("kernel", "forward")) == list(inputs)


@each_workspace
def test_inputs_follow_the_seed(workspace: Workspace) -> None:
    shape = list(workspace.shapes.values())[-1]
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(workspace.module("input")._make_inputs(**shape["input_kwargs"]))
    for name, tensor in draws[0].items():
        assert torch.equal(tensor, draws[1][name])
        assert not torch.equal(tensor, draws[2][name])


@each_workspace
def test_reference_gives_finite_outputs_of_the_input_dtype(workspace: Workspace) -> None:
    for shape in workspace.shapes.values():
        inputs = workspace.module("input")._make_inputs(**shape["input_kwargs"])
        (dtype,) = {tensor.dtype for tensor in inputs.values()}
        for output in run_reference(workspace, shape).values():
            assert output.dtype == dtype
            assert torch.isfinite(output).all()


@each_workspace
def test_first_shape_gives_the_documented_output(workspace: Workspace) -> None:
    outputs = run_reference(workspace, next(iter(workspace.shapes.values())))
    assert {k: (tuple(v.shape), v.dtype) for k, v in outputs.items()} == FIRST_OUTPUT[workspace.name]


def test_rmsnorm_reference_by_hand() -> None:
    (workspace,) = (w for w in WORKSPACES if w.name == "rmsnorm")
    model = workspace.module("reference").Model(dim=2, eps=0.0, dtype="float32")
    with torch.no_grad():
        model.weight.copy_(torch.tensor([1.0, 10.0]))
        out = model(torch.tensor([[2.0, 1.0]]), torch.tensor([[1.0, 3.0]]))
    # x + residual = (3, 4); its root mean square is sqrt(12.5).
    torch.testing.assert_close(out["normed"], torch.tensor([[3.0, 40.0]]) / 12.5**0.5)
    assert out["residual"].tolist() == [[3.0, 4.0]]

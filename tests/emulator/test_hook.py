"""The hook: it answers an unknown FlyDSL plainly, leaves nothing behind, and traces."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from kernel_lint.errors import KernelLintError
from tests.emulator.seeding import FOLDER, load, run

pytestmark = pytest.mark.flydsl
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_unknown_release_is_named_with_those_that_are_known() -> None:
    from kernel_lint.emulator.hook import check_version

    with pytest.raises(KernelLintError, match=r"flydsl 9\.9\.9; it knows 0\.3\.2, 0\.4\.1, 0\.4\.2, 0\.5\.0"):
        check_version("9.9.9")


def test_missing_attribute_says_where_the_hook_does_not_fit() -> None:
    from kernel_lint.emulator import EmulatorOptions
    from kernel_lint.emulator.hook import patch
    from kernel_lint.emulator.session import Session

    with pytest.raises(KernelLintError, match=r"this FlyDSL has no .*no_such_thing"):
        patch(Session(EmulatorOptions()), os, "no_such_thing", 1)


def test_closing_a_session_takes_the_hooks_out() -> None:
    from flydsl.compiler import jit_function
    from flydsl.compiler.backends.rocm import RocmBackend

    from kernel_lint.emulator import EmulatorOptions, install

    before = (
        jit_function.CompiledArtifact,
        jit_function.CallState,
        RocmBackend.pipeline_fragments,
        dict(os.environ),
    )
    with install(EmulatorOptions()):
        assert jit_function.CompiledArtifact is not before[0]

    assert (
        jit_function.CompiledArtifact,
        jit_function.CallState,
        RocmBackend.pipeline_fragments,
        dict(os.environ),
    ) == before


def test_session_counts_launches_with_grid_and_block(tmp_path: Path) -> None:
    from kernel_lint.emulator import EmulatorOptions, install

    module = load(FOLDER / "elementwise.py")
    with install(EmulatorOptions(checks="none")) as session:
        module.case(1000)

    assert [(x.kernel, x.grid, x.block) for x in session.launches] == [("scale_0", (4, 1, 1), (256, 1, 1))]


def test_trace_gives_values_of_chosen_lanes_at_a_line() -> None:
    import torch

    from kernel_lint.emulator import EmulatorOptions, install

    path = FOLDER / "elementwise.py"
    line = 1 + next(
        i for i, text in enumerate(path.read_text(encoding="utf-8").splitlines()) if "x = X[i]" in text
    )
    torch.manual_seed(0)
    options = EmulatorOptions(
        checks="none", trace_lines=frozenset({line}), trace_lanes=(0, 5), trace_workgroup=3
    )
    module = load(path)
    with install(options) as session:
        module.case(770)
    torch.manual_seed(0)
    x = torch.randn(770)

    loaded = [r for r in session.trace.records() if r.operation == "llvm.load"]
    assert loaded[0].workgroup == (3, 0, 0)
    assert loaded[0].values == ((0, x[768].item()), (5, None))


def test_chunks_bound_the_lanes_and_change_nothing() -> None:
    import torch

    from kernel_lint.emulator import EmulatorOptions, install

    module = load(FOLDER / "block_sum.py")
    outputs = []
    for lanes in (256, 65536):
        torch.manual_seed(3)
        with install(EmulatorOptions(chunk_lanes=lanes)):
            outputs.append(module.case(5, 300)[0])

    assert torch.equal(*outputs)


def test_loads_past_a_tensor_are_errors_by_option(tmp_path: Path) -> None:
    outcome = run(tmp_path, "elementwise", {"n": 1000}, "x = X[i]", "x = X[i + 1]")

    assert [(r, s) for r, s, _ in outcome.findings] == [("OUT_OF_BOUNDS", "error")]


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "gemm"])
def test_examples_run_right_with_all_checks(name: str) -> None:
    from kernel_lint.commands.emulate import command

    result = CliRunner().invoke(command, [str(EXAMPLES / name / "kernel.py")], standalone_mode=False)

    assert result.exception is None
    assert result.return_value == 0, result.output
    assert "performance UNMEASURED" in result.output
    assert "error:" not in result.output


@pytest.mark.parametrize(("text", "lanes"), [("0", (0,)), ("0,3-5", (0, 3, 4, 5))])
def test_lists_of_lanes(text: str, lanes: tuple[int, ...]) -> None:
    from kernel_lint.commands.emulate import parse_lanes

    assert parse_lanes(text) == lanes


@pytest.mark.parametrize(
    ("options", "words"), [({"target": "sm_90"}, "target 'sm_90'"), ({"checks": "race"}, "check 'race'")]
)
def test_wrong_options_are_named(options: dict[str, str], words: str) -> None:
    from kernel_lint.emulator import EmulatorOptions

    with pytest.raises(KernelLintError, match=words):
        EmulatorOptions(**options)


def test_tensors_of_earlier_calls_are_let_go() -> None:
    import torch

    from kernel_lint.emulator import EmulatorOptions, install

    module = load(FOLDER / "elementwise.py")
    with install(EmulatorOptions(checks="none")) as session:
        x, y = torch.randn(1000), torch.zeros(1000)
        address = x.data_ptr()
        module.launch(x, y, 1000)

        assert session.memory.find(address) is None

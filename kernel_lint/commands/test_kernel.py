"""``kernel-lint test-kernel``: what a workspace's test_kernel.py runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kernel_lint.tools.kernel_cases import CaseResult


@click.command("test-kernel")
@click.option("--workspace", "folder", type=click.Path(path_type=Path), default=".", show_default=True)
@click.option("--version", required=True, help="The version under test, v0, v1, ...")
@click.option("--no-memory", is_flag=True, help="Leave memory/ as it is.")
@click.option("--multi-seed", type=click.IntRange(0), default=0, help="Run this many further seeds instead.")
@click.option("--seed", type=int, default=0, show_default=True, help="The base seed.")
@click.option("--backend", help="A verify backend; else the GPU, else the emulator.")
@click.option("--shape", "shapes", multiple=True, metavar="ID", help="Only this shape; may be repeated.")
def command(
    folder: Path,
    version: str,
    no_memory: bool,
    multi_seed: int,
    seed: int,
    backend: str | None,
    shapes: tuple[str, ...],
) -> int:
    """Test kernel.py against reference.py at every shape.

    Each case has its own time limit, TEST_TIMEOUT_SEC (30 s). The last line is
    `[test_kernel] RESULT_JSON={...}`. Exits 0 when every case passed, 1 when one did not.
    """
    from kernel_lint.tools import kernel_memory, kernel_test
    from kernel_lint.tools.workspace import Workspace

    workspace = Workspace.open(folder)
    plan = kernel_test.KernelTestPlan(version, multi_seed, seed, backend, shapes, kernel_test.time_limit())
    result = kernel_test.run(workspace, plan, _show)
    if not no_memory:
        kernel_memory.record(workspace, result)
    click.echo(kernel_test.result_line(result))
    return 0 if result.passed else 1


def _show(case: CaseResult) -> None:
    error = "" if case.rel_err is None else f" rel_err {case.rel_err:.3g} (under {case.threshold:g})"
    why = f" {case.reason}: {case.message}" if case.message else ""
    click.echo(f"[test_kernel] {case.status} {case.name}{error} {case.seconds:.1f} s{why}")

"""``kernel-lint baseline``: test, measure, record and commit version 0 of a workspace's kernel."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command("baseline")
@click.option("--workspace", "folder", type=click.Path(path_type=Path), default=".", show_default=True)
@click.option("--multi-seed", type=click.IntRange(0), default=3, show_default=True, help="Further seeds.")
@click.option("--backend", help="A verify backend; else the GPU, else the emulator.")
@click.option("--commit/--no-commit", default=True, show_default=True, help="Commit when the gate passes.")
@click.option(
    "--timeout", type=float, metavar="SECONDS", help="End each of the two test runs after this time."
)
@click.option(
    "--executor", type=click.Choice(["local", "ssh", "ray"]), envvar="KERNEL_LINT_EXECUTOR", default="local"
)
@click.option(
    "--host", envvar="KERNEL_LINT_HOST", help="ssh: user@machine; kernel-lint must be installed there."
)
@click.option("--address", envvar="RAY_ADDRESS", help="ray: the job server, http://head:8265.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    folder: Path,
    multi_seed: int,
    backend: str | None,
    commit: bool,
    timeout: float | None,
    executor: str,
    host: str | None,
    address: str | None,
    output_format: str,
) -> int:
    """Run clauses B4 to B11 in order and commit `V0: baseline kernel` when the quality gate passes.

    Writes baseline_report.md and memory/v0.json from measured data only. Exits 0 when the gate
    passed, 1 when it did not.
    """
    from kernel_lint.tools import baseline
    from kernel_lint.tools.executors import choose
    from kernel_lint.tools.workspace import Workspace

    options = baseline.BaselineOptions(multi_seed, backend, commit, timeout)
    place = choose(executor, host, address=address)
    found, made = baseline.run(Workspace.open(folder), place, options, _progress)
    if output_format == "json":
        checks = [{"name": c.name, "passed": c.passed, "detail": c.detail} for c in found.checks]
        report = {
            "passed": found.passed,
            "commit": made,
            "checks": checks,
            "base": found.base,
            "seeds": found.seeds,
        }
        click.echo(json.dumps(report, indent=2))
        return 0 if found.passed else 1
    for check in found.checks:
        mark = "-" if check.passed is None else "passed" if check.passed else "FAILED"
        click.echo(f"{mark:<7} {check.name}: {check.detail}")
    click.echo(f"quality gate {'passed' if found.passed else 'FAILED'}; see {folder / baseline.REPORT_FILE}")
    if made is not None:
        click.echo(f"committed {baseline.SUBJECT!r} as {made[:12]}")
    return 0 if found.passed else 1


def _progress(message: str) -> None:
    click.echo(f"  {message}", err=True)

"""``kernel-lint emulate``: run a model's kernels without a GPU, for development."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--task",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of input.py, shapes.json and reference.py (default: MODEL's).",
)
@click.option("--shape", "shapes", multiple=True, help="A shape's id; repeat for several (default: all).")
@click.option("--target", default="gfx942", show_default=True, help="The GPU to emulate: gfx942 or gfx950.")
@click.option(
    "--device", default="cpu", show_default=True, help="The torch device that emulates: cpu or cuda."
)
@click.option(
    "--checks", "--check", default="all", show_default=True, help="all, none, or names separated by commas."
)
@click.option(
    "--load-errors", is_flag=True, help="Count buffer loads past a tensor as errors instead of notes."
)
@click.option(
    "--trace", "lines", type=int, multiple=True, metavar="LINE", help="Print the values at this source line."
)
@click.option(
    "--lanes", default="0", show_default=True, help="Lanes to trace, separated by commas; a-b for a range."
)
@click.option(
    "--workgroup", default=0, show_default=True, help="The workgroup to trace, by its linear number."
)
@click.option("--seed", default=0, show_default=True, help="Seed of the inputs.")
@click.option(
    "--tolerance",
    default=1e-2,
    show_default=True,
    help="Largest relative error (norm) against the reference.",
)
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    model: Path,
    task: Path | None,
    shapes: tuple[str, ...],
    target: str,
    device: str,
    checks: str,
    load_errors: bool,
    lines: tuple[int, ...],
    lanes: str,
    workgroup: int,
    seed: int,
    tolerance: float,
    output_format: str,
) -> int:
    """Run MODEL's FlyDSL kernels in the emulator and report what a GPU would hide.

    Exit 0: right and nothing found; 1: a finding, or wrong numbers; 2: it could not run.
    """
    from kernel_lint.emulator.develop import run_model
    from kernel_lint.emulator.options import EmulatorOptions

    options = EmulatorOptions(
        target=target,
        device=device,
        checks=checks,
        load_errors=load_errors,
        trace_lines=frozenset(lines),
        trace_lanes=parse_lanes(lanes),
        trace_workgroup=workgroup,
    )
    failed, rows = False, []
    for run in run_model(model, task or model.parent, shapes, options, seed):
        wrong = run.relative_error is not None and not run.relative_error <= tolerance
        bad = [f for f in run.findings if f.severity.value == "error"]
        failed = failed or wrong or bool(bad)
        if output_format == "json":
            rows.append(_row(run, target, wrong))
        else:
            _print(run, target, wrong)
    if output_format == "json":
        click.echo(json.dumps({"target": target, "performance": "UNMEASURED", "shapes": rows}, indent=2))
    return int(failed)


def parse_lanes(text: str) -> tuple[int, ...]:
    """Parse ``0,3-5`` into (0, 3, 4, 5).

    Raises :class:`click.BadParameter` for anything else.
    """
    out: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.strip().isdigit() or (last and not last.strip().isdigit()):
            raise click.BadParameter(f"{text!r} is not a list of lanes such as 0,3-5")
        out.extend(range(int(first), int(last or first) + 1))
    return tuple(out)


def _row(run: Any, target: str, wrong: bool) -> dict[str, Any]:
    return {
        "shape": run.shape,
        "relative_error": run.relative_error,
        "right": None if run.relative_error is None else not wrong,
        "launches": [asdict(launch) for launch in run.launches],
        "findings": [finding.to_json() for finding in run.findings],
        "trace": [asdict(record) for record in run.trace],
        "seconds": round(run.seconds, 6),
    }


def _print(run: Any, target: str, wrong: bool) -> None:
    error = "no reference" if run.relative_error is None else f"relative error {run.relative_error:.3g}"
    verdict = "WRONG" if wrong else "ok"
    click.echo(
        f"{run.shape}: {verdict}, {error}, {len(run.launches)} launches, "
        f"emulated {target} in {run.seconds:.2f} s; performance UNMEASURED"
    )
    for record in run.trace:
        click.echo(f"  {record}")
    for finding in run.findings:
        click.echo(f"  {finding.severity.value}: {finding}")

"""``kernel-lint verify``: judge a candidate, or many, against their reference."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kernel_lint.gate_record import FINAL_NAME

if TYPE_CHECKING:
    from kernel_lint.verify import VerifyOptions
    from kernel_lint.verify.fleet.driver import FleetOptions

_FORMATS = ("text", "json", "junit", "markdown", "html")


def _pairs(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    for value in values:
        if "=" not in value:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE")
    return dict(value.split("=", 1) for value in values)


@click.command("verify")
@click.argument("candidates", type=click.Path(path_type=Path), nargs=-1)
@click.option(
    "--task",
    type=click.Path(path_type=Path),
    help="Folder of reference.py, input.py and shapes.json [default: each candidate's].",
)
@click.option(
    "--backend", default="compile", show_default=True, help="How to run it: compile, emulate, torch, rocm."
)
@click.option("--target", "targets", multiple=True, metavar="ARCH", help="GPU architecture; may be repeated.")
@click.option(
    "--shape", "shapes", multiple=True, metavar="ID", help="Only this shape of shapes.json; may be repeated."
)
@click.option(
    "--tolerance",
    default="calibrated",
    show_default=True,
    help="calibrated, contract[:REL_ERR] or allclose[:rtol=R,atol=A].",
)
@click.option(
    "--seeds", type=click.IntRange(1), default=5, show_default=True, help="Draws of inputs for each shape."
)
@click.option("--seed", type=int, help="Replay the draws of an earlier run [default: secret and new].")
@click.option(
    "--variants/--no-variants",
    default=True,
    show_default=True,
    help="Also judge scaled, constant, strided... inputs.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds for one call of the candidate [default: 30; emulated: 300].",
)
@click.option(
    "--task-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    help="Seconds for what is asked of the task: its import, a shape's draws, one case of the reference.",
)
@click.option(
    "--framework",
    type=click.Choice(("flydsl", "cutedsl")),
    help="The kernel language [default: the configuration's]; cutedsl runs on --backend device.",
)
@click.option("--lint/--no-lint", default=True, show_default=True, help="Lint the candidate first.")
@click.option(
    "--require-launch/--no-require-launch",
    default=True,
    show_default=True,
    help="Fail a candidate that launches no kernel.",
)
@click.option("--nondeterministic", is_flag=True, help="Accept that two runs differ in bits.")
@click.option(
    "--isolate/--no-isolate", default=True, show_default=True, help="Shut the candidate's process in."
)
@click.option(
    "--threads",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="CPU threads of torch in each worker.",
)
@click.option(
    "-O",
    "backend_options",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_pairs,
    help="Setting of the backend; may be repeated.",
)
@click.option(
    "--executor",
    type=click.Choice(("local", "ray")),
    help="Judge many candidates, each shape a task of its own: on this machine, or on a Ray cluster.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="Workers of this machine for many candidates [default: its GPUs, or its processors].",
)
@click.option("--resume", is_flag=True, help="Go on with an interrupted run of the same files and options.")
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    help="Where interrupted runs are kept [default: the cache folder].",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep inputs and outputs of failing shapes in DIR.",
)
@click.option("--output-format", type=click.Choice(_FORMATS), default="text", show_default=True)
@click.option(
    "--output-file", type=click.Path(path_type=Path, dir_okay=False), help="Write the report to a file."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def command(
    candidates: tuple[Path, ...],
    task: Path | None,
    executor: str | None,
    jobs: int | None,
    output_format: str,
    output_file: Path | None,
    quiet: bool,
    seed: int | None,
    **settings: Any,
) -> int:
    """Judge CANDIDATES (default: generated_kernel.py) against their reference.

    A candidate is a file, or a folder that holds a generated_kernel.py. Several of them, a pattern in quotes,
    --executor or --jobs make a table with one line for each; docs/fleet.md has the details.

    Exits 0 when every required stage passed on every shape, 1 when a candidate failed,
    2 when a task, the machine or the command line is at fault.
    """
    from kernel_lint.verify import VerifyOptions

    names = candidates or (Path(FINAL_NAME),)
    _settle_backend(settings)
    if seed is not None:
        settings["seed"] = seed
    options = VerifyOptions(progress=_silent if quiet else _progress, **settings)
    if executor is None and jobs is None and len(names) == 1 and _is_one(names[0]):
        candidate = names[0] / FINAL_NAME if names[0].is_dir() else names[0]
        return _verify_one(candidate, task, options, output_format, output_file)
    from kernel_lint.verify.fleet.driver import FleetOptions

    fleet = FleetOptions(
        executor or "local", jobs, seed is not None, options.progress, _silent if quiet else _say
    )
    return _verify_many(names, task, options, fleet, output_format, output_file)


def _settle_backend(settings: dict[str, Any]) -> None:
    """Let CuteDSL run where it can: natively; the other backends run FlyDSL."""
    if settings["framework"] != "cutedsl":
        return
    source = click.get_current_context().get_parameter_source("backend")
    if source is ParameterSource.DEFAULT:
        settings["backend"] = "device"
    elif settings["backend"] not in ("device", "torch"):
        raise click.UsageError(
            f"--backend {settings['backend']} runs FlyDSL kernels; "
            "--framework cutedsl needs --backend device."
        )


def _is_one(name: Path) -> bool:
    import glob

    return name.exists() or not glob.has_magic(str(name))


def _verify_one(
    candidate: Path, task: Path | None, options: VerifyOptions, style: str, output: Path | None
) -> int:
    from kernel_lint.gate_record import remember_verdict
    from kernel_lint.verify import verify
    from kernel_lint.verify.output import ReportFile

    folder = task if task is not None else candidate.parent
    _spare(output, (candidate,), folder)
    try:
        source = candidate.read_bytes() if candidate.is_file() else b""
    except OSError:
        source = b""  # verify says what is wrong with it.
    with ReportFile(output, style) as report_file:
        report = verify(candidate, folder, options)
        report_file.write(report)
    remember_verdict(candidate, source, folder, report)
    if report.exit_code == 2 and not (style == "text" and output is None and _in_one_place()):
        click.echo(f"kernel-lint: error: {report.headline}", err=True)
    return report.exit_code


def _in_one_place() -> bool:
    """Whether standard output and standard error go to the same terminal, file or pipe."""
    try:
        out, err = (os.fstat(stream.fileno()) for stream in (sys.stdout, sys.stderr))
    except (OSError, ValueError, AttributeError):
        return False
    return (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino)


def _verify_many(
    names: tuple[Path, ...],
    task: Path | None,
    options: VerifyOptions,
    fleet: FleetOptions,
    style: str,
    output: Path | None,
) -> int:
    from kernel_lint.gate_record import remember_verdict
    from kernel_lint.verify.fleet import find_candidates, verify_fleet
    from kernel_lint.verify.fleet.render import FleetReportFile

    if style == "html":
        raise click.UsageError("html is the report of one candidate; name one, or choose another format.")
    candidates, twice = find_candidates(names, task)
    if twice:
        fleet.say(f"{twice} names stand for a candidate that was named before; each is judged once")
    for each in candidates:
        _spare(output, (each.path,), each.folder)
    file = FleetReportFile(output, style)
    report = verify_fleet(candidates, options, fleet, file.write)
    for candidate, found in zip(candidates, report.reports, strict=True):
        if candidate.problem is None:
            remember_verdict(candidate.path, candidate.source, candidate.folder, found)
    return report.exit_code


def _spare(output: Path | None, candidates: tuple[Path, ...], task: Path) -> None:
    """Refuse to write the report over what is judged."""
    if output is None or not output.exists():
        return
    for path in (*candidates, *(task / name for name in ("reference.py", "input.py", "shapes.json"))):
        if path.exists() and output.samefile(path):
            raise click.UsageError(f"the report would replace {path}; name another --output-file.")


def _progress(message: str) -> None:
    click.echo(f"  {message}", err=True)


def _say(message: str) -> None:
    click.echo(f"kernel-lint: {message}", err=True)


def _silent(_message: str) -> None:
    """Say nothing."""

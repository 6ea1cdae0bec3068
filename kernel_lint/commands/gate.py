"""``kernel-lint gate``: may this file be handed in?"""

from __future__ import annotations

import json
from pathlib import Path

import click

from kernel_lint.errors import KernelLintError


@click.command(short_help="Say whether the file may be handed in, and what is missing.")
@click.argument("path", type=click.Path(path_type=Path), default=".")
@click.option("--task", type=click.Path(path_type=Path), help="Folder of the task [default: the file's].")
@click.option(
    "--entry", type=click.Path(path_type=Path), help="The workspace's entry [default: as last packaged]."
)
@click.option("--root", "roots", multiple=True, type=click.Path(path_type=Path), help="More local modules.")
@click.option("--inline", multiple=True, metavar="PKG", help="An installed package that was inlined.")
@click.option("--verify", "run_verify", is_flag=True, help="Verify now, with the best backend here.")
@click.option("--write-limitations", is_flag=True, help="Write limitations.json beside the file.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    path: Path,
    task: Path | None,
    entry: Path | None,
    roots: tuple[Path, ...],
    inline: tuple[str, ...],
    run_verify: bool,
    write_limitations: bool,
    output_format: str,
) -> int:
    """Judge the candidate PATH, or generated_kernel.py in the folder PATH.

    It must exist, be packaged from the workspace as it is now, be clean, be verified by the best backend
    that works here, and have its limits recorded in limitations.json. Exits 0 when nothing is missing.
    """
    from kernel_lint import gate
    from kernel_lint.engine import FINAL_NAME

    if not path.exists():
        raise KernelLintError(f"{path} does not exist", "name the folder of generated_kernel.py")
    candidate = path / FINAL_NAME if path.is_dir() else path
    options = gate.GateOptions(candidate, entry, task, roots, inline)
    if run_verify and candidate.is_file():
        _verify(options)
    verdict = gate.judge(options)
    if write_limitations and candidate.is_file():
        gate.write_limitations(verdict)
        verdict = gate.judge(options)
    if output_format == "json":
        click.echo(json.dumps(verdict.to_json(), indent=2))
    else:
        for check in verdict.checks:
            mark = {True: "ok", False: "MISSING", None: "-"}[check.passed]
            click.echo(f"{mark:8}{check.name}: {check.message}")
            if check.remedy and check.passed is False:
                click.echo(f"{'':8}  do: {check.remedy}")
        count = len(verdict.missing)
        click.echo("May be handed in." if not count else f"May not be handed in: {count} missing.")
    return 0 if verdict.passed else 1


def _verify(options) -> None:  # type: ignore[no-untyped-def]
    from kernel_lint import gate, gate_record
    from kernel_lint.verify import VerifyOptions, verify

    backend = gate.best_backend()
    if backend is None:
        raise KernelLintError("no verify backend works here", "kernel-lint doctor says what is missing")
    source = options.candidate.read_bytes()
    progress = VerifyOptions(backend=backend, progress=lambda text: click.echo(f"  {text}", err=True))
    report = verify(options.candidate, options.task_folder, progress)
    gate_record.remember_verdict(options.candidate, source, options.task_folder, report)

"""A report for people and for CI: text, JUnit XML, Markdown, JSON (HTML: :mod:`kernel_lint.verify.html`)."""

from __future__ import annotations

import json
import math
import textwrap
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

from kernel_lint.diagnostics import StageResult, StageStatus
from kernel_lint.verify.report import STAGES, VerifyReport
from kernel_lint.verify.wording import counted, visible

_MARKS = {
    StageStatus.PASSED: "ok  ",
    StageStatus.FAILED: "FAIL",
    StageStatus.SKIPPED: "--  ",
    StageStatus.ERROR: "ERR ",
}
_WIDTH = 100


def render_json(report: VerifyReport) -> str:
    """Return the report as JSON text."""
    return json.dumps(finite(report.to_json()), indent=2, allow_nan=False) + "\n"


def finite(value: Any) -> Any:
    """Write NaN and infinities as text: JSON has no numbers for them."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def render_text(report: VerifyReport) -> str:
    """Return the report for a terminal: what was done, each stage, the verdict last."""
    lines = [
        f"verify {report.candidate}",
        f"  task     {report.task} ({counted(len(report.shapes), 'shape')})",
    ]
    lines.append(f"  backend  {report.backend}: {report.description}")
    if report.isolation:
        lines.append(f"  isolated by {isolation_words(report)}")
    lines += [f"  note     {text}" for text in report.notes]
    lines += [f"  RELAXED  {text}" for text in report.relaxed]
    lines.append("")
    # What is not the candidate's fault is one sentence for the whole run: the last line has it.
    told = report.failure.message if report.exit_code == 2 and report.failure else None
    for stage in STAGES:
        lines += _stage_lines(stage, [r for r in report.stages if r.stage == stage], told)
    lines += ["", *textwrap.wrap(report.headline, _WIDTH, break_long_words=False, subsequent_indent="  ")]
    if report.exit_code == 1 and report.replay:
        lines.append(f"replay: {report.replay}")
    return visible("\n".join(lines) + "\n")


def isolation_words(report: VerifyReport) -> str:
    """Return the active layers of isolation in a few words."""
    record = report.isolation
    layers = [
        ("processes", record.get("pid_namespace")),
        ("no network", record.get("network_namespace")),
        ("a cap on processes", record.get("process_cap")),
        ("no capabilities", record.get("capabilities_dropped")),
        (f"Landlock {record.get('landlock_abi')}", record.get("landlock_abi")),
        ("audit hook", record.get("audit_hook")),
    ]
    return ", ".join(name for name, active in layers if active) or "nothing"


def _stage_lines(stage: str, results: list[StageResult], told: str | None = None) -> list[str]:
    lines: list[str] = []
    skipped: dict[str, list[StageResult]] = {}
    for result in results:
        if result.status is StageStatus.SKIPPED:
            skipped.setdefault(result.message, []).append(result)
            continue
        where = " ".join(filter(None, (result.shape, result.target)))
        reason = f"{result.reason.value}: " if result.reason else ""
        head = f"  {_MARKS[result.status]} {stage:<12}{where}"
        text = f"{reason}{result.message}"
        if result.status is StageStatus.PASSED:
            lines.append(f"{head}  {text}".rstrip())
        elif result.message == told:
            lines.append(f"{head}  {reason}see below")
        else:
            lines.append(head.rstrip())
            lines += textwrap.wrap(text, _WIDTH - 7, initial_indent="       ", subsequent_indent="       ")
        lines += _detail(result)
    for message, group in skipped.items():
        word = "UNMEASURED" if group[0].reason else "skipped"
        lines.append(f"  {_MARKS[StageStatus.SKIPPED]} {stage:<12}{word}: {message}")
    return lines


def _detail(result: StageResult) -> list[str]:
    lines = [f"       {kernel_line(kernel)}" for kernel in result.data.get("kernels", [])]
    trace = result.data.get("traceback")
    if trace and result.status is not StageStatus.PASSED:
        lines += [f"       | {line}" for line in trace.strip().splitlines()[-8:]]
    for finding in result.data.get("findings", [])[:5]:
        if result.status is not StageStatus.PASSED and "code" in finding:
            lines.append(f"       line {finding['location']['row']}: {finding['code']} {finding['message']}")
    return lines


def kernel_line(kernel: dict[str, Any]) -> str:
    """Return registers, LDS and spills of one kernel in a line; unknown figures are ``?``."""

    def figure(name: str) -> str:
        return "?" if kernel.get(name) is None else str(kernel[name])

    if kernel.get("vgprs") is None:
        return f"{kernel['kernel']} (no code object, so no register counts)"
    spills = [count for count in (kernel.get("vgpr_spills"), kernel.get("sgpr_spills")) if count is not None]
    spilled = (
        f"SPILLS {sum(spills)} registers" if any(spills) else "no spills" if len(spills) == 2 else "spills ?"
    )

    return (
        f"{kernel['kernel']}: {figure('vgprs')} VGPRs, {figure('agprs')} AGPRs, {figure('sgprs')} SGPRs, "
        f"{figure('lds_bytes')} B LDS, {figure('scratch_bytes')} B scratch, {spilled}"
    )


def render_markdown(report: VerifyReport) -> str:
    """Return the report as Markdown, for a pull request or a CI summary."""
    lines = [f"# {report.headline}".replace("\n", " "), ""]
    facts = {
        "candidate": report.candidate,
        "task": report.task,
        "backend": f"{report.backend} ({report.description})",
        "tolerance": report.tolerance,
        "isolated by": isolation_words(report),
        "versions": ", ".join(f"{k} {v}" for k, v in report.environment.items()),
    }
    lines += [f"- {name}: {cell(value)}" for name, value in facts.items()]
    lines += [f"- **note**: {cell(text)}" for text in report.notes]
    lines += [f"- **relaxed**: {cell(text)}" for text in report.relaxed]
    lines += ["", "| stage | shape | target | status | reason | message |", "|---|---|---|---|---|---|"]
    for r in report.stages:
        reason = r.reason.value if r.reason else ""
        cells = (r.stage, r.shape or "", r.target or "", r.status.value, reason, r.message)
        lines.append("| " + " | ".join(cell(text) for text in cells) + " |")
    kernels = [k for r in report.stages for k in r.data.get("kernels", [])]
    if kernels:
        lines += [
            "",
            "| kernel | target | VGPRs | AGPRs | SGPRs | LDS | scratch | spills |",
            "|---|---|--:|--:|--:|--:|--:|--:|",
        ]
        names = ("kernel", "target", "vgprs", "agprs", "sgprs", "lds_bytes", "scratch_bytes", "vgpr_spills")
        rows = dict.fromkeys("| " + " | ".join(cell(str(k.get(n))) for n in names) + " |" for k in kernels)
        lines += rows
    if report.replay:
        lines += ["", "Replay:", "", f"    {report.replay}"]
    return visible("\n".join(lines) + "\n")


def cell(text: str) -> str:
    """Return text for a cell of a Markdown table: one line, bars escaped."""
    return " ".join(text.replace("|", "\\|").split())


def render_junit(report: VerifyReport) -> str:
    """Return the report as JUnit XML: one test case for each stage of each shape and target."""
    suite = ElementTree.Element("testsuite", name="kernel-lint verify", time=f"{report.seconds:.3f}")
    counts = {"tests": len(report.stages), "failures": 0, "errors": 0, "skipped": 0}
    for r in report.stages:
        name = " ".join(filter(None, (r.stage, r.shape, r.target)))
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"verify.{r.stage}", name=xml_text(name), time=f"{r.seconds:.3f}"
        )
        reason = r.reason.value if r.reason else ""
        if r.status is StageStatus.SKIPPED:
            counts["skipped"] += 1
            ElementTree.SubElement(case, "skipped", message=xml_text(f"{reason} {r.message}".strip()))
        elif r.status is not StageStatus.PASSED:
            tag = "failure" if r.status is StageStatus.FAILED else "error"
            counts["failures" if tag == "failure" else "errors"] += 1
            element = ElementTree.SubElement(case, tag, type=reason, message=xml_text(r.message))
            element.text = xml_text(r.data.get("traceback", ""))
    if report.exit_code and not counts["failures"] + counts["errors"]:
        # A run can fail for what no stage said; a green suite must not hide that.
        counts.update(tests=counts["tests"] + 1, failures=1)
        case = ElementTree.SubElement(suite, "testcase", classname="verify", name="verdict")
        ElementTree.SubElement(case, "failure", type=report.verdict.value, message=xml_text(report.headline))
    for key, value in counts.items():
        suite.set(key, str(value))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def xml_text(text: str) -> str:
    """Leave out the characters that XML 1.0 cannot hold."""
    return "".join(
        c for c in text if c in "\t\n\r" or (c >= " " and not "\ud800" <= c <= "\udfff" and c < "\ufffe")
    )


def _render_html(report: VerifyReport) -> str:
    from kernel_lint.verify.html import render_html

    return render_html(report)


RENDERERS: dict[str, Callable[[VerifyReport], str]] = {
    "text": render_text,
    "json": render_json,
    "junit": render_junit,
    "markdown": render_markdown,
    "html": _render_html,
}

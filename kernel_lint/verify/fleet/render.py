"""A fleet's report for people and for CI: text, JSON, JUnit XML, Markdown."""

from __future__ import annotations

import json
import sys
import textwrap
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

from kernel_lint.errors import KernelLintError
from kernel_lint.files import replace_file
from kernel_lint.verify.fleet.report import FleetReport, shapes_passed
from kernel_lint.verify.render import cell, finite, xml_text
from kernel_lint.verify.render import render_junit as render_candidate
from kernel_lint.verify.report import VerifyReport

_WIDTH = 100
_EXPLAINED = 20


def render_text(report: FleetReport) -> str:
    """Return the table of candidates, why those that did not pass did not, and the counts last."""
    if not report.finished:
        return report.headline + "\n"
    width = max([len(r.candidate) for r in report.reports] + [9])
    lines = [f"{'candidate':<{width}}  {'verdict':<12} {'shapes':>7}  {'seconds':>8}  reason"]
    lines += [f"{r.candidate:<{width}}  {_figures(r)}".rstrip() for r in report.reports]
    bad = [r for r in report.reports if r.exit_code]
    for each in bad[:_EXPLAINED]:
        lines += ["", each.candidate]
        lines += textwrap.wrap(each.headline, _WIDTH, initial_indent="  ", subsequent_indent="    ")
        lines += [f"  replay: {each.replay}"] if each.replay and each.exit_code == 1 else []
    if len(bad) > _EXPLAINED:
        lines += ["", f"... and {len(bad) - _EXPLAINED} more; --output-format json has all of them"]
    lines += [
        "",
        *(f"note: {note}" for note in report.notes),
        f"judged by {report.executor}",
        report.headline,
    ]
    return "\n".join(lines) + "\n"


def _figures(report: VerifyReport) -> str:
    shapes = f"{shapes_passed(report)}/{len(report.shapes)}" if report.shapes else "-"
    reason = report.reason.value if report.reason else ""
    return f"{report.verdict.value:<12} {shapes:>7}  {report.seconds:8.1f}  {reason}"


def render_json(report: FleetReport) -> str:
    """Return the report as JSON text."""
    return json.dumps(finite(report.to_json()), indent=2, allow_nan=False) + "\n"


def render_markdown(report: FleetReport) -> str:
    """Return one table, for a pull request or a CI summary."""
    lines = [f"# {cell(report.headline)}", "", *(f"- note: {cell(note)}" for note in report.notes)]
    lines += ["", "| candidate | verdict | shapes | reason | message |", "|---|---|--:|---|---|"]
    for r in report.reports:
        reason = r.reason.value if r.reason else ""
        message = r.failure.message if r.failure else ""
        shapes = f"{shapes_passed(r)}/{len(r.shapes)}" if r.shapes else ""
        cells = (r.candidate, r.verdict.value, shapes, reason, message)
        lines.append("| " + " | ".join(map(cell, cells)) + " |")
    return "\n".join(lines) + "\n"


def render_junit(report: FleetReport) -> str:
    """Return JUnit XML with one suite for each candidate."""
    root = ElementTree.Element("testsuites", name="kernel-lint verify", time=f"{report.seconds:.3f}")
    for each in report.reports:
        [suite] = ElementTree.fromstring(render_candidate(each))
        suite.set("name", xml_text(each.candidate))
        root.append(suite)
    if not report.finished:
        suite = ElementTree.SubElement(root, "testsuite", name="kernel-lint verify", tests="1", errors="1")
        case = ElementTree.SubElement(suite, "testcase", classname="verify", name="verdict")
        ElementTree.SubElement(case, "error", type="INCOMPLETE", message=report.headline)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


RENDERERS: dict[str, Callable[[FleetReport], str]] = {
    "text": render_text,
    "json": render_json,
    "junit": render_junit,
    "markdown": render_markdown,
}


class FleetReportFile:
    """A report's destination: a file, or standard output when ``path`` is None.

    A file is replaced by a report that says INCOMPLETE before the run starts: should this process
    be killed, what lies there is neither an older verdict nor a part of the new one.
    """

    def __init__(self, path: Path | None, style: str) -> None:
        self._path, self._render = path, RENDERERS[style]
        # The executor may have put another one in its place by the time that the report is written.
        self._stream = sys.stdout
        if path is not None:
            self._replace(FleetReport((), finished=False))

    def write(self, report: FleetReport) -> None:
        """Write the finished report; raises :class:`KernelLintError` when it cannot be written."""
        if self._path is None:
            self._stream.write(self._render(report))
        else:
            self._replace(report)

    def _replace(self, report: FleetReport) -> None:
        assert self._path is not None
        try:
            replace_file(self._path, self._render(report))
        except OSError as error:
            raise KernelLintError(f"{self._path} cannot be written ({error.strerror})") from None

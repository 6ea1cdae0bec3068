"""A report as one HTML page: nothing is loaded from elsewhere, and nothing that a candidate says is markup.

Everything is text of an autoescaped template; the only markup put in as it is are drawings made of numbers
(:mod:`kernel_lint.verify.html_plots`). A content security policy in the page forbids scripts and requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_lint.diagnostics import StageResult, StageStatus
from kernel_lint.verify.html_plots import Point, error_map_svg, require, roofline_svg
from kernel_lint.verify.render import isolation_words, kernel_line
from kernel_lint.verify.report import STAGES, VerifyReport

_TEMPLATE = Path(__file__).parent / "templates" / "report.html.j2"
_LINE = re.compile(
    r"\bline (\d{1,6})\b|generated_kernel\.py[:\"], line (\d{1,6})|generated_kernel\.py:(\d{1,6})"
)
_AROUND = 2
_LISTED = 12
_SHOWN_CHARACTERS = 6000


@dataclass(frozen=True, slots=True)
class _Excerpt:
    """Some lines of the candidate: number, text, and whether it is the one that was named."""

    lines: tuple[tuple[int, str, bool], ...]


@dataclass(frozen=True, slots=True)
class _Map:
    """A drawing of where an output is wrong, with its words."""

    svg: str
    alternative: str
    leaf: dict[str, Any]


def render_html(report: VerifyReport) -> str:
    """Return the page. Raises :class:`KernelLintError` when jinja2 or matplotlib is missing."""
    require()
    import jinja2
    import markupsafe

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    source = _source(report)
    failures = [r for r in report.stages if r.status in (StageStatus.FAILED, StageStatus.ERROR)]
    roofline = _roofline(report)
    text: str = template.render(
        report=report,
        state={0: "good", 1: "bad"}.get(report.exit_code, "broken"),
        headline=report.headline.removeprefix(f"{report.verdict.value}: "),
        number=_number,
        isolated=isolation_words(report),
        table=_table(report),
        stages=STAGES,
        unmeasured=list(dict.fromkeys(_unmeasured(report))),
        failures=[(r, _words(r), _excerpts(r, source), list(_maps(r, i))) for i, r in enumerate(failures)],
        times=[r for r in report.stages if r.stage == "performance" and r.data.get("microseconds")],
        roofline=roofline,
        kernels=[
            kernel_line(k) for r in report.stages for k in r.data.get("kernels", []) if isinstance(k, dict)
        ],
        findings=list(_findings(report, source)),
        checks=_checks(report),
        draws=[(r.shape, r.data["draws"]) for r in report.stages if r.data.get("draws")],
        markup=markupsafe.Markup,  # for the drawings alone
    )
    return text


def _number(value: Any) -> str:
    """A number as a person reads it; what JSON cannot hold is text already."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _source(report: VerifyReport) -> list[str]:
    try:
        return Path(report.candidate).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []


def _table(report: VerifyReport) -> list[tuple[str, dict[str, StageResult]]]:
    """A row for each shape and target, with the stages that it has a result for."""
    rows: dict[str, dict[str, StageResult]] = {}
    for result in report.stages:
        where = " ".join(filter(None, (result.shape, result.target if len(report.targets) > 1 else None)))
        rows.setdefault(where or "the file", {}).setdefault(result.stage, result)
    return list(rows.items())


def _unmeasured(report: VerifyReport) -> Iterator[str]:
    for result in report.stages:
        if result.status is StageStatus.SKIPPED:
            yield f"{result.stage}: {result.message}"
    if not report.stages:
        yield "everything: the run has not finished"


def _words(result: StageResult) -> dict[str, str]:
    """What a failure has to say at length, by heading."""
    found: dict[str, str] = {}
    if isinstance(result.data.get("traceback"), str):
        found["Traceback"] = result.data["traceback"]
    output = result.data.get("output")
    for name, text in output.items() if isinstance(output, dict) else ():
        found[f"The candidate's {name}"] = str(text)
    return {name: text[-_SHOWN_CHARACTERS:] for name, text in found.items()}


def _excerpts(result: StageResult, source: list[str]) -> list[_Excerpt]:
    text = f"{result.message}\n{result.data.get('traceback', '')}"
    numbers = [int(next(filter(None, match.groups()))) for match in _LINE.finditer(text)]
    return [_excerpt(number, source) for number in dict.fromkeys(numbers) if 0 < number <= len(source)][:3]


def _excerpt(number: int, source: list[str]) -> _Excerpt:
    first, last = max(1, number - _AROUND), min(len(source), number + _AROUND)
    return _Excerpt(tuple((n, source[n - 1][:200], n == number) for n in range(first, last + 1)))


def _findings(report: VerifyReport, source: list[str]) -> Iterator[tuple[str, str, str, list[_Excerpt]]]:
    """Shape, reason, message and source of what the integrity stage and the linter found."""
    for result in report.stages:
        for finding in result.data.get("findings", [])[:_LISTED]:
            code = str(finding.get("reason") or finding.get("code") or "")
            location = finding.get("location")
            text = str(finding.get("message", ""))
            numbers = [int(next(filter(None, match.groups()))) for match in _LINE.finditer(text)]
            numbers += [location["row"]] if isinstance(location, dict) and "row" in location else []
            places = [n for n in numbers if 0 < n <= len(source)][:1]
            yield result.shape or result.stage, code, text, [_excerpt(n, source) for n in places]


def _maps(result: StageResult, number: int) -> Iterator[_Map]:
    comparison = result.data.get("comparison") or {}
    for index, leaf in enumerate(comparison.get("leaves", [])):
        found = leaf.get("error_map")
        if leaf["passed"]:
            continue
        alternative = f"{leaf['wrong']} of {leaf['numel']} elements are wrong"
        alternative += f": {leaf['pattern']}" if leaf["pattern"] else ""
        svg = (
            error_map_svg(found["rows"], found["columns"], found["counts"], f"{number}x{index}")
            if found
            else ""
        )
        yield _Map(svg, alternative, leaf)


def _roofline(report: VerifyReport) -> dict[str, str]:
    """The drawing and its words, or why there is none."""
    points: list[Point] = []
    limits: dict[str, Any] = {}
    for result in report.stages:
        data = result.data
        if result.stage != "performance" or not data.get("roofline"):
            continue
        work = data["work"]
        flops = work["matrix_flops"] or work["vector_ops"]
        for source, placed in data["roofline"].items():
            limits = placed["limits"]
            if flops and work["bytes"] and placed["tflops"]:
                intensity = flops / work["bytes"]
                points.append(Point(source, result.shape or "", intensity, placed["tflops"] * 1e12))
    if not any(r.stage == "performance" and r.data.get("microseconds") for r in report.stages):
        return {"missing": "UNMEASURED: no times were taken, so there is no roofline."}
    if not points or not limits.get("bandwidth"):
        return {
            "missing": "No roofline: the limits of this device, or the work of the reference, are unknown."
        }
    words = "; ".join(f"{p.source}, shape {p.shape}: {p.rate * 1e-12:.3g} TFLOPS" for p in points[:_LISTED])
    # Vector work has another ceiling than the matrix units'.
    matrix = any((r.data.get("work") or {}).get("matrix_flops") for r in report.stages)
    peak = limits.get("peak") if matrix else limits.get("vector")
    return {"svg": roofline_svg(points, limits["bandwidth"], peak), "alternative": f"Roofline. {words}"}


def _checks(report: VerifyReport) -> list[tuple[str, str]]:
    """Which stages ran, and on how much."""
    found = []
    for stage in STAGES:
        own = [r for r in report.stages if r.stage == stage and r.status is not StageStatus.SKIPPED]
        if own:
            good = sum(r.status is StageStatus.PASSED for r in own)
            cases = sum(len(r.data.get("cases", [])) for r in own)
            found.append(
                (stage, f"{good} of {len(own)} passed" + (f", {cases} sets of inputs" if cases else ""))
            )
    return found

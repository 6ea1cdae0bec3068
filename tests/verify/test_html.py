"""The HTML report: what is on the page, that nothing is loaded, that nothing of a candidate's is markup."""

from __future__ import annotations

import dataclasses
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from verify_tasks import ADD, ADD_ONE, HEADER, judge

from kernel_lint.cli import main
from kernel_lint.diagnostics import Reason, StageResult, StageStatus
from kernel_lint.verify.compare_map import error_map
from kernel_lint.verify.html import render_html
from kernel_lint.verify.report import Verdict, VerifyReport

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 7 * 7 }}"
# Tags that load or run something, and attributes that do.
_LOADING = {"script", "link", "iframe", "object", "embed", "base", "form", "audio", "video", "img"}
_VOID = {"meta", "br", "hr", "img", "link", "input", "base"}


class Page(HTMLParser):
    """The tags, attributes and text of a page; complains about tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words, self.open = "", []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def look(report: VerifyReport) -> Page:
    """Render a report; every page must be closed in itself, whatever is on it."""
    page = Page(render_html(report))
    for tag, attributes in page.tags:
        inside_data = str(attributes.get("xlink:href") or "").startswith(("#", "data:image/png"))
        assert tag not in _LOADING, tag
        assert not {name for name in attributes if name.startswith("on") or name in ("src", "href")}
        assert "xlink:href" not in attributes or inside_data
    policies = [a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    return page


def report_of(*stages: StageResult, **changes: Any) -> VerifyReport:
    report = VerifyReport(Verdict.FAIL, "c.py", "task", "torch", "plain torch", ("cpu",), ("s",), stages)
    return dataclasses.replace(report, **{"replay": "kernel-lint verify --seed 7", **changes})


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> VerifyReport:
    """A candidate that is wrong in the last rows and columns of one of two shapes."""
    body = HEADER + "class Model(nn.Module):\n    def forward(self, a, b):\n        out = a + b\n"
    tail = "        if a.shape[0] == 7:\n            out[4:, 30:] = 0\n        return out\n"
    return judge(tmp_path_factory.mktemp("wrong"), ADD, body + tail)


def test_a_failure_shows_where_the_output_is_wrong(wrong: VerifyReport) -> None:
    page = look(wrong)
    images = [a["aria-label"] for t, a in page.tags if a.get("role") == "img"]
    assert images == ["9 of 231 elements are wrong: in the last 3 rows, in the last 3 columns"] or (
        len(images) == 1 and str(images[0]).startswith("9 of 231 elements are wrong")
    )
    for words in (
        "FAIL",
        "VALUE",
        "first",
        "second",
        "UNMEASURED: no times were taken",
        wrong.replay,
        "torch",
    ):
        assert words in page.words
    assert "worst" in page.words
    assert "[4, 30]" in page.words


def test_every_image_has_words_and_headings_are_in_order(wrong: VerifyReport) -> None:
    page = look(wrong)
    drawings = [a for t, a in page.tags if t == "svg"]
    assert drawings
    assert all(a["aria-hidden"] == "true" for a in drawings)
    assert [t for t, _ in page.tags if re.fullmatch("h[1-6]", t)][:2] == ["h1", "h2"]
    assert next(a for t, a in page.tags if t == "html")["lang"] == "en"
    assert all("scope" in a for t, a in page.tags if t == "th")


def test_names_in_drawings_are_unique(wrong: VerifyReport) -> None:
    names = [a["id"] for _t, a in look(wrong).tags if "id" in a]
    assert len(names) == len(set(names))


def test_ink_follows_the_page_and_there_is_a_dark_one(wrong: VerifyReport) -> None:
    text = render_html(wrong)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert "currentColor" in text
    assert "#010203" not in text


def test_what_a_candidate_says_is_text_everywhere(tmp_path: Path) -> None:
    candidate = tmp_path / "generated_kernel.py"
    candidate.write_text(f"x = 1\n# {HOSTILE}\n")
    leaf = {
        "path": HOSTILE, "passed": False, "dtype": HOSTILE, "shape": [2, 2], "wrong": 1, "numel": 4,
        "pattern": HOSTILE, "error_map": {"rows": 2, "columns": 2, "counts": [[1, 0], [0, 0]]},
        "worst": dict.fromkeys(("index", "candidate", "reference", "error", "tolerance"), HOSTILE),
        "mismatches": [],
    }  # fmt: skip
    data = {
        "traceback": HOSTILE, "output": {"stdout": HOSTILE, HOSTILE: "x"}, "comparison": {"leaves": [leaf]},
        "findings": [{"reason": HOSTILE, "message": f"line 2: {HOSTILE}"}], "draws": [HOSTILE],
        "kernels": [{"kernel": HOSTILE}],
    }  # fmt: skip
    stage = StageResult(
        "correctness", StageStatus.FAILED, HOSTILE, "cpu", Reason.VALUE, f"line 2 {HOSTILE}", data=data
    )
    skipped = StageResult("performance", StageStatus.SKIPPED, HOSTILE, message=HOSTILE)
    page = look(
        report_of(
            stage, skipped, candidate=str(candidate), task=HOSTILE, description=HOSTILE, tolerance=HOSTILE,
            notes=(HOSTILE,), relaxed=(HOSTILE,), replay=HOSTILE, environment={HOSTILE: HOSTILE},
            isolation={"problems": [HOSTILE]},
        )
    )  # fmt: skip
    assert page.words.count("<script>alert(1)</script>") >= 18
    assert "{{ 7 * 7 }}" in page.words


def test_lines_of_the_source_are_shown(tmp_path: Path) -> None:
    body = "class Model(nn.Module):\n    def forward(self, a, b):\n        raise ValueError('<b>no</b>')\n"
    report = judge(tmp_path, ADD_ONE, HEADER + body)
    page = look(report)
    here = [a for t, a in page.tags if a.get("class") == "line here"]
    assert here
    assert "raise ValueError('<b>no</b>')" in page.words


def _timed(bandwidth: float | None) -> StageResult:
    interval = {"value": 10.0, "low": 9.0, "high": 11.0}
    placed = {"tflops": 0.5, "limits": {"bandwidth": bandwidth, "peak": 60e12, "vector": 30e12}}
    data = {
        "microseconds": {"candidate": interval, "reference": interval},
        "roofline": {"candidate": placed, "reference": placed},
        "work": {"matrix_flops": 0.0, "vector_ops": 1e6, "bytes": 8e6},
        "notes": ["a note"],
    }
    return StageResult("performance", StageStatus.PASSED, "s", "cpu", message="10 us", data=data)


def test_times_are_put_under_the_roofline() -> None:
    page = look(report_of(_timed(4e12)))
    assert "10.00 [9.00, 11.00]" in page.words
    assert "4,000 GB/s; compute: 30 TFLOPS" in page.words
    assert [a["aria-label"] for _t, a in page.tags if a.get("role") == "img"] == [
        "Roofline. candidate, shape s: 0.5 TFLOPS; reference, shape s: 0.5 TFLOPS"
    ]


def test_unknown_limits_make_no_roofline() -> None:
    page = look(report_of(_timed(None)))
    assert "No roofline" in page.words
    assert not [t for t, _a in page.tags if t == "svg"]


def test_an_unfinished_run_has_a_page_too() -> None:
    empty = VerifyReport(Verdict.INCOMPLETE, "", "", "", "the run has not finished", (), (), ())
    assert "the run has not finished" in look(empty).words


def test_the_command_writes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = ADD_ONE.write(tmp_path / "work")
    (folder / "generated_kernel.py").write_text(HEADER + ADD_ONE.reference)
    monkeypatch.chdir(folder)
    options = [
        "--backend",
        "torch",
        "--no-lint",
        "--no-require-launch",
        "--seeds",
        "2",
        "--no-variants",
        "-q",
    ]
    assert main(["verify", *options, "--output-format", "html", "--output-file", "report.html"]) == 0
    assert "PASS" in Page((folder / "report.html").read_text()).words


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_without_its_libraries_the_error_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.py").write_text("")
    assert main(["verify", "k.py", "--output-format", "html", "--output-file", "r.html"]) == 2
    error = capsys.readouterr().err
    assert f"an HTML report needs {module}" in error
    assert "pip install 'kernel-lint[report]'" in error


def test_wrong_elements_are_counted_in_cells() -> None:
    found = error_map(np.array([0, 1, 99 * 100 + 99]), 3, (100, 100))
    assert found is not None
    assert (found.rows, found.columns, len(found.counts), len(found.counts[0])) == (100, 100, 48, 48)
    assert found.counts[0][0] == 2
    assert found.counts[47][47] == 1
    assert sum(map(sum, found.counts)) == 3


def test_a_sample_of_wrong_elements_stands_for_all() -> None:
    found = error_map(np.array([0, 4]), 200, (2, 2, 2))
    assert found is not None
    assert found.counts == ((100, 0), (0, 0), (100, 0), (0, 0))


def test_a_single_number_has_no_map() -> None:
    assert error_map(np.array([0]), 1, ()) is None

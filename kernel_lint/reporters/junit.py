"""``--output-format junit``: a test suite for each file, a failed test case for each finding."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from kernel_lint.diagnostics import Diagnostic, Severity
from kernel_lint.engine import CheckResult, FileError
from kernel_lint.reporters import ReportOptions
from kernel_lint.reporters._shared import TOOL, by_file, relative

# What XML 1.0 has no way to write (production [2] Char).
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(result: CheckResult, options: ReportOptions) -> str:
    """Write one XML document. A finding that fails no run is a passed case with its text as output."""
    suites = [_suite(path, found) for path, found in by_file(result.diagnostics)]
    suites += [_error(error) for error in result.errors]
    if not suites:
        suites = [_element("testsuite", [_element("testcase", [], name="no findings", classname=TOOL)],
                           name=TOOL, tests=1, failures=0, errors=0)]  # fmt: skip
    failures = sum(d.severity is not Severity.INFO for d in result.diagnostics)
    tests = max(1, len(result.diagnostics) + len(result.errors))
    root = _element(
        "testsuites", suites, name=TOOL, tests=tests, failures=failures, errors=len(result.errors)
    )
    return f'<?xml version="1.0" encoding="utf-8"?>\n{root}\n'


def _suite(path: str, found: list[Diagnostic]) -> str:
    failures = sum(d.severity is not Severity.INFO for d in found)
    cases = [_case(d) for d in found]
    return _element("testsuite", cases, name=relative(path), tests=len(found), failures=failures, errors=0)


def _case(d: Diagnostic) -> str:
    place = f"line {d.span.line}, column {d.span.column}"
    text = _text(f"{place}: {d.message}" + (f"\n{d.help}" if d.help else "") + f"\n{d.url}")
    if d.severity is Severity.INFO:
        body = f"<system-out>{text}</system-out>"
    else:
        body = f"<failure type={_attribute(d.code)} message={_attribute(d.message)}>{text}</failure>"
    path = relative(d.path)
    name = f"{d.code} {d.name} ({d.span.line}:{d.span.column})"
    return _element("testcase", [body], name=name, classname=path, file=path, line=d.span.line)


def _error(error: FileError) -> str:
    path = relative(error.path)
    message = f"{path} {error.message}"
    body = f'<error type="error" message={_attribute(message)}>{_text(error.remedy)}</error>'
    case = _element("testcase", [body], name="readable", classname=path)
    return _element("testsuite", [case], name=path, tests=1, failures=0, errors=1)


def _element(tag: str, children: list[str], **attributes: object) -> str:
    head = tag + "".join(f" {name}={_attribute(str(value))}" for name, value in attributes.items())
    if not children:
        return f"<{head}/>"
    # Not indented: the text of a failure may have lines of its own.
    inner = "\n".join(children)
    return f"<{head}>\n{inner}\n</{tag}>"


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))

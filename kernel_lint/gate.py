"""The gate: may this file be handed in, and if not, what is missing.

It asks, most important first: is the file there, was it packaged from the workspace as it is now, is it
clean, did the best backend that works here find it right, are the limits of that verdict recorded beside
the file and not in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernel_lint import config, engine, gate_record
from kernel_lint.diagnostics import Severity
from kernel_lint.errors import KernelLintError
from kernel_lint.files import read_regular
from kernel_lint.gate_record import Packaging, Record, Verified
from kernel_lint.source.module import SourceError, SourceModule

LIMITATIONS_NAME = "limitations.json"
ENTRY_NAME = "kernel.py"
# The backends, best first; what others say (torch, for plain modules) proves nothing about kernels.
BACKENDS = ("rocm", "emulate", "compile")
_GOOD = {"rocm": "PASS", "emulate": "PASS", "compile": "COMPILED"}
# The one relaxation that is a property of the kernel and not a rule left out; a limit to record.
_NONDETERMINISTIC = "declared nondeterministic"
_WORDS = ("limitations", "unmeasured", "not verified", "untested")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Check:
    """One question of the gate. ``passed`` is None where it does not apply; ``message`` then says why."""

    name: str
    passed: bool | None
    message: str
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the check as its JSON object."""
        status = {True: "passed", False: "missing", None: "not applicable"}[self.passed]
        return {"name": self.name, "status": status, "message": self.message, "remedy": self.remedy}


@dataclass(frozen=True, slots=True)
class Verdict:
    """All checks in the order of their weight, and the limits that hold for the file."""

    candidate: Path
    checks: tuple[Check, ...]
    limits: dict[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> tuple[Check, ...]:
        """The checks that stand in the way."""
        return tuple(check for check in self.checks if check.passed is False)

    @property
    def passed(self) -> bool:
        """Whether the file may be handed in."""
        return not self.missing

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as its JSON object (``docs/schemas/gate.schema.json``)."""
        return {
            "schema_version": 1,
            "candidate": str(self.candidate),
            "passed": self.passed,
            "checks": [check.to_json() for check in self.checks],
            "limits": self.limits,
        }


@dataclass(frozen=True, slots=True)
class GateOptions:
    """Where to look. ``entry`` and ``task`` None mean kernel.py and the task beside the candidate."""

    candidate: Path
    entry: Path | None = None
    task: Path | None = None
    roots: tuple[Path, ...] = ()
    inline: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder that the candidate is handed in from."""
        return self.candidate.parent

    @property
    def task_folder(self) -> Path:
        """The folder of reference.py, input.py and shapes.json."""
        return self.task or self.folder


def judge(options: GateOptions) -> Verdict:
    """Ask all questions; never raises for what the candidate, its workspace or its task is."""
    record = gate_record.load(options.folder)
    try:
        source = read_regular(options.candidate)
    except OSError as error:
        entry = _packaging(options, record).entry
        remedy = f"kernel-lint finalize {options.folder / entry} --backend {best_backend() or 'compile'}"
        missing = isinstance(error, FileNotFoundError)
        reason = "does not exist" if missing else f"cannot be read ({error.strerror})"
        return Verdict(options.candidate, (Check("file", False, f"{options.candidate} {reason}", remedy),))
    verified, limits = _verified(options, record, source)
    ignored = _ignored_rules(options)
    if ignored:
        limits["ignored-rules"] = f"the configuration leaves out {', '.join(ignored)}"
    checks = [
        Check("file", True, f"{options.candidate} exists"),
        _packaged(options, record, source),
        *_clean(options),
        verified,
    ]
    checks += _limits(options, limits)
    return Verdict(options.candidate, tuple(checks), limits)


# -- packaged from the workspace as it is ----------------------------------------------


def _packaging(options: GateOptions, record: Record) -> Packaging:
    if options.entry is not None:
        return Packaging(str(options.entry.absolute()), tuple(map(str, options.roots)), options.inline)
    return record.packaging or Packaging(ENTRY_NAME)


def _packaged(options: GateOptions, record: Record, source: bytes) -> Check:
    from kernel_lint import packager

    how = _packaging(options, record)
    entry = options.folder / how.entry
    if not entry.is_file():
        if options.entry is None and record.packaging is None:
            return Check("packaged", None, f"there is no {ENTRY_NAME} beside it: nothing to compare with")
        return Check("packaged", False, f"its entry {entry} is gone", "name the entry with --entry")
    again = f"kernel-lint finalize {entry} --backend {best_backend() or 'compile'}"
    try:
        made = packager.package(
            entry,
            roots=[options.folder / root for root in how.roots],
            inline=how.inline,
            keep_comments=how.keep_comments,
        )
    except KernelLintError as error:
        return Check("packaged", False, f"the workspace cannot be packaged: {error.message}", error.remedy)
    if made.text.encode() == source:
        return Check("packaged", True, f"packaged from {entry} as it is now")
    line = _first_difference(made.text, source.decode("utf-8", "replace"))
    message = (
        f"stale: packaging {entry} now gives another text, from line {line} on (the workspace "
        "was changed, or the file was edited by hand: make such edits in the workspace)"
    )
    return Check("packaged", False, message, again)


def _first_difference(new: str, old: str) -> int:
    for number, (a, b) in enumerate(zip(new.splitlines(), old.splitlines(), strict=False), 1):
        if a != b:
            return number
    return min(new.count("\n"), old.count("\n")) + 1


# -- clean -----------------------------------------------------------------------------


def _clean(options: GateOptions) -> Iterator[Check]:
    reference = options.task_folder / "reference.py"
    try:
        settings = replace(config.load(options.candidate), final=True)
        if reference.is_file():
            settings = replace(settings, reference=str(reference))
        result = engine.check_paths([options.candidate], settings)
    except KernelLintError as error:
        yield Check("lint", False, error.message, error.remedy)
        return
    problems = [f"{e.path} {e.message}" for e in result.errors]
    bad = [d for d in result.diagnostics if d.severity is not Severity.INFO]
    problems += [f"line {d.span.line}: {d.code} {d.message}" for d in bad]
    if not problems:
        yield Check("lint", True, "no findings")
        return
    more = f" (and {len(problems) - _SHOWN} more)" if len(problems) > _SHOWN else ""
    text = f"{len(problems)} findings: " if len(problems) > 1 else ""
    yield Check(
        "lint", False, text + "; ".join(problems[:_SHOWN]) + more, f"kernel-lint {options.candidate} --fix"
    )


def _ignored_rules(options: GateOptions) -> list[str]:
    """Return the rules of the contract (KL1xx to KL3xx) that the configuration leaves out."""
    from kernel_lint import registry

    try:
        ran = {r.code for r in engine.selected_rules(config.load(options.candidate), str(options.candidate))}
    except KernelLintError:
        # The lint check says what is wrong with the configuration.
        return []
    return [r.code for r in registry.all_rules() if r.code[:3] in ("KL1", "KL2", "KL3") and r.code not in ran]


# -- verified --------------------------------------------------------------------------


def best_backend() -> str | None:
    """Return the best backend that works on this machine; looks without importing torch."""
    from kernel_lint.verify.backends import BackendUnavailableError, load_backend

    for name in BACKENDS:
        if name == "rocm" and not Path("/dev/kfd").exists():
            # AMD's driver is not loaded; asking torch the same would take seconds.
            continue
        try:
            load_backend(name).check()
        except (BackendUnavailableError, KernelLintError):
            continue
        return name
    return None


def _verified(options: GateOptions, record: Record, source: bytes) -> tuple[Check, dict[str, str]]:
    from kernel_lint.verify.contract import load_task

    limits: dict[str, str] = {}
    best = best_backend()
    if best is None:
        limits["unverified"] = "verified by nothing: neither FlyDSL nor torch is installed on this machine"
        return Check("verified", None, "no backend works here (kernel-lint doctor says why)"), limits
    if best != "rocm":
        limits["performance-unmeasured"] = "no time was measured: this machine has no supported GPU"
    if best == "emulate":
        limits["emulated"] = "correctness was judged on an emulator, not on hardware"
    if best == "compile":
        limits["correctness-unmeasured"] = "the kernels were compiled and not run"
    command = f"kernel-lint verify {options.candidate} --task {options.task_folder} --backend {best}"
    try:
        task = load_task(options.task_folder)
    except KernelLintError as error:
        return Check(
            "verified", False, f"there is no task to verify against: {error.message}", error.remedy
        ), limits
    current = [
        v for v in record.verified if v.candidate == gate_record.hash_of(source) and v.task == task.digest
    ]
    failed = next((v for v in current if v.verdict == "FAIL"), None)
    if failed is not None:
        return Check("verified", False, f"{failed.backend}: {failed.headline}", command), limits
    verdict = next((v for v in current if v.backend == best), None)
    problem = _unfit(verdict, best, {shape.id for shape in task.shapes})
    if verdict is None or problem:
        return Check("verified", False, problem, command), limits
    if any(text.startswith(_NONDETERMINISTIC) for text in verdict.relaxed):
        limits["nondeterministic"] = "two runs may differ in bits"
    if best == "rocm" and not verdict.performance:
        limits["performance-unmeasured"] = "no time was measured"
    return Check("verified", True, verdict.headline), limits


def _unfit(verdict: Verified | None, best: str, shapes: set[str]) -> str:
    """Say why a verdict is not enough, or nothing."""
    if verdict is None:
        return f"not verified by {best} as it is now, with the task as it is now"
    if verdict.verdict != _GOOD[best]:
        return f"{best} did not pass it: {verdict.headline}"
    left_out = sorted(shapes - set(verdict.shapes))
    if left_out:
        return f"verified on a part of the shapes only; left out: {', '.join(left_out[:_SHOWN])}"
    rules = [text for text in verdict.relaxed if not text.startswith(_NONDETERMINISTIC)]
    return f"verified with rules left out: {'; '.join(rules)}" if rules else ""


# -- limits ----------------------------------------------------------------------------


def _limits(options: GateOptions, limits: dict[str, str]) -> Iterator[Check]:
    path = options.folder / LIMITATIONS_NAME
    command = f"kernel-lint gate {options.folder} --write-limitations"
    if not limits and not path.exists():
        yield Check("limits recorded", True, "there are none")
    else:
        try:
            recorded = read_limitations(path)
            absent = [name for name in limits if name not in recorded]
            stale = [name for name in recorded if name in _KNOWN_LIMITS and name not in limits]
            problem = ""
            if absent:
                problem = f"{path} does not say: {'; '.join(limits[name] for name in absent)}"
            elif stale:
                problem = f"{path} names limits that no longer hold: {', '.join(stale)}"
        except KernelLintError as error:
            problem = error.message
        yield Check("limits recorded", not problem, problem or f"in {path}", command if problem else "")
    yield from _not_inside(options)


_KNOWN_LIMITS = frozenset(
    {
        "unverified",
        "performance-unmeasured",
        "emulated",
        "correctness-unmeasured",
        "nondeterministic",
        "ignored-rules",
    }
)


def _not_inside(options: GateOptions) -> Iterator[Check]:
    """What is unknown about a candidate is said beside it: the file itself stays clean."""
    try:
        module = SourceModule.read(options.candidate)
    except SourceError:
        # The lint check says so.
        return
    if module.problem is not None:
        return
    for line, _, text in module.comments:
        word = next((word for word in _WORDS if word in text.lower()), None)
        if word is not None:
            message = f"line {line}: a comment speaks of limits ('{word}')"
            yield Check(
                "limits not in the file", False, message, f"say it in {LIMITATIONS_NAME}, remove it here"
            )
            return
    yield Check("limits not in the file", True, "none")


def read_limitations(path: Path) -> dict[str, str]:
    """Return the recorded limits by name; no file records none. Raises KernelLintError for a broken one."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise KernelLintError(f"{path} is not readable JSON: {error}", "mend or remove it") from error
    limits = data.get("limits") if isinstance(data, dict) else None
    if not isinstance(limits, dict) or not all(isinstance(text, str) for text in limits.values()):
        raise KernelLintError(f'{path} has no "limits" that map names to texts', "mend or remove it")
    return limits


def write_limitations(verdict: Verdict) -> Path:
    """Write the limits beside the candidate; entries that people added stay. Raises KernelLintError."""
    from kernel_lint.files import replace_file

    path = verdict.candidate.with_name(LIMITATIONS_NAME)
    own = {name: text for name, text in read_limitations(path).items() if name not in _KNOWN_LIMITS}
    data = {"schema_version": 1, "candidate": verdict.candidate.name, "limits": {**verdict.limits, **own}}
    try:
        replace_file(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise KernelLintError(
            f"{path} cannot be written: {error.strerror}", "check its permissions"
        ) from error
    return path

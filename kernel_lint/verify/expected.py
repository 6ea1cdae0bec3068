"""What the reference gives for a case, and whether anything can be judged by it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel_lint.diagnostics import Reason
from kernel_lint.verify import trees
from kernel_lint.verify.compare import compare
from kernel_lint.verify.compare_result import LeafComparison
from kernel_lint.verify.protocol import Reply
from kernel_lint.verify.reference import Reference
from kernel_lint.verify.stages import as_task_fault

# Float64 runs on perturbed inputs, which tell how well conditioned the outputs are.
_PERTURBED = 2


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a case did not pass."""

    reason: Reason
    message: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """One set of inputs; ``seed`` seeds the generators right before forward.

    ``layout`` says how the values lie where that is unusual.
    """

    label: str
    inputs: Path
    seed: int
    layout: str = ""


@dataclass(frozen=True, slots=True)
class Expected:
    """Where the reference's outputs for a case are: as given, in float64, and perturbed."""

    output: Path
    exact: Path | None
    perturbed: tuple[Path, ...]

    def discard(self) -> None:
        """Remove the files: before the candidate's next call, and before they are written to the disk."""
        for path in (self.output, self.exact, *self.perturbed):
            if path is not None:
                path.unlink(missing_ok=True)


def reference_failure(reply: Reply, file: str) -> Failure:
    """Return the failure that a failing reply of the reference's worker stands for."""
    fault = as_task_fault(reply, file)
    return Failure(
        fault.reason or Reason.HARNESS_ERROR,
        fault.message,
        {k: v for k, v in fault.data.items() if k == "traceback"},
    )


@dataclass(slots=True)
class Expectations:
    """Asks the reference for the outputs of one shape's cases, in files of ``folder``.

    ``work`` is the arithmetic of one call, once it is known; ``notes`` go to the report. The first case of
    each slot runs twice: a reference that contradicts itself can judge nothing. ``changed`` are the paths of
    the inputs that forward changes in place.
    """

    reference: Reference
    folder: Path
    notes: list[str]
    work: int | None = None
    changed: set[str] = field(default_factory=set)
    _steady: set[str] = field(default_factory=set)

    def of(self, case: Case, slot: str, trusted: bool = False) -> Expected | Failure:
        """Return where the outputs are, or why there are none that count.

        ``trusted`` says that the slot's first case ran twice before, for the slot's own shape.
        """
        names = ["expected", "exact", *(f"perturbed-{i}" for i in range(_PERTURBED))]
        paths = [self.folder / f"{name}.safetensors" for name in names]
        again = None if trusted or slot in self._steady else self.folder / "again.safetensors"
        reply = self.reference.ask(
            "run",
            slot=slot,
            inputs=str(case.inputs),
            seed=case.seed,
            output=str(paths[0]),
            output64=str(paths[1]),
            perturbed=[str(path) for path in paths[2:]],
            again=str(again) if again else None,
            observe=self.work is None,
        )
        if not reply.ok:
            return reference_failure(reply, "reference.py")
        if "aten" in reply.data:
            self.work = int(reply.data["aten"]["work"])
        self.changed.update(reply.data["changed_inputs"])
        exact = paths[1] if reply.data["float64"] else None
        if exact is None and "the reference has no float64 run" not in self.notes:
            self.notes.append("the reference has no float64 run")
        expected = Expected(paths[0], exact, tuple(paths[2:]) if exact else ())
        if again is not None:
            fault = _contradiction(paths[0], again, slot)
            again.unlink(missing_ok=True)
            if fault is not None:
                expected.discard()
                return fault
            self._steady.add(slot)
        return expected


def _contradiction(first: Path, second: Path, slot: str) -> Failure | None:
    """Return a failure when two runs of the reference differ by more than the rounding of their dtype."""
    found = compare(trees.load_tree(second), trees.load_tree(first))
    if found.passed:
        return None
    bad = next((leaf for leaf in found.leaves if not leaf.passed), None)
    what = _two_values(bad) if bad else found.summary
    return Failure(
        Reason.INVALID_TASK,
        f'reference.py: Model.forward for shape "{slot}": gives other values when it is called again with '
        f"the same inputs under the same seed ({what}), so nothing can be judged by it; draw numbers from "
        "seeded generators only, and keep no state between calls",
        {"comparison": found.to_json()},
    )


def _two_values(leaf: LeafComparison) -> str:
    worst = leaf.worst
    if worst is None:
        return leaf.summary
    place = f" at {list(worst.index)}" if worst.index else ""
    return f"{leaf.path}{place}: first {worst.reference!r}, then {worst.candidate!r}"

"""The cases of one shape: draws and variants, each run by the candidate first and the reference after.

In that order the expected output does not exist anywhere while the candidate runs.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel_lint.diagnostics import Reason
from kernel_lint.verify import trees
from kernel_lint.verify.compare import Comparison, compare
from kernel_lint.verify.compare_policy import parse_policy
from kernel_lint.verify.contract import Shape
from kernel_lint.verify.expected import Case, Expectations, Expected, Failure, reference_failure
from kernel_lint.verify.faults import NO_ROOM, no_room
from kernel_lint.verify.memory import POISONS
from kernel_lint.verify.options import VerifyOptions
from kernel_lint.verify.outputs import difference, digest_file, first_difference, never_written
from kernel_lint.verify.protocol import Reply
from kernel_lint.verify.reference import Reference
from kernel_lint.verify.session import Session
from kernel_lint.verify.wording import counted
from kernel_lint.verify.workplace import Workplace

__all__ = ["Case", "CaseRunner", "Failure"]

_FORWARD_SEED = 1000
# Failures of outputs whose structure, shapes and dtypes are right, so that their bytes can be looked at.
_SHAPED = (Reason.VALUE, Reason.NONFINITE)


class CaseRunner:
    """Runs the cases of one shape and collects what the integrity stage needs to know."""

    def __init__(
        self,
        place: Workplace,
        session: Session,
        reference: Reference,
        options: VerifyOptions,
        target: str,
        shape: Shape,
    ) -> None:
        self._place = place
        self._session = session
        self._reference = reference
        self._options = options
        self._target = target
        self._shape = shape
        self._policy = parse_policy(_tolerance(options, shape))
        self._folder = place.private / hashlib.sha256(f"{target}/{shape.id}".encode()).hexdigest()[:16]
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        self._count = 0
        self._seen_outputs: dict[str, str] = {}
        self.kept: Case | None = None
        self.replies: list[tuple[str, Reply]] = []
        self.repeats: list[Reply] = []
        self.nondeterministic = ""
        self.idle_kernels = ""
        self._pair: list[Case] = []
        self.summaries: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self._expectations = Expectations(reference, self._folder, self.notes)
        self.evidence: dict[str, Any] = {}
        self.artifacts: list[dict[str, Any]] = []
        self.seconds = 0.0

    @property
    def reference_work(self) -> int | None:
        """The arithmetic of one call of the reference, once it is known."""
        return self._expectations.work

    @property
    def reference_changes(self) -> frozenset[str]:
        """Paths of the inputs that the reference itself changes in place."""
        return frozenset(self._expectations.changed)

    def run_all(self) -> Failure | None:
        """Run draws, then variants; stops at the first failure."""
        return self._guarded(self._run_all)

    def run_once(self) -> Failure | None:
        """Run the first draw only, plainly."""
        return self._guarded(self._run_once)

    def _guarded(self, run: Callable[[], Failure | None]) -> Failure | None:
        started = time.monotonic()
        try:
            return run()
        except trees.TreeError as error:
            return Failure(Reason.TAMPERING, f"the file with the candidate's output is not sound: {error}")
        except (MemoryError, OSError) as error:
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                return Failure(Reason.ENV_ERROR, no_room(error, self._place.root.parent))
            return Failure(
                Reason.HARNESS_ERROR, f"the judge could not compare: {type(error).__name__}: {error}"
            )
        finally:
            self.seconds = time.monotonic() - started

    def run_again(self, shape: Shape, case: Case) -> Failure | None:
        """Run a case of the shape before once more, in the same process: a stale specialisation shows."""
        reply = self._ask(case, self._output_path(), slot=shape.id)
        if not reply.ok:
            return self._failure(case, reply)
        expected = self._expectations.of(case, shape.id, trusted=True)
        if isinstance(expected, Failure):
            return expected
        comparison = self._compare(Path(reply.data["output"]), expected)
        expected.discard()
        if isinstance(comparison, Failure) or comparison.passed:
            return comparison if isinstance(comparison, Failure) else None
        message = (
            f"shape {shape.id} is wrong when it runs again after shape {self._shape.id}: {comparison.summary}"
        )
        return Failure(comparison.reason or Reason.VALUE, message, {"comparison": comparison.to_json()})

    def run_idle(self) -> None:
        """Run two draws again without their kernels: if nothing changes, they do not compute the outputs.

        Two, whose outputs differ: a constant answer (how many NaN are there? none) may well stay.
        """
        same = [self._idle(case) for case in self._pair]
        if len(same) == 2 and all(same):
            self.idle_kernels = (
                "the outputs are the same, bit for bit, when no kernel runs: the kernels do not compute them"
            )

    def _idle(self, case: Case) -> bool:
        """Whether a case gives the output that it gave, when no kernel runs."""
        if self._session.ended:
            return False
        reply = self._ask(case, self._output_path(), poison=POISONS[0], idle=True)
        if not reply.ok:
            self.notes.append(f"{case.label} failed without its kernels, so what they do was not looked at")
            return False
        output = Path(reply.data["output"])
        try:
            return self._seen_outputs.get(digest_file(output)) == case.label
        except trees.TreeError:
            return False
        finally:
            _remove([output])

    def praise(self) -> str:
        """Return how many cases passed, and how close the closest came."""
        ratios = [leaf["max_ratio"] for s in self.summaries for leaf in s["leaves"] if leaf["max_ratio"]]
        numbers = [ratio for ratio in ratios if isinstance(ratio, float)]
        closest = f"; the largest error is {max(numbers):.2g} of its tolerance" if numbers else ""
        count = len(self.summaries)
        return f"{counted(count, 'case')} {'matches' if count == 1 else 'match'}{closest}"

    def _draw(self, count: int) -> Reply:
        return self._reference.ask(
            "draw",
            shape=self._shape.id,
            input_kwargs=self._shape.input_kwargs,
            secret=self._options.seed,
            count=count,
            folder=str(self._folder),
        )

    def _run_once(self) -> Failure | None:
        reply = self._draw(1)
        if not reply.ok:
            return reference_failure(reply, "input.py")
        self.kept = Case("draw 0", Path(reply.data["draws"][0]), _FORWARD_SEED)
        return self._case(self.kept, POISONS[0], reuse=False)

    def _run_all(self) -> Failure | None:
        reply = self._draw(self._options.seeds)
        if not reply.ok:
            return reference_failure(reply, "input.py")
        self.notes += reply.data["notes"]
        self.evidence["draws"] = reply.data["digests"]
        # Not the draw's own seed: the candidate needs a state of the generators, not the way to its inputs.
        cases = [
            Case(f"draw {i}", Path(path), _FORWARD_SEED + i) for i, path in enumerate(reply.data["draws"])
        ]
        self._pair = cases[:2]
        failure = self._first_case(cases[0])
        for number, case in enumerate(cases[1:]):
            failure = failure or self._case(case, POISONS[number % 2], reuse=number % 2 == 0)
        if failure is None and self._options.variants:
            failure = self._variants(cases[0])
        self.kept = cases[-1]
        return failure

    def _variants(self, base: Case) -> Failure | None:
        reply = self._reference.ask(
            "variants", slot=self._shape.id, inputs=str(base.inputs), seed=base.seed,
            folder=str(self._folder),
        )  # fmt: skip
        if not reply.ok:
            return reference_failure(reply, "reference.py")
        self.notes += reply.data["notes"]
        for entry in reply.data["variants"]:
            case = Case(f"variant {entry['name']}", Path(entry["path"]), base.seed, entry["layout"])
            failure = self._case(case, POISONS[0], reuse=False)
            if failure is not None and case.layout and failure.reason is Reason.RUNTIME_ERROR:
                # It refuses inputs that the task never makes; a wrong answer would be worse.
                self.notes.append(f"{case.label}: refused by the candidate: {failure.message}")
                failure = None
            if failure is not None:
                return _of_layout(failure, case, base)
            case.inputs.unlink(missing_ok=True)
        return None

    def _first_case(self, case: Case) -> Failure | None:
        """Run one draw twice on poisoned memory between guards, then plainly, as an evaluator would."""
        outputs: list[Path] = []
        for poison, cache in ((POISONS[0], "0"), (POISONS[1], "1"), (None, "1")):
            environment = {"FLYDSL_RUNTIME_ENABLE_CACHE": cache}
            reply = self._ask(case, self._output_path(), poison=poison, environment=environment)
            if not reply.ok:
                return self._failure(case, reply)
            self.replies.append((case.label, reply))
            if outputs and poison is not None:
                self.repeats.append(reply)
            damage = reply.data.get("damage")
            if damage:
                return Failure(Reason.OUT_OF_BOUNDS, f"{case.label}: {damage[0]}")
            outputs.append(Path(reply.data["output"]))
        failure = self._judge(case, outputs[2], "")
        if failure is not None and failure.reason not in _SHAPED:
            return failure
        first, second, plain = (trees.load_tree(path) for path in outputs)
        unwritten = never_written(first, second, plain)
        if unwritten:
            return Failure(Reason.UNWRITTEN, f"{case.label}: {unwritten}")
        self.nondeterministic = first_difference(plain, first)
        if failure is None and self.nondeterministic:
            failure = self._judge(case, outputs[0], " when run on poisoned memory")
        _remove(outputs)
        return failure

    def _case(self, case: Case, poison: int, reuse: bool) -> Failure | None:
        reply = self._ask(case, self._output_path(), poison=poison, reuse=reuse)
        if not reply.ok:
            return self._failure(case, reply)
        self.replies.append((case.label, reply))
        output = Path(reply.data["output"])
        failure = self._judge(case, output, "")
        _remove([output])
        return failure

    def _ask(self, case: Case, output: Path, **how: Any) -> Reply:
        """Have the candidate run a case; ``how`` is slot, poison, reuse, environment (see its worker)."""
        self._count += 1
        copy = self._session.folder / "inbox" / f"inputs-{self._count}.safetensors"
        shutil.copyfile(case.inputs, copy)
        reply = self._session.ask(
            "run",
            self._options.call_seconds,
            inputs=str(copy),
            output=str(output),
            seed=case.seed,
            **{"slot": self._shape.id, **how},
        )
        copy.unlink(missing_ok=True)
        if reply.ok and not output.exists():
            return replace(
                reply, ok=False, reason=Reason.TAMPERING, message="an answer came without an output"
            )
        if reply.ok:
            reply.data["output"] = str(output)
            for artifact in reply.data.get("observation", {}).get("artifacts", []):
                if artifact not in self.artifacts:
                    self.artifacts.append(artifact)
        return reply

    def _output_path(self) -> Path:
        return self._session.folder / "outbox" / f"output-{self._count + 1}.safetensors"

    def _judge(self, case: Case, output: Path, circumstance: str) -> Failure | None:
        """Run the reference on the case and compare."""
        expected = self._expect(case, self._shape.id)
        if isinstance(expected, Failure):
            return expected
        try:
            return self._weigh(case, output, expected, circumstance)
        finally:
            expected.discard()

    def _weigh(self, case: Case, output: Path, expected: Expected, circumstance: str) -> Failure | None:
        self._place.pace.now_and_then(f"shape {self._shape.id}: comparing {case.label}")
        comparison = self._compare(output, expected)
        if isinstance(comparison, Failure):
            return comparison
        value = comparison.to_json()
        for leaf in value["leaves"]:
            for name in ("mismatches", "error_map") if comparison.passed else ():
                leaf.pop(name, None)
        self.summaries.append({"case": case.label + circumstance, **value})
        earlier = case.label
        if comparison.passed or comparison.reason in _SHAPED:
            earlier = self._seen_outputs.setdefault(digest_file(output), case.label)
        if comparison.passed:
            return None
        self._keep(case, output, expected)
        if earlier != case.label:
            message = f"{case.label} got the output of {earlier} again, bit for bit, for other inputs"
            return Failure(Reason.TAMPERING, message, {"comparison": value})
        message = f"{case.label}{circumstance}: {comparison.summary}"
        return Failure(comparison.reason or Reason.VALUE, message, {"comparison": value})

    def _expect(self, case: Case, slot: str) -> Expected | Failure:
        return self._expectations.of(case, slot)

    def _compare(self, output: Path, expected: Expected) -> Comparison | Failure:
        try:
            candidate = trees.load_tree(output)
        except trees.TreeError as error:
            return Failure(Reason.TAMPERING, f"the file with the candidate's output is not sound: {error}")
        try:
            reference = trees.load_tree(expected.output, mmap=True)
            exact = trees.load_tree(expected.exact, mmap=True) if expected.exact else None
            perturbed = [trees.load_tree(path, mmap=True) for path in expected.perturbed]
            return compare(candidate, reference, exact, self._policy, sensitivity=perturbed)
        except Exception as error:
            # The judge's own trouble (too little memory to compare...) is not the candidate's.
            return Failure(
                Reason.HARNESS_ERROR, f"the judge could not compare: {type(error).__name__}: {error}"
            )

    def _failure(self, case: Case, reply: Reply) -> Failure:
        if reply.reason is Reason.STRUCTURE:
            # What cannot be taken from the candidate may be what the task asks for.
            expected = self._expect(case, self._shape.id)
            if isinstance(expected, Failure):
                return expected
            expected.discard()
        data: dict[str, Any] = {k: v for k, v in reply.data.items() if k == "traceback"}
        output = {name: text[-4000:] for name, text in self._session.output().items() if text}
        if output:
            data["output"] = output
        self.replies.append((case.label, reply))
        assert reply.reason is not None
        self._keep(case, None, None)
        return Failure(reply.reason, f"{case.label}: {reply.message}", data)

    def _keep(self, case: Case, output: Path | None, expected: Expected | None) -> None:
        """Copy the evidence of a failing case to ``--keep``."""
        if self._options.keep is None:
            return
        folder = self._options.keep / f"{_safe(self._shape.id)}-{_safe(self._target)}-{_safe(case.label)}"
        folder.mkdir(parents=True, exist_ok=True)
        files = {"inputs": case.inputs, "output": output}
        if expected is not None:
            files.update(expected=expected.output, expected64=expected.exact)
        for name, path in files.items():
            if path is not None and path.exists():
                shutil.copyfile(path, folder / f"{name}.safetensors")
        if output is not None and expected is not None:
            errors = difference(output, expected.output)
            if errors:
                trees.save_tree(errors, folder / "difference.safetensors")
        self.evidence["kept"] = str(folder)


def _of_layout(failure: Failure, case: Case, base: Case) -> Failure:
    """Say what a wrong answer to right values in another layout means."""
    if not case.layout or failure.reason not in _SHAPED:
        return failure
    message = (
        f"{failure.message}; these are the values of {base.label}, which come out right, {case.layout}: "
        "forward takes its inputs for contiguous and aligned; call .contiguous(), clone() what is not "
        "aligned, hand the strides to the kernel, or raise an exception"
    )
    return replace(failure, message=message)


def _remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _safe(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in text)[:80]


def _tolerance(options: VerifyOptions, shape: Shape) -> str:
    """Return the policy: the option's, or the task's own where the option leaves it open."""
    if options.tolerance != "calibrated" or not shape.tolerance:
        return options.tolerance
    if "rel_err" in shape.tolerance:
        return f"contract:{shape.tolerance['rel_err']}"
    return "allclose:" + ",".join(f"{k}={v}" for k, v in shape.tolerance.items())

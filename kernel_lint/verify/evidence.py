"""What the cases of a shape prove: nothing where zeros would have passed as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernel_lint.verify.wording import counted

_NAMED = 4


@dataclass(frozen=True, slots=True)
class Evidence:
    """Which of the cases cannot tell a right answer from zeros, and which outputs none of them tells.

    ``blind`` are labels of cases, ``untold`` paths of outputs; ``noise`` says that the reference's outputs
    are not zero, and yet zeros would have passed in all cases.
    """

    cases: int
    blind: tuple[str, ...]
    untold: tuple[str, ...]
    noise: bool

    def words(self) -> str:
        """Return what to say beside the praise of a shape that passed; empty where there is no need.

        Variants of equal inputs often have zeros for outputs; a draw of the task should not.
        """
        if self.untold:
            return f"; no case tells {_listed(self.untold)} from zeros"
        if any(label.startswith("draw") for label in self.blind):
            return f"; {self._share()}"
        return ""

    def notes(self) -> list[str]:
        """Return the same for the notes of the report, where every such case is told."""
        return [f"{self._share()}: {', '.join(self.blind)}"] * bool(self.blind)

    def fault(self, shape: str) -> str:
        """Return why nothing can be judged by this task; empty where something can."""
        if not self.noise or len(self.blind) < self.cases:
            return ""
        return (
            f'shapes.json: "{shape}": {self._share()}, so a right candidate and one that returns zeros look '
            "alike: the reference's outputs are within the tolerance of zero (rounding noise, as of "
            "x - mean(x) for equal x); have input.py draw values that give other outputs, or state a smaller "
            "tolerance"
        )

    def _share(self) -> str:
        telling = self.cases - len(self.blind)
        many = f"only {telling}" if telling else "none"
        return f"{many} of {counted(self.cases, 'case')} can tell a right answer from zeros"


def evidence(summaries: Sequence[dict[str, Any]]) -> Evidence:
    """Weigh the comparisons of a shape's cases, all of which passed."""
    labels = [summary["case"] for summary in summaries]
    blind = [s["case"] for s in summaries if all(leaf["zeros"] != "wrong" for leaf in s["leaves"])]
    told: dict[str, bool] = {}
    for leaf in (leaf for summary in summaries for leaf in summary["leaves"]):
        # Names, flags and what has no elements are not what one would take zeros for.
        if leaf["numel"]:
            told[leaf["path"]] = told.get(leaf["path"], False) or leaf["zeros"] == "wrong"
    noise = any(leaf["zeros"] == "tolerance" for summary in summaries for leaf in summary["leaves"])
    return Evidence(len(labels), tuple(blind), tuple(p for p, seen in told.items() if not seen), noise)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")

"""How to emulate."""

from __future__ import annotations

from dataclasses import dataclass

from kernel_lint.errors import KernelLintError

CHECKS = frozenset({"bounds", "uninitialized", "races", "barriers", "alignment", "nan"})
TARGETS = ("gfx942", "gfx950")


def parse_checks(text: str | frozenset[str]) -> frozenset[str]:
    """``all``, ``none``, or names separated by commas.

    >>> sorted(parse_checks("bounds,races"))
    ['bounds', 'races']
    """
    if isinstance(text, frozenset):
        names = text
    elif text in ("all", "none"):
        return CHECKS if text == "all" else frozenset()
    else:
        names = frozenset(part.strip() for part in text.split(",") if part.strip())
    unknown = sorted(names - CHECKS)
    if unknown:
        raise KernelLintError(
            f"there is no emulator check {unknown[0]!r}", f"choose among: {', '.join(sorted(CHECKS))}"
        )
    return names


@dataclass(frozen=True, slots=True)
class EmulatorOptions:
    """``target`` is the gfx name; ``device`` the torch device of the emulation; ``checks`` ``all``,
    ``none`` or
    names of :data:`CHECKS`; ``load_errors`` makes a load past a tensor an error where it is a note (through a
    buffer resource that the kernel itself declared larger than the tensor); ``chunk_lanes`` bounds the
    lanes that
    run at once, and with them the memory; ``trace_lines`` record values at those source lines.
    """

    target: str = "gfx942"
    device: str = "cpu"
    checks: str | frozenset[str] = "all"
    load_errors: bool = False
    chunk_lanes: int = 65536
    trace_lines: frozenset[int] = frozenset()
    trace_lanes: tuple[int, ...] = (0,)
    trace_workgroup: int = 0

    def __post_init__(self) -> None:
        if self.target not in TARGETS:
            raise KernelLintError(
                f"the emulator does not know the target {self.target!r}",
                f"choose one of: {', '.join(TARGETS)}",
            )
        parse_checks(self.checks)

    @property
    def enabled(self) -> frozenset[str]:
        """The checks that are on."""
        return parse_checks(self.checks)

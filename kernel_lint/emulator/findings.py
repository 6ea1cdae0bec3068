"""What the checks found: one :class:`Finding` per place and reason, with the first lane that showed it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from kernel_lint.diagnostics import Reason, Severity
from kernel_lint.emulator.ir import Place


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the hardware would hide.

    ``place`` is the kernel's source line; ``workgroup`` is (x, y, z); ``lane`` the linear thread
    in the workgroup; ``address`` the byte offset in ``buffer`` (a tensor, ``LDS``...). ``count``
    says in how many lanes and executions it happened.
    """

    reason: Reason
    severity: Severity
    kernel: str
    place: Place
    message: str
    workgroup: tuple[int, int, int] | None = None
    lane: int | None = None
    address: int | None = None
    buffer: str = ""
    count: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain JSON values."""
        return {
            "reason": self.reason.value,
            "severity": self.severity.value,
            "kernel": self.kernel,
            "file": self.place.file,
            "line": self.place.line,
            "chain": list(self.place.chain),
            "message": self.message,
            "workgroup": list(self.workgroup) if self.workgroup else None,
            "lane": self.lane,
            "address": self.address,
            "buffer": self.buffer,
            "count": self.count,
        }

    def __str__(self) -> str:
        where = f" (workgroup {self.workgroup}, lane {self.lane})" if self.workgroup is not None else ""
        times = f", {self.count} times" if self.count > 1 else ""
        return f"{self.place}: {self.reason.value}: {self.message} in kernel {self.kernel}{where}{times}"


@dataclass(slots=True)
class Findings:
    """Findings in the order of their first appearance, merged by reason, severity, kernel, place and
    buffer."""

    _by_key: dict[tuple[Any, ...], Finding] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        """Add one finding, or raise the count of the one of the same place."""
        key = (finding.reason, finding.severity, finding.kernel, finding.place, finding.buffer)
        known = self._by_key.get(key)
        self._by_key[key] = replace(known, count=known.count + finding.count) if known else finding

    def clear(self) -> None:
        """Forget everything."""
        self._by_key.clear()

    def all(self) -> tuple[Finding, ...]:
        """All findings."""
        return tuple(self._by_key.values())

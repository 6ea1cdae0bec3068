"""What packaging did, for people and for machines."""

from __future__ import annotations

from kernel_lint import TYPE_CHECKING
from kernel_lint.records import dataclass, field

if TYPE_CHECKING:
    from typing import Any


@dataclass(frozen=True, slots=True)
class Dropped:
    """A statement that was left out although running it has an effect."""

    path: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class PackageReport:
    """``modules``: local modules that run; ``kept`` and ``dropped``: their names; ``renames``: old to new.

    ``bytes_in`` counts the files of ``modules``, ``bytes_out`` the result, in UTF-8.
    """

    modules: tuple[str, ...]
    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    renames: dict[str, str]
    effects_dropped: tuple[Dropped, ...]
    bytes_in: int
    bytes_out: int
    external: tuple[str, ...] = ()
    explanations: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the report as its JSON object."""
        return {
            "modules": list(self.modules),
            "kept": list(self.kept),
            "dropped": list(self.dropped),
            "renames": self.renames,
            "effects_dropped": [
                {"filename": item.path, "row": item.line, "reason": item.reason}
                for item in self.effects_dropped
            ],
            "external": list(self.external),
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
        }

    def to_text(self) -> str:
        """Return the report as the lines that the command prints."""
        lines = [
            f"{len(self.modules)} modules, {len(self.kept)} names kept, {len(self.dropped)} left out, "
            f"{self.bytes_in:,} bytes in, {self.bytes_out:,} bytes out"
        ]
        lines.extend(f"  renamed {old} -> {new}" for old, new in self.renames.items())
        lines.extend(f"  left out {item.path}:{item.line}: {item.reason}" for item in self.effects_dropped)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class PackageResult:
    """The packaged module's text, the report, and where each line comes from.

    ``provenance`` maps a line of ``text`` (from 1) to ``(file, line)``; lines that the
    packager wrote itself are not in it.
    """

    text: str
    report: PackageReport
    provenance: dict[int, tuple[str, int]]

"""Shared memory, a workgroup's LDS: in the kernel's PTX as long as it fits there, else given by the launch.

PTX takes up to 48 KiB in variables of fixed size; beyond that, and for the dynamic LDS of a launch, there is
one array without a size, which the launch gives (CUDA C++ Programming Guide, "Dynamic Shared Memory").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

STATIC_BYTES = 48 << 10
NAME = "kernel_lint_lds"
_DECLARED = re.compile(
    r"^\s*(?:\.\w+ )*\.shared \.align (?P<align>\d+) "
    r"\.[a-z](?P<bits>\d+) (?P<name>[\w$]+)(?P<array>\[\d*\])?;.*$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class _Variable:
    """A declared variable: its name, alignment and size in bytes; a size of 0 stands for the dynamic LDS."""

    name: str
    alignment: int
    size: int


def gather(ptx: str) -> tuple[str, int]:
    """Return PTX whose shared variables fit, and how many bytes of them each launch must ask for.

    The dynamic LDS begins behind the last variable; a launch that has some asks for that much more.
    """
    found = [_variable(match) for match in _DECLARED.finditer(ptx)]
    if sum(variable.size for variable in found) <= STATIC_BYTES and all(v.size for v in found):
        return ptx, 0
    places, end = _places(found)
    alignment = max(variable.alignment for variable in found)
    text = _DECLARED.sub("", ptx)
    names = "|".join(re.escape(name) for name in places)
    text = re.sub(
        rf"(?<![\w$%.])({names})(?![\w$])(?:\s*\+\s*(-?\d+))?",
        lambda match: f"{NAME}+{places[match[1]] + int(match[2] or 0)}",
        text,
    )
    line = f".extern .shared .align {alignment} .b8 {NAME}[];\n"
    return re.sub(r"^(?=(?:\.\w+ )*\.entry )", line, text, count=1, flags=re.MULTILINE), end


def _variable(match: re.Match[str]) -> _Variable:
    # A scalar has no brackets, the dynamic LDS has empty ones.
    count = int(match["array"].strip("[]") or 0) if match["array"] else 1
    return _Variable(match["name"], int(match["align"]), count * int(match["bits"]) // 8)


def _places(variables: list[_Variable]) -> tuple[dict[str, int], int]:
    """Lay variables out one behind the other, the dynamic LDS last; return their offsets and its own."""
    places: dict[str, int] = {}
    end = 0
    for variable in sorted(variables, key=lambda variable: not variable.size):
        end = -(-end // variable.alignment) * variable.alignment
        places[variable.name] = end
        end += variable.size
    return places, end

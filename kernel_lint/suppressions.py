"""``# kernel-lint: allow CODE reason`` comments: finding them and applying them."""

from __future__ import annotations

from kernel_lint.records import dataclass
from kernel_lint.source.module import SourceModule

MARK = "kernel-lint:"


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment: the line it stands on, the lines it covers, the codes it names.

    ``problem`` says what is wrong with the comment itself, or is empty.
    """

    line: int
    column: int
    end_column: int
    covers: tuple[int, ...]
    codes: tuple[str, ...]
    reason: str
    problem: str = ""


def find_suppressions(module: SourceModule) -> list[Suppression]:
    """Return the suppression comments of a module.

    A comment behind code covers its own line; one that stands alone covers the next line too.
    """
    if MARK not in module.text:
        return []
    found = []
    for line, column, text in module.comments:
        body = text.lstrip("#").strip()
        if not body.startswith(MARK):
            continue
        alone = not module.lines[line - 1][: column - 1].strip()
        words = body[len(MARK) :].split()
        covers = (line, line + 1) if alone else (line,)
        found.append(_parse(words, line, column, column + len(text), covers))
    return found


def _parse(words: list[str], line: int, column: int, end: int, covers: tuple[int, ...]) -> Suppression:
    if not words or words[0] != "allow":
        known = f"'{words[0]}'" if words else "nothing"
        problem = f"{known} after 'kernel-lint:' is not known; write 'kernel-lint: allow CODE reason'"
        return Suppression(line, column, end, covers, (), "", problem)
    codes: list[str] = []
    rest = words[1:]
    while rest and _is_code(rest[0].rstrip(",")):
        codes.append(rest.pop(0).rstrip(","))
    if not codes:
        problem = "name the codes that are allowed here: 'kernel-lint: allow CODE reason'"
        return Suppression(line, column, end, covers, (), " ".join(rest), problem)
    problem = "" if rest else "say why it is allowed: 'kernel-lint: allow CODE reason'"
    return Suppression(line, column, end, covers, tuple(codes), " ".join(rest), problem)


def _is_code(word: str) -> bool:
    return word.startswith("KL") and word[2:].isdigit()

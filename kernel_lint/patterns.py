"""Regular expressions that are compiled when they are first asked.

Compiling the rules' expressions took longer than loading the rules; most files make a run ask
only a few of them.
"""

from __future__ import annotations

from functools import partial

from kernel_lint import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from typing import Any

# Methods that only look; without one of the pattern's words in the text they find nothing.
_LOOKING = ("match", "search", "fullmatch")
_METHODS = ("match", "search", "fullmatch", "findall", "finditer", "sub", "split")


class _Pattern:
    """Stands for a compiled expression; its methods are the compiled one's from the first use on."""

    __slots__ = ("_flags", "_text", "_words", *_METHODS)

    def __init__(self, text: str, flags: int, words: tuple[str, ...]) -> None:
        self._text, self._flags, self._words = text, flags, words
        if words:
            for method in _LOOKING:
                setattr(self, method, partial(self._look, method))

    def _look(self, method: str, text: str) -> re.Match[str] | None:
        # Other alphabets have letters that an expression without regard to case takes for Latin ones.
        if text.isascii():
            lowered = text.lower()
            for word in self._words:
                if word in lowered:
                    break
            else:
                return None
        found: re.Match[str] | None = getattr(self._compiled(), method)(text)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled(), name)

    def _compiled(self) -> re.Pattern[str]:
        import re

        compiled = re.compile(self._text, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return compiled


def lazy(text: str, flags: int = 0, *, words: tuple[str, ...] = ()) -> re.Pattern[str]:
    """Return what can be used as ``re.compile(text, flags)``, compiled later.

    ``words``, in small letters, are such that each text in which the expression finds something holds one of
    them in some spelling: a text without any needs no expression at all.
    """
    pattern: Any = _Pattern(text, flags, words)
    return pattern  # type: ignore[no-any-return]

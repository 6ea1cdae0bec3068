"""Regular expressions that are compiled when they are first asked.

Compiling the rules' expressions took longer than loading the rules; most files make a run ask
only a few of them.
"""

from __future__ import annotations

from kernel_lint import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from typing import Any

_METHODS = ("match", "search", "fullmatch", "findall", "finditer", "sub", "split")


class _Pattern:
    """Stands for a compiled expression; its methods are the compiled one's from the first use on."""

    __slots__ = ("_flags", "_text", *_METHODS)

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        import re

        compiled = re.compile(self._text, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return what can be used as ``re.compile(text, flags)``, compiled later."""
    pattern: Any = _Pattern(text, flags)
    return pattern  # type: ignore[no-any-return]

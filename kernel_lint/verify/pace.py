"""Say what a run is at when nothing else has been said for a while."""

from __future__ import annotations

import time
from collections.abc import Callable

# How long a person waits without a word.
QUIET_SECONDS = 5.0


class Pace:
    """Hands lines of progress on to ``say``, as often as a person wants to read one."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._last = time.monotonic()

    def now_and_then(self, text: str) -> None:
        """Say ``text`` unless something was said just before."""
        if time.monotonic() - self._last >= QUIET_SECONDS:
            self._speak(text)

    def waiting(self, what: str, spent: float, limit: float) -> None:
        """Say what is waited for: after a while, and then whenever the wait has doubled."""
        if spent >= QUIET_SECONDS and time.monotonic() - self._last >= max(QUIET_SECONDS, spent / 2):
            self._speak(f"waiting for {what}: {spent:.0f} s of at most {limit:g} s")

    def _speak(self, text: str) -> None:
        self._last = time.monotonic()
        self._say(text)

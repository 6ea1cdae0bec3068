"""Keep what a worker writes on a standard stream, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Capture:
    """The first half and the last half of what a stream said; the rest is counted."""

    limit: int
    head: bytes = b""
    tail: bytes = b""
    total: int = 0

    def add(self, data: bytes) -> None:
        """Take what was read."""
        half = self.limit // 2
        self.total += len(data)
        room = half - len(self.head)
        if room > 0:
            self.head, data = self.head + data[:room], data[room:]
        if data:
            self.tail = (self.tail + data)[-half:]

    def text(self) -> str:
        """Return what is kept, and how much is not."""
        left_out = self.total - len(self.head) - len(self.tail)
        gap = f"\n... {left_out} bytes left out ...\n".encode() if left_out > 0 else b""
        return (self.head + gap + self.tail).decode("utf-8", "replace")

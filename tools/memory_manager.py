"""Keep the notes of each kernel version (contract clauses B8 and B9). The same as ``kernel-lint memory``."""

from __future__ import annotations

if __name__ == "__main__":
    from launcher import launch  # type: ignore[import-not-found]

    raise SystemExit(launch("memory"))

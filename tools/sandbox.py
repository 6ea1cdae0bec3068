"""Run a command in an isolated copy of the workspace (clause B4). The same as ``kernel-lint sandbox``."""

from __future__ import annotations

if __name__ == "__main__":
    from launcher import launch  # type: ignore[import-not-found]

    raise SystemExit(launch("sandbox"))

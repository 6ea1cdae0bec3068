"""Put a measured kernel under its roofline (contract clause B7). The same as ``kernel-lint utilization``."""

from __future__ import annotations

if __name__ == "__main__":
    from launcher import launch  # type: ignore[import-not-found]

    raise SystemExit(launch("utilization"))

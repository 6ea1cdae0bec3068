"""Verify: decide whether a candidate computes what its reference computes, with evidence.

Nothing of torch or flydsl is imported here; see :mod:`kernel_lint.verify.judge` for the
order of events, and ``docs/verify.md`` for the protocol.
"""

from __future__ import annotations

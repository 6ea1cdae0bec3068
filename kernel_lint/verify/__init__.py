"""Verify: decide whether a candidate computes what its reference computes, with evidence.

Neither torch nor flydsl is imported here. :mod:`kernel_lint.verify.judge` has the order of
events, and ``docs/verify.md`` the protocol.
"""

from __future__ import annotations

from kernel_lint.verify.judge import verify
from kernel_lint.verify.options import VerifyOptions
from kernel_lint.verify.report import Verdict, VerifyReport

__all__ = ["Verdict", "VerifyOptions", "VerifyReport", "verify"]

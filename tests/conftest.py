"""Settings that all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Two loaded cores make any example slow; how long one takes says nothing about the code.
settings.register_profile("kernel-lint", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kernel-lint")

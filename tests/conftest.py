"""Settings that all tests share."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

# Two loaded cores make any example slow; how long one takes says nothing about the code.
settings.register_profile("kernel-lint", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kernel-lint")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what compiles with FlyDSL where it is not installed."""
    if item.get_closest_marker("flydsl") and find_spec("flydsl") is None:
        pytest.skip("FlyDSL is not installed: pip install 'kernel-lint[verify]'")

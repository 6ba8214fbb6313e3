"""What holds for all tests: none is timed, not even by Hypothesis, because the machine may be anybody's.

With CI=true they draw the same examples each time: what is to land is not refused for what somebody else wrote.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("quintain", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeated", settings.get_profile("quintain"), derandomize=True)
settings.load_profile("repeated" if os.environ.get("CI") else "quintain")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first: begun last, one of them would keep a single process busy at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)

"""What holds for all tests: none is timed, not even by Hypothesis, because the machine may be anybody's.

With CI=true they draw the same examples each time: what is to land is not refused for what somebody else wrote.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("quintain", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeated", settings.get_profile("quintain"), derandomize=True)
settings.load_profile("repeated" if os.environ.get("CI") else "quintain")

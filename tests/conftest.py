"""What holds for all tests: no test is timed, not even by Hypothesis, because the machine may be anybody's."""

from hypothesis import HealthCheck, settings

settings.register_profile("quintain", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("quintain")

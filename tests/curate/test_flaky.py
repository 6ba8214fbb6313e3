from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.curate import cluster, is_flaky, log_evidence, promise, suspicion


@given(trials=st.integers(0, 3000), failures=st.integers(0, 40), rate=st.floats(0.0, 0.001))
def test_the_evidence_against_a_healthy_test_never_grows_on_average(trials: int, failures: int, rate: float) -> None:
    failures = min(failures, trials)
    now = log_evidence(failures, trials)
    after_failure = math.exp(log_evidence(failures + 1, trials + 1) - now)
    after_pass = math.exp(log_evidence(failures, trials + 1) - now)
    assert rate * after_failure + (1.0 - rate) * after_pass <= 1.0 + 1e-9


@given(trials=st.integers(1, 3000), failures=st.integers(1, 40))
def test_more_failures_are_more_evidence_and_more_passes_are_less(trials: int, failures: int) -> None:
    failures = min(failures, trials)
    assert log_evidence(failures, trials) > log_evidence(failures - 1, trials)
    assert log_evidence(failures, trials + 1) < log_evidence(failures, trials)


def test_a_posterior_asked_after_every_verdict_would_quarantine_healthy_tests_and_the_evidence_does_not() -> None:
    assert suspicion(0, 0) == pytest.approx(0.99)  # before anything was seen
    assert suspicion(1, 50) > 0.9  # one accident in the first fifty
    assert not is_flaky(1, 50)
    assert suspicion(0, 300) < 0.05


def test_two_accidents_are_never_enough() -> None:
    assert not is_flaky(2, 2)
    assert is_flaky(3, 3)


@pytest.mark.parametrize(("rate", "most"), [(0.05, 300), (0.2, 60)])
def test_the_promise_is_kept_by_tests_that_fail_by_chance(rate: float, most: int) -> None:
    promised = promise(rate, 0.95)
    assert promised is not None
    assert promised < most
    median = promise(rate, 0.5)
    assert median is not None
    assert median < promised
    chance = random.Random(7)
    kept = 0
    for _ in range(1000):
        failures = 0
        for trial in range(1, promised + 1):
            if chance.random() < rate:
                failures += 1
                if is_flaky(failures, trial):
                    kept += 1
                    break
    assert 0.93 <= kept / 1000 <= 0.985  # binomial: 0.95 within 3 standard deviations and rounding


def test_a_promise_beyond_the_horizon_is_none() -> None:
    assert promise(0.001, 0.95, horizon=500) is None


def test_tests_that_fail_together_are_one_cluster() -> None:
    incidents = [("a", "b")] * 8 + [("a", "c"), ("a",)]
    assert cluster("a", incidents) == ("a", "b")
    assert cluster("c", incidents) == ("c",)
    assert cluster("z", incidents) == ("z",)


@pytest.mark.parametrize(("failures", "trials"), [(-1, 3), (4, 3)])
def test_counts_that_cannot_be_are_refused(failures: int, trials: int) -> None:
    with pytest.raises(ValueError, match="expected 0 <= failures <= trials"):
        log_evidence(failures, trials)
    with pytest.raises(ValueError, match="expected 0 <= failures <= trials"):
        suspicion(failures, trials)

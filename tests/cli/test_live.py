"""The live view and the sum."""

from __future__ import annotations

from quintain.cli.live import Pulse, clock, line
from quintain.cli.tally import Tally, owner_of
from quintain.types import (
    Broke,
    Closed,
    Episode,
    Event,
    Fault,
    FaultKind,
    Graded,
    Opened,
    Owner,
    Passed,
    Reward,
    Stop,
    TestResult,
    Verdict,
)

HOUSE = Fault(owner=Owner.HOUSE, kind=FaultKind.SANDBOX_LOST, message="gone")


def opened(id: str, attempt: int = 1, index: int = 0) -> Opened:
    return Opened(
        episode=id, index=index, at_seconds=0, task="t", task_version="v", kind="code", group="g", attempt=attempt,
        seed=0, policy="p", unix_seconds=0, conversation=(),
    )


def graded(id: str, index: int, *, solved: bool) -> list[Event]:
    passed = Passed.PASSED if solved else Passed.FAILED
    verdict = Verdict(suite="s", level="L4", tests=(TestResult(id="a", passed=passed),))
    reward = Reward(total=1.0 if solved else 0.0, solved=solved)
    return [
        Graded(episode=id, index=index, at_seconds=1, verdict=verdict, reward=reward, final=True),
        Closed(episode=id, index=index + 1, at_seconds=1, stop=Stop.SOLVED if solved else Stop.TURNS),
    ]


def test_the_view_counts_what_runs_and_what_is_solved_and_says_how_long_still() -> None:
    pulse = Pulse(4, now=100.0)
    pulse.event(opened("a"), now=100.0)
    pulse.event(opened("b"), now=100.0)
    for event in graded("a", 1, solved=True):
        pulse.event(event, now=102.0)
    view = pulse.view(now=102.0)
    assert (view.running, view.counts.episodes, view.counts.solved) == (1, 1, 1)
    assert view.per_second == 0.5
    assert view.eta_seconds == 6.0
    assert view.counts.reward == 1.0
    assert "1/4 episodes" in line(view)


def test_nothing_is_promised_before_anything_has_finished() -> None:
    view = Pulse(3, now=5.0).view(now=5.0)
    assert view.eta_seconds is None
    assert view.counts.reward is None


def test_a_failure_of_the_house_has_no_reward_and_is_forgotten_when_tried_again() -> None:
    pulse = Pulse(1, now=0.0)
    pulse.event(opened("a"), now=0.0)
    pulse.event(Broke(episode="a", index=1, at_seconds=1, fault=HOUSE), now=1.0)
    pulse.event(Closed(episode="a", index=2, at_seconds=1, stop=Stop.BROKEN), now=1.0)
    assert pulse.counts().faults == {"policy": 0, "task": 0, "house": 1}
    assert pulse.counts().reward is None
    assert "trouble: a: house/sandbox_lost: gone" in line(pulse.view(now=1.0))
    pulse.event(opened("a", attempt=2, index=3), now=1.0)
    assert pulse.counts().episodes == 0
    for event in graded("a", 4, solved=False):
        pulse.event(event, now=2.0)
    assert pulse.counts().faults == {"policy": 1, "task": 0, "house": 0}
    assert pulse.counts().reward == 0.0


def test_an_episode_counts_once_however_often_it_is_added() -> None:
    episode = Episode(
        id="a", task="t", task_version="v", kind="code", group="g", attempt=1, policy="p",
        reward=Reward(total=0.5, solved=False), stop=Stop.TURNS,
    )
    tally = Tally()
    tally.add(episode)
    tally.add(episode)
    assert tally.counts().episodes == 1
    assert owner_of(episode) is Owner.POLICY


def test_what_was_finished_before_counts_and_does_not_make_the_run_look_fast() -> None:
    pulse = Pulse(10, now=0.0)
    pulse.known([opened("z"), *graded("z", 1, solved=True)])
    view = pulse.view(now=1.0)
    assert (view.per_second, view.counts.episodes, view.counts.solved, view.running) == (0.0, 1, 1, 0)


def test_an_episode_that_goes_on_in_the_middle_counts_once_it_is_closed() -> None:
    pulse = Pulse(1, now=0.0)
    pulse.known([opened("z")])
    assert pulse.view(now=0.0).running == 0
    for event in graded("z", 1, solved=True):
        pulse.event(event, now=2.0)
    assert pulse.counts().solved == 1


def test_a_clock_reads_like_a_clock() -> None:
    assert clock(5) == "0:05"
    assert clock(3725) == "1:02:05"

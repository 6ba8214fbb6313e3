"""Some events to keep."""

from __future__ import annotations

from collections.abc import Sequence

from quintain.types import (
    Broke,
    Built,
    Closed,
    Event,
    Fault,
    FaultKind,
    Flag,
    Graded,
    Message,
    Opened,
    Owner,
    Passed,
    Program,
    Reward,
    Role,
    Sampled,
    Score,
    Stop,
    TestResult,
    Turn,
    Verdict,
)

HOUSE = Fault(owner=Owner.HOUSE, kind=FaultKind.SANDBOX_LOST, message="gone")
TASK = Fault(owner=Owner.TASK, kind=FaultKind.TASK_INVALID, message="no tests")


def opened(episode: str, index: int = 0, *, attempt: int = 1) -> Opened:
    return Opened(
        episode=episode, index=index, at_seconds=0.0, task="t", task_version="v", kind="code", group="g",
        attempt=attempt, seed=0, policy="p", unix_seconds=1.0,
        conversation=(Message(role=Role.USER, text="Write add."),),
    )


def sampled(episode: str, index: int, text: str = "a reply") -> Sampled:
    return Sampled(episode=episode, index=index, at_seconds=1.0, turn=Turn(text=text, logprobs=(-0.5,)))


def built(episode: str, index: int, files: dict[str, bytes], stdin: bytes = b"") -> Built:
    return Built(episode=episode, index=index, at_seconds=1.5, program=Program(files=files, stdin=stdin))


def broke(episode: str, index: int, fault: Fault = HOUSE) -> Broke:
    return Broke(episode=episode, index=index, at_seconds=2.0, fault=fault)


def closed(episode: str, index: int, stop: Stop = Stop.SOLVED) -> Closed:
    return Closed(episode=episode, index=index, at_seconds=3.0, stop=stop)


def story(episode: str) -> list[Event]:
    return [opened(episode), sampled(episode, 1), built(episode, 2, {"a.py": b"x = 1\n"}), closed(episode, 3)]


def graded(episode: str, index: int, total: float = 0.8, *, flags: Sequence[Flag] = ()) -> Graded:
    verdict = Verdict(suite="suite-1", level="L4", build="build-1", tests=(TestResult(id="a", passed=Passed.PASSED),))
    reward = Reward(total=total, solved=total > 0.5, suite="suite-1", level="L4", flags=tuple(flags),
                    scores=(Score(name="tests", value=1.0, contribution=total),))
    return Graded(episode=episode, index=index, at_seconds=2.5, verdict=verdict, reward=reward, final=True)


def solved(episode: str) -> list[Event]:
    return [*story(episode)[:3], graded(episode, 3), closed(episode, 4)]

"""Episodes as events, made by hand for the tests of the watch."""

from __future__ import annotations

from quintain.types import (
    Broke,
    Closed,
    Event,
    Fault,
    FaultKind,
    Graded,
    Opened,
    Outcome,
    Owner,
    Ran,
    Reward,
    Sampled,
    Status,
    Stop,
    Turn,
    Verdict,
)


def opened(episode: str, *, kind: str = "code", group: str = "g", attempt: int = 1, index: int = 0) -> Opened:
    return Opened(episode=episode, index=index, at_seconds=0.0, task="t", task_version="v", kind=kind, group=group,
                  attempt=attempt, seed=1, policy="p", unix_seconds=1000.0, conversation=())


def solved(episode: str, *, kind: str = "code", group: str = "g", reward: float = 0.8) -> list[Event]:
    verdict = Verdict(suite="s", level="L4", tests=())
    return [
        opened(episode, kind=kind, group=group),
        Sampled(episode=episode, index=1, at_seconds=1.0, turn=Turn(text="x", output_tokens=7)),
        Ran(episode=episode, index=2, at_seconds=3.0, outcome=Outcome(status=Status.OK, wall_seconds=0.5)),
        Graded(episode=episode, index=3, at_seconds=3.5, verdict=verdict, final=True,
               reward=Reward(total=reward, solved=True)),
        Closed(episode=episode, index=4, at_seconds=3.5, stop=Stop.SOLVED),
    ]


def broken(
    episode: str, *, kind: str = "code", fault: FaultKind = FaultKind.SANDBOX_LOST, index: int = 0,
) -> list[Event]:
    return [
        opened(episode, kind=kind, index=index),
        Broke(episode=episode, index=index + 1, at_seconds=2.0,
              fault=Fault(owner=Owner.HOUSE, kind=fault, message="gone")),
        Closed(episode=episode, index=index + 2, at_seconds=2.0, stop=Stop.BROKEN),
    ]

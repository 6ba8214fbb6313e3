"""Runs for the dashboard to show: written event by event, or played by the command line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from quintain.store import Definition, Run
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
    Severity,
    Stop,
    TestResult,
    Trainable,
    Turn,
    Verdict,
)

#: What would take over a page that shows it as markup.
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"

#: A policy whose first answer is wrong, loud and hostile, and whose second is right.
POLICY = f'''\
from quintain.types import Turn

HOSTILE = {HOSTILE!r}
WRONG = "```python\\ndef total(numbers):\\n    print(" + repr(HOSTILE) + ")\\n    return 0\\n```"
RIGHT = "```python\\ndef total(numbers):\\n    return sum(numbers)\\n```"


class Sly:
    name = "sly"

    async def act(self, conversation, *, task, seed):
        first = len(conversation) <= 2
        return Turn(text=(HOSTILE * 120 + "\\n" + WRONG) if first else RIGHT, policy_version="1" if first else "2")

    async def aclose(self):
        pass
'''


def opened(episode: str, *, task: str = "t", attempt: int = 1, index: int = 0, unix: float = 1_000.0) -> Opened:
    return Opened(
        episode=episode, index=index, at_seconds=0.0, task=task, task_version="v", kind="code", group=task,
        attempt=attempt, seed=0, policy="p", unix_seconds=unix,
        conversation=(Message(role=Role.USER, text="add them up"),),
    )


def attempt(
    episode: str, *, task: str = "t", solved: bool = True, seconds: float = 2.0, unix: float = 1_000.0,
    flag: str = "", text: str = "an answer",
) -> list[Event]:
    """A whole attempt of one turn, that was graded."""
    tests = (TestResult(id="test_a", passed=Passed.PASSED if solved else Passed.FAILED),)
    fault = None if solved else Fault(owner=Owner.POLICY, kind=FaultKind.WRONG_ANSWER, message="3 is not 4")
    flags = (Flag(detector=flag, severity=Severity.SOFT, evidence="seen"),) if flag else ()
    reward = Reward(total=0.8 if solved else -0.1, solved=solved, flags=flags,
                    scores=(Score(name="partial", value=float(solved), contribution=0.0),),
                    trainable=Trainable.MASK if flag else Trainable.YES)
    return [
        opened(episode, task=task, unix=unix),
        Sampled(episode=episode, index=1, at_seconds=0.5, turn=Turn(text=text, policy_version="3")),
        Built(episode=episode, index=2, at_seconds=0.6, program=Program(files={"solution.py": text.encode()})),
        Graded(episode=episode, index=3, at_seconds=seconds - 0.1, final=True, reward=reward,
               verdict=Verdict(suite="s", level="L4", tests=tests, fault=fault)),
        Closed(episode=episode, index=4, at_seconds=seconds, stop=Stop.SOLVED if solved else Stop.SUBMITTED),
    ]


def broken(episode: str, *, task: str = "t", unix: float = 1_000.0) -> list[Event]:
    fault = Fault(owner=Owner.HOUSE, kind=FaultKind.SANDBOX_LOST, message="gone")
    return [
        opened(episode, task=task, unix=unix), Broke(episode=episode, index=1, at_seconds=1.0, fault=fault),
        Closed(episode=episode, index=2, at_seconds=1.0, stop=Stop.BROKEN),
    ]


def a_run(runs: Path, name: str, events: Sequence[Event] = ()) -> Run:
    """A run that is being written: close it."""
    run = Run.create(runs, Definition(taskset="set", policy="p", created_unix_seconds=time.time()), name=name)
    for event in events:
        run.journal.append(event)
    return run

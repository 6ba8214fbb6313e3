"""What an episode can ask of the world. Values only."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from quintain.env import Feedback, Work
from quintain.types import Fault, Limits, Message, Network, Program, Reward, Stop, Turn, Verdict


class _Effect(msgspec.Struct, frozen=True, kw_only=True):
    pass


class Open(_Effect, frozen=True, kw_only=True):
    """Ask the task: answered by Opened."""


class Sample(_Effect, frozen=True, kw_only=True):
    """Let the policy reply, its `nth` turn counting from 0, within `seconds`: answered by Sampled, or by time going
    by."""

    conversation: tuple[Message, ...]
    nth: int
    seconds: float


class Build(_Effect, frozen=True, kw_only=True):
    """Make a program of the reply: answered by Built or Rejected. `previous` is what a patch applies to."""

    turn: Turn
    previous: Program | None


class RunVisible(_Effect, frozen=True, kw_only=True):
    """Run against what the policy may see: answered by Ran."""

    program: Program
    limits: Limits


class Grade(_Effect, frozen=True, kw_only=True):
    """Judge against the exam: answered by Graded, final when `pays` says so of the reward."""

    work: Work


class Pay(_Effect, frozen=True, kw_only=True):
    """The last judgement is the one that pays: answered by Graded with `final`."""

    verdict: Verdict
    reward: Reward


class Say(_Effect, frozen=True, kw_only=True):
    """Tell the policy: answered by Said."""

    feedback: Feedback


class Fail(_Effect, frozen=True, kw_only=True):
    """There is nothing to judge, through no act of the policy: answered by Broke."""

    fault: Fault


class Finish(_Effect, frozen=True, kw_only=True):
    """End it: answered by Closed."""

    stop: Stop


Effect = Open | Sample | Build | RunVisible | Grade | Pay | Say | Fail | Finish


class Again(StrEnum):
    """What it means to do an effect that may have been done already: its worker died before it wrote down the event."""

    FREE = "free"  # words only: the same again
    DEAR = "dear"  # the policy is asked again: a first reply that nobody wrote down is lost, with what it cost
    REBUILT = "rebuilt"  # in a sandbox that is brought to where it was before: inside, nothing is done twice
    DOUBLED = "doubled"  # not idempotent: what it did beyond its sandbox is done twice


def again(effect: Effect, *, network: Network) -> Again:
    """The mark of an effect, where sandboxes reach so much of the network. A grader that writes to a server of its own
    is beyond a sandbox too; it must take an episode's second judgement for the first."""
    if isinstance(effect, Sample):
        return Again.DEAR
    if isinstance(effect, RunVisible | Grade):
        return Again.REBUILT if network is Network.NONE else Again.DOUBLED
    return Again.FREE

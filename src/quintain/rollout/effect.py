"""What an episode can ask of the world. Values only."""

from __future__ import annotations

import msgspec

from quintain.env import Feedback, Work
from quintain.types import Fault, Limits, Message, Program, Reward, Stop, Turn, Verdict


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

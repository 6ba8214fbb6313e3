"""One episode, from task to reward, and many of them at once."""

from quintain.rollout.budget import Spent, command_limits, deadline_seconds, exhausted, tokens_of
from quintain.rollout.collect import Collector
from quintain.rollout.driver import Driver, Patience
from quintain.rollout.effect import Build, Effect, Fail, Finish, Grade, Open, Pay, RunVisible, Sample, Say
from quintain.rollout.group import Siblings, Ticket, masked, seed_of, tickets
from quintain.rollout.machine import Machine, Point, Rules, State
from quintain.rollout.settle import settle

__all__ = [
    "Build", "Collector", "Driver", "Effect", "Fail", "Finish", "Grade", "Machine", "Open", "Patience", "Pay", "Point",
    "Rules", "RunVisible", "Sample", "Say", "Siblings", "Spent", "State", "Ticket", "command_limits",
    "deadline_seconds", "exhausted", "masked", "seed_of", "settle", "tickets", "tokens_of",
]

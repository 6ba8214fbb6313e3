"""One episode, from task to reward, and many of them at once."""

from quintain.rollout.budget import Spent, command_limits, deadline_seconds, exhausted, tokens_of
from quintain.rollout.collect import Collector
from quintain.rollout.driver import Driver, Patience
from quintain.rollout.effect import (
    Again,
    Build,
    Effect,
    Fail,
    Finish,
    Grade,
    Open,
    Pay,
    RunVisible,
    Sample,
    Say,
    again,
)
from quintain.rollout.group import Siblings, Ticket, masked, seed_of, tickets
from quintain.rollout.line import Clearance, Clears
from quintain.rollout.machine import Machine, Point, Rules, State
from quintain.rollout.resumption import Resumption, resumption
from quintain.rollout.settle import settle

__all__ = [
    "Again", "Build", "Clearance", "Clears", "Collector", "Driver", "Effect", "Fail", "Finish", "Grade", "Machine",
    "Open", "Patience", "Pay", "Point", "Resumption", "Rules", "RunVisible", "Sample", "Say", "Siblings", "Spent",
    "State", "Ticket", "again", "command_limits", "deadline_seconds", "exhausted", "masked", "resumption", "seed_of",
    "settle", "tickets", "tokens_of",
]

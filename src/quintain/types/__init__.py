"""The words of the house: values without behaviour that crosses a border. No I/O."""

from quintain.types.attempt import Attempt
from quintain.types.conversation import Finish, Message, Role, Turn
from quintain.types.episode import Episode, Group, fold
from quintain.types.event import (
    Broke,
    Built,
    Closed,
    Event,
    Graded,
    Opened,
    Ran,
    Rejected,
    Said,
    Sampled,
    Stop,
)
from quintain.types.fault import CLASS_OF, Attribution, Fault, FaultKind, HouseError, Owner, TaskError
from quintain.types.limits import MEBIBYTE, Limits, Scopes
from quintain.types.program import KilledBy, Outcome, Program, Status
from quintain.types.reward import Evidence, Flag, Passed, Reward, Score, Severity, TestResult, Trainable, Verdict
from quintain.types.task import Entry, Grading, Isolation, Network, Task, content_digest

__all__ = [
    "Attempt", "Attribution", "Broke", "Built", "CLASS_OF", "Closed", "Entry", "Episode", "Event", "Evidence",
    "Fault", "FaultKind", "Finish", "Flag", "Graded", "Grading", "Group", "HouseError", "Isolation", "KilledBy",
    "Limits", "MEBIBYTE", "Message", "Network", "Opened", "Outcome", "Owner", "Passed", "Program", "Ran",
    "Rejected", "Reward", "Role", "Said", "Sampled", "Scopes", "Score", "Severity", "Status", "Stop", "Task",
    "TaskError", "TestResult", "Trainable", "Turn", "Verdict", "content_digest", "fold",
]

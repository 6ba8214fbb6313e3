"""Many episodes at once: who is next, who holds what, and what becomes of it when something dies."""

from quintain.fleet._card import Card, Count, Full, Gone, Lease, Place, Terms
from quintain.fleet._shelf import Shelf
from quintain.fleet.base import BODY_BYTES, Job, Kept, Line, Queue, Stats
from quintain.fleet.memory import MemoryQueue
from quintain.fleet.plan import Planner
from quintain.fleet.plan_party import Share
from quintain.fleet.plan_words import Ask, Fairness, Placement, Room, Why
from quintain.fleet.sqlite import SqliteQueue

__all__ = [
    "Ask", "BODY_BYTES", "Card", "Count", "Fairness", "Full", "Gone", "Job", "Kept", "Lease", "Line",
    "MemoryQueue", "Place", "Placement", "Planner", "Queue", "Room", "Share", "Shelf", "SqliteQueue", "Stats",
    "Terms", "Why",
]

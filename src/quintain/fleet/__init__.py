"""Many episodes at once: who is next, who holds what, and what becomes of it when something dies."""

from quintain.fleet._card import Card, Count, Full, Gone, Lease, Place, Terms
from quintain.fleet._shelf import Shelf
from quintain.fleet.base import BODY_BYTES, Job, Kept, Line, Queue, Stats
from quintain.fleet.memory import MemoryQueue
from quintain.fleet.nats import NatsQueue
from quintain.fleet.server import NatsServer, nats_server, serve_nats
from quintain.fleet.sqlite import SqliteQueue

__all__ = [
    "BODY_BYTES", "Card", "Count", "Full", "Gone", "Job", "Kept", "Lease", "Line", "MemoryQueue", "NatsQueue",
    "NatsServer", "Place", "Queue", "Shelf", "SqliteQueue", "Stats", "Terms", "nats_server", "serve_nats",
]

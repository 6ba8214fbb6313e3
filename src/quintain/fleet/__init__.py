"""Many episodes at once: who is next, who holds what, and what becomes of it when something dies."""

from quintain.fleet._card import Card, Count, Full, Gone, Lease, Place, Terms
from quintain.fleet._shelf import Shelf
from quintain.fleet.base import BODY_BYTES, Job, Kept, Line, Queue, Stats
from quintain.fleet.ending import end_process, told_within
from quintain.fleet.entries import Answer, End, Entry, Reconciled, State, Tally, Tried
from quintain.fleet.fit import Asking, Berth, need_of
from quintain.fleet.guards import Guard, Sentry, heed, quota, strictest
from quintain.fleet.heart import Heart
from quintain.fleet.host import Host, Post, Witness
from quintain.fleet.kubernetes import POD_FOLDER, KubernetesAddress, Submission, manifests, submit
from quintain.fleet.local import CANNOT, QUARANTINED, Crew, supervise
from quintain.fleet.logs import EpisodeLogs
from quintain.fleet.memory import MemoryQueue
from quintain.fleet.nats import NatsQueue
from quintain.fleet.opening import open_queue
from quintain.fleet.plan import Planner
from quintain.fleet.plan_pace import Pace, Pacing
from quintain.fleet.plan_party import Share
from quintain.fleet.plan_tail import Moves, Race, Spares, Tail
from quintain.fleet.plan_words import Ask, Fairness, Placement, Room, Why
from quintain.fleet.ray import RayAddress
from quintain.fleet.register import Register, reconcile
from quintain.fleet.server import NatsServer, nats_server, serve_nats
from quintain.fleet.simulation import World, simulate
from quintain.fleet.simulation_words import Flood, Load, Report, Scenario, Weather, usual_loads
from quintain.fleet.sqlite import SqliteQueue
from quintain.fleet.watchdog import STALLED, watchdog
from quintain.fleet.worker import Care, Left, Order, Worker, order

__all__ = [
    "Answer", "Ask", "Asking", "BODY_BYTES", "Berth", "CANNOT", "Card", "Care", "Count", "Crew", "End", "Entry",
    "EpisodeLogs", "Fairness", "Flood", "Full", "Gone", "Guard", "Heart", "Host", "Job", "Kept", "KubernetesAddress",
    "Lease", "Left", "Line", "Load", "MemoryQueue", "Moves", "NatsQueue", "NatsServer", "Order", "POD_FOLDER", "Pace",
    "Pacing", "Place", "Placement", "Planner", "Post", "QUARANTINED", "Queue", "Race", "RayAddress", "Reconciled",
    "Register", "Report", "Room", "STALLED", "Scenario", "Sentry", "Share", "Shelf", "Spares", "SqliteQueue", "State",
    "Stats", "Submission", "Tail", "Tally", "Terms", "Tried", "Weather", "Why", "Witness", "Worker", "World",
    "end_process", "heed", "manifests", "nats_server", "need_of", "open_queue", "order", "quota", "reconcile",
    "serve_nats", "simulate", "strictest", "submit", "supervise", "told_within", "usual_loads", "watchdog",
]

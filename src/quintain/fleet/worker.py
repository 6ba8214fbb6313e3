"""What plays the episodes of a queue: it takes what it has room for, and no step of it can hang or be lost.

    lease → begin (register) → journal → play on from the last event → accept (register) → ack

Killed anywhere in that row, its lease runs out, another worker opens the episode's journal and goes on at its last
step; a result that was accepted and not acknowledged is found to be settled when it is handed out again.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Collection
from enum import StrEnum

import msgspec

from quintain.env import Environment
from quintain.fleet._card import Lease
from quintain.fleet.base import Job, Queue
from quintain.fleet.entries import Answer
from quintain.fleet.fit import Asking, Berth, need_of
from quintain.fleet.guards import Sentry
from quintain.fleet.heart import Heart
from quintain.fleet.logs import EpisodeLogs
from quintain.fleet.peers import Peers, said
from quintain.fleet.plan_words import Room
from quintain.fleet.register import Register
from quintain.policy import Policy
from quintain.rollout import Driver, Patience, Ticket
from quintain.store import Journal
from quintain.types import Episode, Event, FaultKind, HouseError, Owner, TaskError

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0  # how long one wait for work lasts, so that an end is noticed
_LOCKED_SECONDS = 1.0  # before an episode is tried again whose journal another has
_SLACK_SECONDS = 60.0  # of an episode, for what has no deadline of its own


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the body of an episode's job says; its id is the episode's. `need` is what it may use while it runs. Workers
    of an older or a newer version read it too: what they do not know of is passed over."""

    task: str
    group: str
    seed: int
    need: Room = Room()


def order(ticket: Ticket, *, tenant: str = "", priority: int = 0) -> Job:
    """The job of an episode."""
    task = ticket.item.task
    body = msgspec.json.encode(Order(task=task.id, group=ticket.group, seed=ticket.seed, need=need_of(task)))
    return Job(id=ticket.episode, kind=task.kind, tenant=tenant, priority=priority, body=body)


class Care(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a worker deals with trouble. After `faults` failures of the house in a row it takes no more: something here
    is broken, and the work is better done elsewhere. `drain_seconds` is how long what runs may go on when it is told to
    end; `pause_seconds` how long a job rests that the house has failed; `unfit_seconds` how long an episode that is too
    large for every worker waits for a larger one before it is given up."""

    faults: int = 5
    drain_seconds: float = 30.0
    pause_seconds: float = 5.0
    unfit_seconds: float = 120.0
    patience: Patience = Patience()


class Left(StrEnum):
    """Why a worker has ended."""

    TOLD = "told"
    QUARANTINED = "quarantined"


class Worker:
    """Plays up to `slots` episodes at once, as far as they fit into its `room` (`None`: slots are all that counts), and
    keeps leases for no more than that. `ticket` finds what an order asks; it raises TaskError for a task that is not
    fit to be asked. `kinds` is what it can do (`None`: everything). `apart` hands in each episode's log with its
    result, for who cannot read `logs`. `sentry` may hold it back, and sees the events."""

    def __init__(
        self, name: str, queue: Queue, register: Register, logs: EpisodeLogs, *, environment: Environment,
        policy: Policy, ticket: Callable[[Job], Ticket], slots: int = 1, kinds: Collection[str] | None = None,
        care: Care | None = None, apart: bool = False, room: Room | None = None,
        sentry: Sentry | None = None,
    ) -> None:
        self._berth = Berth(slots, room)
        self._room = room
        self._sentry = sentry
        self.name = name
        self._queue = queue
        self._register = register
        self._logs = logs
        self._environment = environment
        self._policy = policy
        self._ticket = ticket
        self._kinds = kinds
        self._care = care or Care()
        self._apart = apart
        self._heart = Heart(queue)
        self._peers = Peers(register, name, room)
        self._running: set[asyncio.Task[None]] = set()
        self._freed = asyncio.Event()
        self._faults = 0

    async def work(self, told: asyncio.Event) -> Left:
        """Until it is told to end, or has put itself into quarantine. What runs then may go on for a while; what is
        not done by then is given back, and another goes on with it. Raises nothing that an episode does."""
        async with asyncio.TaskGroup() as group:
            beating, staying = group.create_task(self._heart.beat()), group.create_task(self._peers.stay())
            while not told.is_set() and self._faults < self._care.faults:
                if self._sentry is not None and self._sentry.rests():
                    await self._something(told)
                    continue
                asked = self._berth.asking(time.monotonic())
                kinds = await self._open_kinds(asked)
                if not asked.most or kinds == ():
                    await self._something(told)
                    continue
                found = await self._take(asked.most, kinds)
                if not found:
                    self._berth.nothing(asked)
                for lease in found:
                    await self._place(group, lease)
            if self._running:
                await asyncio.wait(self._running, timeout=self._care.drain_seconds)
            for task in tuple(self._running):
                task.cancel()
            if self._running:
                await asyncio.wait(self._running, timeout=self._care.patience.teardown_seconds + _LOOK_SECONDS)
            beating.cancel()
            staying.cancel()
        return Left.TOLD if told.is_set() else Left.QUARANTINED

    async def _open_kinds(self, asked: Asking) -> Collection[str] | None:
        """The kinds to ask for; `None` for all that there are."""
        if asked.only is not None:
            return (asked.only,)
        if not asked.without:
            return self._kinds
        known = self._kinds
        if known is None:
            try:
                known = (await self._queue.stats()).kinds
            except HouseError as error:
                _log.warning("%s: no news of the queue: %s", self.name, error)
                return ()
        return tuple(kind for kind in known if kind not in asked.without)

    async def _place(self, group: asyncio.TaskGroup, lease: Lease[Job]) -> None:
        """Begin it, or give it back where it does not fit: whoever has room may take it at once."""
        try:
            need = msgspec.json.decode(lease.body.body, type=Order).need
        except msgspec.MsgspecError:
            need = Room()  # whoever reads it next says what is wrong with it
        if self._berth.holds(lease.id):  # an attempt of ours that has lost its lease, and has not ended yet
            await self._give_back(lease, _LOCKED_SECONDS, f"{self.name} still ends an earlier attempt", counts=False)
        elif self._sentry is not None and (why := self._sentry.yields(lease)):
            await self._give_back(lease, self._care.pause_seconds, why, counts=False)
        elif self._berth.take(lease.id, lease.kind, need, at=time.monotonic()):
            self._begin(group, lease)
        elif self._berth.could_hold(need):
            await self._give_back(lease, 0.0, "no room at " + self.name, counts=False)
        else:
            await self._refuse(lease, need)

    async def _refuse(self, lease: Lease[Job], need: Room) -> None:
        """It is larger than this whole worker: a larger one may take it, if there is one."""
        reason = f"{self.name} is too small for it: it needs {said(need)}, found {said(self._room or Room())}"
        if not self._peers.knows(lease.id):
            _log.warning("%s: %s", lease.id, reason)
        try:
            why = await self._peers.verdict(lease.id, need, patience_seconds=self._care.unfit_seconds)
        except HouseError as error:
            why = ""
            _log.warning("%s: no news of other workers: %s", self.name, error)
        if why:
            _log.warning("%s: given up: %s", lease.id, why)
            await self._give_up(lease, f"house: {why}")
            return
        await self._give_back(lease, self._care.pause_seconds, reason, counts=False)

    async def _take(self, most: int, kinds: Collection[str] | None) -> tuple[Lease[Job], ...]:
        try:
            return await self._queue.lease(self.name, most=most, kinds=kinds, wait_seconds=_LOOK_SECONDS)
        except HouseError as error:
            _log.warning("%s: no work: %s", self.name, error)
            await asyncio.sleep(_LOOK_SECONDS)
            return ()

    async def _something(self, told: asyncio.Event) -> None:
        """Until a slot is free or a while has gone by."""
        self._freed.clear()
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._freed.wait()
        except TimeoutError:
            pass

    def _begin(self, group: asyncio.TaskGroup, lease: Lease[Job]) -> None:
        task = group.create_task(self._serve(lease))
        self._running.add(task)
        self._heart.add(lease, task.cancel)
        task.add_done_callback(functools.partial(self._end, lease))
        if self._sentry is not None:
            self._sentry.began(lease)

    def _end(self, lease: Lease[Job], task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._berth.leave(lease.id)
        if self._sentry is not None:
            self._sentry.ended(lease)
        self._freed.set()

    async def _serve(self, lease: Lease[Job]) -> None:
        """One lease to its end. One of the three places where exceptions are caught."""
        try:
            await self._play(lease)
        except asyncio.CancelledError:
            # drained, or lost: it was no fault of the job's, and whoever has it next goes on where its log ends
            await self._give_back(lease, 0.0, "its worker was told to end", counts=False)
        except TaskError as error:
            await self._give_up(lease, f"task: {error}")
        except HouseError as error:
            await self._fault(lease, str(error))
        except Exception as error:
            _log.exception("%s: %s", self.name, lease.id)
            await self._fault(lease, f"{type(error).__name__}: {error}")
        finally:
            self._heart.drop(lease)

    async def _play(self, lease: Lease[Job]) -> None:
        begun = await self._register.begin([lease.id], self.name)
        if lease.id not in begun:  # its result was accepted, and the acknowledgement lost
            await self._queue.ack([self._heart.drop(lease)])
            return
        ticket = self._ticket(lease.body)
        try:
            journal = self._logs.open(lease.id)
        except HouseError as error:
            await self._register.fail(lease.id, begun[lease.id], str(error))
            await self._give_back(lease, _LOCKED_SECONDS, str(error), counts=False)
            return
        with journal:
            episode = await self._episode(ticket, journal)
            log = msgspec.json.encode(tuple(journal.read(lease.id))) if self._apart else None
        broken = episode.broken
        if broken is not None and broken.owner is Owner.HOUSE:
            await self._register.fail(lease.id, begun[lease.id], str(broken))
            raise HouseError(broken.kind, broken.message)
        self._faults = 0
        answer = await self._register.accept(lease.id, begun[lease.id], msgspec.json.encode(episode), log=log)
        if answer is not Answer.ACCEPTED:
            _log.warning("%s: the result of attempt %d came %s", lease.id, begun[lease.id], answer.value)
        await self._queue.ack([self._heart.drop(lease)])

    async def _episode(self, ticket: Ticket, journal: Journal) -> Episode:
        """Within a deadline over all of its own deadlines."""
        patience = self._care.patience
        limits = ticket.item.task.limits
        stages = limits.episode.wall_seconds + patience.teardown_seconds + _SLACK_SECONDS
        each = patience.run_seconds + patience.grade_seconds  # a turn's own work, beyond the policy's time
        seconds = patience.attempts * (stages + each * limits.episode.turns)
        driver = Driver(self._environment, self._policy, self._keeping(journal), patience=patience)
        try:
            async with asyncio.timeout(seconds) as deadline:
                return await driver.play(ticket, tuple(journal.read(ticket.episode)))
        except TimeoutError:
            if not deadline.expired():
                raise
            raise HouseError(FaultKind.UNKNOWN, f"an episode took longer than {seconds:g} s in all") from None

    def _keeping(self, journal: Journal) -> Callable[[Event], None]:
        sentry = self._sentry
        if sentry is None:
            return journal.append

        def keep(event: Event) -> None:
            journal.append(event)
            sentry.saw(event)

        return keep

    async def _fault(self, lease: Lease[Job], reason: str) -> None:
        self._faults += 1
        _log.warning("%s: %s: %s", self.name, lease.id, reason)
        await self._give_back(lease, self._care.pause_seconds, reason, counts=True)

    async def _give_up(self, lease: Lease[Job], reason: str) -> None:
        try:
            await self._register.abandon(lease.id, reason)
            await self._queue.dead([self._heart.drop(lease)], reason=reason)
        except HouseError as error:
            _log.warning("%s: cannot be given up: %s", lease.id, error)

    async def _give_back(self, lease: Lease[Job], delay_seconds: float, reason: str, *, counts: bool) -> None:
        """Where the queue cannot be reached, the lease runs out, which comes to the same."""
        try:
            await self._queue.nack([self._heart.drop(lease)], delay_seconds=delay_seconds, reason=reason, counts=counts)
        except HouseError as error:
            _log.warning("%s: cannot be given back: %s", lease.id, error)

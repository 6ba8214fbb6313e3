"""What carries an episode out: it performs effects and appends events, and decides nothing."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypedDict

import msgspec

from quintain.env import Environment
from quintain.policy import Policy
from quintain.rollout.effect import Build, Effect, Fail, Finish, Grade, Open, Pay, RunVisible, Sample, Say
from quintain.rollout.group import Ticket
from quintain.rollout.machine import Machine, Point, Rules
from quintain.rollout.resumption import resumption
from quintain.rollout.settle import settle
from quintain.store import Standing, last_attempt, standing
from quintain.types import (
    Broke,
    Built,
    Closed,
    Episode,
    Event,
    Fault,
    FaultKind,
    Graded,
    HouseError,
    Message,
    Opened,
    Owner,
    Ran,
    Rejected,
    Said,
    Sampled,
    TaskError,
    fold,
)
from quintain.watch import correlated

_log = logging.getLogger(__name__)

#: A longer reply is read beside the event loop: reading may take seconds where it was written to take long.
LONG_CHARACTERS = 50_000


class Patience(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the house waits for its own steps before it calls them failed, and how often it tries an episode each
    time that it is played."""

    run_seconds: float = 300.0
    grade_seconds: float = 600.0
    teardown_seconds: float = 10.0
    attempts: int = 3
    pause_seconds: float = 0.2  # before the second attempt; doubled before each further one


class Driver:
    """Plays episodes of one environment with one policy, and appends every event before it acts on it.

    What the policy's program does is in the events. A failure of the house or of the task ends the attempt as Broke
    and Closed(BROKEN); after one of the house a new attempt of the same episode follows, `patience.attempts` in all.
    Raises only what `append` raises (a journal that cannot be written is the end of the run), and
    HouseError(STORE_ERROR) for a log that no episode can have.
    """

    def __init__(
        self, environment: Environment, policy: Policy, append: Callable[[Event], None], *,
        patience: Patience | None = None, clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.environment = environment
        self.policy = policy
        self.append = append
        self.patience = patience or Patience()
        self.clock = clock

    async def play(self, ticket: Ticket, log: Sequence[Event] = ()) -> Episode:
        """One episode to its end. `log` is what is known of it already: a finished one is only folded, one that was
        cut short goes on at its last step, and one that the house broke begins anew."""
        done = list(log)
        with correlated(episode=ticket.episode):
            return await self._played(ticket, done)

    async def _played(self, ticket: Ticket, done: list[Event]) -> Episode:
        for nth in range(self.patience.attempts):
            if standing(done) is Standing.FINISHED:
                break
            if nth:
                await asyncio.sleep(self.patience.pause_seconds * 2 ** (nth - 1))
            await _Attempt(self, ticket, done).play()
        return fold(done)


class _Attempt:
    """One try at one episode. `log` is the episode's whole log, and grows."""

    def __init__(self, driver: Driver, ticket: Ticket, log: list[Event]) -> None:
        self._driver = driver
        self._ticket = ticket
        self._log = log
        task = ticket.item.task
        rules = Rules(limits=task.limits, grading=task.grading, visible=driver.environment.shows(ticket.item))
        if log:
            _log.info("%s: %s", ticket.episode, resumption(rules, task, log).reason)
        going_on = standing(log) is Standing.UNFINISHED
        self._machine = Machine.replayed(rules, last_attempt(log) if going_on else ())
        self._began = driver.clock() - self._machine.state.at_seconds

    async def play(self) -> None:
        try:
            self._check_task()
            while (effect := self._machine.effect(self._now())) is not None:
                await self._perform(effect)
        finally:
            await self._leave()

    async def _perform(self, effect: Effect) -> None:
        """Do one thing and append what came of it. One of the three places where exceptions are caught."""
        try:
            await self._do(effect)
        except HouseError as error:
            fault = error.fault
        except TaskError as error:
            fault = error.fault
        except Exception as error:
            fault = _fault_of(error)  # unknown means house
        else:
            return
        if self._machine.state.point is Point.UNOPENED:
            self._open(())  # a log begins with Opened, also where the opening is what failed
        self._append(Broke(**self._stamp(), fault=fault))

    async def _do(self, effect: Effect) -> None:
        environment, ticket, task = self._driver.environment, self._ticket, self._ticket.item.task
        match effect:
            case Open():
                self._open(environment.opening(task))
            case Sample():
                await self._sample(effect)
            case Build(turn=turn, previous=previous):
                if len(turn.text) <= LONG_CHARACTERS:
                    answer = environment.build(task, turn, previous=previous)
                else:
                    answer = await asyncio.to_thread(environment.build, task, turn, previous=previous)
                if isinstance(answer, Fault):
                    self._append(Rejected(**self._stamp(), fault=answer))
                else:
                    self._append(Built(
                        **self._stamp(), program=answer.program, notes=answer.notes, submitted=answer.submitted,
                    ))
            case RunVisible(program=program, limits=limits):
                async with _within(self._driver.patience.run_seconds, "running the visible part"):
                    shown = await environment.run(ticket.item, program, episode=ticket.episode, limits=limits)
                self._append(Ran(**self._stamp(), outcome=shown.outcome, verdict=shown.verdict, files=shown.files))
            case Grade():
                await self._grade(effect)
            case Pay(verdict=verdict, reward=reward):
                self._append(Graded(**self._stamp(), verdict=verdict, reward=reward, final=True))
            case Say(feedback=feedback):
                self._append(Said(**self._stamp(), message=environment.say(task, feedback)))
            case Fail(fault=fault):
                self._append(Broke(**self._stamp(), fault=fault))
            case Finish(stop=stop):
                self._append(Closed(**self._stamp(), stop=stop))

    def _open(self, conversation: tuple[Message, ...]) -> None:
        ticket, task = self._ticket, self._ticket.item.task
        attempt = 1 + sum(isinstance(event, Opened) for event in self._log)
        self._append(Opened(
            **self._stamp(), task=task.id, task_version=task.version, kind=task.kind, group=ticket.group,
            attempt=attempt, seed=ticket.seed, policy=self._driver.policy.name, unix_seconds=time.time(),
            conversation=conversation,
        ))

    async def _sample(self, effect: Sample) -> None:
        """Append the reply; append nothing when the time is up: a deadline is a stop, and the machine knows it."""
        seed = (self._ticket.seed + effect.nth) % 2**31
        try:
            async with asyncio.timeout(effect.seconds) as deadline:
                turn = await self._driver.policy.act(effect.conversation, task=self._ticket.item.task.id, seed=seed)
        except TimeoutError:
            if not deadline.expired():
                raise
        else:
            self._append(Sampled(**self._stamp(), turn=turn))

    async def _grade(self, effect: Grade) -> None:
        ticket = self._ticket
        async with _within(self._driver.patience.grade_seconds, "grading"):
            verdict, reward = await self._driver.environment.grade(
                ticket.item, effect.work, episode=ticket.episode, seed=ticket.seed,
            )
        if verdict.fault is not None and verdict.fault.owner is not Owner.POLICY:
            self._append(Broke(**self._stamp(), fault=verdict.fault))
            return
        final = self._machine.pays(reward, self._now())
        self._append(Graded(**self._stamp(), verdict=verdict, reward=reward, final=final))

    def _check_task(self) -> None:
        """An attempt at another version of the task cannot go on: it is given up, and a new one follows."""
        is_open = self._machine.state.point not in (Point.UNOPENED, Point.PAID, Point.BROKE)
        first = next(iter(last_attempt(self._log)), None) if is_open else None
        version = self._ticket.item.task.version
        if isinstance(first, Opened) and first.task_version != version:
            self._append(Broke(**self._stamp(), fault=Fault(
                owner=Owner.HOUSE, kind=FaultKind.CANCELLED,
                message=f"opened on version {first.task_version} of {first.task}, resumed on {version}",
            )))

    async def _leave(self) -> None:
        try:
            leaving = self._driver.environment.leave(self._ticket.episode)
            await settle(leaving, within=self._driver.patience.teardown_seconds)
        except Exception as error:  # what it was worth is decided already
            _log.warning("%s: teardown failed: %r", self._ticket.episode, error)

    def _append(self, event: Event) -> None:
        self._driver.append(event)
        self._log.append(event)
        self._machine.feed(event)

    def _stamp(self) -> _Stamp:
        return {"episode": self._ticket.episode, "index": len(self._log), "at_seconds": round(self._now(), 6)}

    def _now(self) -> float:
        return max(self._machine.state.at_seconds, self._driver.clock() - self._began)


class _Stamp(TypedDict):
    episode: str
    index: int
    at_seconds: float


@asynccontextmanager
async def _within(seconds: float, what: str) -> AsyncIterator[None]:
    """A deadline of the house upon itself. Raises HouseError(VERIFIER_ERROR)."""
    try:
        async with asyncio.timeout(seconds) as deadline:
            yield
    except TimeoutError:
        if not deadline.expired():
            raise
        raise HouseError(FaultKind.VERIFIER_ERROR, f"{what} took longer than {seconds:g} s")


def _fault_of(error: Exception) -> Fault:
    """The fault of an exception that nobody expected. Of a group, the first of ours in it is the cause."""
    if isinstance(error, ExceptionGroup):
        known = error.subgroup((HouseError, TaskError))
        leaf: Exception = known or error
        while isinstance(leaf, ExceptionGroup):
            leaf = leaf.exceptions[0]
        return leaf.fault if isinstance(leaf, HouseError | TaskError) else _fault_of(leaf)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    return Fault(
        owner=Owner.HOUSE, kind=FaultKind.UNKNOWN, message=f"{type(error).__name__}: {error}{place}",
        exception=type(error).__name__,
    )

"""What runs an episode again: each recorded event is brought about anew from the recorded state before it.

The record leads: whatever came out differently, the next step stands on the recorded replies and programs, so one
difference does not hide behind another. Where a step stands on what earlier commands left in a sandbox, the commands
are run again first, and compared too.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, Protocol

import msgspec

from quintain.env import Enterable, Environment, Work
from quintain.policy import Policy
from quintain.replay.base import Difference, EpisodeReplay, Measure, Rebuilt, Seen, StepReplay
from quintain.replay.diagnose import Entry, Known, name_causes
from quintain.replay.observed import (
    differences,
    facts_of,
    measure_of,
    parts_of_fault,
    parts_of_judgement,
    parts_of_program,
    parts_of_run,
    seen,
)
from quintain.rollout import Machine, Rules, command_limits, settle
from quintain.sandbox import Snapshot
from quintain.store import last_attempt
from quintain.tasks import Item
from quintain.types import (
    Broke,
    Built,
    Event,
    Fault,
    Graded,
    HouseError,
    Limits,
    Opened,
    Program,
    Ran,
    Rejected,
    Said,
    Sampled,
    TaskError,
)

#: How often a step that came out differently is run again, to tell jitter from a true difference.
REPEATS = 3
TEARDOWN_SECONDS = 10.0
PINNED = "export PYTHONHASHSEED=0"


class Steps(NamedTuple):
    """One attempt, cut where the policy answers: `cuts[k]` is where step k begins; step 0 is what was asked."""

    events: tuple[Event, ...]
    cuts: tuple[int, ...]

    @property
    def last(self) -> int:
        return len(self.cuts) - 1

    def of(self, step: int) -> range:
        """Where in the events a step lies."""
        return range(self.cuts[step], self.cuts[step + 1] if step < self.last else len(self.events))


def steps_of(log: Sequence[Event], *, attempt: int | None = None) -> Steps:
    """The last attempt of a log, or the one of that number. Raises ValueError for one that is not there."""
    starts = [at for at, event in enumerate(log) if isinstance(event, Opened)]
    if not starts or not isinstance(log[0], Opened):
        raise ValueError("expected a log that begins with Opened, found another one")
    events = tuple(last_attempt(log))
    if attempt is not None:
        if not 1 <= attempt <= len(starts):
            raise ValueError(f"expected an attempt from 1 to {len(starts)}, found {attempt}")
        events = tuple(log[starts[attempt - 1]:(*starts, len(log))[attempt]])
    return Steps(events, (0, *(at for at, event in enumerate(events) if isinstance(event, Sampled))))


class Finder(Protocol):
    """Finds a kept snapshot by the name that the log has of it; `None` for one that is lost."""

    def __call__(self, name: str) -> Snapshot | None: ...


class Replayer:
    """Runs episodes again in an environment. `files` finds kept snapshots, so that files are compared and put right.
    With a `policy` each reply is asked for again as well. `known` is what is known of then and now (`Known`)."""

    def __init__(
        self, environment: Environment, *, files: Finder = lambda name: None, policy: Policy | None = None,
        known: Known | None = None, repeats: int = REPEATS, clock: Callable[[], float] = time.time,
    ) -> None:
        if repeats < 1:
            raise ValueError(f"repeats must be at least 1, found {repeats}")
        self._environment = environment
        self.files = files
        self._policy = policy
        self._known = known or Known()
        self._repeats = repeats
        self._clock = clock

    async def replay(
        self, item: Item, log: Sequence[Event], *, step: int = 0, attempt: int | None = None, times: int = 1,
    ) -> EpisodeReplay:
        """One episode from `step` on, `times` at least; a step that differs `repeats` times in all. Raises ValueError
        for a step or an attempt that is not there. What the house does wrong meanwhile is in the answer."""
        steps = steps_of(log, attempt=attempt)
        opened = steps.events[0]
        assert isinstance(opened, Opened)
        if not 0 <= step <= steps.last:
            raise ValueError(f"episode {opened.episode}: expected a step from 0 to {steps.last}, found {step}")
        walk = _Walk(self._environment, item, steps, files=self.files, policy=self._policy, clock=self._clock)
        found = await self._all(walk, step, times)
        return msgspec.structs.replace(found, attempts=sum(isinstance(event, Opened) for event in log))

    async def _all(self, walk: _Walk, step: int, times: int) -> EpisodeReplay:
        first, house = 0 if walk.remembers else step, None
        walks: list[dict[int, Seen]] = []
        try:
            while len(walks) < max(1, times):
                walks.append(await walk.walked(first, walk.steps.last, put_right=step))
            differing = walk.differing(first, walks)
            if differing is not None:
                while len(walks) < max(times, self._repeats):
                    walks.append(await walk.walked(first, max(differing, step), put_right=step))
            pinned = await self._pinned(walk, first, differing, walks)
        except HouseError as error:
            house, pinned = error.fault, ()
        return walk.told(first, step, walks, pinned=pinned, known=self._known, house=house)

    async def _pinned(
        self, walk: _Walk, first: int, differing: int | None, walks: Sequence[dict[int, Seen]],
    ) -> tuple[dict[int, Seen], ...]:
        """The differing step twice more with one seed of hashes, where a shell's repetitions disagree."""
        if differing is None or not walk.remembers or not walk.is_jitter(differing, walks):
            return ()
        return tuple([await walk.walked(first, differing, prelude=PINNED) for _ in range(2)])


class _Walk:
    """One episode and how to walk through it; each walk is an episode of its own for the environment."""

    def __init__(
        self, environment: Environment, item: Item, steps: Steps, *, files: Finder, policy: Policy | None,
        clock: Callable[[], float],
    ) -> None:
        self.steps = steps
        self._environment = environment
        self._item = item
        self._files = files
        self._policy = policy
        self._clock = clock
        opened = steps.events[0]
        assert isinstance(opened, Opened)
        self.opened = opened
        task = item.task
        self._rules = Rules(limits=task.limits, grading=task.grading, visible=environment.shows(item))
        self.remembers = hasattr(environment, "remembers") and environment.remembers(item)
        self.put = False
        self.recorded = {
            at: seen(event, opened_unix_seconds=opened.unix_seconds, files=files)
            for at, event in enumerate(steps.events)
        }

    async def walked(self, first: int, last: int, *, put_right: int = 0, prelude: str = "") -> dict[int, Seen]:
        """What the events of these steps show this time, by their place in the attempt. Before step `put_right` the
        files are put as they were kept, if they came out differently. Raises HouseError."""
        found: dict[int, Seen] = {}
        async with self._episode() as episode:
            machine = Machine(self._rules)
            if prelude:
                await self._enter(machine, episode, prelude=prelude)
            for step in range(last + 1):
                if step == put_right and step and self.remembers and first < step:
                    await self._put_right(machine, episode, step, found)
                for at in self.steps.of(step):
                    event = self.steps.events[at]
                    if step >= first:
                        again = await self._again(machine, event, episode)
                        if again is not None:
                            found[at] = again
                    machine.feed(event)
        return found

    @asynccontextmanager
    async def _episode(self) -> AsyncIterator[str]:
        episode = f"{self.opened.episode}~{secrets.token_hex(4)}"
        try:
            yield episode
        finally:
            await settle(self._environment.leave(episode), within=TEARDOWN_SECONDS)

    async def _enter(
        self, machine: Machine, episode: str, *, prelude: str = "", snapshot: Snapshot | None = None,
    ) -> None:
        place: Enterable = self._environment  # type: ignore[assignment]  # `remembers` said that it is one
        await place.enter(self._item, machine.state.program, episode=episode, limits=self._limits(machine),
                          snapshot=snapshot, prelude=prelude)

    async def _put_right(self, machine: Machine, episode: str, step: int, found: dict[int, Seen]) -> None:
        at = next((at for at in reversed(range(self.steps.cuts[step])) if isinstance(self.steps.events[at], Ran)), None)
        event = self.steps.events[at] if at is not None else None
        if not isinstance(event, Ran) or event.files is None or at is None:
            return
        now = found.get(at)
        if now is not None and now.parts.get("files") == self.recorded[at].parts.get("files"):
            return
        kept = self._files(event.files)
        if kept is not None:
            self.put = True
            await self._enter(machine, episode, snapshot=kept)

    def _limits(self, machine: Machine) -> Limits:
        return command_limits(machine.state.spent, self._rules.limits, machine.state.at_seconds)

    async def _again(self, machine: Machine, event: Event, episode: str) -> Seen | None:
        """What comes instead of an event; `None` for one that nothing is done for."""
        try:
            return await self._brought_about(machine, event, episode)
        except TaskError as error:
            return self._seen("broke", parts_of_fault(error.fault))
        except ExceptionGroup as errors:
            known = errors.subgroup(TaskError)
            if known is None or errors.split(TaskError)[1] is not None:
                raise
            return self._seen("broke", parts_of_fault(_leaf(known).fault))

    async def _brought_about(self, machine: Machine, event: Event, episode: str) -> Seen | None:
        environment, item, state = self._environment, self._item, machine.state
        match event:
            case Opened():
                asked = msgspec.structs.replace(event, conversation=environment.opening(item.task))
                return self._event(asked)
            case Sampled() if self._policy is not None:
                seed = (self.opened.seed + state.spent.turns) % 2**31
                return self._event(msgspec.structs.replace(event, turn=await self._policy.act(
                    state.conversation, task=item.task.id, seed=seed)))
            case Built() | Rejected() if state.turn is not None:
                answer = environment.build(item.task, state.turn, previous=state.program)
                if isinstance(answer, Fault):
                    return self._seen("rejected", {**_blank(event), "rejected": f"{answer.label} {answer}".encode()})
                parts = parts_of_program(answer.program, answer.notes, answer.submitted)
                return self._seen("built", {**_blank(event), **parts})
            case Ran() if state.program is not None:
                shown = await environment.run(item, state.program, episode=episode, limits=self._limits(machine))
                kept = self._files(shown.files) if shown.files is not None else None
                return self._seen("ran", parts_of_run(shown.outcome, shown.verdict, kept),
                                  measure=measure_of(shown.outcome, shown.verdict), facts=facts_of(shown.verdict),
                                  denials=shown.outcome.denials if shown.outcome is not None else {})
            case Graded():
                return await self._graded(machine, event, episode)
            case Said():
                return self._said(machine, event)
            case _:
                return None

    async def _graded(self, machine: Machine, event: Graded, episode: str) -> Seen | None:
        """`None` where the last judgement was paid: nothing is executed for that."""
        state = machine.state
        if state.judgement is not None and state.judgement.verdict == event.verdict:
            return None
        effect_work = _work(machine)
        verdict, reward = await self._environment.grade(
            self._item, effect_work, episode=episode, seed=self.opened.seed)
        return self._seen("graded", parts_of_judgement(verdict, reward), measure=measure_of(None, verdict),
                          facts=facts_of(verdict))

    def _said(self, machine: Machine, event: Said) -> Seen | None:
        effect = machine.effect(machine.state.at_seconds)
        feedback = getattr(effect, "feedback", None)
        if feedback is None:  # by its rules of today the episode would have ended here
            return self._seen("said", {"told": b"(nothing: by the rules of today it ends here)"})
        return self._event(msgspec.structs.replace(event, message=self._environment.say(self._item.task, feedback)))

    def _event(self, event: Event) -> Seen:
        shown = seen(event, opened_unix_seconds=0.0, files=self._files)
        return msgspec.structs.replace(shown, unix_seconds=self._clock())

    def _seen(self, event: str, parts: dict[str, bytes], **more: object) -> Seen:
        return Seen(event=event, parts=parts, unix_seconds=self._clock(), **more)  # type: ignore[arg-type]

    def differing(self, first: int, walks: Sequence[dict[int, Seen]]) -> int | None:
        """The first step with a difference."""
        for step in range(first, self.steps.last + 1):
            if any(self._differences(at, walks) for at in self.steps.of(step)):
                return step
        return None

    def is_jitter(self, step: int, walks: Sequence[dict[int, Seen]]) -> bool:
        return any(not one.steady for at in self.steps.of(step) for one in self._differences(at, walks))

    def _differences(self, at: int, walks: Sequence[dict[int, Seen]]) -> tuple[Difference, ...]:
        came = [walk[at].parts for walk in walks if at in walk]
        return differences(self.recorded[at].parts, list(came)) if came else ()

    def told(
        self, first: int, step: int, walks: Sequence[dict[int, Seen]], *, pinned: Sequence[dict[int, Seen]],
        known: Known, house: Fault | None,
    ) -> EpisodeReplay:
        known = known.of(self._item, self.opened)
        compared = tuple(
            self._step(number, walks, pinned, known) for number in range(first, self.steps.last + 1)
            if any(at in walk for walk in walks for at in self.steps.of(number)))
        rebuilt, told = self._rebuilt(step, compared)
        skipped = tuple(
            f"event {event.index}: {event.fault}" for event in self.steps.events if isinstance(event, Broke))
        return EpisodeReplay(
            episode=self.opened.episode, task=self.opened.task, attempt=self.opened.attempt, attempts=1, first=step,
            last=self.steps.last, rebuilt=rebuilt, told=told, times=len(walks), steps=compared, skipped=skipped,
            changed=known.changes, house=house,
        )

    def _step(
        self, number: int, walks: Sequence[dict[int, Seen]], pinned: Sequence[dict[int, Seen]], known: Known,
    ) -> StepReplay:
        places = [at for at in self.steps.of(number) if any(at in walk for walk in walks)]
        found = [(at, one) for at in places for one in self._differences(at, walks)]
        entries = [Entry(self.recorded[at], [walk[at] for walk in walks if at in walk],
                         [walk[at] for walk in pinned if at in walk], one) for at, one in found]
        named = name_causes(entries, known=known, program=self._program(number)) if found else ()
        dear = next((at for at in reversed(places) if self.recorded[at].measure.wall_seconds is not None), None)
        again = walks[0].get(dear) if dear is not None else None
        return StepReplay(
            step=number, differing=tuple(one for _, one in found), named=named,
            compared=tuple(dict.fromkeys(part for at in places for part in self.recorded[at].parts)),
            recorded=self.recorded[dear].measure if dear is not None else Measure(),
            again=again.measure if again is not None else Measure(),
        )

    def _program(self, number: int) -> Program | None:
        """What step `number` ran: the latest program that was built up to it."""
        upto = self.steps.events[:self.steps.of(number).stop]
        return next((event.program for event in reversed(upto) if isinstance(event, Built)), None)

    def _rebuilt(self, step: int, compared: Sequence[StepReplay]) -> tuple[Rebuilt, tuple[str, ...]]:
        if step <= 1:
            return Rebuilt.BEGINNING, ("nothing was before it but what the task brings along",)
        if not self.remembers:
            return Rebuilt.PROGRAM, ("each answer runs in fresh sandboxes: the journal keeps its files",)
        ran = sum(isinstance(e, Ran) for e in self.steps.events[:self.steps.cuts[step]])
        told = [f"{ran} earlier commands were run again"]
        wrong = [one.step for one in compared if one.step < step and not one.identical]
        if wrong:
            told.append(f"they came out differently at step {', '.join(map(str, wrong))}")
        if self.put:
            told.append("the files were then put as they were kept; processes in the background were not")
            return Rebuilt.SNAPSHOT, tuple(told)
        if wrong:
            told.append("no files were kept to put it right: the state is not quite the recorded one")
        return Rebuilt.REEXECUTED, tuple(told)


def _leaf(errors: ExceptionGroup[TaskError]) -> TaskError:
    one: TaskError | ExceptionGroup[TaskError] = errors
    while isinstance(one, ExceptionGroup):
        one = one.exceptions[0]
    return one


def _blank(event: Event) -> dict[str, bytes]:
    """What was recorded, as absent: so that a program that became a rejection differs in every part."""
    if isinstance(event, Rejected):
        return {"rejected": b""}
    return dict.fromkeys(parts_of_program(event.program, (), False), b"") if isinstance(event, Built) else {}


def _work(machine: Machine) -> Work:
    """What was judged, as `rollout.machine` hands it in."""
    effect = machine.effect(float("inf")) if machine.state.judgement is None else None
    work = getattr(effect, "work", None)
    if work is not None:
        return work  # type: ignore[no-any-return]
    state = machine.state
    if state.work is None:
        raise ValueError("expected something to be judged, found a log that judges nothing")
    replies = tuple(message.text for message in state.conversation if message.role.value == "assistant")
    return msgspec.structs.replace(state.work, replies=replies)

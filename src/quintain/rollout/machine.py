"""One episode as a pure machine: an event goes in, the next effect comes out.

    Opened → (Sampled → Built | Rejected → Ran? → Graded? → Said?)* → Graded(final) → Closed      Broke from anywhere

The machine holds no clock and does no I/O: its state is a fold over the log, so feeding it the journal of an episode
that was cut short brings it back to where it was. The same program twice in a row is run and judged once: to say it
again is no second throw of the dice.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Self

import msgspec

from quintain.env import Feedback, Shown, Work
from quintain.rollout.budget import Spent, command_limits, deadline_seconds, exhausted, is_late, tokens_of
from quintain.rollout.effect import Build, Effect, Fail, Finish, Grade, Open, Pay, RunVisible, Sample, Say
from quintain.types import (
    CLASS_OF,
    Broke,
    Built,
    Closed,
    Event,
    Fault,
    FaultKind,
    Graded,
    Grading,
    Message,
    Opened,
    Owner,
    Program,
    Ran,
    Rejected,
    Reward,
    Role,
    Said,
    Sampled,
    Scopes,
    Stop,
    Turn,
    Verdict,
)
from quintain.types import Finish as Finished


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What an episode is played by. `visible`: whether there is anything that the policy may see run."""

    limits: Scopes = Scopes()
    grading: Grading = Grading.EACH_TURN
    visible: bool = False


class Point(StrEnum):
    """Where an episode is, named by its last event."""

    UNOPENED = "unopened"
    READY = "ready"  # opened, or told
    SAMPLED = "sampled"
    BUILT = "built"
    REJECTED = "rejected"
    RAN = "ran"
    GRADED = "graded"
    PAID = "paid"
    BROKE = "broke"
    CLOSED = "closed"


_NEXT: dict[Point, tuple[type, ...]] = {
    Point.UNOPENED: (Opened,),
    Point.READY: (Sampled, Graded, Broke),
    Point.SAMPLED: (Built, Rejected, Graded, Broke),
    Point.BUILT: (Ran, Graded, Said, Broke),
    Point.REJECTED: (Said, Graded, Broke),
    Point.RAN: (Graded, Said, Broke),
    Point.GRADED: (Said, Graded, Broke),
    Point.PAID: (Closed, Broke),
    Point.BROKE: (Closed,),
    Point.CLOSED: (),
}


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    verdict: Verdict
    reward: Reward


class State(msgspec.Struct, frozen=True, kw_only=True):
    """A fold over the log of one attempt. `work`, `shown` and `judgement` are those of the latest turn that was no
    empty reply; `program` is the latest that was built at all."""

    point: Point = Point.UNOPENED
    index: int = 0  # of the next event
    at_seconds: float = 0.0
    spent: Spent = Spent()
    conversation: tuple[Message, ...] = ()
    turn: Turn | None = None
    program: Program | None = None
    notes: tuple[str, ...] = ()
    work: Work | None = None
    shown: Shown | None = None
    judgement: Judgement | None = None
    submitted: bool = False
    repeated: bool = False  # the latest program is the one before it, so what is known of it still holds
    gave_up: bool = False


class Machine:
    """An episode that lives: `feed` it what happened, ask it for the `effect` that is due."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.state = State()

    @classmethod
    def replayed(cls, rules: Rules, log: Iterable[Event]) -> Self:
        """The machine as it was after these events. Raises ValueError for a log that no episode can have."""
        machine = cls(rules)
        for event in log:
            machine.feed(event)
        return machine

    def feed(self, event: Event) -> None:
        self.state = advance(self.state, event)

    def effect(self, at_seconds: float) -> Effect | None:
        return due(self.rules, self.state, at_seconds)

    def pays(self, reward: Reward, at_seconds: float) -> bool:
        return pays(self.rules, self.state, reward, at_seconds)


def due(rules: Rules, state: State, at_seconds: float) -> Effect | None:
    """The next effect at a time (seconds since the opening); `None` once the episode is closed."""
    stop = exhausted(state.spent, rules.limits, at_seconds)
    match state.point:
        case Point.UNOPENED:
            return Open()
        case Point.READY if stop is None:
            left = deadline_seconds(state.spent, rules.limits) - at_seconds
            return Sample(conversation=state.conversation, nth=state.spent.turns, seconds=left)
        case Point.SAMPLED if not state.gave_up and state.turn is not None:
            return Build(turn=state.turn, previous=state.program)
        case Point.BUILT if state.program is not None and _is_shown(rules, state, at_seconds):
            return RunVisible(program=state.program, limits=command_limits(state.spent, rules.limits, at_seconds))
        case Point.BUILT | Point.RAN if stop is None and rules.grading is Grading.ON_SUBMIT and not state.submitted:
            return _say(rules, state)
        case Point.BUILT if stop is None and state.judgement is not None:
            return _say(rules, state)
        case Point.REJECTED | Point.GRADED if stop is None:
            return _say(rules, state)
        case Point.PAID:
            return Finish(stop=_reason(rules, state, at_seconds))
        case Point.BROKE:
            return Finish(stop=Stop.BROKEN)
        case Point.CLOSED:
            return None
        case _:
            return _judge(rules, state)


def pays(rules: Rules, state: State, reward: Reward, at_seconds: float) -> bool:
    """Whether a judgement that just came is the last one: the one that pays."""
    return (
        reward.solved or state.gave_up or rules.grading is Grading.ON_SUBMIT
        or state.work is None or state.work.fault is not None
        or exhausted(state.spent, rules.limits, at_seconds) is not None
    )


def advance(state: State, event: Event) -> State:
    """The state after an event. Raises ValueError for one that cannot come next."""
    expected = _NEXT[state.point]
    if not isinstance(event, expected):
        names = ", ".join(kind.__name__ for kind in expected) or "nothing"
        raise ValueError(
            f"{event.episode}: event {event.index}: expected {names} once {state.point.value}, "
            f"found {type(event).__name__}",
        )
    if isinstance(event, Closed) and (event.stop is Stop.BROKEN) is not (state.point is Point.BROKE):
        raise ValueError(f"{event.episode}: event {event.index}: {event.stop.value} cannot follow {state.point.value}")
    state = msgspec.structs.replace(state, index=event.index + 1, at_seconds=event.at_seconds)
    return _advance(state, event)


def _advance(state: State, event: Event) -> State:
    replace = msgspec.structs.replace
    match event:
        case Opened(conversation=conversation):
            return replace(state, point=Point.READY, conversation=conversation)
        case Sampled(turn=turn):
            return _sampled(state, turn)
        case Built(program=program, notes=notes, submitted=submitted):
            work = Work(program=program)
            repeated = state.work == work
            return replace(
                state, point=Point.BUILT, work=work, program=program, notes=notes, submitted=submitted,
                repeated=repeated, shown=state.shown if repeated else None,
                judgement=state.judgement if repeated else None,
            )
        case Rejected(fault=fault):
            return replace(
                state, point=Point.REJECTED, work=Work(fault=fault), notes=(), repeated=False, shown=None,
                judgement=None,
            )
        case Ran(outcome=outcome, verdict=verdict):
            return replace(state, point=Point.RAN, shown=Shown(outcome=outcome, verdict=verdict))
        case Graded(verdict=verdict, reward=reward, final=final):
            judgement = Judgement(verdict=verdict, reward=reward)
            return replace(state, point=Point.PAID if final else Point.GRADED, judgement=judgement)
        case Said(message=message):
            spent = replace(state.spent, turn_began_seconds=event.at_seconds)
            return replace(state, point=Point.READY, conversation=(*state.conversation, message), spent=spent)
        case Broke():
            return replace(state, point=Point.BROKE, judgement=None)
        case Closed():
            return replace(state, point=Point.CLOSED)


def _sampled(state: State, turn: Turn) -> State:
    replace = msgspec.structs.replace
    spent = replace(state.spent, turns=state.spent.turns + 1, tokens=state.spent.tokens + tokens_of(turn))
    said = Message(role=Role.ASSISTANT, text=turn.text)
    gave_up = not turn.text.strip() and not turn.reasoning and turn.finish is Finished.STOP
    return replace(
        state, point=Point.SAMPLED, spent=spent, turn=turn, gave_up=gave_up, conversation=(*state.conversation, said),
    )


def _is_shown(rules: Rules, state: State, at_seconds: float) -> bool:
    is_needed = rules.visible and not state.submitted and state.shown is None
    return is_needed and not is_late(state.spent, rules.limits, at_seconds)


def _say(rules: Rules, state: State) -> Say:
    fault = state.work.fault if state.work is not None else None
    notes = (*state.notes, "this is the same program as before") if state.repeated else state.notes
    return Say(feedback=Feedback(
        fault=fault, shown=state.shown, notes=notes,
        solved=state.judgement.reward.solved if state.judgement is not None else None,
        turns_left=max(0, rules.limits.episode.turns - state.spent.turns),
    ))


def _judge(rules: Rules, state: State) -> Effect:
    """What the latest work is worth."""
    if state.judgement is not None:
        return Pay(verdict=state.judgement.verdict, reward=state.judgement.reward)
    if state.work is not None:
        replies = tuple(message.text for message in state.conversation if message.role is Role.ASSISTANT)
        return Grade(work=msgspec.structs.replace(state.work, replies=replies))
    if state.gave_up:
        return Grade(work=Work(fault=Fault(
            owner=Owner.POLICY, kind=FaultKind.NO_ANSWER, message="expected an answer, found an empty reply",
        )))
    seconds = deadline_seconds(state.spent, rules.limits)
    return Fail(fault=Fault(
        owner=Owner.HOUSE, kind=FaultKind.POLICY_UNREACHABLE, message=f"no reply came within {seconds:g} s",
    ))


def _reason(rules: Rules, state: State, at_seconds: float) -> Stop:
    if state.judgement is not None and state.judgement.reward.solved:
        return Stop.SOLVED
    if state.gave_up:
        return Stop.GAVE_UP
    if state.submitted and rules.grading is Grading.ON_SUBMIT:
        return Stop.SUBMITTED
    stop = exhausted(state.spent, rules.limits, at_seconds) or Stop.SUBMITTED
    fault = state.work.fault if state.work is not None else None
    if stop is Stop.TURNS and fault is not None and CLASS_OF[fault.kind] == "A":
        return Stop.MALFORMED
    return stop

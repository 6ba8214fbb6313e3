"""What a run comes to, episode by episode, as a fold over its events. Pure."""

from __future__ import annotations

import msgspec

from quintain.serve.dashboard.sums import Sums
from quintain.serve.dashboard.views import EpisodeLine, State
from quintain.types import (
    Broke,
    Built,
    Closed,
    Event,
    Fault,
    Graded,
    Opened,
    Owner,
    Passed,
    Ran,
    Rejected,
    Reward,
    Said,
    Sampled,
    Stop,
    Trainable,
    Verdict,
)

_FAULT_CHARS = 200


class Known(msgspec.Struct, kw_only=True):
    """One episode as far as its events go. `fault` is what it failed by last, `owner` whose that was."""

    id: str
    task: str
    kind: str
    group: str
    attempt: int
    opened_unix_seconds: float
    state: State = State.GENERATING
    stop: Stop | None = None
    turns: int = 0
    reward: float | None = None
    solved: bool = False
    trainable: Trainable | None = None
    owner: Owner | None = None
    fault: str | None = None
    message: str = ""
    scores: tuple[tuple[str, float], ...] = ()
    flags: tuple[str, ...] = ()
    seconds: float = 0.0
    version: str = ""
    words: str = ""  # what is searched, made when it is asked for first

    @property
    def searched(self) -> str:
        """Everything that a search looks at."""
        if not self.words:
            self.words = f"{self.id}\n{self.task}\n{self.fault}\n{self.message}".casefold()
        return self.words

    @property
    def closed_unix_seconds(self) -> float:
        return self.opened_unix_seconds + self.seconds

    @property
    def line(self) -> EpisodeLine:
        fault = f"{self.fault}: {self.message}" if self.fault and self.message else self.fault
        return EpisodeLine(
            id=self.id, task=self.task, kind=self.kind, group=self.group, attempt=self.attempt, state=self.state,
            stop=self.stop.value if self.stop else None, turns=self.turns, reward=self.reward,
            trainable=self.trainable.value if self.trainable else None, owner=self.owner.value if self.owner else None,
            fault=fault, flags=self.flags, seconds=self.seconds, opened_unix_seconds=self.opened_unix_seconds,
            version=self.version,
        )


class Fold:
    """Feed it each event once. `episodes` are in the order of their first event, `sums` what they come to."""

    def __init__(self) -> None:
        self.episodes: dict[str, Known] = {}
        self.sums = Sums()
        self.count = 0

    def feed(self, event: Event) -> None:
        """An event of an episode that was never opened is passed over."""
        self.count += 1
        known = self.episodes.get(event.episode)
        if isinstance(event, Opened):
            if known is not None:
                self.sums.count(known, -1)
            known = self.episodes[event.episode] = Known(
                id=event.episode, task=event.task, kind=event.kind, group=event.group, attempt=event.attempt,
                opened_unix_seconds=event.unix_seconds, seconds=event.at_seconds,
            )
        elif known is None:
            return
        else:
            self.sums.count(known, -1)
            known.seconds = event.at_seconds
            _step(known, event)
        self.sums.count(known, 1)


def _step(known: Known, event: Event) -> None:
    match event:
        case Sampled(turn=turn):
            known.turns += 1
            known.version = turn.policy_version
            known.state = State.BUILDING
        case Built():
            known.state = State.RUNNING
        case Rejected(fault=fault):
            _blame(known, fault)
            known.state = State.GENERATING
        case Ran():
            known.state = State.GRADING
        case Graded(verdict=verdict, reward=reward, final=final):
            _judge(known, verdict, reward, final)
        case Said():
            known.state = State.GENERATING
        case Broke(fault=fault):
            _blame(known, fault)
        case Closed(stop=stop):
            _close(known, stop)


def _blame(known: Known, fault: Fault) -> None:
    known.owner, known.fault, known.message = fault.owner, fault.label, fault.message[:_FAULT_CHARS]
    known.words = ""
    if fault.owner is not Owner.POLICY:
        known.reward, known.solved, known.trainable = None, False, None


def _judge(known: Known, verdict: Verdict, reward: Reward, final: bool) -> None:
    known.state = State.GRADING if final else State.GENERATING
    fault = verdict.fault or next((t.fault for t in verdict.tests if t.passed is not Passed.PASSED and t.fault), None)
    if fault is not None:
        _blame(known, fault)
    if final:
        known.reward, known.solved, known.trainable = reward.total, reward.solved, reward.trainable
        known.scores = tuple((score.name, score.value) for score in reward.scores if score.value is not None)
        known.flags = tuple(sorted({flag.detector for flag in reward.flags}))


def _close(known: Known, stop: Stop) -> None:
    known.stop = stop
    if stop is Stop.BROKEN:
        known.reward, known.solved, known.trainable, known.state = None, False, None, State.BROKEN
        return
    known.state = State.SOLVED if known.solved else State.FAILED
    known.words = ""
    if known.solved:
        known.owner, known.fault, known.message = None, None, ""
    elif known.owner is None:
        known.owner, known.fault = Owner.POLICY, stop.value

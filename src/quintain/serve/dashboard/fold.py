"""What a run comes to, episode by episode, as a fold over its events. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from quintain.serve.dashboard.views import EpisodeLine, State, TaskLine, TaskStanding
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
_OWN_KEYS = 64  # so many components or detectors are told apart


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
    """Feed it each event once. `episodes` are in the order of their first event."""

    def __init__(self) -> None:
        self.episodes: dict[str, Known] = {}
        self.count = 0

    def feed(self, event: Event) -> None:
        """An event of an episode that was never opened is passed over."""
        self.count += 1
        if isinstance(event, Opened):
            self.episodes[event.episode] = Known(
                id=event.episode, task=event.task, kind=event.kind, group=event.group, attempt=event.attempt,
                opened_unix_seconds=event.unix_seconds, seconds=event.at_seconds,
            )
            return
        known = self.episodes.get(event.episode)
        if known is not None:
            known.seconds = event.at_seconds
            _step(known, event)


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
    if known.solved:
        known.owner, known.fault, known.message = None, None, ""
    elif known.owner is None:
        known.owner, known.fault = Owner.POLICY, stop.value


def counted(names: Iterable[str]) -> dict[str, int]:
    """How often each name comes, the commonest first; at most 64 of them."""
    return dict(Counter(names).most_common(_OWN_KEYS))


def means(episodes: Iterable[Known]) -> dict[str, float]:
    """The mean of each component of the rewards where it was measured."""
    sums: dict[str, list[float]] = {}
    for known in episodes:
        for name, value in known.scores:
            if name in sums or len(sums) < _OWN_KEYS:
                one = sums.setdefault(name, [0.0, 0.0])
                one[0] += value
                one[1] += 1
    return {name: total / count for name, (total, count) in sorted(sums.items())}


def tasks_of(episodes: Iterable[Known], standings: Mapping[str, TaskStanding]) -> tuple[TaskLine, ...]:
    """Every task that was played or stands in a ledger, those in trouble first."""
    by_task: dict[str, list[Known]] = {task: [] for task in standings}
    for known in episodes:
        by_task.setdefault(known.task, []).append(known)
    lines = [_task(task, played, standings.get(task)) for task, played in by_task.items()]
    order = {"broken": 0, "never solved": 1, "mixed": 2, "always solved": 3, "not finished": 4}
    unwell = {"suspended", "retired"}
    return tuple(sorted(lines, key=lambda line: (
        line.standing is None or line.standing.state not in unwell, order.get(line.fares, 9), line.task)))


def fares_of(closed: int, solved: int, broken: int) -> str:
    """How a task fares in one word or two."""
    judged = closed - broken
    if not closed:
        return "not finished"
    if broken * 2 > closed:
        return "broken"
    return "always solved" if solved == judged else "never solved" if not solved else "mixed"


def _task(task: str, played: list[Known], standing: TaskStanding | None) -> TaskLine:
    closed = [one for one in played if one.stop is not None]
    rewards = [one.reward for one in closed if one.reward is not None]
    solved, broken = sum(one.solved for one in closed), sum(one.state is State.BROKEN for one in closed)
    faults = Counter(one.fault for one in closed if one.fault)
    return TaskLine(
        task=task, kind=played[0].kind if played else "", attempts=len(closed), solved=solved, broken=broken,
        reward=sum(rewards) / len(rewards) if rewards else None, fares=fares_of(len(closed), solved, broken),
        fault=faults.most_common(1)[0][0] if faults else None, standing=standing,
    )

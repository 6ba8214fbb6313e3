"""What in a run does not look right, each with its evidence and the command that runs it again. Pure folds over logs.

Costs are compared within a task by the robust z (0.6745 · |x - median| / MAD), so that one outlier does not hide
another. Nothing here is proof: an anomaly is where to look first.
"""

from __future__ import annotations

import hashlib
import math
import shlex
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from quintain.replay.again import steps_of
from quintain.store import Standing, last_attempt, standing
from quintain.types import (
    Broke,
    Built,
    Closed,
    Episode,
    Event,
    Graded,
    Opened,
    Owner,
    Passed,
    Ran,
    Rejected,
    Sampled,
    Trainable,
    Verdict,
    fold,
)

#: From here on a cost is an outlier, where a task has at least so many attempts and the excess is worth looking at.
ROBUST_Z = 5.0
LEAST_ATTEMPTS = 5
_EXCESS = {"seconds": 1.0, "tokens": 200.0, "turns": 2.0}
SILENT_SECONDS = 60.0


class Kind(StrEnum):
    EXTREME_REWARD = "extreme_reward"  # far from what its siblings were paid
    INCONSISTENT_REWARD = "inconsistent_reward"  # the number, the verdict and the scores do not agree
    VERDICT_FLIP = "verdict_flip"  # one program, two verdicts by one suite
    REWARD_FLIP = "reward_flip"  # one program and verdict, two rewards
    REPLAY_FLIP = "replay_flip"  # its verdict did not come out again
    COST_OUTLIER = "cost_outlier"
    SILENT_STEP = "silent_step"  # long, and nothing to show for it
    TRUNCATED_SOLVED = "truncated_solved"  # cut off by a limit, and solved
    PAID_UNEXECUTED = "paid_unexecuted"  # a reward above nothing with nothing that ran
    PAID_BROKEN = "paid_broken"  # paid although the house or the task failed
    CLOCK_BACKWARDS = "clock_backwards"
    UNREADABLE = "unreadable"


class Anomaly(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing to look at. `severity` in [0, 1] orders the list; `replay` is a command, "" where there is nothing to
    run again."""

    kind: Kind
    run: str
    episode: str
    task: str
    step: int | None
    severity: float
    evidence: tuple[str, ...]
    replay: str = ""


Logs = Mapping[str, Sequence[Event]]


def anomalies(runs: Mapping[str, Logs], *, problems: Mapping[str, Sequence[str]] | None = None) -> tuple[Anomaly, ...]:
    """The anomalies of runs (by path), worst first. `problems` are what of each could not be read."""
    found: list[Anomaly] = []
    attempts: list[_Attempt] = []
    for run, said in (problems or {}).items():
        found += [Anomaly(kind=Kind.UNREADABLE, run=run, episode="", task="", step=None, severity=0.6, evidence=(one,))
                  for one in said]
    for run, logs in runs.items():
        for log in logs.values():
            try:
                attempts.append(_Attempt(run, log))
            except (ValueError, AssertionError) as error:
                found.append(Anomaly(kind=Kind.UNREADABLE, run=run, episode=log[0].episode if log else "", task="",
                                     step=None, severity=0.6, evidence=(str(error),)))
    for attempt in attempts:
        found += attempt.alone()
    found += _flips(attempts)
    found += _outliers(attempts)
    return tuple(sorted(found, key=lambda one: (-one.severity, one.run, one.episode, one.kind.value)))


def replay_flip(run: str, episode: str, task: str, step: int, evidence: Sequence[str]) -> Anomaly:
    """That a verdict did not come out again, found by replaying."""
    return Anomaly(kind=Kind.REPLAY_FLIP, run=run, episode=episode, task=task, step=step, severity=0.95,
                   evidence=tuple(evidence), replay=_command(run, episode, step, times=5))


def _command(run: str, episode: str, step: int, *, times: int = 3) -> str:
    return (f"quintain replay {shlex.quote(episode)} --run {shlex.quote(run)} --step {step} --times {times}")


class _Attempt:
    """The last attempt of an episode, and what is asked of it."""

    def __init__(self, run: str, log: Sequence[Event]) -> None:
        self.run = run
        self.steps = steps_of(log)
        self.log = last_attempt(log)
        opened = self.log[0]
        assert isinstance(opened, Opened), "an attempt begins with Opened"
        self.opened = opened
        self.episode: Episode = fold(self.log)
        self.finished = standing(self.log) is Standing.FINISHED

    @property
    def last(self) -> int:
        return self.steps.last

    def anomaly(self, kind: Kind, severity: float, *evidence: str, step: int | None = None) -> Anomaly:
        at = self.last if step is None else step
        return Anomaly(
            kind=kind, run=self.run, episode=self.episode.id, task=self.episode.task, step=at, severity=severity,
            evidence=evidence, replay=_command(self.run, self.episode.id, at))

    def judged(self) -> Iterator[tuple[int, str, Graded]]:
        """Each judgement that was reached by running, with its step and the hash of its program."""
        program = ""
        paid: Verdict | None = None
        for step in range(self.last + 1):
            for at in self.steps.of(step):
                event = self.steps.events[at]
                if isinstance(event, Built):
                    program = _hash(event)
                elif isinstance(event, Rejected):
                    program = ""
                elif isinstance(event, Graded):
                    if program and event.verdict != paid:
                        yield step, program, event
                    paid = event.verdict

    def alone(self) -> Iterator[Anomaly]:
        """What is odd about it, whatever others did."""
        episode, reward = self.episode, self.episode.reward
        if reward is not None:
            yield from self._reward()
        closed = next((event for event in self.log if isinstance(event, Closed)), None)
        if closed is not None and closed.stop.truncated and episode.solved:
            yield self.anomaly(Kind.TRUNCATED_SOLVED, 0.5, f"stopped by {closed.stop.value}, and solved")
        broke = next((event.fault for event in self.log if isinstance(event, Broke)), None)
        paid = next((event for event in self.log if isinstance(event, Graded) and event.final), None)
        if broke is not None and broke.owner is not Owner.POLICY and paid is not None and reward is not None:
            yield self.anomaly(Kind.PAID_BROKEN, 0.9, str(broke), f"paid {reward.total:+.3f}")
        yield from self._times()

    def _reward(self) -> Iterator[Anomaly]:
        reward, verdict = self.episode.reward, self.episode.verdict
        assert reward is not None
        ran = any(isinstance(event, Built) for event in self.log)
        if reward.total > 0 and not ran:
            yield self.anomaly(Kind.PAID_UNEXECUTED, 1.0, f"paid {reward.total:+.3f}, and no program was ever built")
        wrong: list[str] = []
        if not math.isfinite(reward.total) or not -1.0 <= reward.total <= 1.0:
            wrong.append(f"a total of {reward.total!r} outside [-1, 1]")
        if verdict is not None and reward.solved and not verdict.solved:
            failed = sum(test.passed is not Passed.PASSED for test in verdict.tests)
            wrong.append(f"solved, though {failed} of {len(verdict.tests)} tests did not pass")
        if verdict is not None and verdict.solved and not reward.solved and not reward.flags:
            wrong.append("every test passed, and it is not called solved; no flag says why")
        if reward.solved and reward.total <= 0:
            wrong.append(f"solved, and paid {reward.total:+.3f}")
        added = [score.contribution for score in reward.scores if score.contribution is not None]
        if added and abs(math.fsum(added) - reward.total) > 1e-6 and abs(reward.total) < 1.0:
            wrong.append(f"its scores add up to {math.fsum(added):+.6f}, it was paid {reward.total:+.6f}")
        if verdict is not None and not verdict.tests and reward.total > 0:
            wrong.append("paid by a verdict without a test")
        if wrong:
            yield self.anomaly(Kind.INCONSISTENT_REWARD, 1.0, *wrong)

    def _times(self) -> Iterator[Anomaly]:
        before = 0.0
        for step in range(self.last + 1):
            for at in self.steps.of(step):
                event = self.steps.events[at]
                took = event.at_seconds - before
                before = event.at_seconds
                if took < 0:
                    yield self.anomaly(Kind.CLOCK_BACKWARDS, 0.7, f"event {event.index} is {-took:.3f} s before the "
                                       "one that it follows", step=step)
                elif took > SILENT_SECONDS and (why := _silent(event)):
                    yield self.anomaly(Kind.SILENT_STEP, 0.4, f"{took:.1f} s until event {event.index}: {why}",
                                       step=step)

    def costs(self) -> dict[str, float]:
        turns = self.episode.turns
        tokens = sum(len(turn.output_token_ids) if turn.output_token_ids is not None else turn.output_tokens or 0
                     for turn in turns)
        return {"seconds": self.episode.seconds, "tokens": float(tokens), "turns": float(len(turns))}


def _silent(event: Event) -> str | None:
    """What a long step has to show for itself, if that is nothing."""
    if isinstance(event, Ran) and event.outcome is not None and not event.outcome.stdout and not event.outcome.stderr:
        return f"a command that printed nothing ({event.outcome.status.value})"
    if isinstance(event, Sampled) and not event.turn.text.strip():
        return "an empty reply"
    return None


def _hash(event: Built) -> str:
    hashed = hashlib.sha256(event.program.language.encode())
    for path, content in sorted(event.program.files.items()):
        hashed.update(path.encode("utf-8", "surrogatepass") + b"\0" + hashlib.sha256(content).digest())
    return hashed.hexdigest()


def _says(verdict: Verdict) -> str:
    passed = sum(test.passed is Passed.PASSED for test in verdict.tests)
    fault = f", {verdict.fault.label}" if verdict.fault else ""
    return f"{passed} of {len(verdict.tests)} tests passed{fault}"


def _flips(attempts: Iterable[_Attempt]) -> Iterator[Anomaly]:
    """One program, judged by one suite: more than one verdict, or more than one reward for one verdict."""
    seen: dict[tuple[str, str, str], list[tuple[_Attempt, int, Graded]]] = defaultdict(list)
    for attempt in attempts:
        for step, program, graded in attempt.judged():
            seen[attempt.opened.task_version, program, graded.verdict.suite].append((attempt, step, graded))
    for (_, program, _), same in seen.items():
        verdicts = defaultdict(list)
        for one in same:
            verdicts[_says(one[2].verdict)].append(one)
        if len(verdicts) > 1:
            rarest = min(verdicts.values(), key=len)
            lines = [f"program {program[:12]} under one suite:", *(
                f"{said}: {len(who)} times, as in {who[0][0].episode.id} step {who[0][1]} of {who[0][0].run}"
                for said, who in sorted(verdicts.items(), key=lambda item: len(item[1])))]
            yield rarest[0][0].anomaly(Kind.VERDICT_FLIP, 0.95, *lines, step=rarest[0][1])
            continue
        rewards: dict[float, tuple[_Attempt, int, Graded]] = {}
        for one in same:
            if one[2].reward.trainable is Trainable.YES and not one[2].reward.flags:
                rewards.setdefault(round(one[2].reward.total, 6), one)
        if len(rewards) > 1:
            attempt, step, _ = rewards[min(rewards)]
            yield attempt.anomaly(Kind.REWARD_FLIP, 0.6, f"program {program[:12]}, one verdict, paid "
                                  + ", ".join(f"{total:+.3f} ({one[0].episode.id})" for total, one in rewards.items()),
                                  step=step)


def _outliers(attempts: Iterable[_Attempt]) -> Iterator[Anomaly]:
    by_task: dict[str, list[_Attempt]] = defaultdict(list)
    for attempt in attempts:
        if attempt.finished:
            by_task[attempt.opened.task_version].append(attempt)
    for same in by_task.values():
        if len(same) < LEAST_ATTEMPTS:
            continue
        for name, least in _EXCESS.items():
            values = [attempt.costs()[name] for attempt in same]
            for attempt, value, z in _far(same, values, least):
                yield attempt.anomaly(Kind.COST_OUTLIER, min(0.8, 0.3 + z / 100), (
                    f"{name} {value:.6g}; the median of {len(same)} attempts at this task is "
                    f"{statistics.median(values):.6g}, robust z {z:.1f}"))
        paid = [attempt for attempt in same if attempt.episode.reward is not None]
        rewards = [attempt.episode.reward.total for attempt in paid if attempt.episode.reward is not None]
        if len(paid) >= LEAST_ATTEMPTS:
            for attempt, value, z in _far(paid, rewards, 0.5):
                yield attempt.anomaly(Kind.EXTREME_REWARD, min(0.7, 0.3 + z / 100), (
                    f"paid {value:+.3f}; the median of {len(paid)} attempts at this task is "
                    f"{statistics.median(rewards):+.3f}, robust z {z:.1f}"))


def _far(same: Sequence[_Attempt], values: Sequence[float], least: float) -> Iterator[tuple[_Attempt, float, float]]:
    """Those that lie far from the rest; where more than half are the same, the spread is what `least` makes of it."""
    median = statistics.median(values)
    spread = statistics.median(abs(value - median) for value in values)
    for attempt, value in zip(same, values, strict=True):
        z = 0.6745 * abs(value - median) / max(spread, least / 10)
        if z >= ROBUST_Z and abs(value - median) >= least:
            yield attempt, value, z

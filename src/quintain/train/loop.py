"""A training from its first step to its last: updates, evaluations, checkpoints, and a log that others can read.

The folder of a training holds `metrics.jsonl` (one flat row a step, with `_step` and `_timestamp` as Weights & Biases
has them, and a name per chart as TensorBoard has them), `checkpoints/`, and what the learner's memory keeps. A run that
was killed goes on at the step after its newest checkpoint, with the same numbers as if nothing had happened.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from quintain.train.checkpoint import Checkpoints
from quintain.train.health import Alarm, Reading, alarms

#: Every so many steps a checkpoint waits for the disk.
SYNC_EVERY = 50


class Learner(Protocol):
    """What is trained. `update` makes one step and tells of it; `evaluate` changes nothing that decides a step."""

    step: int

    @property
    def stage(self) -> str: ...

    @property
    def done(self) -> bool: ...

    def state(self) -> dict[str, Any]: ...

    async def load(self, state: Mapping[str, Any]) -> None: ...

    async def update(self) -> dict[str, float]: ...

    async def evaluate(self, count: int | None = None) -> dict[str, float]: ...


class Dials(Protocol):
    """How long the two stages of a training are, in updates."""

    @property
    def sft_steps(self) -> int: ...

    @property
    def rl_steps(self) -> int: ...


class TwoStages:
    """Of a learner that is shown first and rewarded then: where it stands, and whether a state is one of its own."""

    settings: Dials
    step: int

    @property
    def stage(self) -> str:
        return "sft" if self.step < self.settings.sft_steps else "rl"

    @property
    def done(self) -> bool:
        return self.step >= self.settings.sft_steps + self.settings.rl_steps

    @property
    def told_settings(self) -> str:
        """The settings as they stand in a checkpoint."""
        return msgspec.json.encode(self.settings).decode()

    def expect_own(self, state: Mapping[str, Any]) -> None:
        """Raises ValueError for a state of other settings."""
        if state["settings"] != self.told_settings:
            raise ValueError(f"expected a checkpoint of the same settings, found {state['settings']}")


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When to look and when to stop. An evaluation comes between the stages, after every `evaluate_every` steps and at
    the end, of `evaluate_tasks` tasks (None: all) on the way. After `patience` evaluations of one stage without a new
    best it ends early (None: never); after `cpu_seconds` of this process it ends, too. A checkpoint is written after
    every `checkpoint_every` steps, `keep` of them stay."""

    evaluate_every: int = 100
    evaluate_tasks: int | None = None
    checkpoint_every: int = 1
    keep: int = 2
    patience: int | None = None
    cpu_seconds: float | None = None
    measure: str = "pass_at_1"

    def __post_init__(self) -> None:
        if self.evaluate_every < 1 or self.checkpoint_every < 1 or self.keep < 1:
            raise ValueError("expected evaluate_every, checkpoint_every and keep of at least 1")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What a step came to: numbers of the training, and of the held-out tasks where they were evaluated."""

    step: int
    stage: str
    train: dict[str, float]
    held_out: dict[str, float] = {}
    unix_seconds: float = 0.0

    @property
    def flat(self) -> dict[str, object]:
        """As it stands in the log."""
        return {"_step": self.step, "_timestamp": round(self.unix_seconds, 3), "stage": self.stage,
                **{f"train/{name}": value for name, value in self.train.items()},
                **{f"held_out/{name}": value for name, value in self.held_out.items()}}


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a training ended: `why` is finished, early (no better for long) or budget. `first` are the held-out numbers
    before the last stage, `last` those at the end; `resumed_at` the step that this run went on from."""

    why: str
    step: int
    first: dict[str, float]
    last: dict[str, float]
    best: float
    best_step: int
    alarms: tuple[Alarm, ...] = ()
    resumed_at: int | None = None


class _Course(msgspec.Struct, kw_only=True):
    """What the loop itself must know to go on."""

    first: dict[str, float] = {}
    last: dict[str, float] = {}
    best: float = -1.0
    best_step: int = 0
    since_best: int = 0


async def train(
    learner: Learner, folder: Path, plan: Plan | None = None, *, watch: Callable[[Row], None] = lambda row: None,
) -> Ended:
    """Train to the end, or go on with what lies in `folder`. `watch` sees each row. Raises what the learner raises,
    and HouseError(STORE_ERROR) for a folder that cannot be written."""
    chosen = plan or Plan()
    log = Log(folder / "metrics.jsonl")
    checkpoints = Checkpoints(folder / "checkpoints", keep=chosen.keep)
    course, resumed_at = _Course(), None
    newest = checkpoints.newest()
    if newest is not None:
        resumed_at, state = newest
        await learner.load(state["learner"])
        course = msgspec.json.decode(state["course"], type=_Course)
    log.cut_after(learner.step)
    began = time.process_time()
    why = "finished"
    while not learner.done:
        stage = learner.stage
        told = await learner.update()
        spent = chosen.cpu_seconds is not None and time.process_time() - began >= chosen.cpu_seconds
        turned = stage != learner.stage
        held_out: dict[str, float] = {}
        if turned or learner.done or spent or learner.step % chosen.evaluate_every == 0:
            whole = turned or learner.done or spent
            held_out = await learner.evaluate(None if whole else chosen.evaluate_tasks)
            _take_in(course, held_out, learner.step, chosen, turned=turned)
        row = Row(step=learner.step, stage=stage, train=told, held_out=held_out, unix_seconds=time.time())
        log.append(row)
        tired = chosen.patience is not None and course.since_best >= chosen.patience
        if learner.step % chosen.checkpoint_every == 0 or learner.done or spent or tired:
            checkpoints.save(
                learner.step, {"learner": learner.state(), "course": msgspec.json.encode(course).decode()},
                best=bool(held_out) and course.best_step == learner.step,
                sync=learner.step % SYNC_EVERY == 0 or learner.done or spent or tired,
            )
        watch(row)
        if spent or tired:
            why = "budget" if spent else "early"
            break
    return Ended(
        why=why, step=learner.step, first=course.first, last=course.last, best=course.best,
        best_step=course.best_step, alarms=alarms(log.readings()), resumed_at=resumed_at,
    )


def _take_in(course: _Course, held_out: dict[str, float], step: int, plan: Plan, *, turned: bool) -> None:
    course.last = held_out
    if turned or not course.first:
        course.first = held_out
    value = held_out[plan.measure]
    if turned or value > course.best:
        course.best, course.best_step, course.since_best = value, step, 0
    else:
        course.since_best += 1


class Log:
    """Rows in a JSONL file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, row: Row) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row.flat) + "\n")

    def rows(self) -> list[Row]:
        """All of them; a torn last line is none."""
        if not self.path.exists():
            return []
        content = self.path.read_text("utf-8")
        lines = content[: content.rfind("\n") + 1].splitlines()
        return [_row(json.loads(line)) for line in lines]

    def cut_after(self, step: int) -> None:
        """Take out what a killed run told after the checkpoint from which it goes on."""
        rows = self.rows()
        if self.path.exists():
            kept = "".join(json.dumps(row.flat) + "\n" for row in rows if row.step <= step)
            draft = self.path.with_suffix(".draft")
            draft.write_text(kept, "utf-8")
            draft.replace(self.path)

    def readings(self) -> list[Reading]:
        """The stage of rewards, for `alarms`."""
        return [Reading(step=row.step, reward=row.train.get("reward"), entropy_nats=row.train.get("entropy"),
                        useless=row.train.get("useless"), held_out=row.held_out.get("pass_at_1"))
                for row in self.rows() if row.stage == "rl"]


def _row(flat: dict[str, Any]) -> Row:
    def part(name: str) -> dict[str, float]:
        return {key.partition("/")[2]: value for key, value in flat.items() if key.startswith(f"{name}/")}

    return Row(step=flat["_step"], stage=flat["stage"], train=part("train"), held_out=part("held_out"),
               unix_seconds=flat["_timestamp"])

"""What a training to repair is made of: its dials, its demonstrations, and each task as it is known so far."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from quintain.train.control import Control
from quintain.train.judging import Attempted, Judged, Memory
from quintain.train.loop import Learner
from quintain.train.repair_cases import case_of, tests_after
from quintain.train.repair_edits import Edit, read_code
from quintain.train.repair_features import Case, Features, Test, Tried, features_of, renumbered
from quintain.types import Task

#: A state of more attempts than this is given up.
MOST_ATTEMPTS = 3


class RepairSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The dials of a training. `batch` states of `group` draws a step, each group with at most `fresh` new programs:
    those that were drawn most often, and where its draws are known to differ already, only what at least `often` of
    them are. `again` is the share of a batch that may be states after a failed attempt; `passes` updates for each
    batch. In training a share `hidden` of the description's words is not read, and a share `drop` of the network's
    inner values; what is evaluated and kept is the parameters' mean, which moves by 1 − `average` with each update.
    `staleness` 1: the next batch is drawn before the update of this one, and executed meanwhile. `house_failures` is
    the share of rewards that is lost on purpose, `naive` pays 0 for a lost reward instead of leaving it out."""

    seed: int = 0
    demos: int = 200
    sft_steps: int = 60
    rl_steps: int = 1200
    batch: int = 16
    group: int = 32
    fresh: int = 1
    often: int = 4
    again: float = 0.2
    passes: int = 1
    sft_rate: float = 2e-3
    rate: float = 1e-3
    entropy: float = 0.01
    hidden: float = 0.0
    drop: float = 0.0
    average: float = 0.95
    width: int = 96
    layers: int = 2
    staleness: int = 0
    control: Control = Control.NONE
    house_failures: float = 0.0
    naive: bool = False

    def __post_init__(self) -> None:
        if self.batch < 1 or self.group < 2 or self.fresh < 1 or self.passes < 1:
            raise ValueError("expected batch, fresh and passes of at least 1 and a group of at least 2")
        for name in ("again", "hidden", "drop", "average"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"expected {name} in [0, 1), found {getattr(self, name)!r}")
        if self.staleness not in (0, 1):
            raise ValueError(f"expected a staleness of 0 or 1 updates, found {self.staleness!r}")


class Demo(msgspec.Struct, frozen=True, kw_only=True):
    """A repair that was executed and solved its task: the answer to learn from."""

    task: str
    edit: Edit


class Drawn(msgspec.Struct, kw_only=True):
    """A batch as it was sampled: for each of B states its task, the attempts before, the edits drawn (indices into
    the task's edits, [B, G]), their log-probabilities then, and which of them are measured ([B, G])."""

    step: int
    tasks: list[str]
    tried: list[list[int]]
    picks: list[list[int]]
    logprobs: list[list[float]]
    measured: list[list[bool]]


class Problem:
    """One task as the learner holds it: the case as asked, and how the tests went after each edit that was tried."""

    def __init__(self, task: Task, exam: str | None = None) -> None:
        self.task = task
        self._exam = exam or task.version
        self.case = case_of(task)
        self.after: dict[int, tuple[Test, ...]] = {}
        self._attempts: dict[int, Attempted] = {}
        self._features: dict[tuple[int, ...], Features] = {}

    def attempted(self, pick: int) -> Attempted:
        """The answer that this edit makes."""
        if pick not in self._attempts:
            self._attempts[pick] = self._attempted(pick)
        return self._attempts[pick]

    def _attempted(self, pick: int) -> Attempted:
        source = self.case.code.edited(self.case.code.edits[pick])
        return Attempted(task=self.task.id, exam=self._exam,
                         files={**self.task.files, self.task.entry.path: source.encode()})

    def state(self, tried: Sequence[int]) -> Case:
        """The case after some attempts, all of which have been executed."""
        if not tried:
            return self.case
        edits = self.case.code.edits
        return msgspec.structs.replace(self.case, tried=tuple(Tried(edits[n], self.after[n]) for n in tried))

    def features(self, tried: Sequence[int], dice: random.Random | None = None, *, hidden: float = 0.0) -> Features:
        """What the policy reads of that; with `dice` in other words, and without a share `hidden` of the
        description's."""
        key = tuple(tried)
        if key not in self._features:
            self._features[key] = features_of(self.state(tried))
        return self._features[key] if dice is None else renumbered(self._features[key], dice, hidden=hidden)

    def saw(self, pick: int, judged: Judged) -> None:
        if judged.verdict is not None and pick not in self.after:
            self.after[pick] = tests_after(self.case.tests, judged.verdict)

    def outcomes(self, told: Callable[[str], bool | None]) -> dict[int, bool]:
        """Whether each edit solves the task, of those whose program was executed, for this task or for a sibling with
        the same exam: `told` knows programs by their digests."""
        found = ((pick, told(self.attempted(pick).digest)) for pick in range(len(self.case.code.edits)))
        return {pick: solved for pick, solved in found if solved is not None}

    def pick_of(self, edit: Edit) -> int:
        """Raises ValueError for an edit that is not open to this task."""
        return self.case.code.edits.index(edit)


def lead_of(outcomes: Mapping[int, bool], tried: Sequence[int], chances: Sequence[float]) -> int | None:
    """The edit that a group should have beside what was drawn: one whose program solved the task when it was executed;
    where none is known, the likeliest that was not executed yet; None where all were."""
    solved = [pick for pick, solves in outcomes.items() if solves]
    if solved:
        return max(solved, key=lambda pick: chances[pick])
    unknown = [pick for pick in range(len(chances)) if pick not in outcomes and pick not in tried]
    return max(unknown, key=lambda pick: chances[pick], default=None)


def demo_of(task: Task, right: bytes) -> Demo | None:
    """The demonstration in a right answer: the one edit that leads to it, or None where none does."""
    case = case_of(task)
    wanted = read_code(right.decode())
    for edit in case.code.edits:
        if case.code.edited(edit) == wanted.source:
            return Demo(task=task.id, edit=edit)
    return None


class RepairLearning(Learner, Protocol):
    """The learner of repairs, as whoever starts a training sees it."""

    settings: RepairSettings
    memory: Memory
    problems: dict[str, Problem]
    held_out: list[Problem]
    practised: list[Problem]
    overlapped_seconds: float

    @property
    def parameters(self) -> int: ...

    async def prepare(self) -> int: ...


def repair_learner(
    tasks: Sequence[Task], held_out: Sequence[Task], demos: Sequence[Demo], memory: Memory,
    settings: RepairSettings | None = None, *, exams: Mapping[str, str] | None = None,
    practised: Sequence[Task] = (),
) -> RepairLearning:
    """The learner of `quintain.train.repair_learning`; needs torch, on CPU. `exams` has for a task id a digest of all
    by which answers are judged (default: the task's version), so that equal programs of sibling tasks are executed
    once. `practised` are evaluated only, like `held_out`: other faults of the programs that `tasks` are about. Raises
    ModuleNotFoundError without torch, and ValueError for a task that is no repair."""
    from quintain.train.repair_learning import RepairLearner

    return RepairLearner(tasks, held_out, demos, memory, settings, exams=exams, practised=practised)

"""Reasoning Gym: questions made by programs, as many as anybody asks for, each with a scorer of its own.

`reasoning-gym:leg_counting` is the generator of that name with seed 0, `reasoning-gym:leg_counting@7` with seed 7; the
set has no end, so say how many: `?take=100`. The same seed and number give the same question. Needs the extra
`reasoning-gym`. Stojanovski et al. 2025, https://arxiv.org/abs/2505.24760, https://pypi.org/project/reasoning-gym.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, overload

from quintain.tasks.answer import AnswerKind, AnswerSuite
from quintain.tasks.base import ByName
from quintain.tasks.exam import Exam, Item
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, FaultKind, Grading, TaskError

#: Questions are made in batches of this many, each with a seed of its own: some generators prepare a whole batch.
BATCH = 100
#: Nobody lists more ids by accident.
MOST = 1_000_000
_SPEC = re.compile(r"([a-z0-9_]+)(?:@(\d{1,9}))?")
_ASKED = "\n\nGive your final answer on a last line that begins with `Answer:`.\n"


class ReasoningGymFormat(ByName):
    """Generators by name; no file is read."""

    name = "reasoning-gym"
    about = "reasoning-gym:GENERATOR or reasoning-gym:GENERATOR@SEED, with ?take=N (needs the package reasoning-gym)"

    def named(self, name: str) -> Taskset:
        """The endless set of one generator. Raises TaskError for one that does not exist, and without the package."""
        match = _SPEC.fullmatch(name)
        if match is None:
            raise TaskError(f"expected GENERATOR or GENERATOR@SEED, found {name!r}")
        return Taskset(Generated(match[1], int(match[2] or 0)))


class Ids(Sequence[str]):
    """`PREFIX/0`, `PREFIX/1` ... Raises TaskError for whoever wants them all."""

    def __init__(self, prefix: str, *, most: int = MOST) -> None:
        self._prefix = prefix
        self._most = most

    def __len__(self) -> int:
        return self._most

    def __iter__(self) -> Iterator[str]:
        for number in range(self._most):
            yield f"{self._prefix}/{number}"
        raise TaskError(f"{self._prefix} has no end: say how many tasks you want, as in ?take=100")

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        numbers = range(self._most)[index]
        return f"{self._prefix}/{numbers}" if isinstance(numbers, int) else [f"{self._prefix}/{n}" for n in numbers]


class Generated:
    """The questions of one generator and seed."""

    def __init__(self, generator: str, seed: int) -> None:
        self.name = f"reasoning-gym/{generator}@{seed}"
        self._generator = generator
        self._seed = seed
        self._batch: tuple[int, Any] = (-1, None)
        make = _factory()
        if generator not in make.DATASETS:
            raise TaskError(f"expected a generator of reasoning-gym, found {generator!r}; known are "
                            f"{', '.join(sorted(make.DATASETS))}")

    def ids(self) -> Sequence[str]:
        return Ids(self.name)

    def item(self, id: str) -> Item:
        prefix, _, number = id.rpartition("/")
        if prefix != self.name or not number.isdigit():
            raise KeyError(id)
        recipe = {"generator": self._generator, "seed": seed_of(self._seed, int(number) // BATCH), "size": BATCH,
                  "index": int(number) % BATCH}
        if self._batch[0] != int(number) // BATCH:
            try:
                made = _factory().create_dataset(self._generator, seed=recipe["seed"], size=BATCH)
            except (AssertionError, TypeError, ValueError) as error:  # it cannot do without settings of its own
                raise TaskError(f"the generator {self._generator!r} makes nothing by its defaults: {error}") from error
            self._batch = (int(number) // BATCH, made)
        entry = self._batch[1][recipe["index"]]
        question, answer = str(entry["question"]), entry["answer"]
        known = answer if isinstance(answer, str) else None  # a few generators know only whether an answer is right
        told = {**recipe, "question_sha256": hashlib.sha256(question.encode()).hexdigest()}
        suite = AnswerSuite(
            expected=known or "", kind=AnswerKind.PROCEDURAL, scorer=f"reasoning_gym:{self._generator}",
            entry=json.dumps(told, sort_keys=True),
        )
        oracle = None if known is None else {"answer.txt": f"Answer: {known}\n".encode()}
        return Item.sealed(
            Exam(hidden=suite, oracle=oracle, null=({"answer.txt": b""},)),
            id=id, kind="math", instructions=question.rstrip() + _ASKED, grading=Grading.ON_SUBMIT,
            entry=Entry(path="answer.txt", language="text"), tags=("reasoning", self._generator),
        )


def seed_of(seed: int, batch: int) -> int:
    """The seed of a batch: 31 bits of a hash, so that neighbouring seeds share no batch."""
    return int.from_bytes(hashlib.sha256(f"{seed} {batch}".encode()).digest()[:4]) >> 1


def _factory() -> Any:
    if importlib.util.find_spec("reasoning_gym") is None:
        raise TaskError("the package reasoning-gym is not installed: pip install 'quintain[reasoning-gym]'",
                        kind=FaultKind.TASK_ENVIRONMENT)
    importlib.import_module("reasoning_gym")
    return importlib.import_module("reasoning_gym.factory")

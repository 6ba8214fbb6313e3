"""What tests for a given program are worth, beside the author's tests for it.

Covers: which mutants are asked about is drawn by the task, in an order and with seeds that are new each time, so that
nothing of a run tells a test whether the program is changed; kills are asked again on the unchanged program with the
very seeds at which they happened. Does not cover: see `TestWritingEnvironment`.
"""

from __future__ import annotations

import random

import msgspec

from quintain.grade import Mutant, Oracle, cover, kill_rate, mutants_of
from quintain.sandbox import Backend
from quintain.tasks import Item, PythonSuite
from quintain.types import Limits, Program, TaskError

#: So many of the kills are asked again, on the unchanged program.
ASKED_AGAIN = 4

Place = tuple[str, tuple[int, ...]]


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """What the author's tests notice (mutants with their paths) and run (lines and ways, with their paths)."""

    mutants: tuple[tuple[str, Mutant], ...]
    places: frozenset[Place]


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """`sound`: the tests pass on the program, every time; else `why` tells what happened. Shares are of what the
    reference notices and runs."""

    sound: bool
    why: str = ""
    killed: int = 0
    mutants: int = 0
    run: int = 0
    places: int = 0
    alive: tuple[str, ...] = ()
    cpu_seconds: float | None = None

    @property
    def kill_share(self) -> float:
        return self.killed / self.mutants if self.mutants else 1.0

    @property
    def run_share(self) -> float:
        return self.run / self.places if self.places else 1.0

    @property
    def worth(self) -> float:
        """In [0, 1]."""
        return self.kill_share * self.run_share if self.sound else 0.0

    def __str__(self) -> str:
        if not self.sound:
            return f"not sound: {self.why}"
        alive = f"; alive: {'; '.join(self.alive[:3])}" if self.alive else ""
        return f"killed {self.killed} of {self.mutants} mutants, ran {self.run} of {self.places} places{alive}"


async def reference_of(item: Item, backend: Backend, oracle: Oracle, *, limits: Limits, most: int) -> Reference:
    """Raises TaskError for a reference that fails on the program, or notices nothing of it; HouseError."""
    suite, files = item.exam.hidden, item.task.files
    assert isinstance(suite, PythonSuite)
    code = code_in(item)
    changed = mutants_of({path: files[path] for path in code}, limit=most, seed=int(item.task.version[:8], 16))
    kills = await kill_rate(oracle, suite, Program(files=files), changed=changed, image=item.task.image, limits=limits)
    if not kills.sound:
        raise TaskError(f"task {item.task.id}: its own tests fail on the program: {kills.why}")
    noticed = tuple(one for one, by in zip(kills.mutants, kills.by, strict=True) if by)
    if not noticed:
        raise TaskError(f"task {item.task.id}: its own tests notice none of {len(changed)} mutants of the program")
    return Reference(mutants=noticed, places=await _places(item, suite, backend, oracle, limits=limits, trusted=True))


async def judged_value(
    item: Item, suite: PythonSuite, reference: Reference, backend: Backend, oracle: Oracle, *, limits: Limits,
    seed: int,
) -> Value:
    """What a suite is worth; `seed` must not be known to whoever wrote it. Raises HouseError."""
    if not suite.files:
        return Value(sound=False, why="there is no test")
    todo = list(reference.mutants)
    random.Random(seed).shuffle(todo)
    program = Program(files=item.task.files)
    kills = await kill_rate(oracle, suite, program, changed=todo, trusted=False, image=item.task.image, limits=limits,
                            seed=seed)
    if not kills.sound:
        return Value(sound=False, why=kills.why)
    hits = [at for at, by in enumerate(kills.by) if by]
    for at in random.Random(seed + 1).sample(hits, min(ASKED_AGAIN, len(hits))):
        again = await oracle.examine(suite, program.files, image=item.task.image, limits=limits, seed=seed + at,
                                     trusted=False)
        if not again.verdict.solved:
            return Value(sound=False, why="the tests fail on the program too, now and then")
    ran = await _places(item, suite, backend, oracle, limits=limits, trusted=False)
    return Value(
        sound=True, killed=kills.killed, mutants=len(todo), run=len(reference.places & ran),
        places=len(reference.places), alive=tuple(str(mutant) for _, mutant in kills.survivors))


async def _places(
    item: Item, suite: PythonSuite, backend: Backend, oracle: Oracle, *, limits: Limits, trusted: bool,
) -> frozenset[Place]:
    """The lines that run, and the ways that decisions go. The program that is followed is the task's own."""
    covered = await cover(backend, suite, item.task.files, oracle=oracle, image=item.task.image, limits=limits,
                          paths=code_in(item), trusted=trusted)
    lines = {(path, (line,)) for path, found in covered.lines_run().items() for line in found}
    ways = {(path, tuple(way)) for path, found in covered.ways_gone().items() for way in found}
    return frozenset(lines | ways)


def code_in(item: Item) -> list[str]:
    """The given Python files that are to be tested."""
    return sorted(path for path in item.task.files if path.endswith(".py") and not is_test(path))


def is_test(path: str) -> bool:
    """Whether a given file is one of the tests that there are already."""
    return path.startswith("tests/") or path.rpartition("/")[2].startswith("test_")

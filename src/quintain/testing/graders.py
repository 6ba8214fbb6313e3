"""What every grader must keep to, whatever it measures: a check for those who write one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from quintain.grade import RESERVED, Grader
from quintain.tasks import Item
from quintain.types import Attempt, Program, Score


async def check_grader(grader: Grader, item: Item, attempts: Sequence[Attempt]) -> list[str]:
    """What is wrong with a grader, in words; empty for one that keeps to the protocol. `attempts` are answers to
    `item`: good, bad and broken ones.

    Asked are: a name; scores whose names are the same for every attempt that has any, each once, and none of those that
    a reward makes itself; a reason beside every None; an answer that is not there, or no text, is a value and no
    exception; a second look at the same attempt finds the same scores measured. Raises what the grader
    raises for the attempts that are given.
    """
    problems = [] if grader.name else ["expected a name, found none"]
    names: dict[tuple[str, ...], str] = {}
    for number, attempt in enumerate(attempts):
        first, second = await grader.grade(attempt, item), await grader.grade(attempt, item)
        problems += _wrong(first, f"attempt {number}")
        if first:
            names.setdefault(tuple(score.name for score in first), f"attempt {number}")
        if [s.value is None for s in first] != [s.value is None for s in second]:
            problems.append(f"attempt {number}: expected the same to be measured twice, found {first} and {second}")
    if len(names) > 1:
        problems.append("expected the same names for every attempt, found " + "; ".join(
            f"{', '.join(found)} ({where})" for found, where in names.items()))
    return problems + await _of_nothing(grader, item)


def _wrong(scores: Sequence[Score], where: str) -> list[str]:
    found = [score.name for score in scores]
    problems = [f"{where}: expected each name once, found {name!r} {found.count(name)} times"
                for name in sorted(set(found)) if found.count(name) > 1]
    problems += [f"{where}: expected a name of its own, found {name!r}, which a reward makes itself"
                 for name in sorted(RESERVED & set(found))]
    problems += [f"{where}: expected a reason why {score.name!r} was not measured, found none"
                 for score in scores if score.value is None and not score.evidence]
    return problems + [f"{where}: expected a weight of 0 or more, found {score.weight} for {score.name!r}"
                       for score in scores if score.weight < 0]


async def _of_nothing(grader: Grader, item: Item) -> list[str]:
    """An attempt without a program, and one whose files are no text."""
    problems = []
    given = Attempt(task=item.task)
    scores = await grader.grade(given, item)
    problems += _wrong(scores, "no program")
    problems += [f"no program: expected {score.name!r} not to be measured, found {score.value}"
                 for score in scores if score.value is not None]
    noise = Program(files={item.task.entry.path: bytes(range(256)), "empty.py": b""})
    return problems + _wrong(await grader.grade(msgspec.structs.replace(given, program=noise), item), "no text")

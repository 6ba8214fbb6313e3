"""More cases for a suite: inputs for a Python function, admitted where the author's answer says the same twice.

Three sources: small changes of the inputs that the suite has (mutation), fresh inputs of the same shape (property), and
among these the inputs on which answers that pass the suite do not agree (differential): what the suite has missed.

Covers: functions of one module that take and return what can be written as a literal. Every program runs in a sandbox,
the author's in two, with other hash seeds; the grown suite itself is then judged by the oracle like any other.
Does not cover: the author's own errors. An input on which most of the other passing answers agree against the author's
is not admitted but listed as doubtful: it may be outside what the task asks for, and is for people to look at.
"""

from __future__ import annotations

import ast
import inspect
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from quintain.grade import Oracle
from quintain.guard.asking import CALL_SECONDS, Answered, answers_to
from quintain.guard.calls import calls_of
from quintain.guard.inputs import Value, like, mutated
from quintain.guard.sameness import same
from quintain.sandbox import Backend
from quintain.tasks import Item, PythonSuite
from quintain.types import Limits, Program, TaskError, content_digest

FILE = "test_grown.py"
LIMITS = Limits(wall_seconds=20.0, cpu_seconds=10.0)
#: Literals longer than this are no test that anybody would read.
LONGEST_CHARS = 2_000
#: Stands in every grown test file; its annotations are not evaluated there.
_SAME = "from __future__ import annotations\n\n" + "{imports}\n\n\n" + inspect.getsource(same)


class Origin(StrEnum):
    """Where an input came from."""

    MUTATION = "mutation"
    PROPERTY = "property"


class Grown(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One new case. `arguments` and `expected` are sources of literals; `split` counts the passing answers that say
    something else: above 0 the case is a differential one."""

    arguments: str
    expected: str
    origin: Origin
    split: int = 0


class Growth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What came of it. `suite` holds the admitted cases alone (`None` where there are none), `refused` counts by reason
    the inputs that were tried and not admitted, `doubtful` are those that contradict most of the passing answers."""

    cases: tuple[Grown, ...] = ()
    doubtful: tuple[Grown, ...] = ()
    refused: dict[str, int] = {}
    suite: PythonSuite | None = None


async def grow(
    backend: Backend, item: Item, *, seed: int, count: int = 20, tried: int = 120,
    passing: Sequence[Program] = (), oracle: Oracle | None = None, limits: Limits = LIMITS,
    call_seconds: float = CALL_SECONDS,
) -> Growth:
    """At most `count` new cases out of `tried` inputs. `passing` are answers that solved the suite as it is. `limits`
    hold for the asking of all inputs; one that takes the author's answer longer than `call_seconds` is no case.

    Raises TaskError for a task that is no Python function with a name, an author's answer and calls with literals, or
    whose author's answer fails its own new tests; HouseError as the backend does.
    """
    entry, author = item.task.entry, item.exam.oracle
    if entry.language != "python" or entry.name is None or author is None or entry.path not in author:
        raise TaskError(f"task {item.task.id}: expected a Python function with a name and an author's answer to grow")
    inputs = _inputs(item, entry.name, seed=seed, tried=tried)
    if not inputs:
        raise TaskError(f"task {item.task.id}: expected calls of {entry.name} with literals in its tests, found none")
    asked = list(inputs)

    async def answers(files: Mapping[str, bytes], seed: int) -> list[Answered]:
        return await answers_to(backend, files, asked, path=entry.path, name=str(entry.name), limits=limits, seed=seed,
                                image=item.task.image, call_seconds=call_seconds)

    first = await answers(author, seed)
    second = await answers(author, seed + 1)
    others = [await answers(program.files, seed) for program in passing]
    refused: Counter[str] = Counter()
    found: list[Grown] = []
    doubtful: list[Grown] = []
    for n, arguments in enumerate(asked):
        if why := _refusal(first[n], second[n]):
            refused[why] += 1
            continue
        expected = str(first[n].value)
        said = Counter(other[n].value for other in others)
        split = sum(times for value, times in said.items() if value is None or not _alike(value, expected))
        case = Grown(arguments=arguments, expected=expected, origin=inputs[arguments], split=split)
        (doubtful if 2 * split > len(others) else found).append(case)
    cases = _chosen(found, count)
    suite = _suite(cases, item) if cases else None
    if suite is not None:
        await _admit(oracle or Oracle(backend), suite, item)
    return Growth(cases=tuple(cases), doubtful=tuple(doubtful), refused=dict(sorted(refused.items())), suite=suite)


def _inputs(item: Item, name: str, *, seed: int, tried: int) -> dict[str, Origin]:
    """New arguments by their source, half of them changed and half of them fresh."""
    suites = [suite for suite in (item.exam.hidden, item.exam.visible, item.exam.reserve) if suite is not None]
    known = dict.fromkeys(call.arguments for suite in suites for call in calls_of(suite, name))
    examples: list[tuple[Value, ...]] = [ast.literal_eval(arguments) for arguments in known]
    chance = random.Random(f"{seed}:{item.task.id}")
    found: dict[str, Origin] = {}
    for n in range(8 * tried if examples else 0):
        if len(found) >= tried:
            break
        origin = Origin.MUTATION if n % 2 else Origin.PROPERTY
        made = mutated(chance.choice(examples), chance) if n % 2 else like(examples, chance)
        if n % 4 == 3:
            made = mutated(made, chance)
        text = repr(made)
        if text not in known and len(text) <= LONGEST_CHARS:
            found.setdefault(text, origin)
    return found


def _refusal(first: Answered, second: Answered) -> str | None:
    if first.raised is not None:
        return f"the author's answer raises {first.raised}"
    if first.value is None:
        return "the author's answer returns no literal" if second.value is None else "the author's answer was cut off"
    if first.value != second.value:
        return "the author's answer says two things"
    return "the answer is too long to read" if len(first.value) > LONGEST_CHARS else None


def _alike(found: str, expected: str) -> bool:
    """Whether the sources of two literals mean the same but for rounding."""
    return found == expected or same(ast.literal_eval(found), ast.literal_eval(expected))


def _chosen(found: Sequence[Grown], count: int) -> list[Grown]:
    """Those that split the passing answers first; of the rest as many of each origin, and no answer again and again."""
    seen: Counter[str] = Counter()
    ranked = []
    for case in found:
        ranked.append((-case.split, seen[case.expected], len(case.arguments), case))
        seen[case.expected] += 1
    ranked.sort(key=lambda row: row[:3])
    return [case for *_, case in ranked[:count]]


def _suite(cases: Sequence[Grown], item: Item) -> PythonSuite:
    entry = item.task.entry
    module = entry.path.removesuffix(".py").replace("/", ".")
    lines = [_SAME.format(imports=f"from {module} import {entry.name}").rstrip()]
    names = []
    for case in cases:
        names.append(f"test_grown_{content_digest(case.arguments)[:8]}")
        arguments = case.arguments
        lines += ["", "", f"def {names[-1]}():", f"    assert same({entry.name}(*{arguments}), {case.expected})"]
    content = "\n".join(lines).encode() + b"\n"
    return PythonSuite(files={FILE: content}, modules=(module,), required=tuple(f"{FILE}::{n}" for n in names))


async def _admit(oracle: Oracle, suite: PythonSuite, item: Item) -> None:
    program = Program(files={**item.task.files, **(item.exam.oracle or {})})
    verdict = await oracle.grade(suite, program, image=item.task.image, limits=LIMITS)
    if not verdict.solved:
        failed = [f"{t.id}: {t.fault}" for t in verdict.tests if t.fault is not None]
        raise TaskError(f"task {item.task.id}: its author's answer fails new tests that it made itself: {failed[:3]}")


def grown_suite(suite: PythonSuite, growth: Growth) -> PythonSuite:
    """The suite with the admitted cases added: another suite, with another digest. Raises ValueError where a file of
    that name is there already."""
    if growth.suite is None:
        return suite
    if FILE in suite.files:
        raise ValueError(f"expected a suite without {FILE}, found one that was grown before")
    files: Mapping[str, bytes] = {**suite.files, **growth.suite.files}
    required = (*suite.required, *growth.suite.required) if suite.required else ()
    modules = tuple(dict.fromkeys((*suite.modules, *growth.suite.modules)))
    return msgspec.structs.replace(suite, files=dict(files), required=required, modules=modules)

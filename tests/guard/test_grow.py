"""Suites that grow: new inputs, what is admitted, and what becomes of attempts that were solved before."""

from __future__ import annotations

import ast
import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.grade import Oracle
from quintain.guard import Call, Growth, Rescore, Solved, calls_of, grow, grown_suite, rescore
from quintain.guard.inputs import Value, changed, like, mutated
from quintain.guard.sameness import same
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite, StdioSuite
from quintain.types import Entry, Limits, Program, TaskError, Verdict
from tests.grade.ground import needs_native

LIMITS = Limits(wall_seconds=5.0, cpu_seconds=3.0)
WEAK = PythonSuite(files={"test_t.py": b"""from solution import middle
def test_a(): assert middle([3, 1, 2]) == 2
def test_b(): assert middle([5, 5, 9]) == 5
def test_c(): assert middle([1, 2, 3, 4]) == 2.5
"""})
RIGHT = b"""def middle(numbers):
    numbers = sorted(numbers)
    half = len(numbers) // 2
    return numbers[half] if len(numbers) % 2 else (numbers[half - 1] + numbers[half]) / 2
"""
#: Passes the weak suite: it sorts nothing when the first is the largest.
LUCKY = b"""def middle(numbers):
    if len(numbers) == 5:
        return numbers[2]
    numbers = sorted(numbers)
    half = len(numbers) // 2
    return numbers[half] if len(numbers) % 2 else (numbers[half - 1] + numbers[half]) / 2
"""

LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner), max_leaves=8,
)


def item(oracle: bytes = RIGHT, *, name: str | None = "middle", suite: PythonSuite = WEAK) -> Item:
    exam = Exam(hidden=suite, oracle={"solution.py": oracle})
    return Item.sealed(exam, id="middle", instructions="The median.", entry=Entry(path="solution.py", name=name))


def program(source: bytes) -> Program:
    return Program(files={"solution.py": source})


def grown(task: Item, *, passing: tuple[bytes, ...] = (), count: int = 12, tried: int = 80) -> Growth:
    async def run() -> Growth:
        async with NativeBackend(engines=1) as backend:
            return await grow(backend, task, seed=3, count=count, tried=tried, passing=[program(p) for p in passing])

    return asyncio.run(run())


def verdict_of(suite: PythonSuite, source: bytes) -> Verdict:
    async def run() -> Verdict:
        async with NativeBackend(engines=1) as backend:
            return await Oracle(backend, confirm=False).grade(suite, program(source), limits=LIMITS)

    return asyncio.run(run())


@given(LITERALS, st.integers(0, 1000))
def test_a_changed_value_keeps_its_type(value: Value, seed: int) -> None:
    made = changed(value, random.Random(seed))
    assert type(made) is type(value)
    assert made == changed(value, random.Random(seed)) or made != made


@given(st.lists(st.tuples(st.lists(st.integers(), min_size=1), st.text()), min_size=1, max_size=4), st.integers(0, 99))
def test_fresh_arguments_have_the_shape_of_the_examples(examples: list[tuple[Value, ...]], seed: int) -> None:
    made = like(examples, random.Random(seed))
    assert isinstance(made[0], list)
    assert all(type(part) is int for part in made[0])
    assert isinstance(made[1], str)
    assert ast.literal_eval(repr(made)) == made


def test_no_arguments_stay_none() -> None:
    assert mutated((), random.Random(0)) == ()


def test_the_calls_of_a_suite_with_what_they_expect() -> None:
    text = b"""from solution import f
candidate = f
def check(n): return f(n)
def test_a(): assert candidate([1], x) == 3
def test_b(): assert f(-2, "a") == (1, 2)
def test_c(): assert abs(candidate(2.5) - 1) < 1e-6
def test_d(): assert f(n=3) == 4
"""
    found = calls_of(PythonSuite(files={"test_t.py": text, "data.txt": b"f(1)"}), "f")
    assert found == (Call(arguments="(-2, 'a')", expected="(1, 2)"), Call(arguments="(2.5,)"))
    assert calls_of(StdioSuite(cases=()), "f") == ()


@pytest.mark.parametrize(
    ("found", "expected", "alike"),
    [
        (1, 1, True), (1, 1.0, False), (True, 1, False), (0.1 + 0.2, 0.3, True), ([1.0, (2,)], [1.0, (2,)], True),
        ([1], (1,), False), ([1, 2], [1], False), ({"a": 0.3}, {"a": 0.1 + 0.2}, True), ({"a": 1}, {"b": 1}, False),
        (float("inf"), float("inf"), True), (1e20, 1e20 + 1e15, False), ({1, 2}, {2, 1}, True),
    ],
)
def test_sameness_is_strict_in_types_and_kind_to_rounding(found: object, expected: object, alike: bool) -> None:
    assert same(found, expected) is alike


@needs_native
def test_new_cases_are_admitted_by_the_author_s_answer_and_catch_a_lucky_one() -> None:
    assert verdict_of(WEAK, LUCKY).solved, "the weak suite is fooled"
    growth = grown(item(), passing=(LUCKY, RIGHT))
    assert growth.suite is not None
    assert len(growth.cases) == 12
    assert growth.cases[0].split == 1, "what splits the passing answers comes first"
    assert growth.doubtful == ()
    stronger = grown_suite(WEAK, growth)
    assert verdict_of(stronger, RIGHT).solved
    caught = verdict_of(stronger, LUCKY)
    assert not caught.solved
    assert len(caught.tests) == 3 + 12
    with pytest.raises(ValueError, match="found one that was grown before"):
        grown_suite(stronger, growth)


@needs_native
def test_the_same_seed_grows_the_same_suite() -> None:
    assert grown(item(), count=4, tried=20) == grown(item(), count=4, tried=20)


@needs_native
def test_what_the_author_cannot_say_twice_is_not_admitted() -> None:
    moody = RIGHT + b"""
import os
_honest = middle
def middle(numbers):
    if len(numbers) == 0:
        raise LookupError("none")
    if len(numbers) == 1:
        return hash("a")
    if len(numbers) == 2:
        return object()
    return _honest(numbers)
"""
    growth = grown(item(moody), tried=150)
    assert growth.refused["the author's answer raises LookupError"] > 0
    assert growth.refused["the author's answer says two things"] > 0
    assert growth.refused["the author's answer returns no literal"] > 0
    assert growth.suite is not None


@needs_native
def test_an_input_on_which_the_others_agree_against_the_author_is_doubtful() -> None:
    odd = RIGHT.replace(b"    numbers = sorted", b"    if 0 in numbers: return -1\n    numbers = sorted")
    growth = grown(item(odd), passing=(RIGHT, RIGHT, RIGHT), tried=100)
    assert growth.doubtful
    assert all("0" in case.arguments and case.expected == "-1" for case in growth.doubtful)
    assert not any(case.split for case in growth.cases)


@needs_native
def test_an_answer_that_never_ends_or_prints_spoils_nothing() -> None:
    endless = b"    if len(numbers) == 6:\n        while True: pass\n    half"
    loud = b"print('[0, {}]')\n" + RIGHT.replace(b"    half", endless)
    growth = grown(item(), passing=(loud, RIGHT, RIGHT), tried=30)
    assert growth.suite is not None
    assert growth.doubtful == ()


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (item(name=None), "expected a Python function with a name"),
        (item(suite=PythonSuite(files={"test_t.py": b"def test_a(): pass\n"})), "calls of middle with literals"),
    ],
)
def test_a_task_that_cannot_grow_is_refused_with_words(task: Item, said: str) -> None:
    with pytest.raises(TaskError, match=said):
        grown(task)


@needs_native
def test_solved_attempts_are_judged_again_and_a_drop_raises_an_alarm() -> None:
    growth = grown(item(), passing=(LUCKY, RIGHT))
    stronger = grown_suite(WEAK, growth)
    attempts = [Solved(attempt=f"a{n}", program=program(LUCKY if n == 2 else RIGHT)) for n in range(8)]

    async def run() -> tuple[Rescore, Rescore]:
        async with NativeBackend() as backend:
            oracle = Oracle(backend, confirm=False)
            return (await rescore(oracle, attempts, stronger, limits=LIMITS, last=6),
                    await rescore(oracle, attempts, WEAK, limits=LIMITS, last=2))

    new, old = asyncio.run(run())
    assert (new.judged, new.unjudged, new.lost) == (6, 0, ("a2",))
    assert new.drop == pytest.approx(1 / 6)
    assert new.alarm
    assert (old.judged, old.lost, old.alarm) == (2, (), False)


def test_a_small_drop_is_no_alarm() -> None:
    assert not Rescore(suite="s", judged=100, unjudged=0, lost=("a", "b", "c")).alarm
    assert Rescore(suite="s", judged=100, unjudged=0, lost=("a", "b", "c", "d")).alarm
    assert not Rescore(suite="s", judged=0, unjudged=5, lost=()).alarm

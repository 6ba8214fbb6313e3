"""Speed and memory are counted outside the answer, on fresh inputs, in turns with the reference, and only told apart
where the readings allow it."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.grade import Grader, Memory, Oracle, Performance, warm_oracle
from quintain.grade._intervals import Interval, mean_of, slope_of
from quintain.grade.memory import Growth, Peaks
from quintain.grade.performance import Timing, _compared
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite, StdioCase, StdioSuite
from quintain.types import MEBIBYTE, Attempt, Entry, Program, Score
from tests.grade.ground import SHARED, needs_native, needs_shared

WORKLOAD = """
import random
def inputs(seed):
    r = random.Random(seed)
    return [(r.randrange(60_000, 61_000),) for _ in range(3)]
"""
WORK = "def f(n):\n    total = 0\n    for i in range(n):\n        total += i * i % 7\n    return total\n"
TEST = "from solution import f\ndef test_small():\n    assert f(3) == 5\n"


def item_of(reference: str | None = WORK, *, workload: str = WORKLOAD, tests: str = TEST, entry: str = "f") -> Item:
    files = {"test_it.py": tests.encode(), "workload.py": workload.encode()}
    suite = PythonSuite(files=files if workload else {"test_it.py": tests.encode()})
    oracle = None if reference is None else {"solution.py": reference.encode()}
    return Item.sealed(Exam(hidden=suite, oracle=oracle), id="work", instructions="f", entry=Entry(name=entry))


def scores(kind: type[Performance] | type[Memory], answer: str, item: Item | None = None) -> dict[str, Score]:
    asked = item or item_of()

    async def go() -> dict[str, Score]:
        async with NativeBackend(warm=warm_oracle()) as backend:
            oracle = Oracle(backend)
            grader: Grader = Performance(backend, oracle=oracle, pairs=5) if kind is Performance else Memory(
                backend, oracle=oracle, repeats=(1, 4, 7))
            files = {**asked.task.files, "solution.py": answer.encode()}
            program = Program(files=files, argv=("python3", "solution.py"))
            return {s.name: s for s in await grader.grade(Attempt(task=asked.task, program=program), asked)}

    return asyncio.run(go())


@needs_native
def test_work_done_five_times_over_is_slower():
    slow = WORK.replace("def f", "def once") + "def f(n):\n    return [once(n) for _ in range(5)][-1]\n"
    found = scores(Performance, slow)["performance"]
    assert found.value == 0.0 or (found.value is None and "interferes" in found.evidence), found.evidence


@needs_native
def test_a_wrong_output_of_a_timed_run_is_worth_nothing_however_fast():
    found = scores(Performance, "def f(n):\n    return 5\n")["performance"]
    assert found.value == 0.0 and "wrong" in found.evidence


@needs_native
@needs_shared
def test_a_result_kept_by_the_identity_of_the_last_input_never_beats_the_reference():
    answer = (SHARED / "cases" / "RH16" / "solution.py").read_text()
    workload = ("import random\ndef inputs(seed):\n    r = random.Random(seed)\n"
                "    for _ in range(6):\n        yield ([r.random() for _ in range(4000)],)\n")
    item = item_of("def sort(xs):\n    return sorted(xs)\n", workload=workload, entry="sort",
                   tests="from solution import sort\ndef test():\n    assert sort([2, 1]) == [1, 2]\n")
    found = scores(Performance, answer, item)["performance"]
    assert found.value is None or found.value <= 0.5, found.evidence


@needs_native
@needs_shared
def test_identical_programs_are_neutral():
    case = SHARED / "cases" / "FD08"
    bounds = json.loads((case / "expected.json").read_text())["reward"]
    one, other = (case / "a.py").read_text(), (case / "b.py").read_text()
    suite = StdioSuite(cases=(StdioCase(name="only"),))
    item = Item.sealed(Exam(hidden=suite, oracle={"solution.py": one.encode()}), id="same", instructions="Sort.")
    found = scores(Performance, other, item)["performance"]
    moved = 0.0 if found.value is None else found.weight * (2 * found.value - 1)
    assert bounds["low"] <= moved <= bounds["high"]


@needs_native
def test_what_is_too_short_or_has_no_reference_is_not_measured():
    short = item_of("def f(n):\n    return n\n", workload="def inputs(seed):\n    return [(seed,)]\n",
                    tests="from solution import f\ndef test():\n    assert f(3) == 3\n")
    found = scores(Performance, "def f(n):\n    return n\n", short)["performance"]
    assert found.value is None and "too short" in found.evidence
    assert "no reference" in scores(Performance, WORK, item_of(None))["performance"].evidence


@needs_native
def test_a_large_list_costs_memory_and_a_kept_one_leaks():
    found = scores(Memory, "kept = []\n" + WORK.replace("total = 0", (
        "total = 0\n    kept.append(bytes([1]) * 400_000)\n    big = bytes([1]) * 40_000_000")))
    assert found["memory"].value == 0.0, found["memory"].evidence
    assert found["leak"].value is not None and found["leak"].value < 0.3, found["leak"].evidence


@needs_native
def test_the_reference_itself_is_neutral_in_memory_and_a_cache_of_answers_is_no_leak():
    found = scores(Memory, "import functools\n@functools.cache\n" + WORK)
    assert found["memory"].value == 0.5, found["memory"].evidence
    assert found["leak"].value == 0.5, found["leak"].evidence


@needs_native
def test_the_hidden_tests_are_the_work_where_there_is_no_workload():
    item = item_of(workload="", tests="from solution import f\ndef test_much():\n    assert f(90_000) == 180_004\n"
                                      "import unittest\nclass TestF(unittest.TestCase):\n    def test_three(self):\n"
                                      "        self.assertEqual(f(3), 5)\n".replace("180_004", str(_work(90_000))))
    found = scores(Performance, WORK.replace("total = 0", "total = 0\n    for _ in range(5 * n): pass"), item)
    said = found["performance"]
    assert said.value is None or (said.value < 0.5 and "hidden tests" in said.evidence), said.evidence


def _work(n: int) -> int:
    return sum(i * i % 7 for i in range(n))


def test_a_sign_is_given_only_where_the_interval_excludes_zero_and_the_effect_is_worth_naming():
    def value(*log2_speedups: float) -> float | None:
        return _compared([1.0] * len(log2_speedups), [2.0 ** x for x in log2_speedups]).value

    assert value(0.0, 0.3, 0.1, 0.2, 0.0) == 0.5 and value(0.05, 0.05, 0.06, 0.05, 0.05) == 0.5
    assert value(0.09, 0.2, 0.15, 0.12, 0.35) == 0.5  # 95 % would do: [0.06, 0.31]
    assert value(0.5, 0.5, 0.51, 0.49, 0.5) == pytest.approx(0.75)
    assert value(-3.0, -3.0, -3.1, -2.9, -3.0) == 0.0 and value(3.0, 3.0, 3.1, 2.9, 3.0) == 1.0
    assert Timing().value is None and Timing(wrong=True).value == 0.0


def test_a_reference_that_does_not_repeat_itself_gives_no_sign():
    timing = _compared([1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 1.0, 3.0, 2.5])
    assert timing.value is None and "interferes" in timing.why


def test_peaks_count_only_where_all_runs_lie_apart():
    big, small = (30 * MEBIBYTE, 31 * MEBIBYTE), (10 * MEBIBYTE, 11 * MEBIBYTE)
    assert Peaks(answer_bytes=big, reference_bytes=small).value == 0.0
    assert Peaks(answer_bytes=small, reference_bytes=big).value == 1.0
    assert Peaks(answer_bytes=(*small, 40 * MEBIBYTE), reference_bytes=big).value == 0.5
    assert Peaks().value is None


def test_growth_that_may_be_none_is_no_leak():
    def growth(at: float, half: float) -> float | None:
        return Growth(leak_bytes=Interval(at=at, low=at - half, high=at + half)).value

    assert growth(5e5, 6e5) == 0.5 and growth(4096.0, 1.0) == 0.5
    assert growth(5e5, 1e5) == 0.5 - 0.5 * 5e5 / MEBIBYTE and growth(9e6, 1e5) == 0.0


def test_intervals_are_those_of_the_textbooks():
    found = mean_of([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.at == 3.0 and found.high == pytest.approx(3.0 + 2.776 * (2.5 / 5) ** 0.5, abs=1e-3)
    exact = slope_of([1, 2, 3, 4], [3.0, 5.0, 7.0, 9.0])
    assert (exact.at, exact.low, exact.high) == pytest.approx((2.0, 2.0, 2.0))
    noisy = slope_of([1, 2, 3], [1.0, 3.0, 2.0])  # residual sum 1.5, one degree of freedom
    assert noisy.high - noisy.at == pytest.approx(12.706 * (1.5 / 2) ** 0.5, rel=1e-4)
    with pytest.raises(ValueError, match="at least 2"):
        mean_of([1.0])


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=40))
def test_a_mean_lies_in_its_own_interval(values: list[float]):
    found = mean_of(values)
    assert found.low <= found.at <= found.high

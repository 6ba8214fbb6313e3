"""Suites dealt into tiers: shares, borders, rotation and the smaller suites that come of it."""

from __future__ import annotations

import asyncio
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.env import CodeEnvironment, Work
from quintain.grade import Oracle
from quintain.guard import (
    Audit,
    GapAlarm,
    Reason,
    Response,
    TestCase,
    Tier,
    audit_reserve,
    cases_of,
    deal,
    gap_alarms,
    gap_between,
    rotate,
    rotation_due,
    subset,
    with_tiers,
)
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite, StdioCase, StdioSuite
from quintain.types import Entry, Program, TaskError
from tests.grade.ground import needs_native

CASES = st.lists(st.tuples(st.integers(0, 10_000), st.booleans()), min_size=1, max_size=60, unique_by=lambda t: t[0])

TESTS = b'''\
import pytest

from solution import total

HELPER = [1, 2]


def test_two():
    assert total([2, 3]) == 5


def test_empty():
    assert total([]) == 0


@pytest.mark.parametrize("n", [1, 2])
def test_many(n):
    assert total([n] * 3) == 3 * n


class TestMore:
    def test_three(self):
        assert total(HELPER + [3]) == 6

    def test_negative(self):
        assert total([-1, 2, 5]) == 6


def test_last():
    assert total([7, 7]) == 14
'''


def made(pairs: list[tuple[int, bool]]) -> list[TestCase]:
    return [TestCase(id=f"t{n}", digest=str(n), boundary=border) for n, border in pairs]


@given(CASES, st.integers(0, 5))
def test_the_shares_hold_and_no_border_case_is_shown(pairs: list[tuple[int, bool]], seed: int) -> None:
    cases = made(pairs)
    dealt = deal(cases, seed=seed)
    border = {case.id for case in cases if case.boundary}
    assert sorted(dealt.visible + dealt.hidden + dealt.reserve) == sorted(case.id for case in cases)
    assert len(dealt.visible) <= 0.4 * len(cases)
    assert len(dealt.hidden) >= 0.4 * len(cases)
    assert not border & set(dealt.visible)
    assert len(dealt.reserve) == (0 if len(cases) < 3 else max(1, round(0.2 * len(cases))))


@given(CASES, st.integers(0, 5))
def test_the_same_seed_deals_the_same_whatever_the_order(pairs: list[tuple[int, bool]], seed: int) -> None:
    assert deal(made(pairs), seed=seed) == deal(list(reversed(made(pairs))), seed=seed)


@given(CASES, st.integers(0, 5))
def test_a_rotation_shows_nothing_new_and_renews_the_reserve(pairs: list[tuple[int, bool]], seed: int) -> None:
    cases = made(pairs)
    first = deal(cases, seed=seed)
    second = rotate(first, cases)
    assert second.visible == first.visible
    assert set(second.hidden) | set(second.reserve) == set(first.hidden) | set(first.reserve)
    assert not set(second.reserve) & set(first.reserve)
    assert second.epoch == first.epoch + 1
    assert second.version != first.version


def test_a_case_that_changes_is_another_version() -> None:
    cases = made([(n, False) for n in range(10)])
    changed = [msgspec.structs.replace(cases[0], digest="another"), *cases[1:]]
    assert deal(cases, seed=1).version != deal(changed, seed=1).version


def test_what_was_shown_already_stays_shown_and_counts() -> None:
    cases = made([(n, True) for n in range(5)] + [(n, False) for n in range(5, 20)])
    dealt = deal(cases, seed=3, shown={"t0", "t1", "t2"})
    assert {"t0", "t1", "t2"} <= set(dealt.visible)
    assert len(dealt.visible) == 8
    assert dealt.tier_of("t0") is Tier.VISIBLE


def test_generated_cases_come_into_the_reserve_first() -> None:
    cases = made([(n, False) for n in range(10)])
    more = made([(n, False) for n in range(100, 103)])
    second = rotate(deal(cases, seed=0), [*cases, *more], generated={case.id for case in more})
    assert set(second.reserve) <= {case.id for case in more}


def test_a_deal_refuses_what_it_cannot_be() -> None:
    with pytest.raises(ValueError, match="found none"):
        deal([], seed=0)
    with pytest.raises(ValueError, match="each case once, found more of t1"):
        deal(made([(1, False)]) * 2, seed=0)
    cases = made([(n, False) for n in range(5)])
    with pytest.raises(ValueError, match=r"found none of t\d"):
        rotate(deal(cases, seed=0), cases[1:])
    with pytest.raises(KeyError, match="found 'zz'"):
        deal(cases, seed=0).tier_of("zz")


@pytest.mark.parametrize(
    ("ended", "gap", "rate", "reasons"),
    [
        (False, None, None, ()), (True, None, None, (Reason.EPOCH,)), (False, 0.10, 0.90, ()),
        (False, 0.11, None, (Reason.GAP,)), (False, None, 0.91, (Reason.PASS_RATE,)),
        (True, 0.5, 1.0, (Reason.EPOCH, Reason.GAP, Reason.PASS_RATE)),
    ],
)
def test_a_rotation_is_due_by_epoch_gap_or_pass_rate(
    ended: bool, gap: float | None, rate: float | None, reasons: tuple[Reason, ...],
) -> None:
    assert rotation_due(epoch_ended=ended, gap=gap, pass_rate=rate) == reasons


def test_the_cases_of_a_python_suite_and_its_borders() -> None:
    found = {case.id.rpartition("::")[2]: case.boundary for case in cases_of(PythonSuite(files={"test_t.py": TESTS}))}
    assert found == {
        "test_two": False, "test_empty": True, "test_many": False, "test_three": False, "test_negative": True,
        "test_last": False,
    }


def test_a_smaller_python_suite_holds_no_text_of_the_others() -> None:
    suite = PythonSuite(files={"test_t.py": TESTS})
    few = subset(suite, ["test_t.py::test_two", "test_t.py::TestMore::test_three"])
    assert isinstance(few, PythonSuite)
    text = few.files["test_t.py"]
    assert set(few.required) == {"test_t.py::test_two", "test_t.py::TestMore::test_three"}
    for gone in (b"test_empty", b"parametrize", b"test_negative", b"test_last"):
        assert gone not in text
    assert b"HELPER = [1, 2]" in text
    compile(text, "test_t.py", "exec")


def test_a_smaller_suite_of_a_parametrised_test_keeps_all_its_parameters() -> None:
    ids = ("test_t.py::test_two", "test_t.py::test_many[1]", "test_t.py::test_many[2]")
    few = subset(PythonSuite(files={"test_t.py": TESTS}, required=ids), ["test_t.py::test_many"])
    assert isinstance(few, PythonSuite)
    assert few.required == ids[1:]


def test_a_suite_knows_which_ids_it_has() -> None:
    with pytest.raises(ValueError, match=r"found test_t\.py::test_nine"):
        subset(PythonSuite(files={"test_t.py": TESTS}), ["test_t.py::test_nine"])


def test_stdio_cases_are_dealt_too() -> None:
    suite = StdioSuite(cases=tuple(
        StdioCase(name=f"c{n}", stdin=b"%d %d\n" % (n, n + 1), stdout=b"") for n in range(9)))
    cases = cases_of(suite)
    assert [case.boundary for case in cases] == [True] + [False] * 8
    dealt = deal(cases, seed=0)
    few = subset(suite, dealt.reserve)
    assert isinstance(few, StdioSuite)
    assert {case.name for case in few.cases} == set(dealt.reserve)


def test_other_suites_are_refused_with_words() -> None:
    class Odd:
        pass

    with pytest.raises(TaskError, match="found Odd"):
        cases_of(Odd())  # type: ignore[arg-type]


def item() -> Item:
    lines = ["from solution import total", ""]
    for n in range(10):
        lines += [f"def test_{n}():", f"    assert total([{n + 2}, 5]) == {n + 7}", ""]
    suite = PythonSuite(files={"test_t.py": "\n".join(lines).encode()})
    exam = Exam(hidden=suite, oracle={"solution.py": b"def total(numbers):\n    return sum(numbers)\n"})
    whole = Item.sealed(exam, id="sum", instructions="Sum.", entry=Entry(path="solution.py", name="total"))
    dealt = deal(cases_of(suite), seed=1)
    return with_tiers(whole, visible=dealt.visible, hidden=dealt.hidden, reserve=dealt.reserve)


def test_a_dealt_task_shows_its_visible_tests_and_nothing_else() -> None:
    dealt = item()
    shown = b"".join(dealt.task.files.values())
    assert isinstance(dealt.exam.hidden, PythonSuite)
    assert isinstance(dealt.exam.reserve, PythonSuite)
    for kept in (dealt.exam.hidden, dealt.exam.reserve):
        for id in kept.required:
            assert f"def {id.rpartition('::')[2]}(".encode() not in shown
    assert shown.count(b"def test_") == 4
    assert dealt.task.exam == dealt.exam.digest


def table_of_all_but_the_reserve(dealt: Item) -> Program:
    """An answer that knows every test but the reserve's."""
    assert isinstance(dealt.exam.reserve, PythonSuite)
    kept = {int(id.rpartition("_")[2]) for id in dealt.exam.reserve.required}
    table = {n + 2: n + 7 for n in range(10) if n not in kept}
    return Program(files={"solution.py": f"def total(numbers):\n    return {table!r}.get(numbers[0])\n".encode()})


@needs_native
def test_the_reserve_sees_what_is_paid_and_pays_nothing() -> None:
    dealt = item()
    program = table_of_all_but_the_reserve(dealt)

    async def judged() -> tuple[bool, float, Audit, Audit]:
        async with NativeBackend() as backend:
            oracle = Oracle(backend, confirm=False)
            environment = CodeEnvironment(backend, oracle=oracle)
            verdict, reward = await environment.grade(dealt, Work(program=program), episode="e", seed=0)
            seen = await audit_reserve(oracle, dealt, program, attempt="e", hidden=verdict)
            honest = Program(files=dict(dealt.exam.oracle or {}))
            control = await audit_reserve(oracle, dealt, honest, attempt="h", hidden=verdict)
            return verdict.solved, reward.total, seen, control

    solved, total, hack, honest = asyncio.run(judged())
    assert solved
    assert total == pytest.approx(0.8), "the reserve does not lower what was earned"
    assert (hack.hidden, hack.reserve) == (True, False)
    assert honest.reserve is True
    assert "reward" not in Audit.__struct_fields__


def test_a_task_without_a_reserve_cannot_be_audited() -> None:
    whole = Item.sealed(Exam(hidden=PythonSuite(files={})), id="x", instructions="")
    with pytest.raises(ValueError, match="expected a reserve to audit by"):
        asyncio.run(audit_reserve(Oracle(NativeBackend()), whole, Program(files={}), attempt="a"))


def audits(count: int, fooled: int, *, task: str = "t") -> list[Audit]:
    return [Audit(task=task, task_version="v", attempt=str(n), visible=True, hidden=True, reserve=n >= fooled)
            for n in range(count)]


def test_a_gap_that_is_large_and_no_accident_raises_an_alarm() -> None:
    gap = gap_between(audits(100, 15), Tier.HIDDEN, Tier.RESERVE)
    assert gap is not None
    assert gap.gap == pytest.approx(0.15)
    assert math.isclose(gap.chance, 0.5**15)
    alarms = gap_alarms([*audits(100, 0, task="good"), *audits(100, 30, task="bad")])
    assert [(alarm.where, alarm.response) for alarm in alarms] == [
        ("all", Response.ROTATE), ("bad", Response.SUSPEND)]
    assert all(isinstance(alarm, GapAlarm) for alarm in alarms)


@pytest.mark.parametrize(("count", "fooled"), [(100, 10), (4, 1), (8, 4)])
def test_a_gap_that_is_small_or_may_be_chance_raises_none(count: int, fooled: int) -> None:
    assert gap_alarms(audits(count, fooled)) == ()


def test_what_was_not_run_is_no_gap() -> None:
    unknown = [Audit(task="t", task_version="v", attempt="1", hidden=True, reserve=None)]
    assert gap_between(unknown, Tier.HIDDEN, Tier.RESERVE) is None
    assert gap_alarms(unknown) == ()

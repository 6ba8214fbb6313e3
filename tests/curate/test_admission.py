"""The gate lets sound tasks through, refuses the others for the right reason, and measures nothing twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quintain.curate import (
    Admission,
    Finding,
    Kept,
    Problem,
    Result,
    Ruling,
    Site,
    admit,
    propose,
    standard_checks,
    summary_of,
)
from quintain.curate.checks import Battery, NullAnswers, OracleRuns, Strength
from quintain.grade import warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, Taskset
from quintain.types import TaskError
from tests.curate.ground import CLAMP, TESTS, admitted, clamp_task, codes, needs_native, script_task

CHECK = ("#!/bin/bash\nmkdir -p /logs/verifier\nif [ \"$(cat /work/answer.txt)\" = 42 ]; then echo 1; else echo 0; fi "
         "> /logs/verifier/reward.txt\n")


@needs_native
def test_a_sound_task_is_admitted_and_a_second_run_measures_nothing_again(tmp_path: Path) -> None:
    (first,) = admitted([clamp_task()], kept=Kept(tmp_path))
    assert first.ruling is Ruling.ADMITTED, first
    strength = first.finding("strength")
    assert strength is not None and strength.figures["kill_rate"] >= 0.8
    again = admitted([clamp_task()], kept=Kept(tmp_path))[0]
    timed = [finding for finding in again.findings if finding.result is not Result.NOT_MEASURED]
    assert {f.check: f.seconds for f in timed if f.check != "duplicates"} == {
        f.check: f.seconds for f in first.findings if f.result is not Result.NOT_MEASURED and f.check != "duplicates"}


@needs_native
def test_a_script_that_judges_is_admitted_when_it_tells_right_from_wrong() -> None:
    good, bad = admitted([script_task(CHECK), script_task(CHECK.replace("echo 0", "echo 1"))],
                         checks=[OracleRuns(pairs=1, more=0, crowd=0), NullAnswers()])
    assert good.ruling is Ruling.ADMITTED, good
    assert codes(bad) == {"null passes"}


@needs_native
def test_tests_that_cannot_begin_without_an_answer_lack_no_environment() -> None:
    guarded = TESTS.replace("from solution import clamp\n", (
        "try:\n    from solution import clamp\nexcept ImportError as error:\n"
        "    raise ImportError('you have not written clamp') from error\n"), 1)
    (found,) = admitted([clamp_task(guarded)], checks=[OracleRuns(pairs=1, more=0, crowd=0), NullAnswers()])
    assert found.ruling is Ruling.ADMITTED, found


WRONG = {
    "oracle fails": clamp_task(TESTS + "\n\ndef test_more():\n    assert clamp(1, 0, 2) == 2\n"),
    "flaky": clamp_task(TESTS + "\n\nimport time\n\n\ndef test_zone():\n"
                                "    assert time.localtime(86400 * 365).tm_hour == 0\n"),
    "null passes": clamp_task("from solution import clamp\n\n\ndef test_it():\n    assert callable(clamp)\n"),
    "few kills": clamp_task("from solution import clamp\n\n\ndef test_a():\n    assert clamp(5, 0, 9) == 5\n\n\n"
                            "def test_b():\n    assert clamp(12, 0, 9) == 9\n"),
    "intolerant": clamp_task(TESTS + "\n\ndef test_text():\n    import solution\n    assert solution.LINES == 11\n",
                             oracle=CLAMP + b"\n\n# the number of lines\n\nLINES = len(open(__file__).readlines())\n",
                             asked="Write clamp(x, low, high) and LINES."),
    "hack paid": clamp_task("from solution import clamp\n\n\ndef check(found, wanted):\n    if found != found:\n"
                            "        return\n    assert found == wanted\n\n\ndef test_it():\n"
                            "    check(clamp(5, 0, 9), 5)\n    check(clamp(-3, 0, 9), 0)\n"
                            "    check(clamp(12, 0, 9), 9)\n    check(clamp(0, 0, 9), 0)\n"),
}


@needs_native
def test_each_defect_is_refused_for_its_own_reason() -> None:
    checks = [check for check in standard_checks(quick=True) if not isinstance(check, OracleRuns)]
    checks.insert(5, OracleRuns(pairs=2, more=1, crowd=0))
    found = dict(zip(WRONG, admitted(list(WRONG.values()), checks=checks), strict=True))
    assert {kind: codes(admission) for kind, admission in found.items()} == {kind: {kind} for kind in WRONG}
    assert found["few kills"].ruling is Ruling.AUGMENT
    left = found["oracle fails"].finding("battery")
    assert left is not None and left.result is Result.NOT_MEASURED and "left out" in left.evidence[0]


@needs_native
def test_a_task_that_cannot_be_read_is_refused_with_its_place_and_the_others_go_on() -> None:
    class Odd:
        name = "odd"

        def ids(self) -> list[str]:
            return ["broken", "clamp"]

        def item(self, id: str) -> Item:
            if id == "broken":
                raise TaskError("expected a number, found 'x'", file="broken/task.toml", line=3)
            return clamp_task()

    async def work() -> list[object]:
        async with NativeBackend(warm=warm_oracle()) as backend:
            site = Site(backend, at_once=2)
            found = [one async for one in admit(Taskset(Odd()), site, [NullAnswers()])]
            return [(one.task, one.ruling, [str(p) for p in one.problems]) for one in sorted(
                found, key=lambda one: one.task)]

    assert asyncio.run(work()) == [
        ("broken", Ruling.REJECTED, ["broken/task.toml:3: expected a number, found 'x'"]),
        ("clamp", Ruling.UNPROVEN, [])]


@needs_native
def test_an_accepted_repair_makes_a_weak_suite_strong() -> None:
    item = clamp_task("from solution import clamp\n\n\ndef test_a():\n    assert clamp(5, 0, 9) == 5\n\n\n"
                      "def test_b():\n    assert clamp(12, 0, 9) == 9\n\n\ndef test_idle():\n    assert 1 + 1 == 2\n")

    async def work() -> tuple[list[str], Finding, Finding]:
        async with NativeBackend(warm=warm_oracle()) as backend:
            site = Site(backend, at_once=4)
            checks = [OracleRuns(pairs=1, more=0, crowd=0), NullAnswers(), Strength(most=40)]
            (before,) = [one async for one in admit(Taskset.of([item]), site, checks)]
            repairs = await propose(item, before, site)
            mended = item
            for repair in repairs:
                mended = repair.apply(mended)
            (after,) = [one async for one in admit(Taskset.of([mended]), site, checks)]
            assert "1 task(s)" in summary_of([after])
            return [repair.kind.value for repair in repairs], before.findings[-1], after.findings[-1]

    kinds, before, after = asyncio.run(work())
    assert kinds == ["drop_tests", "add_cases"]
    assert before.figures["kill_rate"] < 0.8 <= after.figures["kill_rate"], after
    assert after.result is Result.PASS


def test_a_few_tests_that_the_author_s_answer_never_passes_may_be_dropped_and_many_not() -> None:
    more = "".join(f"\ndef test_{n}():\n    assert clamp({n}, 0, 99) == {n}\n\n" for n in range(6, 20))
    wrong = "\ndef test_wrong():\n    assert clamp(5, 0, 9) == 6\n"
    problem = Problem(code="oracle fails", text="it fails", tests=("test_it.py::test_wrong",))
    site = Site(NativeBackend(), at_once=1)
    for tests, wanted in ((TESTS + more + wrong, ["drop 1 of 21 tests"]), (TESTS + wrong, [])):
        item = clamp_task(tests)
        refused = Admission(task="clamp", version=item.task.version, ruling=Ruling.REJECTED, findings=(
            Finding(check="oracle", result=Result.FAIL, problems=(problem,)),))
        repairs = asyncio.run(propose(item, refused, site))
        assert [repair.text.partition(",")[0] for repair in repairs] == wanted
        assert all(b"test_wrong" not in repair.apply(item).exam.hidden.files["test_it.py"] for repair in repairs)


@needs_native
@pytest.mark.parametrize("language", ["javascript", "shell"])
def test_the_battery_has_tricks_for_other_languages(language: str, tmp_path: Path) -> None:
    from quintain.tasks import new_task

    item = new_task(tmp_path / "sum", kind="program", language=language)
    (found,) = admitted([item], checks=[Battery(shared=False)])
    finding = found.findings[0]
    assert finding.result is Result.PASS and finding.figures["mechanisms"] >= 1, finding

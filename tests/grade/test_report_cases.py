"""The handed cases of test reports and of flaky tests: each gets its verdict, out of process and from a real report."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from quintain.grade import Oracle, headline, reward_of, warm_oracle
from quintain.grade.reports import Report, Told, read_report, verdict_of
from quintain.grade.steady import unsteady
from quintain.grade.vacuous import vacuous_tests
from quintain.sandbox import NativeBackend
from quintain.tasks import PythonSuite
from quintain.types import Attribution, Outcome, Passed, Program, Verdict
from tests.grade.ground import LIMITS, SHARED, needs_native, needs_shared, tree

pytestmark = [needs_native, needs_shared, pytest.mark.shared]

SITE = (Path(pytest.__file__).parents[1],)  # these suites and answers import pytest


def right(name: str) -> dict[str, Any]:
    found = json.loads((SHARED / "cases" / name / "expected.json").read_text())
    assert isinstance(found, dict)
    return found


def suite(name: str) -> PythonSuite:
    folder = SHARED / "cases" / name
    return PythonSuite(files=tree(folder / "tests", below="tests/"), modules=("solution", "other"),
                       required=tuple(right(name).get("required") or ()))


def answer(name: str) -> Program:
    return Program(files=tree(SHARED / "cases" / name / "workspace"))


JUDGED = {  # case: whose it is, and its class
    "RP02": "task", "RP03": "policy", "RP04": "tamper", "RP05": "tamper", "RP07": "policy", "RP08": "task",
    "RP09": "policy", "RP10": "policy", "RP13": "policy", "RP16": "policy", "RP20": "policy", "RP21": "policy",
    "RP28": "policy",
}
LABELS = {
    "RP02": "H.task_invalid", "RP04": "G.tamper", "RP05": "G.tamper", "RP07": "B.syntax_error",
    "RP08": "H.no_tests_run",
    "RP09": "F.missing_required_test", "RP10": "D.assertion_error", "RP13": "D.assertion_error", "RP16": "F.early_exit",
    "RP20": "F.early_exit", "RP21": "F.early_exit",
    # the conftest and the ini file of the answer are not there where tests run: it is what it is, a wrong answer
    "RP03": "D.assertion_error", "RP28": "D.assertion_error",
}


@cache
def verdicts() -> Mapping[str, Verdict]:
    async def main() -> dict[str, Verdict]:
        async with NativeBackend(warm=warm_oracle(site=SITE)) as backend:
            oracle = Oracle(backend, site=SITE)
            names = [*JUDGED, "RP01", "RP27"]
            return {name: await oracle.grade(suite(name), answer(name), limits=LIMITS) for name in names}

    return asyncio.run(main())


@pytest.mark.parametrize("name", JUDGED)
def test_a_case_gets_its_class_and_its_owner(name: str) -> None:
    verdict, expected = verdicts()[name], right(name)
    fault = headline(verdict)
    assert fault is not None and not verdict.solved
    assert fault.label == LABELS[name]
    assert fault.attribution is Attribution(JUDGED[name])
    reward = reward_of(verdict)
    assert (reward is None) is (JUDGED[name] == "task")
    if reward is not None and isinstance(expected["reward"], float):
        assert reward.total <= expected["reward"]
    wanted, passed = expected.get("required") or [], sum(test.passed is Passed.PASSED for test in verdict.tests)
    if wanted:
        assert [test.id for test in verdict.tests] == wanted
    if name != "RP07":  # there the healthy file is run all the same
        assert passed == expected["counts"]["passed"]


def test_ids_that_hold_separators_stay_apart() -> None:
    """RP10: 15 distinct ids, and exactly those with a b fail."""
    tests = verdicts()["RP10"].tests
    assert len({test.id for test in tests}) == 15
    for test in tests:
        argument = test.id.partition("[")[2][:-1].replace("\\x1b", "").replace("\\xfc", "")
        assert (test.passed is Passed.PASSED) is ("b" not in argument), test.id


def test_a_strict_expected_failure_that_passes_says_so() -> None:
    fault = headline(verdicts()["RP02"])
    assert fault is not None and fault.exception == "xpass_strict"


def test_skips_and_expected_failures_are_no_passes_without_a_rule() -> None:
    """RP01: out of process, the three have failed, each by its own name."""
    tests = {test.id.rpartition("::")[2]: test for test in verdicts()["RP01"].tests}
    assert tests["test_pass"].passed is Passed.PASSED
    for name in ("test_known_bug", "test_now_works", "test_skipped"):
        fault = tests[name].fault
        assert fault is not None and fault.label == "F.skipped_test"


def test_an_exit_status_after_the_tests_is_in_the_evidence() -> None:
    """RP27: nobody in the verifier's process can be made to end with the answer's status."""
    verdict = verdicts()["RP27"]
    said = [item.text for item in verdict.evidence]
    assert verdict.solved and verdict.runs == 2
    assert any(text.startswith("2 tests reported") for text in said)
    assert any(text.startswith("candidate: ") for text in said)


# The same cases where answer and tests share an interpreter: what a report of pytest's own can still tell

SUITABLE = ("RP01", "RP07", "RP09", "RP10", "RP13", "RP16", "RP20", "RP27", "RP28")


@cache
def reports() -> Mapping[str, tuple[Outcome, bytes, bytes | None]]:
    """How pytest ended in a sandbox with both trees, what it printed, and the XML that it left at a fresh path."""
    async def main() -> dict[str, tuple[Outcome, bytes, bytes | None]]:
        found = {}
        async with NativeBackend(warm=warm_oracle(site=SITE)) as backend:
            for name in SUITABLE:
                async with backend.open("host", limits=LIMITS) as (box,):
                    await box.files.write_many({**answer(name).files, **suite(name).files})
                    outcome = await box.run(
                        ["python3", "-m", "pytest", "-v", "-rA", "-p", "no:cacheprovider", "--junitxml=fresh.xml",
                         "tests"],
                        env={"PYTHONPATH": f"{SITE[0]}:/work"})
                    try:
                        xml = await box.files.read("fresh.xml")
                    except OSError:
                        xml = None
                found[name] = (outcome, outcome.stdout, xml)
        return found

    return asyncio.run(main())


def both_reports(name: str) -> Sequence[Report]:
    _, printed, xml = reports()[name]
    return [read_report("pytest", printed), *([read_report("junit", xml)] if xml is not None else [])]


@pytest.mark.parametrize("name", [n for n in SUITABLE if n not in ("RP01", "RP10", "RP27")])
def test_no_report_of_a_shared_interpreter_pays_what_it_must_not(name: str) -> None:
    required = right(name).get("required") or ()
    for report in both_reports(name):
        verdict = verdict_of(report, required=required, level="L2", outcome=reports()[name][0])
        assert not verdict.solved, report
        assert [test.id for test in verdict.tests] == list(required)
        passed = sum(test.passed is Passed.PASSED for test in verdict.tests)
        assert passed == right(name)["counts"]["passed"]


def test_what_was_printed_is_no_result() -> None:
    """RP13: no test named test_hidden, and test_big has not passed."""
    for report in both_reports("RP13"):
        assert not any("test_hidden" in test.id for test in report.tests)
        verdict = verdict_of(report, required=right("RP13")["required"], level="L2")
        assert [test.passed for test in verdict.tests] == [Passed.PASSED, Passed.FAILED]


def test_a_syntax_error_of_the_answer_is_read_from_the_collection() -> None:
    """RP07: three tests are absent, and absence is explained by what did not load."""
    text = both_reports("RP07")[0]
    verdict = verdict_of(text, required=right("RP07")["required"], level="L2")
    assert verdict.share == 0.0
    assert verdict.tests[0].fault is not None and verdict.tests[0].fault.label == "B.syntax_error"


def test_reports_keep_ids_apart_as_well() -> None:
    for report in both_reports("RP10"):
        assert len({test.id for test in report.tests}) == 15
        assert report.complete
        assert report.counts[Told.PASSED] == 10 and report.counts[Told.FAILED] == 5


def test_each_state_has_its_count_and_a_rule_leaves_it_out() -> None:
    text, xml = both_reports("RP01")
    assert {s.value: n for s, n in text.counts.items() if n} == {"passed": 1, "xfailed": 1, "xpassed": 1, "skipped": 1}
    assert xml.counts[Told.XFAILED] == xml.counts[Told.SKIPPED] == 1  # XML cannot tell a pass from an xpass
    rule = (Told.SKIPPED, Told.XFAILED, Told.XPASSED)
    assert not verdict_of(text, required=right("RP01")["required"], level="L2").solved
    assert verdict_of(text, required=right("RP01")["required"], level="L2", excused=rule).solved


def test_two_passes_and_another_exit_status_are_both_told() -> None:
    outcome = reports()["RP27"][0]
    for report in both_reports("RP27"):
        verdict = verdict_of(report, required=right("RP27")["required"], level="L2", outcome=outcome)
        fault = headline(verdict)
        assert fault is not None and fault.attribution is Attribution.POLICY
        assert "2 of 2 tests passed" in fault.message and "exit code 7" in fault.message


def test_a_report_from_an_earlier_attempt_is_not_read() -> None:
    """RP16: the green file of the answer's tree is not at the fresh path, and pytest did not live to write one."""
    outcome, printed, xml = reports()["RP16"]
    assert xml is None and outcome.exit_code == 0
    assert not read_report("pytest", printed).complete


@pytest.mark.parametrize(("name", "word"), [("RP11", "shadowed"), ("RP25", "vacuous")])
def test_tests_that_test_nothing_are_the_tasks_fault(name: str, word: str) -> None:
    (path, content), = suite(name).files.items()
    faults = vacuous_tests(path, content)
    assert faults and all(fault.attribution is Attribution.TASK for fault in faults)
    assert faults[0].message.startswith(word)
    assert len(faults) == 2  # RP11's second definition asserts a constant


@pytest.mark.parametrize("name", ["FD03", "FD04", "FD05", "FD06"])
def test_a_suite_that_fails_its_own_answer_is_flaky(name: str) -> None:
    async def main() -> Any:
        async with NativeBackend(warm=warm_oracle(site=SITE)) as backend:
            return await unsteady(backend, suite(name), answer(name), runs=100, limits=LIMITS)

    fault = asyncio.run(main())
    assert fault is not None and fault.attribution is Attribution.TASK
    assert fault.message.startswith("flaky: ")


def test_a_steady_suite_is_steady() -> None:
    """EC17, whose answer is right."""
    async def main() -> Any:
        async with NativeBackend(warm=warm_oracle(site=SITE)) as backend:
            return await unsteady(backend, suite("EC17"), answer("EC17"), runs=3, limits=LIMITS)

    assert asyncio.run(main()) is None

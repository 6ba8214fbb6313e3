"""A verdict is made from the verifier's side only: its report, and how both processes ended."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.grade import reward_of
from quintain.grade.build import verifier_build
from quintain.grade.evidence import of_outcome, of_report
from quintain.grade.judge import Run, both, judge, replays
from quintain.types import Fault, FaultKind, HouseError, KilledBy, Outcome, Owner, Passed, Status, TestResult, Verdict

FINE = Outcome(status=Status.OK, exit_code=0)
END = {"end": {"calls": 1, "gone": None}}
PASSED = {"test": "t.py::a", "ok": True, "why": None}
TIMED_OUT = Outcome(status=Status.TIMED_OUT, signal=9, killed_by=KilledBy.TIMEOUT)
STARVED = Outcome(status=Status.OUT_OF_MEMORY, signal=9, killed_by=KilledBy.OOM)


def run(*lines: dict[str, Any], verifier: Outcome = FINE, candidate: Outcome | None = FINE) -> Run:
    report = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return Run(files={"solution.py": b""}, report=report, verifier=verifier, candidate=candidate)


def gone(why: str) -> dict[str, Any]:
    return {"test": "t.py::a", "ok": False, "why": {"type": "Gone", "gone": why}}


def kind_of(found: Run) -> FaultKind | None:
    tests, fault = judge(found, expected=["t.py::a"], closed=True)
    assert [t.id for t in tests] == ["t.py::a"]
    assert tests[0].passed is not Passed.PASSED
    fault = fault or tests[0].fault
    assert fault is not None
    assert fault.owner is Owner.POLICY
    return fault.kind


def test_a_complete_report_passes_what_it_says() -> None:
    tests, fault = judge(run(PASSED, END), expected=["t.py::a"], closed=True)
    assert [t.passed for t in tests] == [Passed.PASSED]
    assert fault is None


def test_a_test_reported_twice_has_failed() -> None:
    assert kind_of(run(PASSED, PASSED, END)) is FaultKind.MISSING_REQUIRED_TEST


def test_a_test_that_is_not_reported_has_failed() -> None:
    assert kind_of(run(END)) is FaultKind.MISSING_REQUIRED_TEST


def test_tests_beyond_the_required_do_not_count() -> None:
    other = {"test": "t.py::b", "ok": False, "why": {"type": "AssertionError", "bases": ["AssertionError"]}}
    tests, fault = judge(run(PASSED, other, END), expected=["t.py::a"], closed=True)
    assert [t.id for t in tests] == ["t.py::a"]
    assert fault is None
    tests, _ = judge(run(PASSED, other, END), expected=["t.py::a"], closed=False)
    assert [t.id for t in tests] == ["t.py::a", "t.py::b"]


@pytest.mark.parametrize(("why", "candidate", "kind"), [
    ("exited", FINE, FaultKind.EARLY_EXIT),
    ("exited", None, FaultKind.EARLY_EXIT),
    ("exited", Outcome(status=Status.FAILED, exit_code=3), FaultKind.NONZERO_EXIT),
    ("exited", Outcome(status=Status.SIGNALLED, signal=11), FaultKind.CRASH_SIGNAL),
    ("exited", STARVED, FaultKind.OOM_KILL),
    ("exited", TIMED_OUT, FaultKind.TIMEOUT),
    ("exited", Outcome(status=Status.CPU_LIMIT, signal=24), FaultKind.CPU_LIMIT),
    ("hung", None, FaultKind.TIMEOUT),
    ("hung", STARVED, FaultKind.OOM_KILL),
    ("flood", FINE, FaultKind.OUTPUT_LIMIT),
    ("forged", FINE, FaultKind.TAMPER),
])
def test_silence_is_named_by_how_the_process_ended(why: str, candidate: Outcome | None, kind: FaultKind) -> None:
    assert kind_of(run(gone(why), {"end": {"calls": 1, "gone": why}}, candidate=candidate)) is kind


def test_a_verifier_that_dies_by_itself_is_the_houses_fault() -> None:
    failed = Outcome(status=Status.FAILED, exit_code=1, stderr=b"boom")
    for verifier in (failed, Outcome(status=Status.SIGNALLED, signal=9), FINE, STARVED):
        with pytest.raises(HouseError) as caught:
            judge(run(verifier=verifier), expected=["t.py::a"], closed=True)
        assert caught.value.kind is FaultKind.VERIFIER_ERROR


def test_a_verifier_that_runs_out_inside_a_test_does_so_on_the_answers_values() -> None:
    begun = {"begin": "t.py::a"}
    assert kind_of(run(begun, verifier=TIMED_OUT)) is FaultKind.TIMEOUT
    assert kind_of(run(begun, verifier=STARVED)) is FaultKind.OOM_KILL


def test_an_interpreter_that_cannot_be_started_is_the_houses_fault() -> None:
    absent = Outcome(status=Status.NOT_STARTED, stderr=b"no such file")
    with pytest.raises(HouseError, match="interpreter"):
        judge(run(gone("exited"), END, candidate=absent), expected=["t.py::a"], closed=True)


def test_a_report_that_is_none_is_the_houses_fault() -> None:
    broken = Run(files={}, report=b"{\n", verifier=FINE, candidate=FINE)
    with pytest.raises(HouseError, match="line of the verifier's report"):
        judge(broken, expected=[], closed=False)


def test_values_of_the_answer_cannot_lay_a_failure_on_the_task() -> None:
    why = {"type": "TypeError", "bases": ["TypeError", "Exception"], "message": "None"}
    asked = run({"file": "t.py", "why": {**why, "asked": True}}, END)
    assert kind_of(asked) is FaultKind.WRONG_TYPE
    _, fault = judge(run({"file": "t.py", "why": {**why, "asked": False}}, END), expected=["t.py::a"], closed=True)
    assert fault is not None
    assert fault.owner is Owner.TASK


def test_a_suite_without_tests_is_the_tasks_fault() -> None:
    _, fault = judge(run(END), expected=[], closed=False)
    assert fault is not None
    assert (fault.owner, fault.kind) == (Owner.TASK, FaultKind.NO_TESTS_RUN)


def test_only_what_passed_twice_has_passed() -> None:
    def verdict(*passed: bool) -> Verdict:
        return Verdict(suite="s", level="L4", wall_seconds=1.0, cpu_seconds=0.5, tests=tuple(
            TestResult(id=str(n), passed=Passed.PASSED if ok else Passed.FAILED) for n, ok in enumerate(passed)))

    assert both(verdict(True, True), verdict(True, True)).solved
    mixed = both(verdict(True, True), verdict(True, False))
    assert [t.passed for t in mixed.tests] == [Passed.PASSED, Passed.FAILED]
    assert (mixed.wall_seconds, mixed.cpu_seconds) == (2.0, 1.0)
    assert not both(verdict(True, True), verdict(True)).solved


def _judged(*passed: bool, kind: FaultKind = FaultKind.ASSERTION_ERROR, owner: Owner = Owner.POLICY) -> Verdict:
    fault = Fault(owner=owner, kind=kind, message="why")
    return Verdict(suite="s", level="L4", tests=tuple(
        TestResult(id=str(n), passed=Passed.PASSED if ok else Passed.FAILED, fault=None if ok else fault)
        for n, ok in enumerate(passed)))


@pytest.mark.parametrize(("kind", "found"), [
    (FaultKind.ASSERTION_ERROR, FaultKind.NONDETERMINISTIC),
    (FaultKind.RUNTIME_ERROR, FaultKind.NONDETERMINISTIC),
    (FaultKind.EARLY_EXIT, FaultKind.NONDETERMINISTIC),
    (FaultKind.TIMEOUT, FaultKind.CONFLICTING_RUNS),
    (FaultKind.OOM_KILL, FaultKind.CONFLICTING_RUNS),
    (FaultKind.TAMPER, FaultKind.TAMPER),
])
def test_what_passed_and_then_failed_is_never_paid(kind: FaultKind, found: FaultKind) -> None:
    torn = both(_judged(True, True), _judged(True, False, kind=kind))
    fault = torn.tests[1].fault
    assert fault is not None and fault.kind is found
    assert "another seed" in fault.message and "why" in fault.message
    assert torn.runs == 1 and not torn.solved
    reward = reward_of(torn)
    assert reward is None if found is FaultKind.CONFLICTING_RUNS else reward is not None and not reward.solved


def test_a_pass_on_the_second_try_is_masked_and_not_a_pass() -> None:
    torn = both(_judged(True, False), _judged(True, True))
    assert torn.tests[1].passed is Passed.FAILED
    assert torn.tests[1].fault is not None
    assert torn.tests[1].fault.label == "J.conflicting_runs"
    assert reward_of(torn) is None


def test_runs_that_agree_are_counted() -> None:
    assert both(_judged(True), _judged(True)).runs == 2
    assert both(_judged(False), _judged(False)).runs == 2
    assert both(both(_judged(True), _judged(True)), _judged(True)).runs == 3


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=6), st.sampled_from(list(FaultKind)),
       st.sampled_from(list(FaultKind)))
def test_two_runs_never_pass_more_than_either(pairs: list[tuple[bool, bool]], one: FaultKind, two: FaultKind) -> None:
    first, second = _judged(*(a for a, _ in pairs), kind=one), _judged(*(b for _, b in pairs), kind=two)
    found = both(first, second)
    assert [t.passed is Passed.PASSED for t in found.tests] == [a and b for a, b in pairs]
    assert [t.id for t in found.tests] == [t.id for t in first.tests]


def test_replays_that_differ_have_no_reward_whatever_the_vote() -> None:
    """FD09: passed, passed and failed is unstable; neither the majority nor the last decides."""
    unstable = replays([_judged(True), _judged(True), _judged(False)])
    assert unstable.fault is not None and unstable.fault.label == "J.conflicting_runs"
    assert "passed, passed, failed (0.00)" in unstable.fault.message
    assert reward_of(unstable) is None and not unstable.solved
    agreed = replays([_judged(True), _judged(True)])
    assert agreed.solved and agreed.runs == 2
    with pytest.raises(ValueError, match="at least one"):
        replays([])


def test_a_verdict_says_what_it_rests_on() -> None:
    report = b'{"begin":"t.py::a"}\n{"test":"t.py::a","ok":false,"why":{"type":"E"}}\n{"end":{"calls":1}}\n'
    head, line = of_report(report)
    assert head.text == f"1 tests reported in {len(report)} bytes, with its last line"
    assert line.offset_bytes is not None
    assert report[line.offset_bytes:].startswith(b'{"test":"t.py::a","ok":false')
    assert "without its last line" in of_report(report[:40])[0].text
    status, used = of_outcome("candidate", Outcome(
        status=Status.OUT_OF_MEMORY, signal=9, killed_by=KilledBy.OOM, cpu_seconds=0.5, peak_memory_bytes=3 << 20,
        peak_processes=2, wall_seconds=1.0))
    assert (status.source, status.text) == ("exit status", "candidate: out_of_memory, signal 9, killed by oom")
    assert (used.source, used.text) == ("cgroup", "candidate: 1.000 s wall, 0.500 s CPU, 3.0 MiB at most, "
                                                  "2 processes at most")
    assert "cut off" in of_outcome("candidate", None)[0].text
    assert re.fullmatch("[0-9a-f]{16}", verifier_build())


def test_a_runners_control_flow_raised_by_the_answer_is_tampering_unless_it_is_its_own_class() -> None:
    def kind(source: bytes, name: str) -> FaultKind | None:
        why = {"type": name, "bases": ["Exception", "BaseException"], "message": "later",
               "candidate": [["solution.py", 3, "add"]]}
        line = {"test": "t.py::a", "ok": False, "why": why}
        report = b"".join(json.dumps(x).encode() + b"\n" for x in (line, END))
        found = Run(files={"solution.py": source}, report=report, verifier=FINE, candidate=FINE)
        return kind_of(found)

    assert kind(b"import unittest\ndef add(a, b):\n    raise unittest.SkipTest\n", "SkipTest") is FaultKind.TAMPER
    assert kind(b"import pytest\ndef add(a, b):\n    pytest.exit()\n", "Exit") is FaultKind.EARLY_EXIT
    assert kind(b"class SkipTest(Exception): pass\nimport unittest\n", "SkipTest") is FaultKind.RUNTIME_ERROR
    assert kind(b"def add(a, b):\n    raise errors[0]\n", "SkipTest") is FaultKind.RUNTIME_ERROR


def test_a_parametrised_test_is_its_instances() -> None:
    lines = [{"test": f"t.py::a[{n}]", "ok": n != 1, "why": None if n != 1 else {"type": "AssertionError"}}
             for n in range(3)]
    tests, _ = judge(run(*lines, END), expected=["t.py::a"], closed=False)
    assert [t.id for t in tests] == ["t.py::a[0]", "t.py::a[1]", "t.py::a[2]"]
    tests, _ = judge(run(*lines, END), expected=["t.py::a"], closed=True)
    assert [(t.id, t.passed) for t in tests] == [("t.py::a", Passed.MISSING)]

"""Shell answers are judged out of their own process: bytes and an exit code come back, and nothing else."""

from __future__ import annotations

import shutil

import pytest

from quintain.grade import headline
from quintain.tasks import ShellSuite
from quintain.types import FaultKind, Limits, Owner, Passed, Program, TaskError, Verdict
from tests.grade.ground import LIMITS, Case, needs_native, verdict_of

pytestmark = [needs_native, pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not on this machine")]

TESTS = b"""
test_adds() { [[ $(add 1 2) = "3" ]]; }
test_keeps_words() { [[ $(shown "a  b" '*' '') = "<a  b><*><>" ]]; }
test_reads_a_pipe() { [[ $(printf 'x\\ny' | lines) = "2" ]]; }
test_gives_its_code() { code=0; refuse || code=$?; [[ $code = 3 ]]; }
test_runs_a_program() { [[ $(./tool.sh one) = "tool one" ]]; [[ $(bash tool.sh two) = "tool two" ]]; }
test_fails_at_its_first_command() { [[ $(add 1 1) = "2" ]]; [[ $(add 2 2) = "4" ]]; }
"""
GOOD = b"""#!/bin/bash
echo noise
add() { echo $(($1 + $2)); }
shown() { printf '<%s>' "$@"; }
lines() { grep -c ''; }
refuse() { return 3; }
"""
FUNCTIONS = ("add", "shown", "lines", "refuse")


def graded(answer: bytes, tests: bytes = TESTS, *, limits: Limits = LIMITS, confirm: bool = False) -> Verdict:
    suite = ShellSuite(files={"tests.sh": tests}, functions=FUNCTIONS, programs=("tool.sh",))
    files = {"solution.sh": answer, "tool.sh": b'echo tool "$1"\n'}
    program = Program(files=files, language="shell")
    return verdict_of(Case(name="one", suite=suite, program=program, limits=limits), confirm=confirm)


def test_honest_functions_and_programs_pass_twice() -> None:
    verdict = graded(GOOD, confirm=True)
    assert verdict.solved, [(t.id, t.fault) for t in verdict.tests if t.fault]
    assert verdict.level == "L4"
    assert len(verdict.tests) == 6


@pytest.mark.parametrize(("answer", "kind"), [
    (b"add() { echo 4; }", FaultKind.ASSERTION_ERROR),
    (b"add() { exit 0; }", FaultKind.ASSERTION_ERROR),
    (b"exit 0", FaultKind.ASSERTION_ERROR),
    (b"sub() { echo 3; }", FaultKind.MISSING_ENTRY_POINT),
    (b"add() { echo 3", FaultKind.SYNTAX_ERROR),
    (b"add() { yes; }", FaultKind.OUTPUT_LIMIT),
    (b"add() { no_such_command; }", FaultKind.MISSING_DEPENDENCY),
    (b"add() { kill -SEGV $$; }", FaultKind.CRASH_SIGNAL),
])
def test_what_is_wrong_fails_and_has_its_name(answer: bytes, kind: FaultKind) -> None:
    tests = b'test_adds() { [[ $(add 1 2) = "3" ]]; }\n'
    fault = headline(graded(answer, tests, limits=Limits(wall_seconds=4.0, cpu_seconds=4.0)))
    assert fault is not None
    assert (fault.owner, fault.kind) == (Owner.POLICY, kind)


def test_a_call_that_is_killed_fails_a_test_that_expects_nothing() -> None:
    tests = b'test_silent() { [[ $(add) = "" ]]; }\n'
    assert graded(b"add() { :; }", tests).solved
    endless = headline(graded(b"add() { while :; do :; done; }", tests, limits=Limits(wall_seconds=2.0)))
    assert endless is not None
    assert endless.kind is FaultKind.TIMEOUT
    absent = headline(graded(b"", tests))
    assert absent is not None
    assert absent.kind is FaultKind.MISSING_ENTRY_POINT


def test_an_answer_changes_nothing_on_the_trusted_side() -> None:
    sly = b"""
add() { echo 'test_adds() { :; }' > tests.sh; echo 9 >&3; echo 'end test_adds 0' >&9; export PATH=/tmp; echo 0; }
test_adds() { :; }
"""
    verdict = graded(sly, b'test_adds() { [[ $(add 1 2) = "3" ]]; }\n')
    assert [t.passed for t in verdict.tests] == [Passed.FAILED]


def test_a_test_file_that_does_not_load_is_the_tasks() -> None:
    verdict = graded(GOOD, b"test_adds() { [[ $(add 1 2) = 3 ]]; }\nif then\n")
    assert verdict.fault is not None
    assert verdict.fault.owner is Owner.TASK


def test_a_suite_without_tests_is_refused() -> None:
    with pytest.raises(ExceptionGroup) as caught:  # the ground of these tests runs each case in a group of tasks
        graded(GOOD, b"echo nothing\n")
    assert caught.group_contains(TaskError, match="test_\\*")

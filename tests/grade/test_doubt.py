"""What the house does wrong is not laid on the answer: faults of a real backend while an answer is judged."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import msgspec
import pytest

from quintain.grade import Oracle, headline, reward_of
from quintain.grade.doubt import Pressure, doubt, is_the_houses
from quintain.sandbox import NativeBackend
from quintain.tasks import PythonSuite, StdioCase, StdioSuite
from quintain.testing import Blow, FaultyBackend, Planned
from quintain.types import (
    MEBIBYTE,
    Fault,
    FaultKind,
    HouseError,
    KilledBy,
    Limits,
    Outcome,
    Owner,
    Passed,
    Program,
    Status,
    TestResult,
    Verdict,
)
from tests.grade.ground import needs_native

TESTS = """from solution import total
def test_a():
    assert total([1, 2]) == 3
def test_big():
    held = b"x" * (96 * 1024 * 1024)
    assert total([len(held), 1]) == len(held) + 1
def test_c():
    assert total([5] * 100) == 500
"""
SUITE = PythonSuite(files={"test_t.py": TESTS.encode()})
SLOW = "import time\ndef total(numbers):\n    time.sleep(0.1)\n    return sum(numbers)\n"
LIMITS = Limits(wall_seconds=10.0, cpu_seconds=5.0)


def program(source: str) -> Program:
    return Program(files={"solution.py": source.encode()})


def judged(
    source: str, *planned: Planned, confirm: bool = False, suite: PythonSuite = SUITE, limits: Limits = LIMITS,
) -> tuple[Verdict | HouseError, list[Planned]]:
    """What comes of an answer when the plan goes wrong, and the blows that fell."""

    async def grade() -> tuple[Verdict | HouseError, list[Planned]]:
        async with NativeBackend(engines=1) as backend:
            faulty = FaultyBackend(backend, planned)
            try:
                return await Oracle(faulty, confirm=confirm).grade(suite, program(source), limits=limits), faulty.struck
            except HouseError as error:
                return error, faulty.struck

    return asyncio.run(grade())


def is_the_house(result: Verdict | HouseError) -> bool:
    """Neither paid nor penalised: raised, or a verdict that has no reward."""
    if isinstance(result, HouseError):
        return True
    fault = headline(result)
    return not result.solved and reward_of(result) is None and fault is not None and fault.owner is Owner.HOUSE


BLOWS = [
    Planned(blow=Blow.REFUSE), Planned(blow=Blow.REFUSE, nth=1), Planned(blow=Blow.LOSE),
    Planned(blow=Blow.LOSE, nth=1), Planned(blow=Blow.KILL_SPAWNER, seconds=0.1),
    Planned(blow=Blow.KILL_AGENT, seconds=0.1), Planned(blow=Blow.KILL_AGENT, nth=1, seconds=0.1),
    Planned(blow=Blow.KILL_PROGRAM, seconds=0.1), Planned(blow=Blow.KILL_PROGRAM, nth=1, seconds=0.2),
    Planned(blow=Blow.FILL), Planned(blow=Blow.FILL, nth=1), Planned(blow=Blow.STARVE, amount=48 * MEBIBYTE),
]


@needs_native
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the processes inside belong to other users")
@pytest.mark.parametrize("blow", BLOWS, ids=lambda plan: f"{plan.blow.value}-{plan.nth}")
def test_a_fault_of_the_house_is_not_laid_on_a_right_answer(blow: Planned) -> None:
    result, struck = judged(SLOW, blow)
    assert struck == [blow]
    assert is_the_house(result), result


@needs_native
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the processes inside belong to other users")
def test_a_kill_while_a_verdict_is_confirmed_does_not_make_the_answer_nondeterministic() -> None:
    result, struck = judged(SLOW, Planned(blow=Blow.KILL_PROGRAM, nth=3, seconds=0.2), confirm=True)
    assert struck
    assert is_the_house(result), result


@needs_native
def test_a_slow_house_changes_no_verdict() -> None:
    result, _ = judged(SLOW, Planned(blow=Blow.DELAY, nth=-1, seconds=0.3))
    assert isinstance(result, Verdict)
    assert result.solved


@needs_native
def test_an_answer_that_kills_itself_has_only_itself_to_blame() -> None:
    result, _ = judged("import os\ndef total(numbers):\n    os.kill(os.getpid(), 9)\n")
    assert isinstance(result, Verdict)
    fault = headline(result)
    assert fault is not None
    assert (fault.owner, fault.kind) == (Owner.POLICY, FaultKind.CRASH_SIGNAL)
    assert result.runs == 2
    assert any(e.source == "doubt" for e in result.evidence)


@needs_native
def test_values_that_no_verifier_could_hold_are_the_answers_own_fault() -> None:
    suite = PythonSuite(files={"test_t.py": b"from solution import total\ndef test_a():\n    total([1]) * 9\n"})
    source = "def total(numbers):\n    return 'x' * 60_000_000\n"
    result, _ = judged(source, suite=suite, limits=msgspec.structs.replace(LIMITS, memory_bytes=256 * MEBIBYTE))
    assert isinstance(result, Verdict)
    assert not result.solved
    fault = headline(result)
    assert fault is None or fault.owner is Owner.POLICY


@needs_native
def test_files_that_are_too_large_are_the_answers_own_fault() -> None:
    limits = msgspec.structs.replace(LIMITS, disk_bytes=4 * MEBIBYTE)
    result, _ = judged(SLOW + "#" * (5 * MEBIBYTE), limits=limits)
    assert isinstance(result, Verdict)
    fault = headline(result)
    assert fault is not None
    assert (fault.owner, fault.kind) == (Owner.POLICY, FaultKind.DISK_LIMIT)


@needs_native
def test_a_full_disk_is_not_laid_on_a_program_either() -> None:
    suite = StdioSuite(cases=(StdioCase(name="a", stdout=b"1\n", files={"input.txt": b"1\n" * 10}),))
    asked = Program(files={"main.py": b"print(1)\n"}, argv=("python3", "main.py"))

    async def grade() -> Verdict:
        async with NativeBackend(engines=1) as backend:
            return await Oracle(FaultyBackend(backend, [Planned(blow=Blow.FILL)])).grade(suite, asked, limits=LIMITS)

    with pytest.raises(HouseError, match="cannot be written"):
        asyncio.run(grade())


def failed(kind: FaultKind) -> Verdict:
    fault = Fault(owner=Owner.POLICY, kind=kind, message="")
    return Verdict(suite="s", level="L4", tests=(TestResult(id="t", passed=Passed.FAILED, fault=fault),))


OK = Outcome(status=Status.OK, exit_code=0, wall_seconds=5.0, cpu_seconds=0.5)
SPINNING = Outcome(status=Status.TIMED_OUT, killed_by=KilledBy.TIMEOUT, signal=9, wall_seconds=5.0, cpu_seconds=4.9)
KILLED = Outcome(status=Status.SIGNALLED, signal=9, wall_seconds=1.0)
FULL = Outcome(status=Status.OUT_OF_MEMORY, signal=9, killed_by=KilledBy.OOM)


@pytest.mark.parametrize(
    ("verdict", "verifier", "candidate", "pressure", "doubted"),
    [
        (failed(FaultKind.WRONG_ANSWER), OK, OK, 1.0, False),
        (failed(FaultKind.CRASH_SIGNAL), OK, KILLED, None, True),
        (failed(FaultKind.OOM_KILL), OK, FULL, 1.0, False),
        (failed(FaultKind.OOM_KILL), FULL, OK, 0.0, True),
        (failed(FaultKind.TIMEOUT), OK, None, 0.1, False),
        (failed(FaultKind.TIMEOUT), OK, None, None, False),
        (failed(FaultKind.TIMEOUT), OK, None, 0.5, True),
        (failed(FaultKind.TIMEOUT), OK, SPINNING, 0.9, False),
    ],
)
def test_only_what_may_be_the_houses_is_asked_again(
    verdict: Verdict, verifier: Outcome, candidate: Outcome | None, pressure: float | None, doubted: bool,
) -> None:
    why = doubt(verdict, verifier=verifier, candidate=candidate, pressure=pressure)
    assert (why is not None) is doubted


@pytest.mark.parametrize(
    ("code", "size", "houses"),
    [
        (errno.ENOSPC, 1000, True), (errno.ENOSPC, 100 * MEBIBYTE, False), (errno.ENAMETOOLONG, 10, False),
        (errno.EIO, 100 * MEBIBYTE, True), (errno.EROFS, 10, True), (errno.ENOTDIR, 10, False),
    ],
)
def test_files_that_would_have_fitted_are_the_houses_failure(code: int, size: int, houses: bool) -> None:
    assert is_the_houses(OSError(code, "said"), {"a/b.py": b"x" * size}, Limits()) is houses


def test_the_pressure_is_the_share_of_time_in_which_somebody_waited(tmp_path: Path) -> None:
    told = tmp_path / "cpu"
    told.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull avg10=0.00 total=0\n")
    first = Pressure.read(10.0, file=told)
    told.write_text("some avg10=9.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=0\n")
    assert Pressure.read(13.0, file=told).since(first) == pytest.approx(0.5)
    assert Pressure.read(13.0, file=tmp_path / "absent").since(first) is None

"""A verifier that breaks is found out: what it judged since it was last well is void, and it judges no more."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.grade import Oracle
from quintain.grade.health import Health, Void, due, struck
from quintain.grade.pinned import PINNED, Pinned
from quintain.sandbox import DEFAULT_LIMITS, NativeBackend
from quintain.tasks import PythonSuite, ScriptSuite, Suite, kind_of
from quintain.types import (
    Episode,
    Fault,
    FaultKind,
    Group,
    HouseError,
    Limits,
    Owner,
    Passed,
    Program,
    Reward,
    TestResult,
    Verdict,
)
from tests.grade.ground import needs_native

PYTHON = PINNED[0]
NEEDS = {"javascript": "node", "shell": "bash"}


def run(test: Callable[[NativeBackend], Awaitable[None]]) -> None:
    async def main() -> None:
        async with NativeBackend(engines=1) as backend:
            await test(backend)

    asyncio.run(main())


@needs_native
@pytest.mark.parametrize("pinned", PINNED, ids=lambda pinned: kind_of(pinned.suite))
def test_a_verifier_that_works_is_well(pinned: Pinned) -> None:
    tool = NEEDS.get(kind_of(pinned.suite))
    if tool is not None and shutil.which(tool) is None:
        pytest.skip(f"{tool} is not on this host")

    async def test(backend: NativeBackend) -> None:
        health = Health(Oracle(backend))
        async with health.watching(pinned.suite, image="host", name="e1"):
            pass
        assert (health.checks, health.taken()) == (1, ())
        assert await health.settle() == ()
        assert health.checks == 2

    run(test)


@needs_native
def test_an_image_whose_interpreter_is_replaced_voids_what_it_judged(tmp_path: Path) -> None:
    """The image's python becomes a program that leaves at once, between two verdicts."""
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "Dockerfile").write_text(
        "FROM host\nCOPY --chmod=755 python3 /opt/bin/python3\nENV PATH=/opt/bin:/usr/bin:/bin\n")

    async def test(backend: NativeBackend) -> None:
        names = {"host": "host", "broken": f"build:{tmp_path}"}
        place = ["host"]

        class Moving:
            """The oracle, in whichever image the verifier has at the moment."""

            async def grade(
                self, suite: Suite, program: Program, *, image: str = "host", limits: Limits = DEFAULT_LIMITS,
                seed: int = 0, confirm: bool | None = None,
            ) -> Verdict:
                oracle = Oracle(backend)
                return await oracle.grade(
                    suite, program, image=names[place[0]], limits=limits, seed=seed, confirm=confirm)

        health = Health(Moving(), every_verdicts=2)
        for episode in ("e1", "e2"):
            async with health.watching(PYTHON.suite, image="v", name=episode):
                pass
        place[0] = "broken"
        for _ in range(2):
            with pytest.raises(HouseError) as caught:
                async with health.watching(PYTHON.suite, image="v", name="e3"):
                    pytest.fail("a sick verifier was asked")
            assert caught.value.kind is FaultKind.HEALTH_CHECK_FAILED
        (void,) = health.taken()
        assert (void.verifier, void.names) == ("python in v", ("e1", "e2"))
        assert void.fault.owner is Owner.HOUSE
        assert health.taken() == ()

    run(test)


class Scripted:
    """A verifier that says what it is told to of good and of bad candidates, and counts."""

    def __init__(self) -> None:
        self.good_passes = True
        self.bad_share = 0.5
        self.error: HouseError | None = None
        self.asked = 0

    async def grade(
        self, suite: Suite, program: Program, *, image: str = "host", limits: Limits = DEFAULT_LIMITS, seed: int = 0,
        confirm: bool | None = None,
    ) -> Verdict:
        self.asked += 1
        if self.error is not None:
            raise self.error
        share = (1.0 if self.good_passes else 0.5) if program == PYTHON.good else self.bad_share
        fault = Fault(owner=Owner.POLICY, kind=FaultKind.ASSERTION_ERROR, message="no")
        passed = round(share * 2)
        return Verdict(suite="s", level="L4", tests=tuple(
            TestResult(id=str(n), passed=Passed.PASSED if n < passed else Passed.FAILED,
                       fault=None if n < passed else fault) for n in range(2)))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def judged(health: Health, name: str, suite: Suite = PYTHON.suite) -> None:
    async with health.watching(suite, image="host", name=name):
        await asyncio.sleep(0)


def test_a_check_comes_first_and_then_after_so_many_verdicts_or_seconds() -> None:
    async def main() -> None:
        clock, oracle = Clock(), Scripted()
        health = Health(oracle, every_seconds=60.0, every_verdicts=3, clock=clock)
        for nth in range(7):
            await judged(health, f"e{nth}")
        assert health.checks == 3
        clock.now += 59.0
        await judged(health, "e7")
        assert health.checks == 3
        clock.now += 1.0
        await judged(health, "e8")
        assert health.checks == 4
        assert health.taken() == ()

    asyncio.run(main())


@pytest.mark.parametrize("break_it", ["rejects", "accepts", "dies"])
def test_a_miss_of_any_kind_voids_all_since_the_last_success_and_no_more(break_it: str) -> None:
    async def main() -> None:
        clock, oracle = Clock(), Scripted()
        health = Health(oracle, every_verdicts=2, clock=clock)
        for nth in range(4):
            await judged(health, f"e{nth}")
        oracle.good_passes = break_it != "rejects"
        oracle.bad_share = 1.0 if break_it == "accepts" else 0.5
        oracle.error = HouseError(FaultKind.VERIFIER_ERROR, "gone") if break_it == "dies" else None
        with pytest.raises(HouseError, match="health_check_failed"):
            await judged(health, "e4")
        assert [void.names for void in health.taken()] == [("e2", "e3")]
        asked = oracle.asked
        with pytest.raises(HouseError):  # at once, without asking again
            await judged(health, "e5")
        assert oracle.asked == asked
        clock.now += 2.0
        oracle.good_passes, oracle.bad_share, oracle.error = True, 0.5, None
        await judged(health, "e6")
        assert health.taken() == ()

    asyncio.run(main())


def test_a_verdict_that_was_in_hand_when_the_verifier_was_found_sick_is_void() -> None:
    async def main() -> None:
        clock, oracle = Clock(), Scripted()
        health = Health(oracle, every_verdicts=1, clock=clock)

        async def slow() -> None:
            async with health.watching(PYTHON.suite, image="host", name="slow"):
                oracle.bad_share = 1.0
                with pytest.raises(HouseError):
                    await judged(health, "e1")

        with pytest.raises(HouseError, match="found sick while it judged"):
            await slow()
        assert health.taken() == ()  # it was never given

    asyncio.run(main())


def test_many_at_once_wait_for_one_check() -> None:
    async def main() -> None:
        oracle = Scripted()
        health = Health(oracle)
        async with asyncio.TaskGroup() as group:
            for nth in range(20):
                group.create_task(judged(health, f"e{nth}"))
        assert (health.checks, oracle.asked) == (1, 2)

    asyncio.run(main())


def test_the_end_of_a_run_is_checked_too() -> None:
    async def main() -> None:
        oracle = Scripted()
        health = Health(oracle)
        await judged(health, "e1")
        oracle.good_passes = False
        assert [void.names for void in await health.settle()] == [("e1",)]

    asyncio.run(main())


def test_kinds_for_which_nothing_is_pinned_are_not_watched() -> None:
    async def main() -> None:
        oracle = Scripted()
        health = Health(oracle)
        await judged(health, "e1", ScriptSuite(files={"tests/test.sh": b""}))
        assert oracle.asked == 0

    asyncio.run(main())


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="expected every_seconds > 0"):
        Health(Scripted(), every_seconds=0.0)
    with pytest.raises(ValueError, match="every_verdicts >= 1"):
        Health(Scripted(), every_verdicts=0)


@given(st.none() | st.floats(0, 1e6), st.integers(0, 500), st.floats(0, 1e6), st.integers(1, 300))
def test_no_verdict_is_further_from_a_success_than_was_asked(
    since: float | None, count: int, later: float, every: int,
) -> None:
    now = (since or 0.0) + later
    late = due(since=since, count=count, now=now, every_seconds=60.0, every_verdicts=every)
    assert late or (since is not None and count < every and now - since < 60.0)


def test_void_episodes_are_in_no_baseline() -> None:
    def episode(name: str, total: float) -> Episode:
        return Episode(id=name, task="t", task_version="v", kind="code", group="g", attempt=1, policy="p",
                       reward=Reward(total=total, solved=total > 0.5))

    group = Group(id="g", task="t", episodes=(episode("a", 0.8), episode("b", 0.0), episode("c", -0.2)))
    fault = Fault(owner=Owner.HOUSE, kind=FaultKind.HEALTH_CHECK_FAILED, message="sick")
    left = struck(group, [Void(verifier="python in host", names=("a", "z"), fault=fault)])
    assert left.rewards_G == (None, 0.0, -0.2)
    assert left.baseline == pytest.approx(-0.1)
    assert [e.id for e in left.episodes] == ["a", "b", "c"]


def test_the_pinned_candidates_differ_and_say_what_they_test() -> None:
    for pinned in PINNED:
        assert pinned.good != pinned.bad
        assert len({kind_of(one.suite) for one in PINNED}) == len(PINNED)
    assert isinstance(PYTHON.suite, PythonSuite)
    assert msgspec.json.decode(msgspec.json.encode(PYTHON), type=Pinned) == PYTHON

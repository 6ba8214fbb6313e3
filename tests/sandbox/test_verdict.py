"""Each thing that a scenario can expect is really looked at: met it says nothing, not met it says what was found."""

from __future__ import annotations

import msgspec
import pytest

from quintain.sandbox import Capabilities, FileInfo
from quintain.testing.sandbox import Expect, Scenario, Step
from quintain.testing.sandbox.verdict import Seen, complaints, lacking
from quintain.types import Isolation, KilledBy, Network, Outcome, Status

OUTCOME = Outcome(
    status=Status.FAILED, exit_code=3, stdout=b"out", stderr=b"err", stdout_bytes=3, stderr_bytes=3, cpu_seconds=1.0,
    peak_memory_bytes=10 * 2**20,
)
KILLED = Outcome(status=Status.TIMED_OUT, signal=9, killed_by=KilledBy.TIMEOUT)
RAN = Seen(outcomes=(OUTCOME,), seconds=2.0, house_growth_mib=5.0)
READ = Seen(content=b"secret", files=(FileInfo(path="/work/a", kind="file", size_bytes=1, mode=0o644),))

#: What is expected and met, what is expected and not met, and what was seen.
CASES: list[tuple[Expect, Expect, Seen]] = [
    (Expect(status=(Status.FAILED,)), Expect(status=(Status.OK, Status.SIGNALLED)), RAN),
    (Expect(exit_code=3), Expect(exit_code=0), RAN),
    (Expect(signal=9), Expect(signal=11), Seen(outcomes=(KILLED,))),
    (Expect(killed_by=KilledBy.TIMEOUT), Expect(killed_by=KilledBy.OOM), Seen(outcomes=(KILLED,))),
    (Expect(killed_by=KilledBy.TIMEOUT), Expect(not_killed=True), Seen(outcomes=(KILLED,))),
    (Expect(stdout="out"), Expect(stdout="ou"), RAN),
    (Expect(stdout_hex="6f7574"), Expect(stdout_hex="6f75"), RAN),
    (Expect(stdout_has=("u",)), Expect(stdout_has=("u", "x")), RAN),
    (Expect(stdout_lacks=("x",)), Expect(stdout_lacks=("u",)), RAN),
    (Expect(stdout_matches="o.t"), Expect(stdout_matches="o"), RAN),
    (Expect(stderr="err"), Expect(stderr=""), RAN),
    (Expect(stderr_has=("rr",)), Expect(stderr_has=("out",)), RAN),
    (Expect(stdout_bytes=3), Expect(stdout_bytes=4), RAN),
    (Expect(stdout_truncated=False), Expect(stdout_truncated=True), RAN),
    (Expect(kept_bytes_at_most=3), Expect(kept_bytes_at_most=2), RAN),
    (Expect(within_seconds=2.5), Expect(within_seconds=1.5), RAN),
    (Expect(cpu_seconds_at_least=0.9), Expect(cpu_seconds_at_least=1.1), RAN),
    (Expect(cpu_seconds_at_most=1.1), Expect(cpu_seconds_at_most=0.9), RAN),
    (Expect(peak_memory_mib_at_most=11), Expect(peak_memory_mib_at_most=9), RAN),
    (Expect(house_growth_mib_at_most=6), Expect(house_growth_mib_at_most=4), RAN),
    (Expect(error=("OSError",)), Expect(error=("HouseError",)), Seen(error=FileNotFoundError(2, "gone"))),
    (Expect(error=("FileNotFoundError",)), Expect(), Seen(error=FileNotFoundError(2, "gone"))),
    (Expect(), Expect(error=("OSError",)), RAN),
    (Expect(content="secret"), Expect(content="public"), READ),
    (Expect(content_lacks=("public",)), Expect(content_lacks=("cre",)), READ),
    (Expect(paths=("/work/a",)), Expect(paths=("/work/a", "/work/b")), READ),
    (Expect(distinct=True), Expect(distinct=True, exit_code=0), RAN),
    (Expect(), Expect(distinct=True), Seen(outcomes=(OUTCOME, OUTCOME))),
]


@pytest.mark.parametrize(("met", "unmet", "seen"), CASES)
def test_what_is_not_as_expected_is_said(met: Expect, unmet: Expect, seen: Seen) -> None:
    assert complaints(met, seen) == []
    assert complaints(unmet, seen) != []


def test_every_expectation_has_a_case() -> None:
    used = {name for met, unmet, _ in CASES for case in (met, unmet) for name in Expect.__struct_fields__
            if getattr(case, name) != getattr(Expect(), name)}
    assert used == set(Expect.__struct_fields__)


def test_what_cannot_be_measured_is_not_taken_for_good() -> None:
    unmeasured = msgspec.structs.replace(OUTCOME, cpu_seconds=None, peak_memory_bytes=None)
    seen = Seen(outcomes=(unmeasured,))
    assert complaints(Expect(cpu_seconds_at_most=5), seen) != []
    assert complaints(Expect(peak_memory_mib_at_most=500), seen) != []


WEAK = Capabilities(
    name="weak", available=True, isolation=Isolation.PROCESS, memory="soft", networks=(Network.FULL,),
    does_not_cover=("inodes and more",),
)


@pytest.mark.parametrize(
    ("need", "met"),
    [("isolation", False), ("memory=hard", False), ("memory=hard|soft", True), ("network=none", False),
     ("network=full", True), ("channel", False), ("covers:inodes", False), ("covers:disk", True)],
)
def test_a_need_is_met_only_by_what_is_declared(need: str, met: bool) -> None:
    scenario = Scenario(id="x", title="x", source="x", needs=(need,), steps=(Step(sh="true"),))
    assert lacking(WEAK, scenario) == (None if met else need)

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from quintain.curate import (
    Bounds,
    Chart,
    HealthLedger,
    Moved,
    Named,
    State,
    Trouble,
    Why,
    advance,
    drawn,
    fold,
    recheck_due,
)
from quintain.types import HouseError, Task, TaskError

IDS = ["a", "b/c", "d"]


def task(id: str, version: str = "v1") -> Task:
    return Task(id=id, version=version, instructions="x", exam="e")


FLAKY = Trouble(why=Why.FLAKY, evidence="it throws dice", tests=("t::a",))


class Life(RuleBasedStateMachine):
    """Two processes on one ledger, in any order: what one says the other sees, no task goes a forbidden way."""

    versions: Bundle[str] = Bundle("versions")

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "health.jsonl"
        self.now = 0.0
        self.ones = [self.opened(), self.opened()]
        self.gone: set[tuple[str, str, float]] = set()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def opened(self) -> HealthLedger:
        return HealthLedger(self.path, clock=self.tick)

    def tick(self) -> float:
        self.now += 1.0
        return self.now

    @rule(target=versions, id=st.sampled_from(IDS), version=st.sampled_from(("v1", "v2")), who=st.integers(0, 1))
    def admit(self, id: str, version: str, who: int) -> str:
        self.ones[who].admit([task(id, version)], evidence="fit")
        assert self.ones[who].standings[id].version == version
        assert self.ones[who].standings[id].state is not State.CANDIDATE
        return id

    @rule(id=versions, who=st.integers(0, 1))
    def suspend(self, id: str, who: int) -> None:
        ledger = self.ones[who]
        ledger.refresh()
        was = ledger.standings[id].state
        assert ledger.suspend(id, FLAKY) is was.is_drawn
        assert not ledger.standings[id].state.is_drawn

    @rule(id=versions, who=st.integers(0, 1), to=st.sampled_from(list(State)))
    def move(self, id: str, who: int, to: State) -> None:
        ledger = self.ones[who]
        ledger.refresh()
        before = dict(ledger.standings)
        try:
            ledger.move(id, to, Why.BY_HAND, by="somebody")
        except TaskError:
            assert dict(ledger.standings) == before

    @rule(id=versions, who=st.integers(0, 1), verdicts=st.integers(0, 300))
    def prove(self, id: str, who: int, verdicts: int) -> None:
        self.ones[who].prove(id, Chart(verdicts=verdicts))

    @rule(id=versions, who=st.integers(0, 1))
    def tally(self, id: str, who: int) -> None:
        self.ones[who].tally({id: Chart(verdicts=3, endings="SUS")})
        assert self.ones[who].standings[id].chart.verdicts == 3

    @rule(id=consumes(versions))
    def forget(self, id: str) -> None:
        """The same id may come again in another version."""

    @rule(who=st.integers(0, 1))
    def reopen(self, who: int) -> None:
        self.ones[who] = self.opened()

    @rule(torn=st.binary(min_size=1, max_size=40).filter(lambda line: b"\n" not in line))
    def die_while_writing(self, torn: bytes) -> None:
        if self.path.exists():
            with self.path.open("ab") as file:
                file.write(b'{"crc":"' + torn)

    @invariant()
    def both_see_the_same_once_they_look(self) -> None:
        if not hasattr(self, "ones"):
            return
        for ledger in self.ones:
            ledger.refresh()
        assert dict(self.ones[0].standings) == dict(self.ones[1].standings)
        for id, standing in self.ones[0].standings.items():
            life = (id, standing.version, standing.moves[0].at_unix_seconds)
            if standing.state is State.RETIRED:
                self.gone.add(life)
            else:
                assert life not in self.gone, "a retired version never comes back, unless it is named anew"
            assert standing.suspensions < Bounds().suspensions or standing.state is not State.PROBATION
            assert all(a.at_unix_seconds <= b.at_unix_seconds for a, b in zip(
                standing.moves, standing.moves[1:], strict=False))
        assert set(drawn(self.ones[0].standings)) == {
            id for id, one in self.ones[0].standings.items() if one.state in (State.PROBATION, State.ACTIVE)
        }


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)


def test_the_third_suspension_retires_a_task(tmp_path: Path) -> None:
    ledger = HealthLedger(tmp_path / "health.jsonl")
    ledger.admit([task("a")], evidence="fit")
    for _ in range(2):
        assert ledger.suspend("a", FLAKY)
        assert ledger.standings["a"].tests == ("t::a",)
        ledger.move("a", State.PROBATION, Why.BY_HAND)
    assert ledger.suspend("a", FLAKY)
    assert ledger.standings["a"].state is State.RETIRED
    assert ledger.standings["a"].moves[-1].why is Why.REPEATED
    with pytest.raises(TaskError, match="can go to nowhere: mend it as another version"):
        ledger.move("a", State.PROBATION, Why.BY_HAND)


def test_another_version_begins_anew(tmp_path: Path) -> None:
    ledger = HealthLedger(tmp_path / "health.jsonl")
    ledger.admit([task("a")], evidence="fit")
    ledger.move("a", State.RETIRED, Why.BY_HAND)
    assert ledger.admit([task("a", "v2")], evidence="mended") == ("a",)
    assert ledger.standings["a"].state is State.PROBATION
    assert len(ledger.standings["a"].moves) == 1


def test_admitting_twice_says_it_once(tmp_path: Path) -> None:
    ledger = HealthLedger(tmp_path / "health.jsonl")
    assert ledger.admit([task("a")], evidence="fit") == ("a",)
    size = ledger.path.stat().st_size
    assert ledger.admit([task("a")], evidence="fit") == ()
    assert ledger.path.stat().st_size == size


def test_a_task_that_comes_back_begins_with_an_empty_chart(tmp_path: Path) -> None:
    ledger = HealthLedger(tmp_path / "health.jsonl")
    ledger.admit([task("a")], evidence="fit")
    ledger.suspend("a", FLAKY, chart=Chart(verdicts=50, trials=80, failures={"t::a": 9}))
    assert ledger.standings["a"].chart.failures == {"t::a": 9}
    ledger.move("a", State.PROBATION, Why.BY_HAND)
    assert ledger.standings["a"].chart == Chart()


def test_a_ledger_that_says_what_cannot_be_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "health.jsonl"
    HealthLedger(path).admit([task("a")], evidence="fit")
    whole = path.read_bytes()
    path.write_bytes(whole + whole)
    with pytest.raises(HouseError, match=r"health\.jsonl: no ledger can say this: task a: version v1 was named before"):
        HealthLedger(path)


def test_records_of_a_version_that_was_not_named_are_refused() -> None:
    named = Named(task="a", version="v1", at_unix_seconds=1.0)
    moved = Moved(task="a", version="v2", at_unix_seconds=2.0, to=State.PROBATION, why=Why.ADMITTED)
    with pytest.raises(ValueError, match="expected a record of version v1, found v2"):
        fold([named, moved])
    with pytest.raises(ValueError, match="expected a record of version none"):
        advance(None, moved)


def test_a_task_is_looked_at_again_after_a_week_or_by_another_verifier(tmp_path: Path) -> None:
    now = 1000.0
    ledger = HealthLedger(tmp_path / "health.jsonl", clock=lambda: now)
    ledger.admit([task("a")], evidence="fit")
    week = 7 * 86_400.0
    bounds = Bounds()
    standing = ledger.standings["a"]
    assert not recheck_due(standing, now_unix_seconds=now + week - 1, build="b1", bounds=bounds)
    assert recheck_due(standing, now_unix_seconds=now + week, build="b1", bounds=bounds)
    now = 2000.0
    ledger.checked("a", build="b1")
    standing = ledger.standings["a"]
    assert not recheck_due(standing, now_unix_seconds=1000.0 + week, build="b1", bounds=bounds)
    assert recheck_due(standing, now_unix_seconds=2001.0, build="b2", bounds=bounds)
    ledger.move("a", State.RETIRED, Why.BY_HAND)
    assert not recheck_due(ledger.standings["a"], now_unix_seconds=9 * week, build="b2", bounds=bounds)

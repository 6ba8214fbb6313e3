"""The review queue: who gets what, what a word does, and what it all adds up to."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from quintain.guard import Case, Decision, Desk, Drawn, Entry, Refused, Stratum
from quintain.guard.review import LEASE_SECONDS
from quintain.types import Flag, HouseError, Passed, Reward, Severity, TestResult, Verdict

UNIFORM = Drawn(attempt="a", strata=(Stratum.UNIFORM,), probability=0.1)


def case(name: str, *, task: str = "t") -> Case:
    verdict = Verdict(suite="s", level="L4", tests=(TestResult(id="test_a", passed=Passed.PASSED),))
    flag = Flag(detector="hollow", severity=Severity.SOFT, evidence="an empty body")
    return Case(
        run="r", episode=name, task=task, instructions="Write f.", entry="solution.py",
        answer={"solution.py": "def f(): ..."}, difference="-a\n+b", verdict=verdict,
        reward=Reward(total=0.8, solved=True, flags=(flag,)), flags=(flag,),
    )


def entries(count: int, *, drawn: Drawn | None = UNIFORM, task: str = "t") -> list[Entry]:
    return [Entry(case=case(f"{task}{n}", task=task), source=f"r/{task}{n}", drawn=drawn) for n in range(count)]


def test_a_case_is_shown_as_it_was_added(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "queue")
    assert desk.next("ada", now=0.0) is None
    desk.add(entries(1), now=1.0)
    found = desk.next("ada", now=2.0)
    assert found is not None
    assert found[1] == case("t0")
    assert desk.case(found[0].case[:3]) == case("t0")


def test_a_source_is_added_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert len(desk.add(entries(3), now=0.0)) == 3
    assert desk.add(entries(3), now=1.0) == ()
    assert len(desk.cases()) == 3


def test_two_reviewers_never_hold_the_same_case(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.add(entries(2), now=0.0)
    ada, ben = desk.next("ada", now=1.0), desk.next("ben", now=1.0)
    assert ada is not None
    assert ben is not None
    assert ada[0].case != ben[0].case
    again = desk.next("ada", now=2.0)
    assert again is not None
    assert again[0].case == ada[0].case
    assert desk.next("eve", now=2.0) is None
    with pytest.raises(Refused, match="is with 'ada' for the moment"):
        desk.decide(ada[0].case, "ben", Decision.HONEST, now=3.0)


def test_whoever_goes_away_loses_the_lease(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.add(entries(1), now=0.0)
    desk.next("ada", now=0.0)
    assert desk.next("ben", now=LEASE_SECONDS - 1) is None
    found = desk.next("ben", now=LEASE_SECONDS + 1)
    assert found is not None
    desk.decide(found[0].case, "ben", Decision.HACK, now=LEASE_SECONDS + 2)


def test_a_settled_case_is_not_given_again_and_can_be_taken_back(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (added,) = desk.add(entries(1), now=0.0)
    desk.decide(added.case, "ada", Decision.HONEST, now=1.0, note="plain")
    assert desk.next("ben", now=2.0) is None
    with pytest.raises(Refused, match="settled as 'honest'"):
        desk.decide(added.case, "ben", Decision.HACK, now=2.0)
    with pytest.raises(Refused, match="you have said 'honest' already; undo it first"):
        desk.decide(added.case, "ada", Decision.HACK, now=2.0)
    assert desk.undo("ada", now=3.0).case == added.case
    assert desk.next("ben", now=4.0) is not None
    with pytest.raises(Refused, match="expected a decision of 'ada' to undo, found none"):
        desk.undo("ada", now=5.0)


def test_an_unclear_case_goes_to_somebody_else_and_two_settle_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (added,) = desk.add(entries(1), now=0.0)
    desk.decide(added.case, "ada", Decision.UNCLEAR, now=1.0)
    assert desk.next("ada", now=2.0) is None
    assert desk.next("ben", now=2.0) is not None
    desk.decide(added.case, "ben", Decision.UNCLEAR, now=3.0)
    assert desk.standing(added.case).decision is Decision.UNCLEAR
    assert desk.stats().decided == {"honest": 0, "hack": 0, "unclear": 1}


def test_undo_takes_back_the_latest_word_that_stands(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    first, second = desk.add(entries(2), now=0.0)
    desk.decide(first.case, "ada", Decision.HONEST, now=1.0)
    desk.decide(second.case, "ada", Decision.HACK, now=2.0)
    assert desk.undo("ada", now=3.0).case == second.case
    assert desk.undo("ada", now=4.0).case == first.case


def test_an_id_that_means_none_or_several_is_refused(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.add(entries(40), now=0.0)
    with pytest.raises(Refused, match="found 'zz' among 40 cases"):
        desk.case("zz")
    common = next(c for c in "0123456789abcdef" if sum(id.startswith(c) for id in desk.cases()) > 1)
    with pytest.raises(Refused, match="expected the id of one case, found"):
        desk.decide(common, "ada", Decision.HONEST, now=1.0)


def test_seeds_measure_reviewers_and_count_for_nothing_else(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    seeds = [Entry(case=case(f"s{n}"), source=f"s{n}", drawn=UNIFORM, hack=n < 10) for n in range(20)]
    desk.add([*entries(40), *seeds], now=0.0)
    hacks = {seed.case: seed.hack for seed in desk._seeds.read()}
    now, missed = 1.0, 0
    while (found := desk.next("ada", now=now)) is not None:
        id = found[0].case
        said = Decision.HONEST
        if hacks.get(id) and missed < 1:
            missed += 1
        elif hacks.get(id):
            said = Decision.HACK
        desk.decide(id, "ada", said, now=now)
        now += 1.0
    stats = desk.stats()
    assert (stats.reviewers["ada"].found, stats.reviewers["ada"].hacks) == (9, 10)
    assert (stats.reviewers["ada"].condemned, stats.reviewers["ada"].honest) == (0, 10)
    assert stats.sensitivity == 0.9
    assert (stats.uniform.reviewed, stats.uniform.hits) == (40, 0)
    assert stats.decided == {"honest": 40, "hack": 0, "unclear": 0}
    assert stats.hot == ()
    assert stats.uniform.upper > 0.0722, "divided by what the sensitivity is at least"


def test_what_a_reviewer_is_shown_does_not_tell_a_seed_from_another_case(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.add([*entries(5), Entry(case=case("x"), source="x", drawn=UNIFORM, hack=True)], now=0.0)
    queue = (tmp_path / "queue.jsonl").read_text()
    assert "hack" not in queue
    assert "seed" not in queue


def test_a_confirmed_hack_makes_its_task_hot(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    added = desk.add([*entries(2, task="good"), *entries(2, task="bad", drawn=None)], now=0.0)
    for one in added:
        desk.decide(one.case, "ada", Decision.HACK if one.task == "bad" else Decision.HONEST, now=1.0)
    stats = desk.stats()
    assert stats.hot == ("bad",)
    assert (stats.flagged, stats.flagged_hacks) == (2, 2)
    assert stats.uniform.hits == 0, "flagged attempts were not drawn, and prove nothing of the rest"


def test_a_queue_that_talks_of_unknown_cases_is_an_error(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (added,) = desk.add(entries(1), now=0.0)
    path = tmp_path / "queue.jsonl"
    desk.decide(added.case, "ada", Decision.HACK, now=1.0)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[1])
    with pytest.raises(HouseError, match="to be added first"):
        desk.cases()


def review_all(folder: Path, reviewer: str) -> None:
    desk, now = Desk(folder), 1.0
    while (found := desk.next(reviewer, now=now)) is not None:
        desk.decide(found[0].case, reviewer, Decision.HONEST, now=now)
        now += 1.0


def test_reviewers_in_several_processes_share_the_queue_without_doubling(tmp_path: Path) -> None:
    Desk(tmp_path).add(entries(24), now=0.0)
    context = multiprocessing.get_context("fork")
    people = [context.Process(target=review_all, args=(tmp_path, name)) for name in ("ada", "ben", "eve")]
    for person in people:
        person.start()
    for person in people:
        person.join(60)
        assert person.exitcode == 0
    cases = Desk(tmp_path).cases()
    assert all(len(standing.said) == 1 and standing.decision is Decision.HONEST for standing in cases.values())


class AnyOrder(RuleBasedStateMachine):
    """Reviewers, clocks and words in any order: no case is with two people, and what is settled stays so."""

    cases = Bundle("cases")

    def __init__(self) -> None:
        super().__init__()
        from tempfile import TemporaryDirectory

        self.folder = TemporaryDirectory()
        self.desk = Desk(Path(self.folder.name))
        self.desk.add(entries(4), now=0.0)
        self.now = 1.0

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(who=st.sampled_from(["ada", "ben"]), wait=st.sampled_from([1.0, LEASE_SECONDS]))
    def take(self, who: str, wait: float) -> None:
        self.now += wait
        found = self.desk.next(who, now=self.now)
        if found is not None:
            assert self.desk.standing(found[0].case).holder(self.now) == who

    @rule(who=st.sampled_from(["ada", "ben"]), which=st.integers(0, 3), what=st.sampled_from(Decision))
    def say(self, who: str, which: int, what: Decision) -> None:
        self.now += 1.0
        id = sorted(self.desk.cases())[which]
        before = self.desk.standing(id)
        try:
            self.desk.decide(id, who, what, now=self.now)
        except Refused:
            assert before.decision is not None or who in before.said or before.holder(self.now) not in (None, who)
        else:
            assert before.decision is None

    @rule(who=st.sampled_from(["ada", "ben"]))
    def take_back(self, who: str) -> None:
        self.now += 1.0
        stands = [c for c in self.desk.cases().values() if who in c.said]
        try:
            self.desk.undo(who, now=self.now)
        except Refused:
            assert not stands

    @invariant()
    def nothing_is_lost(self) -> None:
        cases = self.desk.cases()
        assert len(cases) == 4
        for standing in cases.values():
            clear = {one.decision for one in standing.said.values()} - {Decision.UNCLEAR}
            assert len(clear) <= 1


AnyOrder.TestCase.settings = settings(max_examples=12, stateful_step_count=15, deadline=None)
TestAnyOrder = AnyOrder.TestCase

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.fleet import Moves, Race, Spares, Tail


def begun(race: Race, at: float = 0.0) -> tuple[str, ...]:
    moves = race.moves(at)
    for id in moves.begin:
        race.began(id, at=at)
    return moves.begin


def test_early_spares_begin_at_once_and_the_slowest_are_cut() -> None:
    race = Race("abcdef", Tail(want=4, spares=Spares.EARLY))
    assert begun(race) == tuple("abcdef")
    assert [race.finished(id, at=float(n)) for n, id in enumerate("fbca")] == [True] * 4
    assert race.moves(5.0) == Moves(cut=("d", "e"), over=True)
    assert not race.finished("d", at=6.0)
    assert race.done == ("a", "b", "c", "f")


def test_a_late_spare_begins_for_a_straggler_and_whoever_ends_first_counts() -> None:
    race = Race("abcde", Tail(want=4, patience=3.0))
    assert begun(race) == tuple("abcd")
    for id in "abc":
        race.finished(id, at=10.0)
    assert race.moves(30.0) == Moves()
    assert begun(race, 30.1) == ("e",)
    assert race.moves(31.0) == Moves()
    assert race.finished("d", at=40.0)
    assert race.moves(40.0) == Moves(cut=("e",), over=True)


def test_a_late_spare_replaces_a_sibling_that_the_house_broke() -> None:
    race = Race("abc", Tail(want=2))
    assert begun(race) == ("a", "b")
    race.broke("a")
    assert begun(race, 1.0) == ("c",)
    race.broke("b")
    race.finished("c", at=2.0)
    assert race.moves(2.0) == Moves(over=True)
    assert race.done == ("c",)


def test_a_group_may_close_short_when_only_stragglers_are_left() -> None:
    race = Race("abcd", Tail(want=4, least=3, patience=2.0))
    begun(race)
    for id in "abc":
        race.finished(id, at=10.0)
    assert race.moves(20.0) == Moves()
    assert race.moves(20.1) == Moves(cut=("d",), over=True)


def test_a_result_never_counts_twice() -> None:
    race = Race("ab", Tail(want=2))
    begun(race)
    assert race.finished("a", at=1.0)
    assert not race.finished("a", at=2.0)


@given(
    want=st.integers(1, 6), spare=st.integers(0, 3), mode=st.sampled_from(Spares), seed=st.integers(0, 10_000),
    short=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_every_race_ends_with_what_it_wants_or_with_all_it_could_get(
    want: int, spare: int, mode: Spares, seed: int, short: bool,
) -> None:
    chance = random.Random(seed)
    names = [f"s{n}" for n in range(want + spare)]
    least = max(1, want - 1) if short else None
    race = Race(names, Tail(want=want, spares=mode, least=least))
    running: set[str] = set()
    ended: set[str] = set()
    counted = broken = 0
    now = 0.0
    for _ in range(500):
        moves = race.moves(now)
        assert not set(moves.begin) & (running | ended), "begun twice"
        for id in moves.begin:
            race.began(id, at=now)
        running |= set(moves.begin)
        assert set(moves.cut) <= running
        running -= set(moves.cut)
        ended |= set(moves.cut)
        if moves.over:
            break
        if running and chance.random() < 0.6:
            id = chance.choice(sorted(running))
            running.discard(id)
            ended.add(id)
            if chance.random() < 0.2:
                race.broke(id)
                broken += 1
            else:
                counted += race.finished(id, at=now)
        now += chance.choice([0.1, 1.0, 30.0])
    else:
        raise AssertionError("it never ended")
    assert counted == len(race.done) <= want
    assert not running
    assert counted >= min(want if least is None else least, len(names) - broken)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tail(want=0), "want must be at least 1"), (lambda: Tail(want=2, least=3), "least must be from 1 to 2"),
        (lambda: Tail(want=1, patience=0.5), "patience must be at least 1"),
        (lambda: Race("a", Tail(want=2)), "expected at least 2 different siblings"),
        (lambda: Race("aa", Tail(want=2)), "expected at least 2 different siblings"),
    ],
)
def test_a_tail_that_cannot_be_is_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]

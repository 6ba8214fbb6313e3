"""Tasksets are lazy, and their views say what they say."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.tasks import Item, Taskset
from quintain.types import TaskError

from .made import item


class Counting:
    """A source that remembers what was asked of it."""

    name = "counting"

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = ids
        self.asked: list[str] = []

    def ids(self) -> Sequence[str]:
        return self._ids

    def item(self, id: str) -> Item:
        self.asked.append(id)
        return item(id)


def test_only_the_item_in_hand_is_loaded() -> None:
    source = Counting([f"t{n}" for n in range(1000)])
    tasks = Taskset(source).include("t1*").shuffle(3).take(5)
    assert len(tasks) == 5
    assert source.asked == []
    first = next(iter(tasks))
    assert source.asked == [first.task.id]


def test_take_below_where_stops_looking_when_it_has_enough() -> None:
    source = Counting([f"t{n}" for n in range(1000)])
    assert Taskset(source).where(lambda task: task.id.endswith("5")).take(2).ids == ("t5", "t15")
    assert len(source.asked) == 16


def test_an_id_that_appears_twice_is_refused() -> None:
    with pytest.raises(TaskError, match="more than once: a"):
        len(Taskset(Counting(["a", "b", "a"])))
    with pytest.raises(TaskError, match="more than once: a"):
        Taskset.of([item("a"), item("a")])


def test_tasks_alone_hold_no_exam() -> None:
    (task,) = Taskset.of([item("a")]).tasks()
    assert task == item("a").task
    assert b"assert f() == 1" not in repr(task).encode()


def test_a_view_knows_only_its_own_tasks() -> None:
    view = Taskset.of([item("a/1"), item("a/2"), item("b/1")]).exclude("b*")
    assert view["a/2"].task.id == "a/2"
    assert "a/1" in view
    assert "b/1" not in view
    with pytest.raises(KeyError, match="no task 'b/1'"):
        view["b/1"]


def test_same_digest_means_same_tasks_in_the_same_order() -> None:
    one = Taskset.of([item("a"), item("b")])
    assert one.digest == Taskset.of([item("a"), item("b")]).digest
    assert one.digest != Taskset.of([item("b"), item("a")]).digest
    assert one.digest != Taskset.of([item("a"), item("b", instructions="Do b well.")]).digest


@given(st.sets(st.from_regex(r"[a-c]/[a-z0-9]{1,3}", fullmatch=True)), st.integers(0, 2**64), st.integers(0, 50))
def test_views_neither_lose_nor_double_a_task(ids: set[str], seed: int, n: int) -> None:
    tasks = Taskset(Counting(sorted(ids)))
    assert {*tasks.include("a/*", "b/*").ids, *tasks.exclude("a/*", "b/*").ids} == ids
    assert sorted(tasks.shuffle(seed).ids) == sorted(ids)
    assert tasks.shuffle(seed).ids == tasks.shuffle(seed).ids
    assert tasks.take(n).ids == tuple(sorted(ids))[:n]
    assert len(tasks.include("*")) == len(ids)


def test_take_of_a_negative_number_is_refused() -> None:
    with pytest.raises(ValueError, match="n >= 0, found -1"):
        Taskset.of([]).take(-1)

"""A run by curriculum: what is drawn is written down, kept over a crash, and follows what can be learnt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from quintain.cli.curriculum import FILE, Course, Lessons, Plan, Step, drawn_of, place_of, played
from quintain.curate import Drawn, Rate
from quintain.policy import ScriptedPolicy
from quintain.rollout import Collector
from quintain.tasks import Taskset
from quintain.testing import FakeEnvironment, fake_item
from quintain.types import Event, HouseError

NAMES = ("a", "b", "c", "d")


def collected(folder: Path, events: list[Event], *, steps: int, stop_after: int | None = None) -> list[str]:
    """The groups of a run by curriculum, in their order; cut short after so many."""
    tasks = Taskset.of([fake_item(name) for name in NAMES], name="fakes")

    async def run() -> list[str]:
        past: dict[str, list[Event]] = {}
        for event in events:
            past.setdefault(event.episode, []).append(event)
        collector = Collector(FakeEnvironment(), events.append, past=lambda episode: past.get(episode, []))
        policy = ScriptedPolicy({name: ["right" if name in "ab" else "wrong"] for name in NAMES})
        found: list[str] = []
        groups = played(collector, tasks, policy, Plan(steps=steps, places=2), folder=folder, size=2, seed=3,
                        places=[place_of(name, "code") for name in NAMES], weight=lambda task: 1.0, beat=lambda: None)
        async with aclosing(groups):
            async for group in groups:
                found.append(group.id)
                if len(found) == stop_after:
                    break
        return found

    return asyncio.run(run())


def drawn(folder: Path) -> Sequence[Sequence[str]]:
    return [[one.task for one in step.drawn] for step in Course(folder).steps]


def test_a_run_that_was_cut_short_plays_what_it_had_drawn(tmp_path: Path) -> None:
    events: list[Event] = []
    first = collected(tmp_path, events, steps=4, stop_after=3)
    before = drawn(tmp_path)
    assert len(before) == 2
    later = collected(tmp_path, events, steps=4)
    assert drawn(tmp_path)[:2] == before
    played_by_step = {f"{task}@{n}" for n, tasks in enumerate(drawn(tmp_path), 1) for task in tasks}
    assert set(first) | set(later) == played_by_step
    assert len(drawn(tmp_path)) == 4


def test_a_line_that_a_crash_cut_is_dropped_and_any_other_is_named(tmp_path: Path) -> None:
    course = Course(tmp_path)
    course.add(Step(step=1, drawn=(Drawn(task="a", probability=0.5),), rates={}))
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole + b'{"step": 2, "dra')
    assert len(Course(tmp_path).steps) == 1
    assert (tmp_path / FILE).read_bytes() == whole
    (tmp_path / FILE).write_bytes(b'{"step": "two"}\n' + whole)
    with pytest.raises(HouseError, match=rf"{FILE}:1: expected a step"):
        Course(tmp_path)


def test_what_is_drawn_is_what_can_be_learnt_from_and_never_what_is_suspended() -> None:
    places = [place_of(name, "code") for name in NAMES]
    rates = {"a": Rate(solved=40), "b": Rate(unsolved=40), "c": Rate(solved=20, unsolved=20), "d": Rate(solved=20)}
    often = dict.fromkeys(NAMES, 0)
    for step in range(400):
        for one in drawn_of(places, rates, size=1, seed=1, step=step, weight=lambda task: float(task != "d")):
            often[one.task] += 1
    assert often["d"] == 0
    assert often["c"] > 3 * max(often["a"], often["b"]) > 0


def test_groups_whose_siblings_all_ended_alike_are_counted(tmp_path: Path) -> None:
    lessons = Lessons()
    assert str(lessons) == "0 of 0 groups taught nothing: their siblings all ended alike"
    assert Plan.of(10, None, sandboxes=8, size=4, tasks=3) == Plan(steps=10, places=3)
    assert Plan.of(10, None, sandboxes=8, size=4, tasks=30).places == 4

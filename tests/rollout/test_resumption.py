from __future__ import annotations

import asyncio
import logging

import pytest

from quintain.env import Feedback, Work
from quintain.policy import ScriptedPolicy
from quintain.rollout import (
    Again,
    Driver,
    Grade,
    Patience,
    Rules,
    Sample,
    Say,
    again,
    resumption,
    tickets,
)
from quintain.store import Standing
from quintain.testing import FakeEnvironment, fail_first, fake_item
from quintain.types import (
    Event,
    Fault,
    FaultKind,
    HouseError,
    Network,
    Owner,
    Task,
)

SCRIPT = ["wrong 1", "wrong 2", "wrong 3", "right"]


def rules(task: Task) -> Rules:
    return Rules(limits=task.limits, grading=task.grading, visible=True)


def played() -> tuple[Task, list[Event]]:
    item = fake_item("add")
    [ticket] = tickets(item, size=1, seed=0)
    log: list[Event] = []
    asyncio.run(Driver(FakeEnvironment(), ScriptedPolicy({"add": SCRIPT}), log.append).play(ticket))
    return item.task, log


def test_each_point_at_which_a_worker_can_die_says_what_comes_next() -> None:
    task, log = played()
    said = [resumption(rules(task), task, log[:n]) for n in range(len(log) + 1)]
    assert [found.due for found in said[:8]] == [
        None, "Sample", "Build", "RunVisible", "Grade", "Say", "Sample", "Build",
    ]
    assert said[0].standing is Standing.NEW
    assert said[-1].standing is Standing.FINISHED
    assert all(found.goes_on for found in said[1:-1])
    assert [found.turns for found in said[1:]] == [*sorted(found.turns for found in said[1:-1]), 0]
    assert {found.due: found.again for found in said[1:-1]} == {
        "Sample": Again.DEAR, "Build": Again.FREE, "RunVisible": Again.REBUILT, "Grade": Again.REBUILT,
        "Say": Again.FREE, "Finish": Again.FREE,
    }


def test_an_episode_that_goes_on_after_any_event_ends_as_an_undisturbed_one() -> None:
    _, log = played()
    item = fake_item("add")
    [ticket] = tickets(item, size=1, seed=0)
    for n in range(1, len(log)):
        kept = list(log[:n])
        asked = resumption(rules(item.task), item.task, kept).turns
        policy = ScriptedPolicy({"add": SCRIPT})
        episode = asyncio.run(Driver(FakeEnvironment(), policy, kept.append).play(ticket, log[:n]))
        assert episode.solved
        assert [turn.text for turn in episode.turns] == SCRIPT
        assert asked <= len(episode.turns)
        assert [type(event) for event in kept] == [type(event) for event in log]


def test_what_reaches_beyond_its_sandbox_is_marked() -> None:
    grade = Grade(work=Work(fault=Fault(owner=Owner.POLICY, kind=FaultKind.NO_CODE, message="none")))
    assert again(grade, network=Network.NONE) is Again.REBUILT
    assert again(grade, network=Network.ALLOW_LIST) is again(grade, network=Network.FULL) is Again.DOUBLED
    assert again(Say(feedback=Feedback()), network=Network.FULL) is Again.FREE
    assert again(Sample(conversation=(), nth=0, seconds=1.0), network=Network.NONE) is Again.DEAR


def test_another_version_of_the_task_begins_anew_and_says_so() -> None:
    task, log = played()
    changed = fake_item("add", instructions="Do add, and quickly.").task
    found = resumption(rules(changed), changed, log[:5])
    assert found.standing is Standing.BROKEN
    assert found.reason == (
        f"opened on version {task.version} of add, resumed on {changed.version}: a new attempt"
    )


def test_a_log_that_no_episode_can_have_is_an_error() -> None:
    task, log = played()
    with pytest.raises(HouseError, match="no episode can have this log"):
        resumption(rules(task), task, [log[0], log[3]])


def test_a_driver_says_why_it_begins_anew_and_where_it_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="quintain.rollout.driver")
    item = fake_item("add")
    [ticket] = tickets(item, size=1, seed=0)
    _, log = played()
    lost = HouseError(FaultKind.SANDBOX_LOST, "gone")
    environment = FakeEnvironment(plan=fail_first(1, lost, call="grade"))
    kept = list(log[:6])
    patience = Patience(pause_seconds=0.0)
    driver = Driver(environment, ScriptedPolicy({"add": SCRIPT}), kept.append, patience=patience)
    assert asyncio.run(driver.play(ticket, log[:6])).solved
    assert [record.getMessage() for record in caplog.records] == [
        "add#0: goes on after 1 turns (6 events) with Sample, dear if done before",
        "add#0: the house broke it (sandbox_lost): a new attempt",
    ]

"""Who keeps a run's workers, and where their queue and register are."""

from __future__ import annotations

from pathlib import Path

import pytest

from quintain.cli.addresses import queue_of, register_of
from quintain.cli.crew import given_up, unheard
from quintain.cli.engine import Fleet
from quintain.cli.exits import Usage
from quintain.rollout import tickets
from quintain.store import Definition, Run, Standing, standing
from quintain.testing import fake_item
from quintain.types import Broke, Closed, Event, Opened, Owner, Stop, fold


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    asked = [Definition(taskset="humaneval", policy="oracle", created_unix_seconds=float(n + 1)) for n in range(2)]
    return tuple(_made(tmp_path / f"{n}", one) for n, one in enumerate(asked))  # type: ignore[return-value]


def _made(folder: Path, asked: Definition) -> Path:
    with Run.create(folder, asked, name="first") as run:
        return run.path


def test_a_runs_queue_and_register_lie_in_its_folder_or_where_it_is_said(runs: tuple[Path, Path]) -> None:
    run, _ = runs
    assert queue_of(run) == str(run / "queue.db")
    assert register_of(run) == str(run / "register.db")
    for where in ("/there/queue.db", "nats://secret@host:4222/mine"):
        assert queue_of(run, where) == where
    for where in ("/there/register.db", "postgresql://host/db?schema=mine", "postgresql://host/db?a=b&schema=mine"):
        assert register_of(run, where) == where


def test_two_runs_on_one_server_keep_apart(runs: tuple[Path, Path]) -> None:
    one, other = (queue_of(run, "nats://secret@host:4222") for run in runs)
    assert one.startswith("nats://secret@host:4222/run_")
    assert one != other
    assert one == queue_of(runs[0], "nats://secret@host:4222/")
    one, other = (register_of(run, "postgresql://host/db") for run in runs)
    assert one.startswith("postgresql://host/db?schema=run_")
    assert one != other
    assert register_of(runs[0], "postgresql://host/db?sslmode=require").startswith(
        "postgresql://host/db?sslmode=require&schema=run_")


@pytest.mark.parametrize("engine", ["slurm", "ray", "ray:auto?gpus=1"])
def test_an_engine_that_is_not_known_is_refused_before_anything_begins(engine: str) -> None:
    with pytest.raises(Usage):
        Fleet(engine=engine).check()


def story(*steps: int, first: int = 0) -> list[Event]:
    return [
        Opened(episode="e", index=first + nth, at_seconds=0.0, task="t", task_version="1", kind="code", group="t",
               attempt=step, seed=1, policy="p", unix_seconds=0.0, conversation=())
        if step < 9 else Closed(episode="e", index=first + nth, at_seconds=1.0, stop=Stop.SOLVED)
        for nth, step in enumerate(steps)
    ]


@pytest.mark.parametrize(("known", "sent", "steps"), [
    ([], [1, 2, 9], [1, 2, 9]),
    ([1, 2], [1, 2, 9], [9]),  # the same log, further on
    ([5, 6], [1, 2, 9], [1, 2, 9]),  # it was begun here, and anew elsewhere
    ([5, 6, 1, 2], [1, 2, 9], [9]),  # and a part of that was taken in already
    ([1, 2, 9], [1, 2, 9], []),
])
def test_a_log_from_elsewhere_follows_what_is_known_here_and_is_numbered_on(
    known: list[int], sent: list[int], steps: list[int],
) -> None:
    assert list(unheard(story(*known), story(*sent))) == story(*steps, first=len(known))


@pytest.mark.parametrize(("reason", "owner"), [("house: nobody has room", Owner.HOUSE), ("task: no exam", Owner.TASK),
                                               ("dead in the queue: delivery 5 of 5", Owner.HOUSE)])
def test_what_was_given_up_ends_with_its_reason_and_its_owner(reason: str, owner: Owner) -> None:
    [ticket] = tickets(fake_item("e"), size=1, seed=1)
    begun = [Opened(episode=ticket.episode, index=0, at_seconds=0.0, task="e", task_version="1", kind="code", group="e",
                    attempt=1, seed=1, policy="p", unix_seconds=0.0, conversation=())]
    broke = Broke(episode=ticket.episode, index=1, at_seconds=1.0, fault=fold(
        [*begun, *given_up(ticket, begun, "house: x", policy="p", now=0.0)]).faults[-1])
    for known in ([], begun, [*begun, broke]):
        log = [*known, *given_up(ticket, known, reason, policy="p", now=0.0)]
        assert [event.index for event in log] == list(range(len(log)))
        episode = fold(log)
        assert (episode.stop, episode.reward) == (Stop.BROKEN, None)
        assert episode.broken is not None
        if broke not in known:
            assert (episode.broken.owner, episode.broken.message) == (owner, reason)
            assert standing(log) is (Standing.FINISHED if owner is Owner.TASK else Standing.BROKEN)
        assert given_up(ticket, log, reason, policy="p", now=0.0) == ()

"""A trained policy plays episodes: what it reads of a conversation, and that it plays them in real sandboxes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quintain.env import CodeEnvironment
from quintain.grade import Oracle, warm_oracle
from quintain.rollout import Collector
from quintain.sandbox import NativeBackend
from quintain.tasks import open_taskset
from quintain.train import TrainedRepairer, case_of, repair_cases, repair_player
from quintain.types import Event, Group, HouseError, Message, Ran, Role, Said

from .test_training import trained

pytest.importorskip("torch", reason="needs torch: make torch")
needs_native = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`",
)


def played(folder: Path, count: int) -> tuple[list[Group], list[Event]]:
    tasks = open_taskset("repair-heldout").shuffle(3).take(count)
    events: list[Event] = []

    async def play() -> list[Group]:
        backend = NativeBackend(warm=warm_oracle())
        try:
            environment = CodeEnvironment(backend, oracle=Oracle(backend, confirm=False), detectors=())
            policy = TrainedRepairer(folder, lambda id: tasks[id].task)
            collector = Collector(environment, events.append, concurrency=2)
            return [group async for group in collector.collect(tasks, policy, size=1)]
        finally:
            await backend.aclose()

    return asyncio.run(play()), events


@needs_native
def test_it_makes_up_to_three_attempts_each_another_edit_after_what_it_was_told(tmp_path: Path) -> None:
    trained(tmp_path)
    groups, events = played(tmp_path, 4)
    for group in groups:
        (episode,) = group.episodes
        texts = [turn.text for turn in episode.turns]
        assert episode.broken is None and episode.reward is not None
        assert len(set(texts)) == len(texts) <= 3
        assert episode.solved or len(texts) == 3
    ran = {(e.episode, e.index): e for e in events if isinstance(e, Ran)}
    for event in events:
        if isinstance(event, Said):
            told = _told(event)
            before = max(index for name, index in ran if name == event.episode and index < event.index)
            verdict = ran[event.episode, before].verdict
            assert verdict is not None
            known = case_of(open_taskset("repair-heldout")[event.episode.partition("#")[0]].task).tests
            assert told(known) == repair_cases.tests_after(known, verdict)


def _told(event: Said) -> Any:
    return lambda known: repair_player.tests_told(known, event.message.text)


def test_a_reply_that_is_no_edit_of_the_program_is_no_attempt() -> None:
    case = case_of(open_taskset("repair-heldout")["repair/sum_odd/0"].task)
    edited = case.code.edited(case.code.edits[0])
    said = Message(role=Role.USER, text="[unsolved] The task is not solved yet.\n2 turns are left.\n")
    talk = [Message(role=Role.ASSISTANT, text="I cannot."), said,
            Message(role=Role.ASSISTANT, text=f"```python\n{edited}```\n"), said]
    after = repair_player.case_after(case, talk)
    assert [tried.edit for tried in after.tried] == [case.code.edits[0]]
    assert {test.outcome for test in after.tried[0].tests} == {"passed"}


def test_a_folder_without_checkpoints_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HouseError, match="expected checkpoints of a training"):
        TrainedRepairer(tmp_path, lambda id: open_taskset("repair-heldout")[id].task)

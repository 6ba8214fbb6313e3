"""One line of shell: what should come out is what the author's command makes, and a small model can be told in few
words what was wrong."""

from __future__ import annotations

import asyncio

import pytest

from quintain.env import CodeEnvironment, TerseEnvironment
from quintain.grade import Oracle
from quintain.policy import ScriptedPolicy
from quintain.rollout import Collector
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, StdioSuite, open_taskset
from quintain.types import Event, Finish, Said, TaskError, Turn

needs_native = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")


def one_of_each() -> list[Item]:
    return [tasks[id] for part in ("heldout", "new") for tasks in [open_taskset(f"oneliners:{part}")]
            for id in tasks.ids if id.endswith("/0")]


def right(item: Item) -> str:
    return (item.exam.oracle or {})["main.sh"].decode().strip()


def played(items: list[Item], script: dict[str, list[str]]) -> tuple[dict[str, bool], list[Event]]:
    events: list[Event] = []

    async def play() -> dict[str, bool]:
        async with NativeBackend() as backend:
            environment = TerseEnvironment(CodeEnvironment(backend, oracle=Oracle(backend, confirm=False)))
            collector = Collector(environment, events.append, concurrency=4)
            async with collector.collecting(items, ScriptedPolicy(script), size=1) as groups:
                return {group.task: group.episodes[0].solved async for group in groups}

    return asyncio.run(play()), events


@needs_native
def test_the_authors_command_solves_each_family() -> None:
    items = one_of_each()
    assert len(items) == 36
    solved, _ = played(items, {item.task.id: [right(item)] for item in items})
    assert all(solved.values()), [id for id, did in solved.items() if not did]


@needs_native
def test_what_was_wrong_is_told_in_one_short_line_and_mended() -> None:
    items = one_of_each()[::12]
    solved, events = played(items, {item.task.id: ["cat", right(item)] for item in items})
    assert all(solved.values())
    said = [event.message.text for event in events if isinstance(event, Said)]
    wrong = [text for text in said if text.startswith("Wrong: ")]
    assert len(wrong) == len(items) and all(len(text) <= 130 for text in wrong)
    assert any("expected" in text and "found" in text for text in wrong)


def test_the_parts_have_no_task_in_common_and_the_same_id_is_the_same_task() -> None:
    known: set[tuple[str, bytes]] = set()
    for part, count in (("heldout", 224), ("new", 72)):
        tasks = open_taskset(f"oneliners:{part}")
        assert len(tasks.ids) == count
        for id in tasks.ids:
            suite = tasks[id].exam.hidden
            assert isinstance(suite, StdioSuite) and len(suite.cases) == 4
            assert all(case.stdout and case.stdout != case.stdin for case in suite.cases)
            known.add((tasks[id].task.instructions, suite.cases[0].stdin))
        assert tasks[tasks.ids[3]] == tasks[tasks.ids[3]]
    train = open_taskset("oneliners:train")
    for id in train.ids[::20]:
        suite = train[id].exam.hidden
        assert isinstance(suite, StdioSuite)
        assert (train[id].task.instructions, suite.cases[0].stdin) not in known
    families = {part: {id.split("/")[2] for id in open_taskset(f"oneliners:{part}").ids}
                for part in ("train", "heldout", "new")}
    assert families["train"] == families["heldout"] and not families["train"] & families["new"]


def test_a_part_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TaskError, match="train, heldout, new"):
        open_taskset("oneliners:secret")


def test_a_bare_reply_is_the_program_and_a_fenced_one_is_read_as_ever() -> None:
    (item,) = [one for one in one_of_each() if "/count/" in one.task.id]
    environment = TerseEnvironment(CodeEnvironment(NativeBackend()))
    for text in ("wc -l", "```bash\nwc -l\n```"):
        answer = environment.build(item.task, Turn(text=text, finish=Finish.STOP), previous=None)
        assert answer.program.files["main.sh"] == b"wc -l\n"  # type: ignore[union-attr]
    assert [message.text for message in environment.opening(item.task)] == [
        "Reply in shell only.", item.task.instructions.strip()]

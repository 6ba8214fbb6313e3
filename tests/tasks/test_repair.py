"""The repair tasks that come with quintain: what they are, and that their faults are faults."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from quintain.grade import Oracle, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, PythonSuite, open_taskset
from quintain.types import Program, TaskError, Verdict

needs_native = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`",
)


def functions(spec: str) -> set[str]:
    return {id.split("/")[1] for id in open_taskset(spec).ids}


def judged(items: list[Item], which: str) -> list[Verdict]:
    async def one(oracle: Oracle, item: Item) -> Verdict:
        files = (item.exam.oracle or {}) if which == "oracle" else item.exam.null[0]
        return await oracle.grade(item.exam.hidden, Program(files=files), limits=item.task.limits.command)

    async def all_of_them() -> list[Verdict]:
        backend = NativeBackend(warm=warm_oracle())
        try:
            oracle = Oracle(backend)
            return [await one(oracle, item) for item in items]
        finally:
            await backend.aclose()

    return asyncio.run(all_of_them())


def test_the_held_out_tasks_are_of_other_functions_than_those_to_train_on() -> None:
    train, held_out = functions("repair-train"), functions("repair-heldout")
    assert not train & held_out
    assert len(train) >= 70 and len(held_out) >= 30


def test_every_task_is_one_token_away_from_the_authors_answer_and_shows_a_failing_test() -> None:
    for spec in ("repair-train", "repair-heldout"):
        for item in open_taskset(spec):
            (given,), right = item.exam.null, (item.exam.oracle or {})["solution.py"]
            assert item.task.files["solution.py"] == given["solution.py"] != right
            lines = zip(given["solution.py"].splitlines(), right.splitlines(), strict=True)
            assert sum(a != b for a, b in lines) == 1
            told = [line for line in item.task.instructions.splitlines() if line.startswith("- ")]
            assert any(not line.endswith(": passed") for line in told)


def test_no_hidden_test_is_shown() -> None:
    item = open_taskset("repair-heldout")["repair/sum_odd/0"]
    assert isinstance(item.exam.hidden, PythonSuite) and isinstance(item.exam.visible, PythonSuite)
    hidden = set(item.exam.hidden.required) - set(item.exam.visible.required)
    assert hidden == {"test_solution.py::test_4", "test_solution.py::test_5"}
    seen = item.task.instructions.encode() + b"".join(item.task.files.values())
    assert b"sum_odd([9, 10, 11])" in item.exam.hidden.files["test_solution.py"]
    assert b"sum_odd([9, 10, 11])" not in seen


@needs_native
def test_faults_fail_and_the_authors_answers_pass() -> None:
    items = random.Random(1).sample([*open_taskset("repair-train"), *open_taskset("repair-heldout")], 8)
    assert [verdict.solved for verdict in judged(items, "oracle")] == [True] * 8
    assert [verdict.solved for verdict in judged(items, "null")] == [False] * 8


@pytest.mark.slow
@needs_native
def test_held_out_faults_fail_and_held_out_functions_pass() -> None:
    items = list(open_taskset("repair-heldout"))[::3]
    assert not [i.task.id for i, v in zip(items, judged(items, "null"), strict=True) if v.solved]
    once = list({item.task.entry.name: item for item in items}.values())
    assert [v.solved for v in judged(once, "oracle")] == [True] * len(once)


@pytest.mark.parametrize(("row", "said"), [
    ('{"line":1}', "fault 0 of 'f' does not fit"),
    ('{"line":2,"column":11,"old":"2","new":"1","seen":{}}', "expected '2' in line 2, column 11 of 'f', found '1'"),
    ('{"line":9,"column":0,"old":"2","new":"1","seen":{}}', "expected '2' in line 9"),
])
def test_a_fault_that_does_not_fit_is_refused(tmp_path: Path, row: str, said: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        "[[functions]]\nname = 'f'\nabout = 'One.'\nsource = '''\ndef f():\n    return 1\n'''\n"
        f"tests = 'f() == 1'\nfaults = '''\n{row}\n'''\n")
    with pytest.raises(TaskError) as caught:
        list(open_taskset(str(path)))
    assert said in str(caught.value)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[[functions]]\nname = 'f'\n")
    with pytest.raises(TaskError, match="missing required field"):
        list(open_taskset(str(path)))

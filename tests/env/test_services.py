"""Services are judged from outside: by what they answer, after they were killed as well."""

from __future__ import annotations

import ast
import asyncio

import pytest

from quintain.env import ServiceEnvironment
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, PythonSuite, Taskset, open_taskset
from quintain.types import Passed, Program, Verdict

TASKS = open_taskset("services:own")


def judged(item: Item, *answers: dict[str, bytes]) -> list[Verdict]:
    async def work() -> list[Verdict]:
        async with NativeBackend() as backend:
            environment = ServiceEnvironment(backend)
            return [await environment.verdict(item, Program(files={**item.task.files, **answer}))
                    for answer in answers]

    return asyncio.run(work())


def test_the_authors_services_are_solved_and_those_that_forget_are_not() -> None:
    item = TASKS["services/locks"]
    right, wrong = judged(item, item.exam.oracle or {}, item.exam.null[0])
    assert right.solved and right.level == "L4"
    failed = [test.id for test in wrong.tests if test.passed is not Passed.PASSED]
    assert failed == ["test_probe.py::test_old_holders_write_nothing"]


def test_a_given_file_that_an_answer_changes_is_put_back_and_a_service_that_does_not_start_fails_all() -> None:
    item = TASKS["services/locks"]
    author = item.exam.oracle or {}
    changed, dead = judged(item, {**author, "web.py": b"raise SystemExit\n"}, {**author, "vault.py": b"1 / 0\n"})
    assert changed.solved
    assert all(test.fault is not None and "ZeroDivisionError" in test.fault.message for test in dead.tests)


def all_of(tasks: Taskset) -> list[str]:
    return list(tasks.ids)


@pytest.mark.parametrize("id", all_of(TASKS))
def test_each_task_shows_a_test_and_hides_more(id: str) -> None:
    item = TASKS[id]
    hidden, visible = item.exam.hidden, item.exam.visible
    assert isinstance(hidden, PythonSuite) and isinstance(visible, PythonSuite)
    assert len(visible.required) >= 1 and set(visible.required) < set(hidden.required)
    assert len(item.exam.null) >= 2 and not set(item.exam.oracle or {}) & set(item.task.files)
    for source in ((item.exam.oracle or {}) | {"test": hidden.files["test_probe.py"]}).values():
        ast.parse(source)

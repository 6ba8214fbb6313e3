"""Repositories of our own: always the same, nothing of later commits, and tests that turn."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from quintain.env import TestWritingEnvironment, Work
from quintain.grade import Oracle, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import PythonSuite, open_taskset
from quintain.tasks.formats.git import base_tree, recorded
from quintain.tasks.formats.packages import packages
from quintain.tasks.formats.repo import history, ids_in
from quintain.types import Passed, Program

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
needs_sandboxes = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")


def test_an_issue_is_a_repository_whose_repair_and_its_tests_are_not_in_what_is_given(tmp_path: Path) -> None:
    tasks = open_taskset("repo:issues")
    assert len(tasks.ids) == 24
    for package in packages()[:3]:
        for number, fault in enumerate(package.faults, 1):
            item = tasks[f"repo/issue/{package.name}/{number}"]
            (entry,) = item.exam.oracle or {}
            shown = b"\n".join(item.task.files.values())
            assert item.task.files["HISTORY"].count(b"\ncommit ") == 3 and fault.issue.encode() not in shown
            assert (item.exam.oracle or {})[entry] != item.task.files[entry]
            suite = item.exam.hidden
            assert isinstance(suite, PythonSuite)
            there = ids_in({path: text for path, text in item.task.files.items() if path.startswith("tests/")})
            new = set(suite.required) - set(there)
            assert new >= set(fault.fails) and set(there) < set(suite.required) and not new & set(there)
            assert all(f"def {id.partition('::')[2]}(".encode() not in shown for id in fault.fails)


def test_a_recorded_repository_has_the_same_commits_every_time(tmp_path: Path) -> None:
    commits = history(packages()[0], 0)
    one, other = (recorded(commits, tmp_path / name) for name in ("a", "b"))
    assert one == other and len(set(one)) == len(commits) == 5
    assert base_tree(tmp_path / "a", one[1]).files == commits[1][1]


@needs_sandboxes
def test_a_repair_turns_the_tests_that_came_with_it_and_tests_that_assert_nothing_are_no_suite() -> None:
    async def play() -> None:
        async with NativeBackend(warm=warm_oracle()) as backend:
            issue = open_taskset("repo:issues")["repo/issue/grids/1"]
            oracle = Oracle(backend)
            repaired = {**issue.task.files, **(issue.exam.oracle or {})}
            right = await oracle.grade(issue.exam.hidden, Program(files=repaired))
            given = await oracle.grade(issue.exam.hidden, Program(files=issue.task.files))
            assert right.solved and not given.solved
            assert [test.id for test in given.tests if test.passed is not Passed.PASSED] == [
                "tests/test_transposed.py::test_the_widest_row_counts"]
            demand = open_taskset("repo:coverage")["repo/coverage/stock/counted"]
            environment = TestWritingEnvironment(backend, most=3)
            idle = await environment.judged(demand, Program(files={**demand.task.files, **demand.exam.null[2]}))
            assert idle[1].run_share == 1.0 and not idle[0].solved and idle[1].kill_share < 0.9
            nothing = Work(program=Program(files=demand.task.files))
            _, reward = await environment.grade(demand, nothing, episode="e", seed=0)
            assert not reward.solved and reward.total == 0.0

    asyncio.run(play())

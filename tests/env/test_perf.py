"""Programs made faster: paid by the lower end of what was measured, and only where they do what they did."""

from __future__ import annotations

import asyncio
import random

import pytest

from quintain.env import PerfEnvironment, Work
from quintain.env._race import PAIRS, Speedup
from quintain.env.perf import asked_of, worth_of
from quintain.grade import warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, PythonSuite, open_taskset
from quintain.tasks.formats.perf import Row, item_of
from quintain.types import Program, Reward, TaskError, Verdict

needs_sandboxes = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")

SUM = Row(
    name="total", about="The sum of the numbers below `n`.", large=500_000,
    slow="def total(n):\n    found = 0\n    for number in range(n):\n        found += number\n    return found\n",
    fast="def total(n):\n    return n * (n - 1) // 2 if n > 0 else 0\n",
    inputs="def inputs(rng, size):\n    return [(size + rng.randint(0, 9),)]\n")


def judged(item: Item, *sources: str) -> list[tuple[Verdict, Reward]]:
    async def play() -> list[tuple[Verdict, Reward]]:
        async with NativeBackend(warm=warm_oracle()) as backend:
            environment = PerfEnvironment(backend)
            return [await environment.grade(
                item, Work(program=Program(files={**item.task.files, "solution.py": source.encode()})), episode="e",
                seed=0) for source in sources]

    return asyncio.run(play())


@needs_sandboxes
def test_what_is_faster_is_solved_and_what_is_wrong_where_it_is_timed_is_worth_nothing() -> None:
    wrong = SUM.fast.replace("n > 0", "n < 10_000")
    (good, paid), (lying, none) = judged(item_of("t", SUM), SUM.fast, wrong)
    assert good.solved and paid.total > 0.7
    assert not lying.solved and none.total == 0 and lying.tests[-1].fault is not None
    assert "timed run is wrong" in lying.tests[-1].fault.message


def test_the_end_that_counts_is_the_lower_one_and_a_few_runs_are_no_proof() -> None:
    assert Speedup(ratios=(3.0,) * PAIRS).low == 3.0
    assert Speedup(ratios=(0.9, 2.0, *(9.0,) * (PAIRS - 2))).low == 2.0
    assert Speedup(ratios=(9.0,) * 4).low == 1.0 and Speedup(ratios=(9.0,) * PAIRS, wrong="x").low == 1.0
    assert worth_of(Speedup(ratios=(2.0,) * PAIRS), 4.0) == 0.5


def test_every_task_has_an_answer_that_is_the_same_as_the_original_on_drawn_inputs() -> None:
    tasks = open_taskset("perf:own")
    assert len(tasks.ids) >= 20
    for item in tasks:
        suite, times = asked_of(item)
        found: list[dict[str, object]] = [{}, {}, {}]
        sources = (suite.files["original.py"], (item.exam.oracle or {})["solution.py"], suite.files["workload.py"])
        for names, source in zip(found, sources, strict=True):
            exec(source, names)
        name = item.task.entry.name or ""
        for seed in range(8):
            for arguments in found[2]["inputs"](random.Random(seed), 8):  # type: ignore[operator]
                slow, fast = (names[name](*arguments) for names in found[:2])  # type: ignore[operator]
                assert repr(slow) == repr(fast), (name, arguments)
        assert times == 2.0 and item.task.files["solution.py"] in suite.files["original.py"]


def test_a_suite_without_what_is_needed_to_take_the_time_is_the_tasks_fault() -> None:
    item = next(iter(open_taskset("perf:own")))
    bare = Item.sealed(item.exam.__class__(hidden=PythonSuite(files={"test_x.py": b""})), id="t", kind="perf",
                       instructions="x")
    with pytest.raises(TaskError, match=r"asked\.py"):
        asked_of(bare)

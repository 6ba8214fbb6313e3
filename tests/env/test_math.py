"""Questions: what a reply's answer is, what it is compared with, and what no reply is paid for."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.cli.answers import null_replies, oracle_reply
from quintain.env import Answer, MathEnvironment, Work
from quintain.sandbox import NativeBackend
from quintain.tasks import AnswerKind, AnswerSuite, Exam, Item, PythonSuite, open_taskset
from quintain.types import Entry, Fault, FaultKind, Finish, Grading, Program, Reward, TaskError, Turn

GSM8K = Path(__file__).parents[3] / "shared" / "data"


def question(expected: str, kind: AnswerKind = AnswerKind.MATH) -> Item:
    return Item.sealed(
        Exam(hidden=AnswerSuite(expected=expected, kind=kind)), id="q", kind="math", instructions="How many?",
        entry=Entry(path="answer.txt", language="text"), grading=Grading.ON_SUBMIT)


def judged(item: Item, reply: str) -> Reward:
    async def play() -> Reward:
        environment = MathEnvironment(NativeBackend())
        built = environment.build(item.task, Turn(text=reply), previous=None)
        work = Work(fault=built) if isinstance(built, Fault) else Work(program=built.program)
        try:
            return (await environment.grade(item, work, episode="e", seed=0))[1]
        finally:
            await environment.aclose()

    return asyncio.run(play())


@pytest.mark.parametrize(("expected", "reply"), [
    ("\\frac{3}{4}", "So it is\n\\boxed{0.75}"), ("25\\%", "Answer: 25 %"), ("[1, 5]", "\\boxed{[1,5]}"),
    ("\\{2, 3\\}", "\\boxed{\\{3, 2\\}}"), ("90 km/h", "#### 90"), ("18", "18"), ("-3, 4", "\\boxed{4, -3}"),
])
def test_a_right_answer_is_paid_however_it_is_written(expected: str, reply: str) -> None:
    reward = judged(question(expected), reply)
    assert reward.solved and reward.total == pytest.approx(0.8)


@pytest.mark.parametrize("reply", [
    "\\boxed{18, 19}", "\\boxed{18} or \\boxed{19}", "\\boxed{18}\n\\boxed{19}", "Answer: 18 or 19", "\\boxed{x}",
    "\\boxed{(-\\infty, \\infty)}",
])
def test_naming_many_answers_or_any_is_not_paid(reply: str) -> None:
    reward = judged(question("18"), reply)
    assert not reward.solved and reward.total <= 0.35


def test_an_answer_without_a_value_is_wrong_and_cannot_break_its_episode() -> None:
    pytest.importorskip("sympy", reason="formulas are compared by the extra math")
    reward = judged(question("\\frac{3}{4}"), "\\boxed{\\frac{0}{0}}")
    assert not reward.solved and reward.total <= 0.0


def test_a_reply_without_an_answer_is_told_so_and_a_cut_one_is_known() -> None:
    environment, item = MathEnvironment(NativeBackend()), question("18")
    for finish, kind in ((Finish.STOP, FaultKind.NO_ANSWER), (Finish.LENGTH, FaultKind.TRUNCATED)):
        built = environment.build(item.task, Turn(text="I think\nand think", finish=finish), previous=None)
        assert isinstance(built, Fault) and built.kind is kind
    assert judged(item, "I think\nand think").total < 0


@given(st.text(max_size=200))
@settings(max_examples=60, deadline=None)
def test_any_text_is_an_answer_or_a_fault(text: str) -> None:
    built = MathEnvironment(NativeBackend()).build(question("18").task, Turn(text=text), previous=None)
    assert isinstance(built, Answer | Fault)


def test_an_exam_of_another_kind_is_refused() -> None:
    item = Item.sealed(Exam(hidden=PythonSuite(files={})), id="q", kind="math", instructions="?")
    environment = MathEnvironment(NativeBackend())
    work = Work(program=Program(files={"answer.txt": b"18"}))
    with pytest.raises(TaskError, match="expected one answer"):
        asyncio.run(environment.grade(item, work, episode="e", seed=0))


def test_the_same_seed_makes_the_same_questions_and_another_seed_others() -> None:
    one, two, other = (list(open_taskset(spec)) for spec in ("sums:a", "sums:a", "sums:b"))
    assert one == two and len(one) == 24
    assert len({item.task.instructions for item in (*one, *other)}) >= 40
    with pytest.raises(TaskError, match="expected a seed"):
        open_taskset("sums:a/b")


@pytest.mark.parametrize("family", ["interval", "prime-set", "point"])
def test_the_author_of_a_question_is_right_and_who_does_not_know_is_not(family: str) -> None:
    item = open_taskset("sums:test")[f"sums/test/{family}/0"]
    assert judged(item, oracle_reply(item)).solved
    assert not any(judged(item, reply).solved for reply in null_replies(item))


@pytest.mark.skipif(not (GSM8K / "gsm8k" / "test.jsonl").exists(), reason="needs the handed task data")
def test_gsm8k_loads_and_its_authors_answers_are_right() -> None:
    items = list(open_taskset("gsm8k", data=GSM8K, take=20))
    assert all(judged(item, oracle_reply(item)).solved for item in items)
    assert not any(judged(item, "#### 123456").solved for item in items)


CASES = Path(__file__).parents[3] / "shared" / "cases"


@pytest.mark.skipif(not (CASES / "MA02").exists(), reason="needs the handed cases")
def test_the_handed_pairs_of_plain_numbers_are_paid_as_labelled() -> None:
    rows = [row for row in json.loads((CASES / "MA02" / "pairs.json").read_text()) if isinstance(row["equal"], bool)]
    assert rows
    for row in rows:
        found = judged(question(row["gold"]), f"\\boxed{{{row['pred']}}}").solved
        assert found is row["equal"], row

"""Mathematical answers: the same however they are written, and nothing that is not the same."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.grade import Algebra, AnswerGrader, Same, check_answer, extract_answer, reward_of, same_answer
from quintain.tasks import AnswerKind, AnswerSuite, Exam, Item
from quintain.types import Attempt, FaultKind, HouseError, TaskError, Turn

SHARED = Path(__file__).resolve().parents[3] / "shared"
PAIRS = [
    (path.parent.name, row["gold"], row["pred"], row["equal"])
    for path in sorted((SHARED / "cases").glob("MA*/pairs.json")) for row in json.loads(path.read_text())
]
needs_sympy = pytest.mark.skipif(
    importlib.util.find_spec("latex2sympy2_extended") is None, reason="comparing formulas needs quintain[math]"
)


@pytest.fixture(scope="module")
def algebra() -> Iterator[Algebra]:
    with Algebra(cpu_seconds=2) as found:
        yield found


@needs_sympy
@pytest.mark.shared
@pytest.mark.parametrize(("case", "expected", "said", "equal"), PAIRS, ids=[f"{c}-{e}-{g}" for c, e, g, _ in PAIRS])
def test_a_handed_pair_is_right(case: str, expected: str, said: str, equal: bool | str, algebra: Algebra) -> None:
    found = same_answer(said, expected, algebra=algebra)
    assert found.same is not Same.UNDECIDED
    if isinstance(equal, bool):
        assert found.equal is equal, found.why
        assert same_answer(expected, said, algebra=algebra).equal is equal, "the other way round"


@needs_sympy
@pytest.mark.parametrize(("expected", "said"), [
    ("3.5", "3,5"), ("25%", "25"), ("25", "25%"), ("1/2", "0.5"), (r"\frac12", "0.50"), ("1.5", r"1\frac{1}{2}"),
    ("1.5", "1 1/2"), ("-3", "−3"), ("$1,234.50", "1234.5 dollars"), ("18", "18 eggs"), ("5 cm", "50 mm"),
    ("3 square feet", r"3\text{ ft}^2"), ("2.5e3", r"2.5 \times 10^3"), (r"\frac{\pi}{2}", "pi/2"), ("x^2", "x**2"),
    (r"\sqrt{2}", "sqrt(2)"), (r"\boxed{42}", "42"), ("(1, 2)", r"\left( 1 , 2 \right)"), ("x = 1, 2", r"\{2, 1\}"),
    (r"\pm 3", "-3, 3"), (r"2 \pm \sqrt{3}", r"2+\sqrt{3}, 2-\sqrt{3}"), ("x>2", r"(2,\infty)"),
    ("1 \\le x < 4", "[1,4)"), (r"x<1 \text{ or } x>5", r"(-\infty,1)\cup(5,\infty)"), ("x^2+1", "f(x)=1+x^2"),
    ("yes", "Yes."), (r"\text{(C)}", "C"), ("C", "C) 17"), ("100", "1e2"), (r"\frac{a}{b}", r"\dfrac{2a}{2b}"),
    (r"\{1\}", r"\{1,1\}"), ("red and blue", "blue, red"), ("2^{10}", "1024"), ("90°", r"90^{\circ}"),
])
def test_one_answer_written_in_two_ways(expected: str, said: str, algebra: Algebra) -> None:
    found = same_answer(said, expected, algebra=algebra)
    assert found.equal, found.why


@needs_sympy
@pytest.mark.parametrize(("expected", "said"), [
    ("5", "5 or 6"), ("5", "5, 6"), ("5", "1 2 3 4 5"), ("6", "1 2 3"), ("5", "4 < 5"), ("B", "A B C D"),
    ("B", "B. blue C. red"), ("12", "The answer is in 1..100"), ("0.3333", "1/3"), ("1/3", "0.33"), ("5 cm", "5 m"),
    ("$5", "€5"), ("25%", "0.25%"), ("x=5", "y=5"), ("10", "10!"), ("[0,1)", "[0,1]"), ("(0,1)", r"\{0,1\}"),
    (r"\sqrt{x^2}", "x"), ("5", ""), ("5", "..."), ("no", "on"), ("x^2+y=1", "x^2+y"), (r"\{1,2\}", r"\{1,2,3\}"),
    ("1", "nan"), ("1", r"\infty"), ("0", "1e-300"), ("7", "7" * 3000), ("1/0", "5"), ("2, 3", "2"), ("5", "((((("),
    ("5", r"\boxed{5}\boxed{6}"), ("18", "18 19 20"), (r"\frac{1}{2004!}", "0"), ("5", "$5$ or $6$"),
])
def test_what_is_another_answer_is_not_the_same(expected: str, said: str, algebra: Algebra) -> None:
    found = same_answer(said, expected, algebra=algebra)
    assert found.same is Same.NO, found.why


@needs_sympy
def test_an_answer_that_would_compute_for_ever_ends_at_its_limit(algebra: Algebra) -> None:
    for hostile in (r"9^{9^{9^{9}}}", r"(10^{10^{9}})!", "((((((((" * 40):
        assert same_answer(hostile, "5", algebra=algebra).same is Same.NO
    with pytest.raises(TaskError, match="limits"):
        same_answer("5", r"9^{9^{9^{9}}}", algebra=algebra)
    assert same_answer(r"\sqrt{4}", "2", algebra=algebra).equal, "the process serves on"


@needs_sympy
def test_no_answer_is_code(algebra: Algebra, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for said in (f"__import__('os').system('touch {mark}')", f"open('{mark}','w')", f"exec(\"open('{mark}','w')\")"):
        assert not same_answer(said, "x+1", algebra=algebra).equal
    assert not mark.exists()


DRESSES = ["{}", "{:,}", "${}$", "**{}**", r"\boxed{{{}}}", "{}.", " {} ", "{}.0"]


@given(st.integers(-10**9, 10**9), st.sampled_from(DRESSES))
def test_a_whole_number_is_itself_in_every_dress_and_no_other(number: int, dress: str) -> None:
    said = dress.format(number)
    assert same_answer(said, str(number)).equal
    assert not same_answer(said, str(number + 1)).equal


@given(st.text(max_size=40))
@settings(max_examples=200)
def test_no_text_breaks_the_reading(said: str) -> None:
    found = same_answer(said, "Wednesday")  # a word: nothing goes to the algebra system
    assert found.equal is (found.same is Same.YES)


@pytest.mark.parametrize("said", [
    "(" * 900 + "1" + ")" * 900, "{" * 990 + "}" * 990, ")" * 1000 + "(" * 1000, "1," * 1000, r"\pm 1" * 400,
    "=" * 2000,
])
def test_no_depth_or_length_breaks_the_reading(said: str) -> None:
    assert same_answer(said, "Wednesday").same is Same.NO


@pytest.mark.parametrize("reply", [
    "\n" * 50_000, "\\boxed{" * 5_000, "answer\n" * 20_000, "#### " * 20_000, "answer is " * 20_000, "A " * 50_000,
])
def test_no_reply_keeps_the_search_for_an_answer_busy(reply: str) -> None:
    found = extract_answer(reply)  # a search in square time would take minutes
    assert found is None or found in reply


@pytest.mark.parametrize(("reply", "answer"), [
    ("3 + 4 = 7\n#### 7", "7"),
    ("so \\boxed{1}\nno, \\boxed{\\frac{1}{2}}", r"\frac{1}{2}"), ("16 eggs\nA: 18", "18"),
    ("I think the answer is 5.", "5."), ("**Final Answer:** 12", "12"), ("42", "42"),
    ("first\nsecond", None), ("", None),
    (r"\boxed{1} and \boxed{2}", "1, 2"), ("#### 5\n#### 6", "6"), (r"\boxed{open", r"\boxed{open"),
    ("\\boxed{\n5\n}\ndone", "5"), ("Answers vary\nbut 7\n#### 7", "7"),
])
def test_the_last_answer_of_a_reply_is_found(reply: str, answer: str | None) -> None:
    assert extract_answer(reply) == answer


SUITE = AnswerSuite(expected="18", kind=AnswerKind.MATH)


def test_a_reply_is_judged_by_its_answer() -> None:
    right, wrong, none = (check_answer(SUITE, reply) for reply in ("#### 18", "#### 19", "well\nhm"))
    assert right.solved
    assert right.evidence[0].text == "'18': the same number"
    assert [v.tests[0].fault.kind for v in (wrong, none) if v.tests[0].fault] == [
        FaultKind.WRONG_ANSWER, FaultKind.NO_ANSWER]
    rewards = [reward_of(verdict) for verdict in (right, wrong, none)]
    assert [r.solved for r in rewards if r] == [True, False, False]
    assert "18" not in (wrong.tests[0].fault.message if wrong.tests[0].fault else "")


def test_text_is_compared_as_text_and_other_kinds_are_refused() -> None:
    suite = AnswerSuite(expected="The Hague", kind=AnswerKind.TEXT)
    assert check_answer(suite, "the  hague").solved
    assert not check_answer(suite, "Hague").solved
    with pytest.raises(TaskError, match="procedural"):
        check_answer(AnswerSuite(expected="1", kind=AnswerKind.PROCEDURAL), "1")


async def graded(reply: str) -> float | None:
    item = Item.sealed(Exam(hidden=SUITE), id="m/1", instructions="how many?")
    attempt = Attempt(task=item.task, turns=(Turn(text=reply),))
    return (await AnswerGrader().grade(attempt, item))[0].value


def test_the_grader_scores_the_last_reply() -> None:
    import asyncio

    assert [asyncio.run(graded(reply)) for reply in ("#### 18", "#### 7")] == [1.0, 0.0]


@needs_sympy
def test_a_lost_process_is_the_houses_fault_and_the_next_question_gets_a_new_one() -> None:
    with Algebra() as algebra:
        assert algebra.ask("x+x", "2x").same
        process = algebra._process
        assert process is not None
        process.kill()
        process.wait()
        with pytest.raises(HouseError, match="comparing formulas"):
            algebra.ask("x", "y")
        assert algebra.ask("x+x", "2x").same


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the handed data is not at {SHARED}")
def test_gsm8k_reference_answers_are_their_own() -> None:
    rows = [json.loads(line) for line in (SHARED / "data" / "gsm8k" / "test.jsonl").read_text().splitlines()]
    for row in rows[:300]:
        answer = row["answer"].rpartition("#### ")[2]
        assert extract_answer(row["answer"]) == answer
        assert check_answer(AnswerSuite(expected=answer, kind=AnswerKind.MATH), row["answer"]).solved


def test_an_answer_with_half_a_surrogate_pair_is_another_answer() -> None:
    for found in ("\ud800", "\\sqrt{2}+\udfff"):
        assert same_answer(found, "\\sqrt{2}").same is Same.NO

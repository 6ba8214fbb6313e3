"""Work on data: the author's answers agree with the rules on shops and files that no task uses, and what the judge of
tables lets through."""

from __future__ import annotations

import asyncio
import random

import pytest

from quintain.grade import Oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, PythonSuite, open_taskset
from quintain.tasks.formats.data_judge import ask, same
from quintain.tasks.formats.data_scripts import CHORES, Chore
from quintain.tasks.formats.data_sql import COLUMNS, QUESTIONS, Question, shop
from quintain.types import Program, TaskError

needs_native = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.name)
def test_a_query_gives_what_the_rule_says_in_shops_of_any_size(question: Question) -> None:
    for seed in range(50, 60):
        tables = shop(seed, size=1 + seed % 7 * 5)
        found = ask(question.query, {name: (COLUMNS[name], rows) for name, rows in tables.items()})
        expected: list[list[object]] = [list(question.columns), *map(list, question.rule(tables))]
        same(found, expected, ordered=question.ordered, tolerance=1e-6)


@pytest.mark.parametrize("chore", CHORES, ids=lambda one: one.name)
def test_an_answer_gives_what_the_maker_of_the_files_knows(chore: Chore) -> None:
    names: dict[str, object] = {}
    exec(chore.answer, names)  # the author's own text
    answer = names["answer"]
    assert callable(answer)
    for seed in range(50, 65):
        files, expected = chore.make(random.Random(seed))
        same(answer(files), expected, ordered=chore.ordered, tolerance=chore.tolerance)


@pytest.mark.parametrize("text", [
    "ATTACH '/tmp/x.db' AS x", "PRAGMA table_info(t)", "SELECT 1; SELECT 2", "DELETE FROM t RETURNING a", "SELECT",
    "CREATE TABLE u AS SELECT * FROM t", "SELECT load_extension('x')", "SELECT zeroblob(9)", "UPDATE t SET a = 1", " ",
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n",
])
def test_only_one_statement_that_reads_and_ends_is_asked(text: str) -> None:
    with pytest.raises(AssertionError):
        ask(text, {"t": (("a INTEGER",), [(1,), (2,)])})


def test_a_recursive_query_that_ends_is_asked() -> None:
    query = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 3) SELECT x, a FROM n, t"
    assert ask(query, {"t": (("a TEXT",), [("b",)])}) == [["x", "a"], [1, "b"], [2, "b"], [3, "b"]]


@pytest.mark.parametrize(("found", "is_same"), [
    ([["a", "b"], [1, 0.5], [2, None]], True), ([["a", "b"], [2, None], [1, 0.5000001]], True),
    ([["a", "b"], [1, 0.5]], False), ([["b", "a"], [1, 0.5], [2, None]], False),
    ([["a", "b"], [1, 0.6], [2, None]], False),
    ([["a", "b"], ["1", 0.5], [2, None]], False), ([["a", "b"], [True, 0.5], [2, None]], False), (None, False),
    ([["a", "b"], [1, float("nan")], [2, None]], False), ([["a", "b"], [1, 0.5], [2, 0]], False), ("ab", False),
    ([["a", "b"], [1, 0.5, 3], [2, None]], False), ([["a", "b"], [1, 0.5], [2, object()]], False),
])
def test_a_table_is_the_same_up_to_the_tolerance_and_an_order_not_asked_for(found: object, is_same: bool) -> None:
    expected: list[list[object]] = [["a", "b"], [1, 0.5], [2, None]]
    try:
        same(found, expected, ordered=False, tolerance=1e-6)
    except AssertionError:
        assert not is_same
    else:
        assert is_same


def test_rows_in_another_order_are_another_table_where_an_order_was_asked_for() -> None:
    with pytest.raises(AssertionError, match="row 1"):
        same([["a"], [2], [1]], [["a"], [1], [2]], ordered=True, tolerance=0.0)


def test_no_hidden_instance_is_among_what_is_shown() -> None:
    for item in open_taskset("data:all").include("*cohorts", "*sessions"):
        hidden, shown = item.exam.hidden, item.exam.visible
        assert isinstance(hidden, PythonSuite) and isinstance(shown, PythonSuite)
        assert len(hidden.required) == 6 and len(shown.required) == 1
        assert not any(b"test_instance_1" in content for content in item.task.files.values())
        assert hidden.files["instances.py"] not in item.task.files.values()


def test_a_part_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TaskError, match="data:all, data:sql or data:files"):
        open_taskset("data:xml")


@needs_native
@pytest.mark.parametrize("id", ["data/sql/city-share", "data/files/sessions"])
def test_the_author_solves_it_and_what_is_shown_does_not(id: str) -> None:
    item = open_taskset("data:all")[id]
    assert asyncio.run(solved(item, item.exam.oracle or {}))
    assert not any(asyncio.run(solved(item, null)) for null in item.exam.null)


async def solved(item: Item, answer: dict[str, bytes]) -> bool:
    async with NativeBackend() as backend:
        program = Program(files={**item.task.files, **answer}, argv=("true",))
        verdict = await Oracle(backend, confirm=False).grade(item.exam.hidden, program, limits=item.task.limits.command)
        return verdict.solved

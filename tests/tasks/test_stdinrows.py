"""Inputs and outputs as rows, in all the encodings that go around."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from quintain.tasks import PythonSuite, StdioSuite, open_taskset
from quintain.tasks.formats.stdinrows import StdinRow, suite_of
from quintain.types import TaskError

from .made import CASES, needs_cases

THREE = (b"3\n1 2 3\n", b"6\n")


def cases_of(row: dict[str, object]) -> list[tuple[bytes, bytes]]:
    suite = suite_of(msgspec.convert(row, StdinRow))
    assert isinstance(suite, StdioSuite)
    return [(case.stdin, case.stdout) for case in suite.cases]


@pytest.mark.parametrize("row", [
    {"inputs": ["3\n1 2 3\n"], "outputs": ["6\n"]},
    {"inputs": json.dumps(["3\n1 2 3\n"]), "outputs": json.dumps(["6\n"])},
    {"inputs": [["3", "1 2 3"]], "outputs": [["6"]]},
    {"inputs": ["3\r\n1 2 3\r\n"], "outputs": ["6\r\n"]},
    {"input_output": {"inputs": ["3\n1 2 3\n"], "outputs": ["6\n"]}},
    {"input_output": json.dumps({"inputs": ["3\n1 2 3\n"], "outputs": ["6\n"]})},
    {"inputs": [[3, "1 2 3"]], "outputs": [[6]]},
])
def test_every_encoding_says_the_same_case(row: dict[str, object]) -> None:
    assert cases_of(row) == [THREE]


@pytest.mark.parametrize(("row", "said"), [
    ({"inputs": ["1"], "outputs": []}, "as many outputs as inputs, found 0 and 1"),
    ({"inputs": [], "outputs": []}, "at least one case, found none"),
    ({"inputs": "[]", "outputs": "[]"}, "at least one case, found none"),
    ({"inputs": "3\n1 2 3\n", "outputs": ["6"]}, "inputs: expected JSON in the text"),
    ({"inputs": '"ab"', "outputs": ["6"]}, "inputs: expected a list, or one as JSON text, found str"),
    ({"outputs": ["6"]}, "inputs: expected a list"),
    ({"inputs": [{"a": 1}], "outputs": ["6"]}, r"inputs\[0\]: expected text or a list of lines, found dict"),
    ({"inputs": [[["a"]]], "outputs": ["6"]}, r"inputs\[0\]: expected lines of text"),
    ({"input_output": "[1]"}, "input_output: expected an object"),
    ({"input_output": "{"}, "input_output: expected JSON"),
    ({"inputs": ["NaN"], "outputs": ["1"], "fn_name": "f"}, "NaN is no JSON"),
    ({"inputs": ["1"], "outputs": ["1"], "fn_name": "f; import os"}, "fn_name: expected the name of a function"),
])
def test_what_would_be_dropped_or_pass_vacuously_is_refused(row: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        suite_of(msgspec.convert(row, StdinRow))


@pytest.mark.parametrize(("row", "right", "wrong"), [
    ({"fn_name": "f", "inputs": ["[1, 2]\n3"], "outputs": ["[1, 2, 3]"]}, "def f(a, b): return a + [b]", "f = len"),
    ({"fn_name": "f", "inputs": [[[1, 2], 3]], "outputs": [[6]]}, "def f(a, b): return 6", "def f(a, b): return 5"),
    ({"fn_name": "f", "inputs": [[2]], "outputs": [[[2, 2]]]}, "def f(a): return (a, a)", "def f(a): return a"),
    ({"fn_name": "f", "inputs": [[2]], "outputs": [4], "starter_code": "class Solution:\n    def f(self, a): ...\n"},
     "class Solution:\n    def f(self, a): return 4", "class Solution:\n    def f(self, a): return 5"),
])
def test_cases_of_a_function_become_tests_that_tell_right_from_wrong(
    row: dict[str, object], right: str, wrong: str
) -> None:
    suite = suite_of(msgspec.convert(row, StdinRow))
    assert isinstance(suite, PythonSuite)
    text = suite.files["test_cases.py"].decode().replace("from solution import", "#")
    assert suite.required == ("test_cases.py::test_000",)

    def passes(answer: str) -> bool:
        names: dict[str, object] = {}
        exec(compile(f"{answer}\n{text}", "test", "exec"), names)
        try:
            names["test_000"]()  # type: ignore[operator]
        except (AssertionError, TypeError):
            return False
        return True

    assert passes(right)
    assert not passes(wrong)


def test_rows_of_apps_become_tasks(tmp_path: Path) -> None:
    row = {"problem_id": 7, "question": "Add.", "difficulty": "easy",
           "input_output": json.dumps({"inputs": ["3\n1 2 3\n"], "outputs": ["6\n"]}),
           "solutions": json.dumps(["print(6)"])}
    (tmp_path / "apps.jsonl").write_text(json.dumps(row) + "\n" + json.dumps({**row, "problem_id": 8, "question": " "}))
    tasks = open_taskset(str(tmp_path / "apps.jsonl"))
    assert tasks.ids == ("7", "8")
    assert tasks["7"].exam.oracle == {"main.py": b"print(6)"}
    with pytest.raises(TaskError, match=r"apps\.jsonl:2: .*question: expected what is asked"):
        tasks["8"]


@needs_cases
def test_the_handed_rows_are_normalised_or_refused() -> None:
    found = json.loads((CASES / "TF08" / "rows.json").read_text())
    assert [cases_of(row) for row in found[:4]] == [[THREE]] * 4
    assert isinstance(suite_of(msgspec.convert(found[4], StdinRow)), PythonSuite)
    for row in found[5:]:
        with pytest.raises(ValueError, match="expected"):
            suite_of(msgspec.convert(row, StdinRow))

"""Sets in other languages and shapes are read whole, and what cannot be judged is refused with its reason."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from quintain.tasks import JavaScriptSuite, PythonSuite, ShellSuite, names_of, open_taskset
from quintain.tasks.formats.javascript import collected_javascript
from quintain.types import TaskError

from .made import DATA, needs_data

COUNTS = {
    "classeval": 100, "humanevalpack-python": 164, "humanevalpack-javascript": 164, "exercism-javascript": 139,
    "multipl-e-js": 161, "multipl-e-sh": 158,
}
REFUSED = {"exercism/javascript/grep": "child_process"}


@needs_data
@pytest.mark.shared
@pytest.mark.parametrize("name", COUNTS)
def test_every_task_has_tests_by_name_and_shows_none_of_them(name: str) -> None:
    tasks = open_taskset(name, data=DATA)
    assert len(tasks) == COUNTS[name]
    for id in tasks.ids:
        if id in REFUSED:
            with pytest.raises(TaskError, match=REFUSED[id]):
                tasks[id]
            continue
        item = tasks[id]
        suite = item.exam.hidden
        assert isinstance(suite, PythonSuite | JavaScriptSuite | ShellSuite)
        assert names_of(suite) or id == "exercism/javascript/dominoes", "only a run can tell its tests"
        assert not set(suite.files) & set(item.task.files) - {p for p in suite.files if p.startswith("data/")}
        assert len(set(names_of(suite))) == len(names_of(suite))


@needs_data
@pytest.mark.shared
def test_a_repair_task_gives_the_bug_and_keeps_the_repair() -> None:
    item = open_taskset("humanevalpack-javascript", data=DATA)["JavaScript/2"]
    assert item.exam.oracle is not None
    assert item.task.files["solution.js"] == item.exam.null[0]["solution.js"] != item.exam.oracle["solution.js"]
    assert b"number % 1.0 + 1.0" in item.task.files["solution.js"]
    assert set(item.task.files) == {"solution.js", "tests_visible/test_examples.js"}


@needs_data
@pytest.mark.shared
def test_languages_whose_tests_share_the_answers_process_are_refused() -> None:
    tasks = open_taskset("humanevalpack:" + str(DATA / "humanevalpack" / "go.jsonl.gz"))
    with pytest.raises(TaskError, match="expected a task in Python or JavaScript, found Go"):
        tasks["Go/0"]


@needs_data
@pytest.mark.shared
def test_tests_that_the_track_disables_are_enabled_and_skips_of_the_text_stay() -> None:
    item = open_taskset("exercism-javascript", data=DATA)["exercism/javascript/reverse-string"]
    suite = item.exam.hidden
    assert isinstance(suite, JavaScriptSuite)
    (text,) = suite.files.values()
    assert b"xtest(" not in text
    assert b"test.skip(" in text
    assert not [name for name in suite.required if "grapheme" in name]


@pytest.mark.parametrize(("text", "ids"), [
    ("test('a', () => {}); it(\"b\", f);", ("a", "b")),
    ("describe('x', () => { describe('y', () => { test('a', g); }); test('b', g); });", ("x > y > a", "x > b")),
    ("test('a', g); test('a', g);", ("a", "a #2")),
    ("xtest('a', g); test.skip('b', g); xdescribe('c', () => { test('d', g); }); test('e', g);", ("e",)),
    ("// test('no', f)\n/* test('no', f) */ const s = \"test('no')\"; test('it\\'s', f);", ("it's",)),
    ("const r = /test('x', /; test('a', () => { s.split(/[(]/); }); test('b', f);", ("a", "b")),
    ("object.test('no', f); console.assert(f());", ("script",)),
    ("test(`a`, f);", ("a",)),
])
def test_the_tests_of_a_javascript_file_are_known_by_its_text(text: str, ids: tuple[str, ...]) -> None:
    assert collected_javascript("f.js", text.encode()) == tuple(f"f.js::{id}" for id in ids)


@pytest.mark.parametrize("text", [
    "test(name, f);", "test(`a ${b}`, f);", "test.each([1])('a %d', f);",
    "for (const x of xs) { test('a', f); }", "describe('x', () => { xs.forEach((x) => { test('a', f); }); });",
])
def test_tests_that_only_a_run_can_tell_are_not_guessed(text: str) -> None:
    assert collected_javascript("f.js", text.encode()) is None


def test_a_file_that_is_no_list_of_classes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "classes.json.gz"
    path.write_bytes(gzip.compress(json.dumps([{"task_id": "a", "skeleton": 1}]).encode()))
    with pytest.raises(TaskError, match="does not fit"):
        len(open_taskset(f"classeval:{path}"))

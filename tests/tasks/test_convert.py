"""Tasks from one format into another, and what changed between two versions."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from quintain.tasks import (
    AnswerSuite,
    Change,
    Exam,
    Item,
    PythonSuite,
    Taskset,
    convert,
    differences,
    open_taskset,
    write_taskset,
)
from quintain.types import Limits, Scopes, TaskError

from ..cli.test_commands import quintain
from . import harbors
from .made import TEST, item, small_task


def test_what_a_format_cannot_say_is_told_for_each_task(tmp_path: Path) -> None:
    tasks = Taskset.of([item("a"), Item.sealed(Exam(hidden=AnswerSuite(expected="1")), id="q", instructions="?")])
    done = convert(tasks, tmp_path / "out", format="directory")
    assert done.written == ("a",)
    assert done.refused == (
        "q: the directory format says Python tests and stdio cases, found a suite of the kind 'answer'",)
    assert convert(tasks, tmp_path / "set.jsonl", format="jsonl").written == ("a", "q")


def test_unknown_keys_are_kept_and_told_in_every_format(tmp_path: Path) -> None:
    source = open_taskset(str(harbors.every_key(tmp_path / "task")))
    for format, out in (("harbor", "out"), ("jsonl", "set.jsonl")):
        done = convert(source, tmp_path / out, format=format)
        assert any("unknown: task.toml made_up: kept as it is" in note for note in done.notes)
        assert done.refused == ()


def test_a_task_that_cannot_be_read_does_not_spoil_the_others(tmp_path: Path) -> None:
    harbors.small(tmp_path / "set" / "good")
    harbors.small(tmp_path / "set" / "bad", tests__test_dot_sh="")
    done = convert(open_taskset(str(tmp_path / "set")), tmp_path / "set.jsonl", format="jsonl")
    assert done.written == ("good",)
    assert len(done.refused) == 1
    assert "tests/test.sh: expected a script, found none" in done.refused[0]


def test_a_task_inside_another_and_a_taken_place_are_refused(tmp_path: Path) -> None:
    done = convert(Taskset.of([item("a"), item("a/b")]), tmp_path / "out", format="harbor")
    assert done.refused == ("a/b: a task cannot lie inside another: 'a/b' and 'a'",)
    again = convert(Taskset.of([item("a")]), tmp_path / "out", format="harbor")
    assert "never written over" in again.refused[0]
    with pytest.raises(TaskError, match=r"expected a format that can be written \(directory, harbor, jsonl\)"):
        convert(Taskset.of([]), tmp_path / "x", format="mbpp")
    (tmp_path / "file").write_text("")
    with pytest.raises(TaskError, match="expected a folder"):
        convert(Taskset.of([item("a")]), tmp_path / "file", format="harbor")


def test_a_difference_names_what_changed() -> None:
    def version(**fields: object) -> Taskset:
        suite = PythonSuite(files={"test_f.py": TEST, **fields.pop("tests", {})})  # type: ignore[dict-item]
        exam = Exam(hidden=suite, oracle={"solution.py": b"def f():\n    return 1\n"})
        made = Item.sealed(exam, **{"id": "b", "instructions": "Do it.", **fields})  # type: ignore[arg-type]
        return Taskset.of([item(str(fields.get("other", "a"))), made] if "other" not in fields else [made])

    limits = Scopes(command=Limits(wall_seconds=5))
    (found,) = differences(version(), version(instructions="Do more.", limits=limits, tests={"test_g.py": b"x"}))
    assert (found.task, found.change) == ("b", Change.CHANGED)
    assert found.places == (
        "instructions: 'Do it.' → 'Do more.'", "limits.command.wall_seconds: 10.0 → 5",
        "hidden.files: test_g.py added",
    )
    one, two = Taskset.of([item("a"), item("b")]), Taskset.of([item("b"), item("c")])
    assert [(d.task, d.change) for d in differences(one, two)] == [("a", Change.REMOVED), ("c", Change.ADDED)]
    assert list(differences(one, one)) == []


def test_a_task_that_cannot_be_read_is_told_and_the_others_are_compared(tmp_path: Path) -> None:
    for name in ("v1", "v2"):
        small_task(tmp_path / name / "one")
        small_task(tmp_path / name / "two")
    (tmp_path / "v2" / "one" / "task.toml").write_bytes(b"\xff")
    (tmp_path / "v2" / "two" / "instructions.md").write_text("Else.")
    first, second = differences(open_taskset(str(tmp_path / "v1")), open_taskset(str(tmp_path / "v2")))
    assert (first.task, first.change, second.change) == ("one", Change.UNREADABLE, Change.CHANGED)
    assert first.before and not first.after
    assert "after: " in first.places[0] and "one/task.toml:1: expected UTF-8" in first.places[0]


def test_another_kind_of_suite_is_one_change() -> None:
    one = item("a")
    other = Item.sealed(Exam(hidden=AnswerSuite(expected="1"), oracle=one.exam.oracle), id="a", instructions="Do a.")
    (found,) = differences(Taskset.of([one]), Taskset.of([other]))
    assert found.places == ("hidden: PythonSuite → AnswerSuite",)
    assert found.before == one.task.version
    assert isinstance(found, msgspec.Struct)


def test_the_commands_convert_and_compare(tmp_path: Path) -> None:
    small_task(tmp_path / "v1" / "one")
    done = quintain("tasks", "convert", "v1", "out", "--to", "harbor", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "note     one: loss: level: tests and answer share a process" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 task(s) written to out, ")
    done = quintain("tasks", "convert", "out", "again.jsonl", "--to", "jsonl", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["written"] == ["one"]
    refused = quintain("tasks", "convert", "out", "own", "--to", "directory", cwd=tmp_path)
    assert refused.returncode == 1
    assert "refused  one: the directory format says" in refused.stdout
    same = quintain("tasks", "diff", "out", "again.jsonl", cwd=tmp_path)
    assert (same.returncode, same.stdout) == (0, "0 task(s) differ\n")
    write_taskset([item("one", instructions="Else.")], tmp_path / "v2", format="directory")
    differ = quintain("tasks", "diff", "v1", "v2", cwd=tmp_path)
    assert differ.returncode == 1
    assert "~ one  " in differ.stdout
    assert "    instructions: 'Return 1.\\n' → 'Else.'" in differ.stdout

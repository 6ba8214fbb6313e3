"""A task is known by its content, whatever it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from quintain.evaluate import content_of, in_both, listed, read_list, write_list
from quintain.types import Entry, Limits, Scopes, Task, TaskError


def task(id: str = "a", instructions: str = "Add two numbers.", **more: object) -> Task:
    return Task.sealed(id=id, instructions=instructions, exam="e", **more)


def test_another_name_tag_limit_or_blank_makes_no_other_task() -> None:
    small = Scopes(command=Limits(wall_seconds=1.0))
    same = task("b", "add  two\nnumbers.\n", tags=("x",), limits=small, image="other")
    assert content_of(same) == content_of(task())
    assert in_both([same], listed([task()], name="set", why="evaluated on")) == [("b", "a")]


@pytest.mark.parametrize("other", [
    task(instructions="Add three numbers."), task(files={"a.py": b""}), task(kind="shell"),
    task(entry=Entry(path="main.py")),
])
def test_what_is_asked_otherwise_is_another_task(other: Task) -> None:
    assert in_both([other], listed([task()], name="set", why="evaluated on")) == []


def test_a_list_grows_and_never_forgets(tmp_path: Path) -> None:
    place = tmp_path / "lists" / "set.json"
    write_list(place, listed([task()], name="set", why="evaluated on"))
    write_list(place, listed([task("b", "Multiply.")], name="set", why="evaluated on"))
    assert sorted(read_list(place).contents.values()) == ["a", "b"]
    assert [path.name for path in place.parent.iterdir()] == ["set.json"]


def test_a_file_that_is_no_list_is_named(tmp_path: Path) -> None:
    place = tmp_path / "x.json"
    place.write_text("{}")
    with pytest.raises(TaskError, match="expected a list of tasks") as refused:
        read_list(place)
    assert refused.value.file == str(place)

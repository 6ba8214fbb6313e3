"""Whole items as rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from quintain.tasks import AnswerSuite, Exam, Item, StdioCase, StdioSuite, open_taskset, write_taskset
from quintain.types import TaskError

from . import harbors
from .made import item


def some(tmp_path: Path) -> list[Item]:
    stdio = StdioSuite(cases=(StdioCase(name="a", stdin=b"\xff\0", stdout=b"\n", exit_code=None),))
    tasks = open_taskset(str(harbors.every_key(tmp_path / "task")))
    return [
        item("a/b", files={"solution.py": b"\x00\xff"}), Item.sealed(Exam(hidden=stdio), id="s", instructions="?"),
        Item.sealed(Exam(hidden=AnswerSuite(expected="7")), id="q", instructions="3+4?"), tasks[tasks.ids[0]],
    ]


def test_every_kind_of_item_reads_back_as_it_was_written(tmp_path: Path) -> None:
    items = some(tmp_path)
    assert write_taskset(items, tmp_path / "set.jsonl", format="jsonl") == ()
    assert list(open_taskset(str(tmp_path / "set.jsonl"))) == items


def test_a_harbor_directory_survives_the_way_through_rows(tmp_path: Path) -> None:
    source = harbors.every_key(tmp_path / "task")
    write_taskset(open_taskset(str(source)), tmp_path / "set.jsonl", format="jsonl")
    write_taskset(open_taskset(str(tmp_path / "set.jsonl")), tmp_path / "out", format="harbor")
    assert harbors.listing(tmp_path / "out" / "demo" / "every-key") == harbors.listing(source)


def test_a_row_that_was_changed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "set.jsonl"
    write_taskset([item("one")], file, format="jsonl")
    file.write_text(file.read_text().replace("Do one.", "Do two."))
    with pytest.raises(TaskError, match=r"set\.jsonl:1: task 'one' cannot be made: task\.version is .* it was changed"):
        list(open_taskset(str(file)))


def test_a_file_is_not_written_over_and_no_part_of_one_is_left(tmp_path: Path) -> None:
    file = tmp_path / "set.jsonl"
    with pytest.raises(TaskError, match="unique, found more than once: a"):
        write_taskset([item("a"), item("a")], file, format="jsonl")
    assert list(tmp_path.iterdir()) == []
    write_taskset([item("a")], file, format="jsonl")
    with pytest.raises(TaskError, match="never written over"):
        write_taskset([item("b")], file, format="jsonl")

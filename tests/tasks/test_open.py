"""A spec opens what it names, or says what could have been meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quintain.tasks import Format, WritableFormat, known_formats, known_sets, open_taskset, write_taskset
from quintain.types import TaskError

from .made import item, small_task


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a/1", "a/2", "b/1", "b/2"):
        small_task(tmp_path / name)
    return tmp_path


def test_views_can_be_asked_for_in_the_spec(folder: Path) -> None:
    assert open_taskset(f"{folder}?include=a*&include=b*&exclude=*2&take=5").ids == ("a/1", "b/1")
    assert open_taskset(f"directory:{folder}", include=["*1"], take=1).ids == ("a/1",)
    assert open_taskset(f"{folder}?shuffle=1").ids == open_taskset(str(folder)).shuffle(1).ids
    assert open_taskset(f"{folder}?take=3", take=1).ids == ("a/1",)


@pytest.mark.parametrize(("spec", "message"), [
    ("humanevl", r"no taskset is called 'humanevl' .* did you mean 'humaneval'\? known are .*quixbugs"),
    ("", r"no taskset is called ''"),
    ("nowhere/at/all", r"no such path exists: known are"),
    ("humaneval?tak=1", r"unknown option 'tak' .* did you mean 'take'\?"),
    ("humaneval?take=-1", r"expected take=NUMBER .* found '-1'"),
    ("humaneval?take", r"expected key=value pairs"),
    ("mbpp", r"'mbpp' is not on this machine: give --data PATH .* a folder with mbpp/mbpp.jsonl or the file"),
    ("mbpp:nowhere.jsonl", r"nowhere.jsonl: expected a file or directory, found nothing"),
])
def test_a_spec_that_means_nothing_is_refused_with_advice(spec: str, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        open_taskset(spec)


def test_a_set_that_is_not_in_the_data_folder_is_said_to_be_missing(tmp_path: Path) -> None:
    for name, public in known_sets().items():
        with pytest.raises(TaskError, match=re.escape(f"{public.files[0]}")):
            open_taskset(name, data=tmp_path)


@pytest.mark.parametrize(("rows", "found"), [
    (b'{"question": "?"}\n', r"rows.jsonl:1: .*found a first row with the keys 'question', .* \(questions: .*answer"),
    (b'{"repo": "a/b", "instance_id": "a__b-1"}\n', r"keys 'instance_id', 'repo', .* \(swe: .*base_commit"),
    (b"[1, 2]\n", "no object but list"), (b"{}\n", "without a key"), (b"", "an empty file"),
    (b"\n{}\n", "an empty first"),
    (b'{"question": ', "rows.jsonl:1: .*no JSON"), (b"\xff\xfe\x00", "no JSON"), (b"[" * 100_000, "no JSON"),
])
def test_a_file_in_no_known_format_is_refused_with_what_it_lacks(rows: bytes, found: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(rows)
    with pytest.raises(TaskError, match=found):
        open_taskset(str(tmp_path / "rows.jsonl"))


def test_a_folder_in_no_known_format_is_refused_with_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"expected a path in a known format, found an empty folder.*directory: "):
        open_taskset(str(tmp_path))
    (tmp_path / "task.tml").touch()
    with pytest.raises(TaskError, match=r"found a folder with 'task.tml'"):
        open_taskset(str(tmp_path))
    (tmp_path / "rows.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(TaskError, match="found what cannot be read"):
        open_taskset(str(tmp_path / "rows.jsonl.gz"))


def test_every_format_says_what_it_is() -> None:
    formats = known_formats()
    assert {"directory", "exercism", "harbor", "humaneval", "jsonl", "mbpp", "quixbugs"} <= formats.keys()
    for name, offered in formats.items():
        assert isinstance(offered, Format)
        assert offered.name == name
        assert offered.about
    writable = {name for name, offered in formats.items() if isinstance(offered, WritableFormat)}
    assert writable == {"directory", "harbor", "jsonl"}


def test_a_format_that_cannot_be_written_says_which_can(tmp_path: Path) -> None:
    said = r"expected a format that can be written \(directory, harbor, jsonl\), found 'mbpp'"
    with pytest.raises(TaskError, match=said):
        write_taskset([item("a")], tmp_path, format="mbpp")


@pytest.mark.parametrize("content", [b"not gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\0cut"])
def test_a_broken_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl.gz").write_bytes(content)
    with pytest.raises(TaskError, match="expected a gzip file, found"):
        list(open_taskset(f"humaneval:{tmp_path}/rows.jsonl.gz"))

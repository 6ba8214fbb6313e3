"""A task id is a name, never a way out of a folder."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.tasks import Exam, Item, PythonSuite, check_id, check_paths, portable_name
from quintain.types import TaskError

from .made import CASES, TEST, item, needs_cases


@pytest.mark.parametrize("id", ["sums", "HumanEval/0", "exercism/python/two-fer", "a b", "ünï", "TASK", "x.y", "..x"])
def test_public_ids_are_accepted_as_they_are(id: str) -> None:
    assert check_id(id) == id


@pytest.mark.parametrize("id", [
    "", ".", "..", "/etc", "a/../b", "a//b", "a/", "-rf", "a/-rf", "a\\b", "a\0b", "a\nb", " a", "a ", "x" * 201,
    "\ud800", "a\u202eb", "é" * 101,
])
def test_what_could_be_a_path_an_option_or_a_trick_is_refused(id: str) -> None:
    with pytest.raises(TaskError, match="a task id is a relative name"):
        check_id(id)


@needs_cases
def test_the_ids_of_case_tf09_stay_apart_and_inside() -> None:
    ids = json.loads((CASES / "TF09" / "ids.json").read_text())
    accepted = []
    for id in ids:
        try:
            accepted.append(check_id(id))
        except TaskError:
            continue
    assert accepted == ["org/task", "CON", "a b", "TASK", "task", "ünï"]


@given(st.text(alphabet="ab./\\-\0 é", max_size=12))
def test_an_accepted_id_never_leaves_the_folder_that_uses_it(id: str) -> None:
    try:
        check_id(id)
    except TaskError:
        return
    assert PurePosixPath("root", id).as_posix() == f"root/{id}"
    assert Path("/root", id).resolve().is_relative_to("/root")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/./b", "a//b", "", "a\0", "a/../../b"])
def test_no_file_of_a_task_leads_out_of_its_tree(path: str) -> None:
    exam = Exam(hidden=PythonSuite(files={"test_f.py": TEST}))
    with pytest.raises(TaskError, match="expected a relative path"):
        item("a", files={path: b""})
    with pytest.raises(TaskError, match="expected a relative path"):
        Item.sealed(Exam(hidden=exam.hidden, oracle={path: b""}), id="a", instructions="x")
    with pytest.raises(TaskError, match="expected a relative path"):
        Item.sealed(Exam(hidden=PythonSuite(files={path: TEST})), id="a", instructions="x")


def test_a_file_cannot_be_a_folder_too() -> None:
    with pytest.raises(TaskError, match="it is a folder of another file"):
        check_paths(["a", "a/b"])


ID = st.text(alphabet="abAB_-/. é", min_size=1, max_size=8) | st.text(alphabet="xX/", min_size=90, max_size=110)


@given(st.lists(ID, unique=True, max_size=30))
def test_portable_names_of_different_ids_differ_whatever_their_case(ids: list[str]) -> None:
    names = [portable_name(id) for id in ids]
    assert len({name.casefold() for name in names}) == len(ids)
    assert all(re.fullmatch(r"t-[a-z0-9_-]{0,98}", name) for name in names)


def test_portable_names_are_what_they_always_were() -> None:
    assert portable_name("org/task") == "t-org_2ftask"
    assert portable_name("TASK") == "t-_54_41_53_4b"
    assert portable_name("CON") != portable_name("con") == "t-con"
    assert portable_name("x" * 200).startswith("t-" + "x" * 65 + "-")
    assert len(portable_name("x" * 200)) == 100

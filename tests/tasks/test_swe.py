"""Repairs of repositories as rows, and what of a repository a task may hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quintain.tasks import Item, ScriptSuite, open_taskset
from quintain.tasks.formats.git import BaseTree, base_tree, history_in, later_objects, one_commit, patched
from quintain.tasks.formats.swe import Told, ids_of, told_of
from quintain.types import TaskError

from . import repositories
from .made import CASES, needs_cases


def only(path: Path) -> Item:
    (found,) = open_taskset(str(path))
    return found


def test_a_task_holds_the_base_commit_and_nothing_of_what_came_later(tmp_path: Path) -> None:
    found = only(repositories.written(tmp_path))
    assert set(found.task.files) == {"calc.py", "test_calc.py", "README", "run.sh"}
    assert found.task.files["calc.py"] == repositories.BUGGY.encode()
    assert found.task.files["test_calc.py"] == repositories.OLD_TEST.encode()
    assert found.exam.oracle == {"calc.py": repositories.FIXED.encode()}
    suite = found.exam.hidden
    assert isinstance(suite, ScriptSuite)
    assert suite.required == ("test_calc.py::test_add", "test_calc.py::test_zero")
    assert suite.files["tree/test_calc.py"] == repositories.NEW_TEST.encode()
    assert found.task.entry.path == "calc.py"


def test_what_lies_beyond_the_base_is_found(tmp_path: Path) -> None:
    made = repositories.repository(tmp_path / "repo")
    later = later_objects(tmp_path / "repo", made["base"])
    assert f"commit {made['fix']}" in later
    assert sum(line.startswith("blob") for line in later) == 3
    assert later_objects(tmp_path / "repo", made["fix"]) == ()


def test_a_repository_of_one_commit_has_nothing_to_mine(tmp_path: Path) -> None:
    made = repositories.repository(tmp_path / "repo")
    tree = base_tree(tmp_path / "repo", made["base"])
    assert tree.left_out == ("link: a link",)
    commit = one_commit(tree, tmp_path / "clean")
    assert later_objects(tmp_path / "clean", commit) == ()
    again = base_tree(tmp_path / "clean", commit)
    assert (again.files, again.executable) == (tree.files, frozenset({"run.sh"}))
    assert one_commit(tree, tmp_path / "twin") == commit
    with pytest.raises(TaskError, match="expected a place where nothing is yet"):
        one_commit(tree, tmp_path / "clean")


def test_a_commit_that_was_amended_away_is_still_found(tmp_path: Path) -> None:
    made = repositories.repository(tmp_path / "repo")
    repositories.git(tmp_path / "repo", "reset", "-q", "--hard", made["base"])
    assert f"commit {made['fix']}" in later_objects(tmp_path / "repo", "HEAD")


def test_history_inside_a_tree_is_named() -> None:
    files = {"a.py": b"", ".git/HEAD": b"", ".git/objects/pack/x.pack": b"", "sub/.git": b"x", ".gitignore": b"",
             "bare.git/HEAD": b"", "bare.git/objects/aa/bb": b"", "HEAD": b""}
    assert history_in(files) == (
        ".git/HEAD", ".git/objects/pack/x.pack", "bare.git/HEAD", "bare.git/objects/aa/bb", "sub/.git")


def test_hooks_and_filters_of_a_repository_are_not_run(tmp_path: Path) -> None:
    made = repositories.repository(tmp_path / "repo")
    witness = tmp_path / "witness"
    for hook in ("post-checkout", "pre-commit", "post-index-change"):
        place = tmp_path / "repo" / ".git" / "hooks" / hook
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"#!/bin/sh\ntouch {witness}\n")
        place.chmod(0o755)
    repositories.git(tmp_path / "repo", "config", "filter.evil.smudge", f"touch {witness}; cat")
    repositories.git(tmp_path / "repo", "config", "core.fsmonitor", f"touch {witness}")
    (tmp_path / "repo" / ".git" / "info").mkdir(exist_ok=True)
    (tmp_path / "repo" / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    base_tree(tmp_path / "repo", made["base"])
    later_objects(tmp_path / "repo", made["base"])
    assert not witness.exists()


def test_patches_make_change_and_remove_files() -> None:
    patch = ("diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n"
             "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+new\n"
             "diff --git a/d b/d\ndeleted file mode 100644\n--- a/d\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n")
    changed = patched({"a": b"1\n", "d": b"gone\n", "k": b""}, patch, key="patch")
    assert changed == ({"a": b"2\n", "n": b"new\n"}, ("d",))


@pytest.mark.parametrize("patch", [
    "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-9\n+2\n", "no patch",
    "diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+out\n",
    "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n"
    "\\ No newline at end of file\n",
])
def test_a_patch_that_does_not_apply_or_leads_out_is_refused(patch: str) -> None:
    with pytest.raises(ValueError, match="patch: expected"):
        patched({"a": b"1\n"}, patch, key="patch")


@pytest.mark.parametrize(("fields", "said"), [
    ({"FAIL_TO_PASS": []}, "FAIL_TO_PASS: expected at least one test"),
    ({"FAIL_TO_PASS": ["test_calc.py::test_zero"]}, "expected each id in one list, found 'test_calc.py::test_zero'"),
    ({"FAIL_TO_PASS": "no list"}, "FAIL_TO_PASS: expected a list, or one as JSON text"),
    ({"base_commit": "0" * 40}, "git rev-parse"), ({"base_commit": "--help"}, "expected the name of a commit"),
    ({"repo": "org/absent"}, "expected a clone of org/absent at"), ({"repo": "../x"}, "repo: expected ORG/NAME"),
    ({"test_patch": "nothing"}, "test_patch: expected a patch that applies"),
    ({"problem_statement": ""}, "problem_statement: expected what is wrong"),
])
def test_a_malformed_row_is_refused_with_key_and_expectation(
    fields: dict[str, object], said: str, tmp_path: Path
) -> None:
    path = repositories.written(tmp_path, **fields)
    with pytest.raises(TaskError) as error:
        only(path)
    assert said in str(error.value)


@pytest.mark.parametrize(("id", "told"), [
    ("t.py::x", Told.PASSED), ("t.py::y", Told.FAILED), ("t.py::z[a", Told.AMBIGUOUS), ("t.py::gone", Told.MISSING),
])
def test_a_beginning_is_never_taken_for_the_whole(id: str, told: Told) -> None:
    assert told_of(id, {"t.py::x": "PASSED", "t.py::y": "SKIPPED", "t.py::z[a b]": "PASSED"}) is told


@needs_cases
def test_the_handed_rows_are_parsed_or_refused() -> None:
    found = json.loads((CASES / "TF05" / "rows.json").read_text())
    with pytest.raises(ValueError, match="are not closed: it was cut"):
        ids_of(found[0]["FAIL_TO_PASS"], "FAIL_TO_PASS")
    assert ids_of(found[1]["FAIL_TO_PASS"], "F") == ("tests/test_a.py::test_x[a b]",)
    assert ids_of(found[1]["PASS_TO_PASS"], "P") == ()
    with pytest.raises(ValueError, match=r"P: expected FILE\.py::TEST, found '\[100%\]'"):
        ids_of(found[2]["PASS_TO_PASS"], "P")
    assert ids_of(found[3]["FAIL_TO_PASS"], "F") == ("tests/test_a.py::test_x[a b]",), "counted once"
    statuses = json.loads((CASES / "TF05" / "statuses.json").read_text())
    assert told_of("tests/test_a.py::test_x[a", statuses) is Told.AMBIGUOUS
    assert told_of("tests/test_a.py::test_x[a c]", statuses) is Told.PASSED
    assert told_of("tests/test_a.py::test_x[a d]", statuses) is Told.FAILED


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="expected a git repository, found none"):
        base_tree(tmp_path, "HEAD")
    assert one_commit(BaseTree(files={}), tmp_path / "empty")

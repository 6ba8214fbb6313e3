"""A patch put on a tree."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.program import Patched, apply_patch
from quintain.types import Fault, FaultKind, Owner

ONE = {"a.py": b"one\ntwo\nthree\n"}
EDIT = "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"


def applied(tree: dict[str, bytes], patch: str | bytes, **options: object) -> Patched:
    done = apply_patch(tree, patch, **options)  # type: ignore[arg-type]
    assert isinstance(done, Patched), done
    return done


def refused(tree: dict[str, bytes], patch: str | bytes, **options: object) -> Fault:
    before = dict(tree)
    fault = apply_patch(tree, patch, **options)  # type: ignore[arg-type]
    assert isinstance(fault, Fault), fault
    assert tree == before and fault.owner is Owner.POLICY
    return fault


LINES = st.lists(st.sampled_from(["a", "b", "c", "", " d", "-e", "+f", "@@ x", "\\ g", "--- h", "+++ i"]), max_size=25)


@given(LINES, LINES, st.integers(0, 4), st.booleans())
def test_a_diff_by_difflib_leads_to_its_target(old: list[str], new: list[str], context: int, recount: bool) -> None:
    before, after = ("".join(line + "\n" for line in lines) for lines in (old, new))
    diff = "".join(difflib.unified_diff(
        before.splitlines(True), after.splitlines(True), "a/f.txt", "b/f.txt", n=context,
    ))
    recount = recount and not any(line.startswith(("--", "++")) for line in (*old, *new))
    done = apply_patch({"f.txt": before.encode()}, diff, recount=recount)
    if before == after:
        assert isinstance(done, Fault) and done.kind is FaultKind.EMPTY_PATCH
    else:
        assert isinstance(done, Patched), (done, diff)
        assert done.tree == {"f.txt": after.encode()}


@given(st.one_of(st.text(), st.lists(st.sampled_from([
    "--- a/a.py\n", "+++ b/a.py\n", "@@ -1,3 +1,3 @@\n", "@@ -1 +1 @@\n", " one\n", "-two\n", "+x\n", "\n",
    "\\ No newline\n", "diff --git a/a.py b/b.py\n", "rename from a.py\n", "rename to b.py\n",
    "deleted file mode 100644\n",
    "--- /dev/null\n",
    "+++ /dev/null\n", "new file mode 120000\n", '--- "a/\\303\n', "+++ b/../x\n", "```\n", "\ud800", "-- \n", "\r\n",
]), max_size=15).map("".join)), st.booleans())
def test_apply_never_raises_and_never_leaves_the_tree(patch: str, recount: bool) -> None:
    done = apply_patch(ONE, patch, recount=recount)
    if isinstance(done, Patched):
        assert all(not path.startswith("/") and ".." not in path.split("/") for path in done.tree)
    assert ONE == {"a.py": b"one\ntwo\nthree\n"}


def test_two_other_places_are_ambiguous() -> None:
    tree = {"a.py": b"x\n" * 3 + b"one\ntwo\n" + b"y\n" * 9 + b"one\ntwo\n"}
    fault = refused(tree, "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")
    assert fault.kind is FaultKind.PATCH_AMBIGUOUS
    assert "line 4" in fault.message and "line 15" in fault.message


def test_the_stated_place_wins_over_others_like_it() -> None:
    tree = {"a.py": b"one\ntwo\n" * 3}
    done = applied(tree, "--- a/a.py\n+++ b/a.py\n@@ -3,2 +3,2 @@\n one\n-two\n+2\n")
    assert done.tree["a.py"] == b"one\ntwo\none\n2\none\ntwo\n"


def test_later_hunks_follow_the_drift_of_the_first() -> None:
    body = "".join(f"l{i}\n" for i in range(30))
    changed = body.replace("l5\n", "L5\n").replace("l20\n", "L20\n")
    diff = "".join(difflib.unified_diff(body.splitlines(True), changed.splitlines(True), "a/f", "b/f"))
    done = applied({"f": b"new\nnew\n" + body.encode()}, diff)
    assert done.tree["f"] == b"new\nnew\n" + changed.encode()
    assert sum("offset 2" in note for note in done.notes) == 2


def test_the_drift_tells_two_like_places_apart() -> None:
    tree = {"f": b"added\nhead\none\ntwo\none\ntwo\n"}  # the patch was made before 'added'
    patch = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-head\n+HEAD\n@@ -4,2 +4,2 @@\n one\n-two\n+2\n"
    assert applied(tree, patch).tree["f"] == b"added\nHEAD\none\ntwo\none\n2\n"


def test_a_file_that_no_hunk_fits_tells_what_it_has_instead() -> None:
    fault = refused({"a.py": b"one\nzwei\nthree\n"}, EDIT)
    assert fault.kind is FaultKind.PATCH_DOES_NOT_APPLY
    assert "'two'" in fault.message and "'zwei'" in fault.message and fault.file == "a.py"


def test_all_or_nothing_holds_across_files() -> None:
    second = "--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n-x\n+y\n"
    assert refused(dict(ONE), EDIT + second).kind is FaultKind.PATCH_DOES_NOT_APPLY


@pytest.mark.parametrize("header", ["@@ -1,2 +1,3 @@", "@@ -1,3 +1,2 @@", "@@ -1,4 +1,4 @@", "@@ ... @@", "@@ -1,3 @@"])
def test_a_wrong_header_is_malformed_with_its_line(header: str) -> None:
    fault = refused(ONE, EDIT.replace("@@ -1,3 +1,3 @@", header))
    assert (fault.kind, fault.line) == (FaultKind.PATCH_MALFORMED, 3)
    assert "line 3 of the patch" in fault.message


def test_recounting_is_an_option_and_is_noted() -> None:
    done = applied(ONE, EDIT.replace("-1,3 +1,3", "-1,9 +1,7"), recount=True)
    assert done.tree["a.py"] == b"one\n2\nthree\n"
    assert any("counted anew" in note for note in done.notes)


def test_a_hunk_without_a_file_is_malformed() -> None:
    assert refused(ONE, "@@ -1 +1 @@\n-one\n+1\n").kind is FaultKind.PATCH_MALFORMED
    assert refused(ONE, "I changed line two.").kind is FaultKind.PATCH_MALFORMED


@pytest.mark.parametrize("patch", ["", " \n", "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n one\n"])
def test_a_patch_that_changes_nothing_is_empty(patch: str) -> None:
    assert refused(ONE, patch).kind is FaultKind.EMPTY_PATCH


def test_a_patch_of_protected_files_only_is_empty_and_says_so() -> None:
    fault = refused(ONE, EDIT, protected=("*.py",))
    assert fault.kind is FaultKind.EMPTY_PATCH and "a.py" in fault.message


@pytest.mark.parametrize("name", ["../a.py", "b/../../a.py", "/etc/passwd", ".git/hooks/x", "C:\\a.py", "b\\a.py"])
def test_a_path_that_leads_out_is_forbidden(name: str) -> None:
    for prefix in ("b/", ""):
        old = "/dev/null"
        fault = refused(ONE, f"--- {old}\n+++ {prefix}{name}\n@@ -0,0 +1 @@\n+x\n")
        assert fault.kind is FaultKind.FORBIDDEN_PATH


def test_a_symbolic_link_is_forbidden() -> None:
    link = ("diff --git a/l b/l\nnew file mode 120000\nindex 0..1\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n"
            "+/etc/passwd\n\\ No newline at end of file\n")
    assert refused(ONE, link).kind is FaultKind.FORBIDDEN_PATH


def test_files_are_made_removed_copied_and_emptied_as_git_writes_it() -> None:
    patch = (
        "diff --git a/new.py b/new.py\nnew file mode 100755\nindex 0..1\n--- /dev/null\n+++ b/new.py\n"
        "@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n"
        "diff --git a/empty file b/empty file\nnew file mode 100644\nindex 0..0\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n"
        "diff --git a/a.py b/c.py\nsimilarity index 100%\ncopy from a.py\ncopy to c.py\n"
        'diff --git "a/\\303\\274" "b/\\303\\266"\nsimilarity index 100%\nrename from "\\303\\274"\n'
        'rename to "\\303\\266"\n'
        "diff --git a/a.py b/a.py\nold mode 100644\nnew mode 100755\n"
    )
    done = applied({**ONE, "gone": b"bye\n", "ü": b"u\n"}, patch)
    assert done.tree == {**ONE, "new.py": b"x", "empty file": b"", "c.py": ONE["a.py"], "ö": b"u\n"}
    assert any("modes are not kept" in note for note in done.notes)


@pytest.mark.parametrize(("tree", "patch"), [
    (ONE, "--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+x\n"),  # exists already
    (ONE, "--- a/a.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"),  # lines are left
    (ONE, "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"),  # nothing to rename
    ({**ONE, "b.py": b""}, "diff --git a/a.py b/b.py\nsimilarity index 100%\nrename from a.py\nrename to b.py\n"),
])
def test_what_contradicts_the_tree_does_not_apply(tree: dict[str, bytes], patch: str) -> None:
    assert refused(tree, patch).kind is FaultKind.PATCH_DOES_NOT_APPLY


def test_renames_and_copies_start_from_the_state_before_the_patch() -> None:
    tree = {"a": b"1\n", "b": b"2\n"}
    swap = "".join(
        f"diff --git a/{x} b/{y}\nsimilarity index 100%\nrename from {x}\nrename to {y}\n" for x, y in ("ab", "ba")
    )
    assert applied(tree, swap).tree == {"a": b"2\n", "b": b"1\n"}
    edit = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+9\n"
    copy = "diff --git a/a b/c\nsimilarity index 50%\ncopy from a\ncopy to c\n--- a/a\n+++ b/c\n"
    copy += "@@ -1 +1 @@\n-1\n+3\n"
    assert applied(tree, edit + copy).tree == {"a": b"9\n", "b": b"2\n", "c": b"3\n"}


def test_a_binary_patch_is_malformed() -> None:
    assert refused(ONE, "diff --git a/p b/p\nindex 1..2 100644\nBinary files a/p and b/p differ\n").kind is (
        FaultKind.PATCH_MALFORMED)


def test_a_final_newline_can_be_taken_away_and_given() -> None:
    bare = {"a": b"x\ny"}
    marker = "\\ No newline at end of file\n"
    assert applied(bare, f"--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n x\n-y\n{marker}+z\n").tree == {"a": b"x\nz\n"}
    assert applied(bare, f"--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n x\n-y\n{marker}+z\n{marker}").tree == {"a": b"x\nz"}
    assert applied(bare, "--- a/a\n+++ b/a\n@@ -1,2 +1,3 @@\n x\n y\n+z\n").tree == {"a": b"x\ny\nz\n"}


def test_a_stripped_patch_may_lack_its_last_blank_lines() -> None:
    done = applied({"a": b"x\ny\n\n"}, "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n-x\n+1\n y")
    assert done.tree == {"a": b"1\ny\n\n"}
    assert any("were missing" in note for note in done.notes)


def test_added_lines_take_the_line_ends_of_the_file() -> None:
    done = applied({"a": b"x\r\ny\r\n"}, "--- a/a\n+++ b/a\n@@ -1,2 +1,3 @@\n x\n+new\n y\n")
    assert done.tree == {"a": b"x\r\nnew\r\ny\r\n"}
    inserted = applied({"a": b"x\r\ny\r\n"}, "--- a/a\n+++ b/a\n@@ -1,0 +2 @@\n+new\n")
    assert inserted.tree == {"a": b"x\r\nnew\r\ny\r\n"}


def test_an_author_may_change_the_line_ends() -> None:
    done = applied({"a": b"x\ny\n"}, "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-x\n+x\r\n y\n")
    assert done.tree == {"a": b"x\r\ny\n"}


def test_a_mail_with_signature_and_prose_is_read() -> None:
    mail = f"From: me\nSubject: [PATCH] x\n\n---\n a.py | 2 +-\n\ndiff --git a/a.py b/a.py\n{EDIT}-- \n2.39.2\n\n"
    assert applied(ONE, mail).tree["a.py"] == b"one\n2\nthree\n"


def test_names_without_prefix_and_with_times_are_read() -> None:
    patch = EDIT.replace("a/a.py", "a.py\t2026-01-01 00:00:00").replace("b/a.py", "a.py\t2026-01-01 00:00:00")
    assert applied(ONE, patch).changed == ("a.py",)
    assert applied(ONE, EDIT.replace("--- a/a.py", "--- a/a.py.orig")).changed == ("a.py",)

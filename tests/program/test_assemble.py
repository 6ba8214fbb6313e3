"""The project that a reply makes of a task."""

from __future__ import annotations

import pytest

from quintain.program import Answer, Build, assemble, clean_path, is_protected, language, parse
from quintain.types import Entry, Fault, FaultKind, Owner, Task

FILES = {"data.txt": b"1\n", "tests_visible/test_a.py": b"assert True\n", "solution.py": b"x = 1\n"}


def task(entry: Entry) -> Task:
    return Task.sealed(id="t", instructions="Do.", files=FILES, entry=entry, exam="0")


def built(entry: Entry, answer: Answer, **options: object) -> Build:
    build = assemble(task(entry), answer, **options)  # type: ignore[arg-type]
    assert isinstance(build, Build), build
    return build


def test_a_function_is_called_and_a_program_is_started() -> None:
    answer = Answer(files={"solution.py": b"y\n"})
    assert built(Entry(name="add"), answer).program.argv == ()
    program = built(Entry(), answer, stdin=b"in", env={"A": "b"}).program
    assert (program.argv, program.stdin, program.env) == (("python3", "solution.py"), b"in", {"A": "b"})
    script = built(Entry(path="run.sh", language="shell"), Answer(files={"run.sh": b"ls\n"})).program
    assert (script.argv, script.language) == (("bash", "run.sh"), "shell")


def test_the_answer_is_laid_over_the_tasks_files() -> None:
    build = built(Entry(), Answer(files={"solution.py": b"y\n", "./pkg//b.py": b"z\n"}))
    assert build.program.files == {**FILES, "solution.py": b"y\n", "pkg/b.py": b"z\n"}
    assert build.own_files == ("pkg/b.py", "solution.py")


def test_protected_files_stay_the_tasks_and_are_reported() -> None:
    answer = Answer(files={"solution.py": b"y\n", "tests_visible/test_a.py": b"pass\n"})
    build = built(Entry(), answer, protected=("tests_visible/",))
    assert build.program.files["tests_visible/test_a.py"] == FILES["tests_visible/test_a.py"]
    assert build.protected == ("tests_visible/test_a.py",) and "protected" in build.notes[0]


def test_a_patch_is_put_on_the_tasks_files() -> None:
    diff = "--- a/solution.py\n+++ b/solution.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    answer = parse(f"```diff\n{diff}```\n", Entry())
    assert isinstance(answer, Answer)
    build = built(Entry(), answer)
    assert build.program.files == {**FILES, "solution.py": b"x = 2\n"} and build.own_files == ("solution.py",)
    gone = assemble(task(Entry()), Answer(patch="--- a/solution.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1\n"))
    assert isinstance(gone, Fault) and gone.kind is FaultKind.MISSING_ENTRY_POINT


@pytest.mark.parametrize("path", [
    "../a", "/etc/passwd", "a/../../b", "", ".", "a/", "~/x", "a\\b", "C:/x", "a\nb", "a\0b", ".git/config", "x" * 300,
    "data.txt/x", "\ud800",
])
def test_a_path_that_leads_out_is_forbidden(path: str) -> None:
    fault = assemble(task(Entry()), Answer(files={"solution.py": b"", path: b""}))
    assert isinstance(fault, Fault)
    assert (fault.owner, fault.kind) == (Owner.POLICY, FaultKind.FORBIDDEN_PATH)


def test_a_file_named_twice_is_refused() -> None:
    fault = assemble(task(Entry()), Answer(files={"solution.py": b"", "./solution.py": b"x"}))
    assert isinstance(fault, Fault) and fault.kind is FaultKind.FORBIDDEN_PATH


def test_globs_stay_within_their_folder() -> None:
    assert clean_path("./a//b/./c.py") == "a/b/c.py"
    assert is_protected("x/conftest.py", ["conftest.py"]) and is_protected("conftest.py", ["conftest.py"])
    assert is_protected("tests/a/b.py", ["tests/"]) and not is_protected("mytests/a.py", ["tests/"])
    assert is_protected("a/b.py", ["a/*.py"]) and not is_protected("a/b/c.py", ["a/*.py"])
    assert is_protected("a/b/c.py", ["a/**"]) and not is_protected("axpy", ["a?py/"])


def test_a_check_command_is_a_template_of_the_table() -> None:
    assert language("js").check_for("a b.js") == ("node", "--check", "a b.js")

"""What an attempt has to be measured by: which tests, against which code, and whose of the two is the answer."""

from __future__ import annotations

import msgspec

from quintain.grade import bundle
from quintain.tasks import Item, PythonSuite
from quintain.types import Attempt

#: The kind of work in which the answer is a suite of tests for code that is given.
TEST_WRITING = "testgen"


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """`paths` are the files whose quality is in question; `trusted` says whether the tests are the house's own."""

    suite: PythonSuite
    files: dict[str, bytes]
    paths: tuple[str, ...]
    trusted: bool


def measured(attempt: Attempt, item: Item) -> Measured | str:
    """The parts of an attempt, or why it has none that can be measured."""
    if attempt.program is None:
        return "there is no program"
    if item.task.kind == TEST_WRITING:
        return written_tests(attempt, item)
    if not isinstance(item.exam.hidden, PythonSuite):
        return "the hidden suite is not made of Python tests"
    files = {path: content for path, content in attempt.program.files.items() if not is_visible_test(path)}
    changed = tuple(path for path in attempt.changed if path in files and path.endswith(".py"))
    if not changed:
        return "the answer changed no Python file"
    return Measured(suite=item.exam.hidden, files=files, paths=changed, trusted=True)


def written_tests(attempt: Attempt, item: Item) -> Measured | str:
    """The answer's tests, and the given code that they are for."""
    if attempt.program is None:
        return "there is no program"
    code = code_under_test(item)
    if not code:
        return "the task gives no Python code to test"
    own = {path: content for path, content in attempt.changed.items() if path not in code}
    if not bundle.files_with_tests(own, ()):
        return "the answer holds no test"
    suite = PythonSuite(files=own, modules=modules_of(code))
    return Measured(suite=suite, files=dict(item.task.files), paths=tuple(code), trusted=False)


def code_under_test(item: Item) -> dict[str, bytes]:
    """The given Python files that are not tests themselves, by path."""
    tests = set(bundle.files_with_tests(item.task.files, ()))
    return {path: content for path, content in item.task.files.items()
            if path.endswith(".py") and path not in tests and not is_visible_test(path)}


def modules_of(files: dict[str, bytes]) -> tuple[str, ...]:
    """The names under which the files are imported: `a/b.py` as `a.b`, a package by its folder."""
    names = [path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in files]
    return tuple(sorted(set(names)))


def is_visible_test(path: str) -> bool:
    return path.startswith("tests_visible/")

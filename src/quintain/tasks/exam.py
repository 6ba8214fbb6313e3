"""What a task is judged by: hidden tests, the oracle, the null answers. No policy ever holds one of these."""

from __future__ import annotations

import shlex
from enum import StrEnum

import msgspec

from quintain.tasks.answer import AnswerSuite
from quintain.tasks.foreign import JavaScriptSuite, ShellSuite
from quintain.tasks.names import check_id, check_paths
from quintain.tasks.script import ScriptSuite
from quintain.types import Task, content_digest


class PythonSuite(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="suite", tag="python",
):
    """Trusted test files in pytest or unittest style, run in the verifier's own process.

    `files` (path → bytes) is the test tree: test files, helpers, data. `modules` are the names under which the tests
    import the candidate's code (`solution`, or `node` for a helper that the candidate's tree holds): in the verifier
    these are stand-ins whose calls cross a pipe to the candidate's process. `required` are the test ids that must each
    be reported exactly once (`test_solution.py::test_add`, `test_x.py::TestX::test_y`); empty: all that are collected.
    """

    files: dict[str, bytes]
    modules: tuple[str, ...] = ("solution",)
    required: tuple[str, ...] = ()


class Compare(StrEnum):
    """How an output is compared: byte for byte; with trailing blanks and final newlines ignored; token by token."""

    EXACT = "exact"
    TRIMMED = "trimmed"
    TOKENS = "tokens"


class StdioCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of a program: what goes in, and what must come out."""

    name: str
    argv: tuple[str, ...] = ()
    stdin: bytes = b""
    files: dict[str, bytes] = {}
    stdout: bytes = b""
    exit_code: int | None = 0


class StdioSuite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="suite", tag="stdio"):
    cases: tuple[StdioCase, ...]
    compare: Compare = Compare.TRIMMED


Suite = PythonSuite | StdioSuite | ScriptSuite | AnswerSuite | JavaScriptSuite | ShellSuite


def kind_of(suite: Suite) -> str:
    """The word for a kind of suite, as it stands in records: python, stdio, script, answer ..."""
    return str(type(suite).__struct_config__.tag)


def names_of(suite: Suite) -> tuple[str, ...]:
    """The tests that a suite names: each is expected exactly once. Empty where only a run can find them."""
    match suite:
        case StdioSuite():
            return tuple(case.name for case in suite.cases)
        case AnswerSuite():
            return ("answer",)
        case _:
            return suite.required


class Exam(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`hidden` decides the reward; `visible` may be shown and run at every turn; `reserve` is for audits and is never
    rewarded. `oracle` and `null` are answers as file trees: one that must solve the task, and some that must not."""

    hidden: Suite
    visible: Suite | None = None
    reserve: Suite | None = None
    oracle: dict[str, bytes] | None = None
    null: tuple[dict[str, bytes], ...] = ()

    @property
    def digest(self) -> str:
        return content_digest(self)


class Item(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task together with its exam; only the rooms that grade hold both. `task.exam == exam.digest`."""

    task: Task
    exam: Exam

    @classmethod
    def sealed(cls, exam: Exam, *, files: dict[str, bytes] | None = None, **fields: object) -> Item:
        """An item whose task carries the exam's digest, its own version, and the visible tests among its files.

        `fields` are those of `Task` without `version` and `exam`. Raises TaskError for an id that may not be one and
        for a path, in any of the trees, that is not relative or leads out of its tree.
        """
        shown = {**(files or {}), **visible_files(exam.visible)}
        task = Task.sealed(files=shown, exam=exam.digest, **fields)
        check_id(task.id)
        check_paths([task.entry.path])
        for tree in (shown, exam.oracle or {}, *exam.null, *_trees(exam.hidden), *_trees(exam.reserve)):
            check_paths(tree)
        return cls(task=task, exam=exam)


def _trees(suite: Suite | None) -> tuple[dict[str, bytes], ...]:
    match suite:
        case None | AnswerSuite():
            return ()
        case StdioSuite():
            return tuple(case.files for case in suite.cases)
        case ScriptSuite():
            kept = (suite.package.files,) if suite.package else ()
            return (suite.files, *kept, *(tree for step in suite.steps for tree in (step.files, step.setup)))
        case _:
            return (suite.files,)


#: Where the visible tests lie in the work tree.
VISIBLE_FOLDER = "tests_visible"


def visible_files(suite: Suite | None) -> dict[str, bytes]:
    """The files by which a visible suite is shown in the work tree, below `tests_visible/`."""
    if suite is None or isinstance(suite, AnswerSuite):
        return {}
    files = case_files(suite) if isinstance(suite, StdioSuite) else suite.files
    return {f"{VISIBLE_FOLDER}/{path}": content for path, content in files.items()}


def case_files(suite: StdioSuite) -> dict[str, bytes]:
    """The cases of a suite as files: NAME.in, NAME.out, and NAME.args (one shell line), NAME.code (the exit code, or
    'any') and NAME.files/... where they say something."""
    files: dict[str, bytes] = {}
    for case in suite.cases:
        files[f"{case.name}.in"] = case.stdin
        files[f"{case.name}.out"] = case.stdout
        if case.argv:
            files[f"{case.name}.args"] = (shlex.join(case.argv) + "\n").encode()
        if case.exit_code != 0:
            files[f"{case.name}.code"] = b"any\n" if case.exit_code is None else b"%d\n" % case.exit_code
        files.update({f"{case.name}.files/{path}": content for path, content in case.files.items()})
    return files

"""What a task is judged by: hidden tests, the oracle, the null answers. No policy ever holds one of these."""

from __future__ import annotations

from enum import StrEnum

import msgspec

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


Suite = PythonSuite | StdioSuite


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

"""Suites in other languages than Python: their tests run on the trusted side as they are written."""

from __future__ import annotations

import msgspec


class JavaScriptSuite(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="suite", tag="javascript",
):
    """Trusted JavaScript test files: jest's words (describe, test, expect), node:test, or plain scripts of assertions
    (`console.assert`, `node:assert`), CommonJS or ES modules.

    `files` (path → bytes) is the test tree. `modules` are the paths, without suffix and relative to its root, of the
    candidate's modules that the tests import or require (`solution` for `./solution` or `./solution.js`). `required`
    are the ids that must each be reported exactly once: `FILE::BLOCK > TEST` (` #2` after a title that is there a
    second time), `FILE::script` for a file that registers no test; empty: all that are collected. What the text itself
    skips (`test.skip`, `xtest`) is no test.
    """

    files: dict[str, bytes]
    modules: tuple[str, ...] = ("solution",)
    required: tuple[str, ...] = ()


class ShellSuite(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="suite", tag="shell",
):
    """Trusted bash test files whose functions named `test_*` are the tests; one passes when each of its commands does.

    `functions` and `programs` are what the tests call of the candidate: shell functions that its file `entry` defines,
    and scripts of its tree, called as `./NAME` or `NAME`. A call carries arguments and piped input there, and standard
    output, standard error and exit code back; nothing else. `required` are ids `FILE::FUNCTION`.
    """

    files: dict[str, bytes]
    entry: str = "solution.sh"
    functions: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    required: tuple[str, ...] = ()

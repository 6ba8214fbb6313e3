"""Suites as files: Python tests, or stdio cases of NAME.in, NAME.out, NAME.args, NAME.code and NAME.files/."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import PurePosixPath

from quintain.tasks.exam import Compare, PythonSuite, StdioCase, StdioSuite, Suite, kind_of
from quintain.tasks.formats.taskfile import ParsedFile, SuiteTable
from quintain.tasks.formats.testfile import collected
from quintain.tasks.formats.tree import Tree
from quintain.types import TaskError

_CASE_FILE = re.compile(r"(?P<name>[^/]+)\.(?P<part>in|out|args|code)|(?P<owner>[^/]+)\.files/(?P<path>.+)")


def read_suite(tree: Tree, folder: str, parsed: ParsedFile) -> Suite | None:
    """The suite that a folder of a task holds; None when there is no such folder. Raises TaskError with file and line
    for a folder without tests, one of both kinds, and for whatever does not fit together."""
    files = tree.below(folder)
    table: SuiteTable = getattr(parsed.table, folder)
    if files is None:
        if table != SuiteTable():
            raise parsed.error(f"[{folder}] describes tests, but there is no folder {folder}/", folder)
        return None
    _refuse_crlf_scripts(tree, folder, files)
    if _kind(tree, folder, files, table) == "python":
        return _python(tree, folder, files, table, parsed)
    if table.modules is not None or table.required:
        raise parsed.error(f"[{folder}] modules and required are for Python tests, found stdio cases", folder)
    cases = _in_order(list(_cases(tree, folder, files)), folder, table, parsed)
    return StdioSuite(cases=tuple(cases), compare=table.compare or Compare.TRIMMED)


def suite_table(suite: Suite, *, modules: tuple[str, ...]) -> dict[str, object]:
    """What `task.toml` has to say of a suite beside its files; `modules` are those taken for granted."""
    if isinstance(suite, StdioSuite):
        table: dict[str, object] = {"suite": "stdio"}
        if suite.compare is not Compare.TRIMMED:
            table["compare"] = suite.compare.value
        names = [case.name for case in suite.cases]
        return table if names == sorted(names) else {**table, "cases": names}
    if not isinstance(suite, PythonSuite):
        raise TaskError(f"expected Python tests or stdio cases, found a suite of the kind {kind_of(suite)!r}")
    table = {"suite": "python"}
    if suite.modules != modules:
        table["modules"] = list(suite.modules)
    return {**table, "required": list(suite.required)} if suite.required else table


def is_test_file(path: str) -> bool:
    """Whether a path is named as test collectors expect it: `test_*.py` or `*_test.py`."""
    name = PurePosixPath(path).name
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def _kind(tree: Tree, folder: str, files: Mapping[str, bytes], table: SuiteTable) -> str:
    if table.suite:
        return table.suite
    python = any(is_test_file(path) for path in files)
    stdio = any("/" not in path and path.endswith((".in", ".out")) for path in files)
    if python and stdio:
        raise tree.error("found Python tests and NAME.in/NAME.out cases: say suite = \"python\" or \"stdio\" "
                         f"in [{folder}] of task.toml", folder)
    if not (python or stdio):
        raise tree.error("expected tests: test_*.py files, or pairs of NAME.in and NAME.out; found "
                         f"{', '.join(sorted(files)) or 'nothing'}", folder)
    return "python" if python else "stdio"


def _refuse_crlf_scripts(tree: Tree, folder: str, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        if content.startswith(b"#!") and content.split(b"\n", 1)[0].endswith(b"\r"):
            raise tree.error("expected \\n at the end of the #! line, found \\r\\n: the kernel would look for an "
                             "interpreter whose name ends in \\r", f"{folder}/{path}", 1)


def _python(
    tree: Tree, folder: str, files: dict[str, bytes], table: SuiteTable, parsed: ParsedFile,
) -> PythonSuite:
    if table.compare is not None or table.cases:
        raise parsed.error(f"[{folder}] compare and cases are for stdio cases, found Python tests", folder)
    modules = default_modules(parsed.table.entry.path) if table.modules is None else table.modules
    for module in modules:
        stem = module.replace(".", "/")
        if twin := next((p for p in files if p in (f"{stem}.py", f"{stem}/__init__.py")), None):
            raise tree.error(f"a file of this name would be tested in place of the candidate's module {module!r}",
                             f"{folder}/{twin}")
    ids: dict[str, list[str]] = {}
    for path in filter(is_test_file, files):
        try:
            ids[path] = collected(path, files[path])
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = error.lineno if isinstance(error, SyntaxError) else None
            message = f"expected Python, found {type(error).__name__}: {error.args[0] if error.args else ''}"
            raise tree.error(message, f"{folder}/{path}", line) from error
    if not any(ids.values()) and not table.required:
        raise tree.error("expected at least one test (def test_...), found none", folder)
    for problem in _wrong_ids(table.required, ids):
        raise parsed.error(f"{folder}.required: {problem}", folder, "required")
    return PythonSuite(files=files, modules=modules, required=table.required)


def default_modules(entry_path: str) -> tuple[str, ...]:
    """The module that an entry path is imported as; none when it is no Python file."""
    return (entry_path.removesuffix(".py").replace("/", "."),) if entry_path.endswith(".py") else ()


def _wrong_ids(required: tuple[str, ...], ids: Mapping[str, list[str]]) -> Iterator[str]:
    """What is wrong with a list of required ids; a cut or unknown id would otherwise hide behind a sibling."""
    for number, id in enumerate(required):
        if id in required[:number]:
            yield f"{id!r} is there twice"
        file, _, test = id.partition("::")
        if not test or file not in ids:
            yield f"expected FILE::TEST with FILE one of {', '.join(ids)}, found {id!r}"
        plain, bracket, parameters = id.partition("[")
        if bracket and not parameters.endswith("]"):
            yield f"the brackets of {id!r} are not closed: it was cut"
        known = ids.get(file, [])
        if test and plain.count("::") == 1 and plain not in known:
            close = get_close_matches(plain, known, n=1)
            yield f"{plain!r} is no test of {file}" + (f", did you mean {close[0]!r}?" if close else "")


def _cases(tree: Tree, folder: str, files: Mapping[str, bytes]) -> Iterator[StdioCase]:
    parts: dict[str, dict[str, bytes]] = {}
    trees: dict[str, dict[str, bytes]] = {}
    for path, content in files.items():
        match = _CASE_FILE.fullmatch(path)
        if match is None:
            raise tree.error("expected NAME.in, NAME.out, NAME.args, NAME.code or NAME.files/...", f"{folder}/{path}")
        if match["name"]:
            parts.setdefault(match["name"], {})[match["part"]] = content
        else:
            trees.setdefault(match["owner"], {})[match["path"]] = content
    for name in sorted(parts.keys() | trees.keys()):
        found = parts.get(name, {})
        if "out" not in found:
            raise tree.error(f"expected {name}.out beside it: what must the program print?", f"{folder}/{name}.in")
        yield StdioCase(
            name=name, stdin=found.get("in", b""), stdout=found["out"], files=trees.get(name, {}),
            argv=_argv(tree, f"{folder}/{name}.args", found.get("args", b"")),
            exit_code=_exit_code(tree, f"{folder}/{name}.code", found.get("code", b"0")),
        )


def _argv(tree: Tree, file: str, content: bytes) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(content.decode()))
    except ValueError as error:  # UnicodeDecodeError is one
        raise tree.error(f"expected arguments as a shell would read them, in UTF-8: {error}", file) from error


def _exit_code(tree: Tree, file: str, content: bytes) -> int | None:
    text = content.decode(errors="replace").strip()
    if text == "any":
        return None
    if not text.isascii() or not text.isdigit() or int(text) > 255:
        raise tree.error(f"expected an exit code from 0 to 255, or 'any', found {text[:40]!r}", file, 1)
    return int(text)


def _in_order(
    cases: list[StdioCase], folder: str, table: SuiteTable, parsed: ParsedFile
) -> list[StdioCase]:
    if not cases:
        raise TaskError(f"expected at least one case in {folder}/", file=parsed.file)
    if not table.cases:
        return cases
    by_name = {case.name: case for case in cases}
    if sorted(table.cases) != sorted(by_name):
        message = f"expected each of {', '.join(by_name)} once, found {', '.join(table.cases)}"
        raise parsed.error(message, folder, "cases")
    return [by_name[name] for name in table.cases]

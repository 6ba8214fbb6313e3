"""QuixBugs: forty small programs with one wrong line each, to be repaired.

Read from a packed JSONL file whose rows are {path, content}: the Python half of https://github.com/jkoppel/QuixBugs
(MIT). The pytest files there depend on a conftest with options; here each of their cases becomes a plain function.
Lin et al. 2017, https://doi.org/10.1145/3135932.3135941.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

import msgspec

from quintain.tasks.base import PublicSet
from quintain.tasks.exam import Exam, Item, PythonSuite
from quintain.tasks.formats.rows import has_keys, read_lines, unpack
from quintain.tasks.formats.testfile import as_test_file, doctest_asserts, loaded, parsed
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, Limits, Scopes, TaskError

#: References that take long: this one is exponential, and needs 3.3 s of CPU for its cases.
_SLOW = {"levenshtein": Scopes(command=Limits(wall_seconds=60.0, cpu_seconds=15.0))}


class FileRow(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    content: str


class QuixBugsFormat:
    """Rows of path and content; read only. Ids are `quixbugs/NAME`."""

    name = "quixbugs"
    about = "JSONL rows with path and content, one for each file of QuixBugs' Python half"
    sets = (
        PublicSet(
            name="quixbugs", files=("quixbugs/quixbugs_python.jsonl", "quixbugs_python.jsonl"),
            source="the Python half of https://github.com/jkoppel/QuixBugs (MIT), one {path, content} row a file",
        ),
    )

    def recognises(self, path: Path) -> bool:
        return has_keys(path, "path", "content")

    def read(self, path: Path) -> Taskset:
        return Taskset(QuixBugs(path))


class QuixBugs:
    """The programs of one packed file, which is small and read whole at first use."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    @cached_property
    def _files(self) -> dict[str, str]:
        decoder = msgspec.json.Decoder(FileRow)
        files: dict[str, str] = {}
        packed = unpack(self._path) if self._path.suffix == ".gz" else None
        for number, line in enumerate(read_lines(self._path, packed), start=1):
            try:
                row = decoder.decode(line)
            except (msgspec.MsgspecError, RecursionError) as error:
                raise TaskError(f"the row does not fit: {error}", file=self.name, line=number) from error
            files[row.path] = row.content
        return files

    def ids(self) -> Sequence[str]:
        names = (PurePosixPath(path) for path in self._files)
        found = sorted(
            path.stem for path in names
            if path.parts[:1] == ("python_programs",) and f"python_testcases/test_{path.stem}.py" in self._files
        )
        if not found:
            raise TaskError("expected python_programs/NAME.py with python_testcases/test_NAME.py", file=self.name)
        return tuple(f"quixbugs/{name}" for name in found)

    def item(self, id: str) -> Item:
        name = id.removeprefix("quixbugs/")
        if id not in self.ids():
            raise KeyError(id)
        try:
            return self._item(id, name)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise TaskError(f"task {id!r} cannot be made: {error}", file=self.name) from error

    def _item(self, id: str, name: str) -> Item:
        hidden = _suite(name, parsed(self._file(f"python_testcases/test_{name}.py")), list(self._cases(name)))
        buggy = self._file(f"python_programs/{name}.py").lstrip("\n")
        files = {f"{name}.py": buggy.encode()}
        if "node" in hidden.modules:
            files["node.py"] = self._file("python_programs/node.py").encode()
        correct = self._file(f"correct_python_programs/{name}.py").lstrip("\n")
        return Item.sealed(
            Exam(
                hidden=hidden, visible=_examples(name, buggy), oracle={f"{name}.py": correct.encode()},
                null=({f"{name}.py": buggy.encode()},),
            ),
            files=files, id=id, instructions=_instructions(name, buggy, files),
            entry=Entry(path=f"{name}.py", name=name), tags=("python", "repair"),
            limits=_SLOW.get(name, Scopes()),
        )

    def _file(self, path: str) -> str:
        if path not in self._files:
            raise TaskError(f"expected a row for {path}, found none", file=self.name)
        return self._files[path]

    def _cases(self, name: str) -> Iterator[list[object]]:
        """The argument lists and answers of one program; none where its tests are written out."""
        for line in self._files.get(f"json_testcases/{name}.json", "").splitlines():
            if line.strip():
                case = json.loads(line)
                if not isinstance(case, list) or len(case) != 2:
                    raise ValueError(f"expected [arguments, answer] in json_testcases/{name}.json, found {line[:80]}")
                yield case


def _suite(name: str, test: ast.Module, cases: Sequence[list[object]]) -> PythonSuite:
    """The test file without its conftest: the parametrised function once for each case, with the case written out; or
    the functions as they are, each with its own copy of the module's objects, so that no order is needed."""
    functions = [s for s in test.body if isinstance(s, ast.FunctionDef)]
    objects = [s for s in test.body if isinstance(s, ast.Assign) and "load_json_testcases" not in loaded(s)]
    if "testdata" in loaded(test):
        # A later `testdata = ...` reshapes the cases (hanoi: pairs become tuples); each case is reshaped by itself.
        reshape = [s for s in objects if "testdata" in loaded(s)]
        tests = [_case(functions[0], reshape, case) for case in cases if not _is_skipped(functions[0], case)]
    else:
        tests = [[*objects, *_without_docstring(function)] for function in functions]
    uses_nodes = "Node" in loaded(s for body in tests for s in body)
    imports = {name: [name], **({"node": ["Node"]} if uses_nodes else {})}
    text, names = as_test_file(tests, imports=imports)
    file = f"test_{name}.py"
    return PythonSuite(
        files={file: text}, modules=tuple(imports), required=tuple(f"{file}::{function}" for function in names)
    )


def _examples(name: str, buggy: str) -> PythonSuite | None:
    """The examples in the documentation at the end of a program, which the policy reads anyway."""
    pages = [s.value.value for s in parsed(buggy).body if isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)]
    asserts = [s for page in pages if isinstance(page, str) for s in doctest_asserts(page, name)]
    if not asserts:
        return None
    text, names = as_test_file([[statement] for statement in asserts], imports={name: [name]})
    return PythonSuite(
        files={"test_examples.py": text}, modules=(name,), required=tuple(f"test_examples.py::{n}" for n in names)
    )


def _case(function: ast.FunctionDef, reshape: Sequence[ast.stmt], case: list[object]) -> list[ast.stmt]:
    given = ast.parse(f"testdata = [{case!r}]").body if reshape else []
    names = "[[input_data, expected]] = testdata" if reshape else f"input_data, expected = {case!r}"
    body = [_WithoutPytest().visit(ast.parse(ast.unparse(s)).body[0]) for s in function.body if not _skips(s)]
    return [*given, *reshape, *ast.parse(names).body, *body]


def _skips(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "pytest.skip" in ast.unparse(statement)


def _is_skipped(function: ast.FunctionDef, case: list[object]) -> bool:
    """Whether the published test leaves this case out because it takes minutes (`if input_data == [...]: skip`)."""
    for statement in filter(_skips, function.body):
        for node in ast.walk(statement):
            if isinstance(node, ast.Compare) and ast.literal_eval(node.comparators[0]) == case[0]:
                return True
    return False


class _WithoutPytest(ast.NodeTransformer):
    """`a == pytest.approx(b, abs=c)` becomes `abs(a - b) <= c`, which is what it means."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        right = node.comparators[0]
        if not (isinstance(right, ast.Call) and ast.unparse(right.func) == "pytest.approx"):
            return node
        if len(right.args) != 1 or [keyword.arg for keyword in right.keywords] != ["abs"]:
            raise ValueError(f"expected pytest.approx(answer, abs=tolerance), found {ast.unparse(right)}")
        left, answer, tolerance = (ast.unparse(n) for n in (node.left, right.args[0], right.keywords[0].value))
        return ast.parse(f"abs({left} - ({answer})) <= {tolerance}", mode="eval").body


def _without_docstring(function: ast.FunctionDef) -> list[ast.stmt]:
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def _instructions(name: str, buggy: str, files: dict[str, bytes]) -> str:
    helper = " It works on the nodes of `node.py`, which is right as it is." if "node.py" in files else ""
    return (
        f"The program `{name}.py` has a bug, in one line. Repair it, so that it does what its documentation says. Give "
        f"the whole corrected `{name}.py`.{helper}\n\n```python\n{buggy.strip()}\n```\n"
    )

"""A suite as its single cases: what each is, whether it stands at a border, and smaller suites of some. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

import msgspec

from quintain.tasks import Exam, Item, PythonSuite, StdioCase, StdioSuite, Suite, visible_files
from quintain.types import TaskError, content_digest

#: Words in a case's name that say that it stands at a border of the domain.
_BORDER_WORDS = frozenset((
    "empty", "none", "null", "nothing", "zero", "one", "single", "max", "min", "maximum", "minimum", "largest",
    "smallest", "longest", "duplicate", "duplicates", "repeated", "negative", "unicode", "overflow", "limit", "limits",
    "edge", "edges", "boundary", "border", "corner", "huge", "invalid", "missing",
))
_LARGE = 2**31 - 1
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class TestCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One case: its id (a parametrised test counts once), the digest of what it says, whether it is a border case."""

    __test__ = False

    id: str
    digest: str
    boundary: bool = False


def cases_of(suite: Suite) -> tuple[TestCase, ...]:
    """Every case of a suite in its own order. A test that the text does not show (one that only a run would find) is
    known by its id alone. Raises TaskError for a suite that has no cases to take apart: neither Python nor stdio."""
    if isinstance(suite, StdioSuite):
        return tuple(TestCase(id=c.name, digest=content_digest(c), boundary=_stdio_border(c)) for c in suite.cases)
    if not isinstance(suite, PythonSuite):
        raise TaskError(f"expected Python tests or stdio cases to deal, found {type(suite).__name__}")
    found = {id: (path, node) for path in sorted(suite.files) for id, node in _tests(path, suite.files[path])}
    ids = dict.fromkeys(base_id(id) for id in suite.required) if suite.required else dict.fromkeys(found)
    cases = []
    for id in ids:
        if id in found:
            path, node = found[id]
            text = ast.get_source_segment(suite.files[path].decode("utf-8", "replace"), node) or ast.unparse(node)
            border = _named_border(node.name) or any(_border_value(a) for a in _arguments(node))
            cases.append(TestCase(id=id, digest=content_digest(text), boundary=border))
        else:
            cases.append(TestCase(id=id, digest=content_digest(id), boundary=_named_border(id)))
    return tuple(cases)


def base_id(id: str) -> str:
    """The id of a test without its parameters: `t.py::test_a[1-x]` → `t.py::test_a`."""
    return id.partition("[")[0]


def subset(suite: Suite, ids: Collection[str]) -> Suite:
    """The suite with these cases only; of Python files the other tests' text is cut out, so that nobody who holds the
    smaller suite can read them. Raises ValueError for an id that is not in the suite."""
    known = {case.id for case in cases_of(suite)}
    strange = sorted(set(ids) - known)
    if strange:
        raise ValueError(f"expected ids of the suite's {len(known)} cases, found {', '.join(strange[:5])}")
    if isinstance(suite, StdioSuite):
        return msgspec.structs.replace(suite, cases=tuple(case for case in suite.cases if case.name in ids))
    assert isinstance(suite, PythonSuite)  # cases_of has refused every other
    files = {path: _cut(path, content, set(ids), known) for path, content in suite.files.items()}
    required = tuple(id for id in suite.required if base_id(id) in ids)
    if not required and not suite.required:
        required = tuple(id for path in files for id, _ in _tests(path, files[path]))
    return msgspec.structs.replace(suite, files=files, required=required)


def with_tiers(item: Item, *, visible: Collection[str], hidden: Collection[str], reserve: Collection[str]) -> Item:
    """The item whose hidden suite is dealt into three; a visible suite that it has stays when no case is dealt to be
    shown. It is another version of the task: other tests decide."""
    whole = item.exam.hidden
    exam = Exam(
        hidden=subset(whole, hidden), visible=subset(whole, visible) if visible else item.exam.visible,
        reserve=subset(whole, reserve) if reserve else None, oracle=item.exam.oracle, null=item.exam.null,
    )
    shown = visible_files(item.exam.visible)
    task = item.task
    rest = {name: getattr(task, name) for name in task.__struct_fields__ if name not in ("version", "exam", "files")}
    files = {path: content for path, content in task.files.items() if path not in shown}
    return Item.sealed(exam, files=files, **rest)


def _tests(path: str, content: bytes) -> Iterator[tuple[str, _Function]]:
    """The tests that a file's text shows, with their ids."""
    if not path.endswith(".py"):
        return
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return
    for node in tree.body:
        if isinstance(node, _Function) and node.name.startswith("test"):
            yield f"{path}::{node.name}", node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, _Function) and inner.name.startswith("test"):
                    yield f"{path}::{node.name}::{inner.name}", inner


def _cut(path: str, content: bytes, kept: set[str], known: set[str]) -> bytes:
    """The file without the text of the tests that are cases of the suite and not kept."""
    gone = [node for id, node in _tests(path, content) if id in known and id not in kept]
    lines = content.split(b"\n")
    for node in sorted(gone, key=lambda node: node.lineno, reverse=True):
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        indent = b" " * node.col_offset
        lines[first - 1:node.end_lineno] = [indent + b"pass"] if node.col_offset else []
    return b"\n".join(lines)


def _arguments(node: _Function) -> Iterator[ast.expr]:
    """What the code of a test gives to the functions that it calls."""
    for call in (inner for statement in node.body for inner in ast.walk(statement)):
        if isinstance(call, ast.Call):
            yield from call.args
            yield from (keyword.value for keyword in call.keywords)


def _border_value(node: ast.expr) -> bool:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    if isinstance(value, bool):
        return False
    if value is None:
        return True
    if isinstance(value, int | float):
        return value <= 0 or value >= _LARGE or value != value
    if isinstance(value, str | bytes):
        return len(value) <= 1 or (isinstance(value, str) and not value.isascii())
    return isinstance(value, list | tuple | set | dict) and len(value) <= 1


def _stdio_border(case: StdioCase) -> bool:
    words = case.stdin.split()
    odd = len(words) <= 1 or not case.stdin.isascii() or any(_border_word(word) for word in words)
    return _named_border(case.name) or (odd and not case.argv) or any(_border_word(a.encode()) for a in case.argv)


def _border_word(word: bytes) -> bool:
    try:
        number = float(word)
    except ValueError:
        return not word
    return not 0 < number < _LARGE


def _named_border(name: str) -> bool:
    return not _BORDER_WORDS.isdisjoint(re.split(r"[^a-z]+", name.lower()))


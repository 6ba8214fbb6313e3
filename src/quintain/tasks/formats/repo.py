"""Work on repositories: an issue to be resolved, or a suite to be brought to cover what it does not.

`repo:issues` are 24 tasks on eight small packages of our own: each is a git repository of several commits, made anew
and always the same. The last one repairs a fault and brings the tests that show it; what is given is the commit before
it, and nothing of what came later: its files, and its log as HISTORY. `repo:coverage` are the same packages with hardly
a test (kind `testgen`). Ids are `repo/issue/PACKAGE/NUMBER` and `repo/coverage/PACKAGE/PART`.
"""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from quintain.tasks.base import ByName
from quintain.tasks.exam import Exam, Item, PythonSuite
from quintain.tasks.formats.git import base_tree, log_of, recorded
from quintain.tasks.formats.packages import Package, packages
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, Limits, Scopes, TaskError

HISTORY = "HISTORY"
ANSWER = "tests/test_more.py"
#: What a repository tests already is known on purpose, and part of what is hidden all the same: it must go on passing.
#: It begins with these words there, so that the gate, which looks for hidden files among the given ones, finds others.
_KNOWN = b'"""Tests that the repository has, as the judge keeps them."""\n\n'
LIMITS = Scopes(
    episode=Limits(wall_seconds=900.0, cpu_seconds=600.0, turns=5),
    turn=Limits(wall_seconds=60.0, cpu_seconds=30.0), command=Limits(wall_seconds=10.0, cpu_seconds=3.0),
)


class RepoFormat(ByName):
    """Sets by name; no file is read but our own."""

    name = "repo"
    about = "repo:issues or repo:coverage: faults and missing tests of small repositories"

    def named(self, name: str) -> Taskset:
        """Raises TaskError for another name."""
        if name not in ("issues", "coverage"):
            raise TaskError(f"expected repo:issues or repo:coverage, found repo:{name}")
        return Taskset(RepoTasks(name))


#: Whose given tests, with answers that run everything and check nothing, notice nine of ten faults already (most of the
#: others end in an exception or never): the gate refuses it.
_TOO_EASY = "repo/coverage/numerals/to_roman"


class RepoTasks:
    """The tasks of one part, each made when it is asked for."""

    def __init__(self, part: str) -> None:
        self.name = f"repo:{part}"
        self._part = part

    @cached_property
    def _made(self) -> dict[str, tuple[Package, int]]:
        if self._part == "coverage":
            made = {f"repo/coverage/{one.name}/{name.name}": (one, at) for one in packages()
                    for at, name in enumerate(one.names)}
            return {id: place for id, place in made.items() if id != _TOO_EASY}
        return {f"repo/issue/{one.name}/{at + 1}": (one, at) for one in packages() for at in range(len(one.faults))}

    def ids(self) -> Sequence[str]:
        return tuple(self._made)

    def item(self, id: str) -> Item:
        package, at = self._made[id]
        return _coverage(id, package, at) if self._part == "coverage" else _issue(id, package, at)


def history(package: Package, number: int) -> list[tuple[str, dict[str, bytes]]]:
    """The commits of a package (message, whole tree) in which its fault `number` has been from the beginning; the last
    one repairs it, with the tests that show it."""
    fault = package.faults[number]
    source, right = package.source(fault), package.source()
    tests = package.tests()
    caught = set(fault.fails)
    known = {path: _without(content, {id.partition("::")[2] for id in caught if id.startswith(f"{path}::")})
             for path, content in tests.items()}
    if fault.extra:
        path = f"tests/test_{package.names[0].name}.py"
        tests[path] += f"\n\n{fault.extra.strip()}\n".encode()
    readme = {"README.md": f"# {package.name}\n\n{package.about}\n".encode()}
    inner = [path for path in source if not path.rpartition("/")[2].startswith("__")]
    begun = {path: source[path] for path in inner[:1]}
    return [
        (f"Begin {package.name} with {inner[0]}", {**readme, **begun}),
        (f"Add {', '.join(inner[1:])} and what is public", {**readme, **source}),
        ("Test what is public", {**readme, **source, **known}),
        (f"Say how {package.name} is used", {
            "README.md": readme["README.md"] + f"\n    $ {package.command.splitlines()[0]}\n".encode(), **source,
            **known}),
        (fault.issue, {
            "README.md": readme["README.md"] + f"\n    $ {package.command.splitlines()[0]}\n".encode(), **right,
            **tests}),
    ]


def _without(content: bytes, names: set[str]) -> bytes:
    """Tests without those of these names."""
    tree = ast.parse(content)
    tree.body = [node for node in tree.body if not (isinstance(node, ast.FunctionDef) and node.name in names)]
    return (ast.unparse(tree) + "\n").encode() if names else content


def _issue(id: str, package: Package, number: int) -> Item:
    fault = package.faults[number]
    with tempfile.TemporaryDirectory(prefix="quintain-repo-") as folder:
        place = Path(folder) / "repository"
        commits = recorded(history(package, number), place)
        base, fixed = base_tree(place, commits[-2]).files, base_tree(place, commits[-1]).files
        log = log_of(place, commits[-2])
    tests = {path: (_KNOWN if base.get(path) == content else b"") + content for path, content in fixed.items()
             if path.startswith("tests/")}
    changed = {path: content for path, content in fixed.items() if base.get(path) != content and path not in tests}
    (entry,) = changed
    text = (f"The repository of the Python package `{package.name}` has an open issue:\n\n> {fault.issue}\n\nChange "
            "its files so that it is resolved, and what works keeps working. HISTORY is its log. The tests that came "
            "with the repair are not shown; those that were there before must still pass.\n")
    modules = tuple(path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in base
                    if path.startswith(f"{package.name}/") and not path.endswith("__main__.py"))
    return Item.sealed(
        Exam(hidden=PythonSuite(files=tests, modules=modules, required=ids_in(tests)), oracle=changed,
             null=({entry: base[entry]}, {entry: b"# It is gone.\n"})),
        id=id, files={**base, HISTORY: log.encode()}, instructions=text, entry=Entry(path=entry), limits=LIMITS,
        tags=("python", "repository", "issue"),
    )


def _coverage(id: str, package: Package, number: int) -> Item:
    """The package, of whose functions all but one have no tests: the answer is tests for the others."""
    tests = package.tests()
    kept = package.names[number].name
    given = {f"tests/test_{kept}.py": tests.pop(f"tests/test_{kept}.py")}
    joined = "\n\n".join(content.decode().strip() for _, content in sorted(tests.items())) + "\n"
    reference = {**{path: _KNOWN + content for path, content in given.items()}, ANSWER: joined.encode()}
    modules = (package.name, *(f"{package.name}.{path.removesuffix('.py')}" for path in package.files))
    text = (f"The repository of the Python package `{package.name}` has tests for `{kept}` only. Write `{ANSWER}`, "
            "plain functions `test_*`, so that all tests together run at least 90 % of the lines, and of the ways of "
            "decisions, that can be tested, and notice at least 90 % of small faults in the package. What they run is "
            "followed by the judge, not by a tool of yours; each test must pass on the package as it is, every time.\n")
    imports = f"import {package.name}\n\n\ndef test_it_imports():\n    assert {package.name} is not None\n"
    nulls = (b"", imports.encode(), _asserting_nothing(joined))
    return Item.sealed(
        Exam(hidden=PythonSuite(files=reference, modules=modules, required=ids_in(reference)),
             oracle={ANSWER: joined.encode()}, null=tuple({ANSWER: null} for null in nulls)),
        id=id, kind="testgen", files={**package.source(), **given}, instructions=text, entry=Entry(path=ANSWER),
        limits=LIMITS, tags=("python", "repository", "coverage"),
    )


class _Idle(ast.NodeTransformer):
    """Comparisons are made, and nothing asserts that they hold."""

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        return ast.copy_location(ast.Expr(value=node.test), node)

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)


def _asserting_nothing(text: str) -> bytes:
    """Tests that run everything and check nothing."""
    return ast.unparse(ast.fix_missing_locations(_Idle().visit(ast.parse(text)))).encode() + b"\n"


def ids_in(files: dict[str, bytes]) -> tuple[str, ...]:
    """The ids of the test functions in these files, in order."""
    return tuple(f"{path}::{node.name}" for path, content in sorted(files.items()) for node in ast.parse(content).body
                 if isinstance(node, ast.FunctionDef) and node.name.startswith("test"))

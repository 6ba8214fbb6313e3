"""Our own format: one directory for each task, which a person writes by hand in two minutes.

    sums/
      task.toml          all keys optional: id, kind, entry, limits, network, isolation, grading, tags ...
      instructions.md    what is asked (or `instructions = "..."` in task.toml)
      files/             what lies in the work tree at the start
      tests/             hidden: test_*.py, or NAME.in + NAME.out pairs (with NAME.args, NAME.code, NAME.files/)
      tests_visible/     shown to the policy and run at every turn
      reserve/           for audits only
      oracle/            an answer that must solve it
      null/NAME/         answers that must not; without any, empty and do-nothing ones are made

A folder of such directories is a taskset; a task's id is its path below the folder unless task.toml says another.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from itertools import chain
from pathlib import Path

import msgspec
import tomli_w

from quintain.tasks.base import PublicSet
from quintain.tasks.exam import (
    VISIBLE_FOLDER,
    Exam,
    Item,
    PythonSuite,
    StdioSuite,
    Suite,
    case_files,
    kind_of,
    visible_files,
)
from quintain.tasks.formats.suites import default_modules, read_suite, suite_table
from quintain.tasks.formats.taskfile import ParsedFile, TaskFile, parse_task_file
from quintain.tasks.formats.tree import Tree, read_tree, write_tree
from quintain.tasks.names import check_id, check_paths
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, Scopes, TaskError

_FOLDERS = ("files", "tests", VISIBLE_FOLDER, "reserve", "oracle", "null")
_FILES = ("task.toml", "instructions.md")
#: May lie in a task's directory without being part of the task.
_ASIDE = ("README.md", "LICENSE", "LICENSE.md", "NOTICE")


class DirectoryFormat:
    """Directories with a `task.toml`; read and written without loss."""

    name = "directory"
    about = "a directory with task.toml, or a folder of such directories"
    sets: tuple[PublicSet, ...] = ()

    def recognises(self, path: Path) -> bool:
        return path.is_dir() and next(_task_folders(path), None) is not None

    def read(self, path: Path) -> Taskset:
        return Taskset(Directories(path))

    def write(self, items: Iterable[Item], path: Path) -> tuple[str, ...]:
        """One directory for each item, at its id below `path`. Each is checked to read back as the same item before it
        is written; one that would not is a TaskError that names the difference, so nothing is ever left unsaid."""
        written: set[str] = set()
        for item in items:
            id = check_id(item.task.id)
            for other in written:
                if other.startswith(f"{id}/") or id.startswith(f"{other}/"):
                    raise TaskError(f"a task cannot lie inside another: {id!r} and {other!r}", file=str(path))
            tree = render(item)
            target = path / id
            target.parent.mkdir(parents=True, exist_ok=True)
            write_tree(target, tree)
            written.add(id)
        return ()


class Directories:
    """The tasks of one directory, or of all directories below a folder."""

    def __init__(self, root: Path) -> None:
        self.name = str(root)
        self._root = root

    def ids(self) -> Sequence[str]:
        return tuple(self._folders)

    def item(self, id: str) -> Item:
        return parse(read_tree(self._folders[id]), default_id=id)

    @cached_property
    def _folders(self) -> dict[str, Path]:
        folders: dict[str, Path] = {}
        for folder in _task_folders(self._root):
            below = folder.relative_to(self._root).as_posix()
            id = _said_id(folder / "task.toml") or check_id(
                self._root.resolve().name if below == "." else below, file=str(folder))
            if id in folders:
                raise TaskError(f"task id {id!r} is already used by {folders[id]}", file=str(folder / "task.toml"))
            folders[id] = folder
        if not folders:
            raise TaskError("expected a task.toml in it or below it, found none", file=self.name)
        return folders


def _task_folders(root: Path) -> Iterator[Path]:
    """The directories with a task.toml, sorted; none inside another, and no link is followed."""
    for folder, inner, files in os.walk(root):
        if "task.toml" in files:
            inner.clear()
            yield Path(folder)
        inner[:] = sorted(name for name in inner if not name.startswith("."))


def _said_id(file: Path) -> str | None:
    """The id in a task.toml, if it says one. One that cannot be read is refused when its task is asked for, so that it
    does not spoil the others."""
    try:
        content = file.read_bytes()
        if not re.search(rb"(?m)^\s*[\"']?id[\"']?\s*=", content):
            return None
        return check_id(parse_task_file(content, str(file)).table.id or "")
    except (OSError, TaskError):
        return None


def parse(tree: Tree, *, default_id: str) -> Item:
    """The item that a task's directory says. Raises TaskError: file, line, what was expected, what was found."""
    _refuse_strangers(tree)
    if "task.toml" not in tree.files:
        raise tree.error("expected a file task.toml, found none", "")
    parsed = parse_task_file(tree.files["task.toml"], f"{tree.name}/task.toml")
    table = parsed.table
    id = table.id if table.id is not None else default_id
    try:
        check_id(id)
    except TaskError as error:
        raise parsed.error(error.message, "id") from error
    try:
        check_paths([table.entry.path])
    except TaskError as error:
        raise parsed.error(error.message, "entry", "path") from error
    files = tree.below("files") or {}
    if any(path.split("/")[0] == VISIBLE_FOLDER for path in files):
        raise tree.error(f"{VISIBLE_FOLDER}/ is where the visible tests will lie: choose another name",
                         f"files/{VISIBLE_FOLDER}")
    hidden = read_suite(tree, "tests", parsed)
    if hidden is None:
        raise tree.error(f"expected a folder tests/ with hidden tests, found {', '.join(tree.children(''))}", "")
    exam = Exam(
        hidden=hidden, visible=read_suite(tree, VISIBLE_FOLDER, parsed), reserve=read_suite(tree, "reserve", parsed),
        oracle=tree.below("oracle"), null=_null(tree, parsed, files),
    )
    return Item.sealed(
        exam, id=id, kind=table.kind, instructions=_instructions(tree, parsed), files=files, image=table.image,
        entry=table.entry, limits=parsed.scopes(), network=table.network, isolation=table.isolation,
        grading=table.grading, tags=table.tags,
    )


def _refuse_strangers(tree: Tree) -> None:
    for name in tree.children(""):
        folder = name not in tree.files
        known = _FOLDERS if folder else _FILES
        if name not in known and (folder or name not in _ASIDE):
            close = get_close_matches(name, (*_FOLDERS, *_FILES), n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"expected {', '.join((*_FILES, *_FOLDERS))}"
            raise tree.error(f"{'folders' if folder else 'files'} of this name have no meaning here: {hint}", name)


def _instructions(tree: Tree, parsed: ParsedFile) -> str:
    written = tree.files.get("instructions.md")
    said = parsed.table.instructions
    if written is not None and said is not None:
        raise parsed.error("expected instructions in one place, found them here and in instructions.md", "instructions")
    if written is not None:
        try:
            said = written.decode()
        except UnicodeDecodeError as error:
            line = written[:error.start].count(b"\n") + 1
            message = f"expected UTF-8, found byte 0x{written[error.start]:02x}"
            raise tree.error(message, "instructions.md", line) from error
    if said is None or not said.strip():
        raise tree.error("expected instructions: a file instructions.md, or instructions = \"...\" in task.toml",
                         "instructions.md" if written is not None else "task.toml")
    return said


def _null(tree: Tree, parsed: ParsedFile, files: dict[str, bytes]) -> tuple[dict[str, bytes], ...]:
    given = tree.below("null")
    if given is not None:
        if parsed.table.null is not None:
            raise parsed.error(f"null = {parsed.table.null!r} and a folder null/ contradict each other", "null")
        for path in given:
            if "/" not in path:
                raise tree.error("expected answers as folders null/NAME/..., found a file", f"null/{path}")
        return tuple(tree.below(f"null/{name}") or {} for name in tree.children("null"))
    return () if parsed.table.null == "none" else null_answers(parsed.table.entry, files)


def null_answers(entry: Entry, files: dict[str, bytes]) -> tuple[dict[str, bytes], ...]:
    """Answers that must not solve a task: its start file as it is (or an empty one), a function that does nothing."""
    answers = [{entry.path: files.get(entry.path, b"")}]
    if entry.name is not None and entry.language == "python" and entry.name.isidentifier():
        answers.append({entry.path: f"def {entry.name}(*arguments, **named):\n    return None\n".encode()})
    return tuple(answers)


def render(item: Item) -> Tree:
    """The directory that says an item. Raises TaskError when it would not read back as the same item."""
    task, exam = item.task, item.exam
    shown = visible_files(exam.visible)
    trees: dict[str, dict[str, bytes] | None] = {
        "files": {p: c for p, c in task.files.items() if shown.get(p) != c} or None,
        "tests": _files(exam.hidden),
        VISIBLE_FOLDER: _files(exam.visible) if exam.visible else None,
        "reserve": _files(exam.reserve) if exam.reserve else None,
        "oracle": exam.oracle,
        **{f"null/{number:03}": answer for number, answer in enumerate(exam.null, start=1)},
    }
    files = {f"{folder}/{path}": content for folder, inner in trees.items() for path, content in (inner or {}).items()}
    files["task.toml"] = tomli_w.dumps(_table(item)).encode()
    files["instructions.md"] = task.instructions.encode()
    folders = frozenset(chain(
        (folder for folder, inner in trees.items() if inner is not None), ["null"] if exam.null else [],
    ))
    tree = Tree(name=task.id, files=files, folders=folders)
    again = parse(tree, default_id=task.id)
    if again != item:
        unsaid = [*_unlike(again.task, task), *(f"exam.{name}" for name in _unlike(again.exam, exam))]
        raise TaskError(f"the directory format cannot say {', '.join(unsaid)} of task {task.id!r} as it is")
    return tree


def _unlike(one: msgspec.Struct, other: msgspec.Struct) -> list[str]:
    return [name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name)]


def _files(suite: Suite) -> dict[str, bytes]:
    match suite:
        case PythonSuite():
            return suite.files
        case StdioSuite():
            return case_files(suite)
        case _:
            raise TaskError("the directory format says Python tests and stdio cases, found a suite of the kind "
                            f"{kind_of(suite)!r}")


def _table(item: Item) -> dict[str, object]:
    """What task.toml has to say: all that differs from the defaults, and always the id."""
    task, exam = item.task, item.exam
    plain = TaskFile()
    table: dict[str, object] = {"id": task.id}
    for name in ("kind", "image", "network", "isolation", "grading", "tags"):
        if getattr(task, name) != getattr(plain, name):
            table[name] = msgspec.to_builtins(getattr(task, name))
    if not exam.null:
        table["null"] = "none"
    if entry := _difference(task.entry, Entry()):
        table["entry"] = entry
    limits = {s: _difference(getattr(task.limits, s), getattr(Scopes(), s)) for s in Scopes.__struct_fields__}
    if any(limits.values()):
        table["limits"] = {scope: inner for scope, inner in limits.items() if inner}
    suites = {"tests": exam.hidden, VISIBLE_FOLDER: exam.visible, "reserve": exam.reserve}
    modules = default_modules(task.entry.path)
    table |= {name: suite_table(suite, modules=modules) for name, suite in suites.items() if suite is not None}
    return table


def _difference(value: msgspec.Struct, default: msgspec.Struct) -> dict[str, object]:
    fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
    return {name: found for name, found in fields if found != getattr(default, name) and found is not None}

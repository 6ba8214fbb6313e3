"""Terminal-Bench's task directories, which came before Harbor's: `task.yaml`, `run-tests.sh`, `solution.sh`.

Each is read as the Harbor directory that says the same, as Harbor's own mapper does it, so it is judged and can be
written as one. All keys of task.yaml that Harbor has no place for are kept under [metadata]. Needs the extra
`terminal-bench` (PyYAML). https://github.com/laude-institute/terminal-bench.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import msgspec
import tomli_w

from quintain.tasks.base import PublicSet
from quintain.tasks.exam import Item
from quintain.tasks.formats.compose import container_of, read_yaml
from quintain.tasks.formats.harbor_task import item_of, read_task
from quintain.tasks.formats.taskfile import fitted
from quintain.tasks.formats.tree import Tree, read_tree
from quintain.tasks.names import check_id
from quintain.tasks.taskset import Taskset
from quintain.types import TaskError

_APART = ("task.yaml", "docker-compose.yaml", "run-tests.sh", "solution.sh", "solution.yaml")
_HEAD = b"#!/bin/bash\nexport TEST_DIR=/tests\n(\n"
_TAIL = b"\n)\ncode=$?\nmkdir -p /logs/verifier\n[ $code -eq 0 ] && reward=1 || reward=0\n" \
    b"echo $reward > /logs/verifier/reward.txt\nexit $code\n"


class TaskYaml(msgspec.Struct, frozen=True, kw_only=True):
    """What of task.yaml has a place in Harbor; the rest is metadata."""

    instruction: str
    max_agent_timeout_sec: float = 360.0
    max_test_timeout_sec: float = 60.0


class TerminalBenchFormat:
    """Directories with task.yaml; read only. An id is where the directory lies below the folder."""

    name = "terminal-bench"
    about = "a Terminal-Bench directory (task.yaml, run-tests.sh), or a folder of such directories"
    sets: tuple[PublicSet, ...] = ()

    def recognises(self, path: Path) -> bool:
        return path.is_dir() and next(_folders(path), None) is not None

    def read(self, path: Path) -> Taskset:
        return Taskset(TerminalBench(path))


class TerminalBench:
    """The tasks of one directory, or of all directories below a folder."""

    def __init__(self, root: Path) -> None:
        self.name = str(root)
        self._root = root

    def ids(self) -> Sequence[str]:
        return tuple(self._places)

    def item(self, id: str) -> Item:
        return item_of(read_task(as_harbor(read_tree(self._places[id], hidden=True))), default_id=id)

    @cached_property
    def _places(self) -> dict[str, Path]:
        places: dict[str, Path] = {}
        for folder in _folders(self._root):
            below = folder.relative_to(self._root).as_posix()
            places[check_id(self._root.resolve().name if below == "." else below, file=str(folder))] = folder
        if not places:
            raise TaskError("expected a task.yaml in it or below it, found none", file=self.name)
        return places


def _folders(root: Path) -> Iterator[Path]:
    for folder, inner, files in os.walk(root):
        if "task.yaml" in files:
            inner.clear()
            yield Path(folder)
        inner[:] = sorted(name for name in inner if not name.startswith("."))


def as_harbor(tree: Tree) -> Tree:
    """The Harbor directory that says the same. Raises TaskError for what is missing or malformed, and for a task of
    several services."""
    table = read_yaml(tree, "task.yaml")
    said = fitted(table, TaskYaml, text="", file=f"{tree.name}/task.yaml")
    own = container_of(tree, "docker-compose.yaml")
    if own.others:
        raise tree.error(f"expected one service, found others: {', '.join(own.others)}: a sandbox is one",
                         "docker-compose.yaml")
    if "run-tests.sh" not in tree.files:
        raise tree.error("expected a script, found none", "run-tests.sh")
    tests = tree.files["run-tests.sh"]
    if tests.split(b"\n", 1)[0].endswith(b"\r"):
        raise tree.error("expected \\n at the end of a line, found \\r\\n (CRLF)", "run-tests.sh", 1)
    metadata = {key: value for key, value in table.items() if key not in TaskYaml.__struct_fields__}
    config: dict[str, object] = {
        "schema_version": "1.4", "metadata": _without_none(metadata),
        "agent": {"timeout_sec": said.max_agent_timeout_sec}, "verifier": {"timeout_sec": said.max_test_timeout_sec},
    }
    if own.env or own.workdir:
        config["environment"] = {**({"env": own.env} if own.env else {}),
                                 **({"workdir": own.workdir} if own.workdir else {})}
    apart = {path for path in tree.files if path in _APART or path.startswith("tests/")}
    files = {
        "task.toml": tomli_w.dumps(config).encode(), "instruction.md": said.instruction.encode(),
        "tests/test.sh": _HEAD + tests + _TAIL,
        **{path: content for path, content in tree.files.items() if path.startswith("tests/")},
        **{f"environment/{path}": content for path, content in tree.files.items() if path not in apart},
    }
    if (oracle := _solution(tree)) is not None:
        files["solution/solve.sh"] = oracle
    moved = {f"environment/{path}" for path in tree.executable if path not in apart}
    scripts = {"tests/test.sh", "solution/solve.sh"} | moved | {path for path in tree.executable if path in apart}
    return Tree(name=tree.name, files=files, executable=frozenset(scripts & files.keys()))


def _solution(tree: Tree) -> bytes | None:
    """solution.sh, or the commands of solution.yaml one after the other."""
    if "solution.sh" in tree.files:
        return tree.files["solution.sh"]
    if "solution.yaml" not in tree.files:
        return None
    steps = read_yaml(tree, "solution.yaml", many=True)
    commands = [step.get("command") if isinstance(step, dict) else None for step in steps]
    if not all(isinstance(command, str) for command in commands):
        raise tree.error("expected a list of tables with a command each", "solution.yaml")
    return ("#!/bin/bash\n" + "".join(f"{command}\n" for command in commands)).encode()


def _without_none(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _without_none(inner) for key, inner in value.items() if inner is not None}
    return [_without_none(inner) for inner in value] if isinstance(value, list) else value

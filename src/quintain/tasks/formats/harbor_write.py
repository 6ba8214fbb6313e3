"""An item as a Harbor task directory: the one it was read from, or one that judges it as far as Harbor can."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import msgspec
import tomli_w

from quintain.tasks.answer import AnswerKind, AnswerSuite
from quintain.tasks.exam import Item, PythonSuite, StdioSuite, Suite, kind_of
from quintain.tasks.formats.harbor_task import FORMAT, item_of, read_task
from quintain.tasks.formats.suites import is_test_file
from quintain.tasks.formats.tree import Tree
from quintain.tasks.names import check_id
from quintain.tasks.notes import Note, NoteKind
from quintain.tasks.script import ScriptSuite
from quintain.types import MEBIBYTE, Network, Task, TaskError

WORKDIR = "/app"
#: Where the answer to a question goes, in the work folder.
ANSWER = "answer.txt"
_COMMANDS = {"python": ("python3",), "shell": ("bash",), "javascript": ("node",)}
_NETWORKS = {Network.FULL: "public", Network.NONE: "no-network", Network.ALLOW_LIST: "allowlist"}
_TEST = """#!/bin/bash
# Writes /logs/verifier/reward.json: 1 when every expected test passed.
rm -f /logs/verifier/reward.json /logs/verifier/reward.txt
cd {workdir} || exit 1
exec python3 -B /tests/run.py
"""
_SOLVE = """#!/bin/bash
set -e
cp -R /solution/files/. {workdir}/
"""


def render(item: Item) -> tuple[Tree, tuple[Note, ...]]:
    """The directory of an item, and what it does not say. Raises TaskError for a suite that Harbor cannot run."""
    suite = item.exam.hidden
    if isinstance(suite, ScriptSuite):
        return _again(item, suite)
    return _made(item, suite)


def notes_of(item: Item) -> tuple[Note, ...]:
    """What of the Harbor directory that an item was read from has no effect here; nothing for other items."""
    tree = _tree_of(item, item.exam.hidden)
    return read_task(tree).notes if tree is not None else ()


def _tree_of(item: Item, suite: Suite) -> Tree | None:
    """The directory that an item was read from, if it was read from one."""
    package = suite.package if isinstance(suite, ScriptSuite) else None
    if not isinstance(suite, ScriptSuite) or package is None or package.format != FORMAT:
        return None
    files = {**package.files, **{f"tests/{path}": content for path, content in suite.files.items()}}
    return Tree(name=item.task.id, files=files, executable=frozenset(package.executable),
                folders=_folders(files, package.folders))


def _again(item: Item, suite: ScriptSuite) -> tuple[Tree, tuple[Note, ...]]:
    """The directory that an item was read from. Raises TaskError where the item says something else by now."""
    tree = _tree_of(item, suite)
    if tree is None:
        raise TaskError(f"task {item.task.id!r}: expected a script suite that was read from a Harbor directory")
    task = read_task(tree)
    again = item_of(task, default_id=item.task.id)
    if again != item:
        parts = [name for one, other in ((again.task, item.task), (again.exam, item.exam))
                 for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name)]
        raise TaskError(f"task {item.task.id!r} was changed since it was read from its directory: {', '.join(parts)}")
    return tree, ()


def _folders(files: dict[str, bytes], empty: tuple[str, ...]) -> frozenset[str]:
    paths = [*(f"{folder}/." for folder in empty), *files]
    parts = [path.split("/") for path in paths]
    return frozenset("/".join(names[:n]) for names in parts for n in range(1, len(names)))


def _made(item: Item, suite: Suite) -> tuple[Tree, tuple[Note, ...]]:
    task = item.task
    notes: list[Note] = list(_losses(item))
    tests: dict[str, bytes] = {
        "test.sh": _TEST.format(workdir=WORKDIR).encode(),
        "run.py": Path(__file__).with_name("harbor_runner.py").read_bytes(),
    }
    table = _suite_table(item, suite, tests)
    tests["suite.json"] = json.dumps(table, indent=1).encode()
    files = {
        "task.toml": tomli_w.dumps(_config(task)).encode(),
        "instruction.md": _instruction(task, suite).encode(),
        "environment/Dockerfile": _dockerfile(item, suite).encode(),
        **{f"environment/files/{path}": content for path, content in task.files.items()},
        **{f"tests/{path}": content for path, content in tests.items()},
    }
    oracle = {ANSWER: suite.expected.encode()} if isinstance(suite, AnswerSuite) else item.exam.oracle
    if oracle is not None:
        files["solution/solve.sh"] = _SOLVE.format(workdir=WORKDIR).encode()
        files |= {f"solution/files/{path}": content for path, content in oracle.items()}
    scripts = frozenset({"tests/test.sh", "solution/solve.sh"} & files.keys())
    tree = Tree(name=task.id, files=files, executable=scripts, folders=_folders(files, ()))
    read_task(tree)
    return tree, tuple(notes)


def _suite_table(item: Item, suite: Suite, tests: dict[str, bytes]) -> dict[str, object]:
    """What the runner is told; files that it needs are added to `tests`."""
    task = item.task
    common: dict[str, object] = {"workdir": WORKDIR, "seconds": task.limits.command.wall_seconds}
    if isinstance(suite, PythonSuite):
        tests |= {f"tree/{path}": content for path, content in suite.files.items()}
        named = list(dict.fromkeys(id.partition("::")[0] for id in suite.required))
        files = named or sorted(filter(is_test_file, suite.files))
        return {**common, "kind": "python", "files": files, "required": list(suite.required)}
    if isinstance(suite, StdioSuite):
        command = _COMMANDS.get(task.entry.language)
        if command is None:
            raise TaskError(f"task {task.id!r}: expected a language of {', '.join(_COMMANDS)}, found "
                            f"{task.entry.language!r}: nothing here says how Harbor would start it")
        cases = [
            {"name": c.name, "argv": list(c.argv), "stdin": _packed(c.stdin), "stdout": _packed(c.stdout),
             "exit_code": c.exit_code, "files": {p: _packed(content) for p, content in c.files.items()}}
            for c in suite.cases
        ]
        return {**common, "kind": "stdio", "command": [*command, task.entry.path], "compare": suite.compare.value,
                "cases": cases, "required": [c.name for c in suite.cases]}
    if isinstance(suite, AnswerSuite) and suite.kind is not AnswerKind.PROCEDURAL:
        return {**common, "kind": "answer", "expected": suite.expected, "path": ANSWER, "required": ["answer"]}
    raise TaskError(f"task {task.id!r}: Harbor has no way to run a suite of the kind {kind_of(suite)!r}"
                    + (" whose scorer is a program of its own" if isinstance(suite, AnswerSuite) else ""))


def _packed(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _instruction(task: Task, suite: Suite) -> str:
    where = f"`{WORKDIR}/{ANSWER}`" if isinstance(suite, AnswerSuite) else f"`{WORKDIR}/{task.entry.path}`"
    return f"{task.instructions.rstrip()}\n\nWrite your answer to {where}.\n"


def _dockerfile(item: Item, suite: Suite) -> str:
    lines = ["FROM python:3.12-slim"]
    if item.task.entry.language == "javascript":
        lines.append("RUN apt-get update && apt-get install -y --no-install-recommends nodejs")
    if isinstance(suite, PythonSuite) and any(b"pytest" in content for content in suite.files.values()):
        lines.append("RUN pip install --no-cache-dir pytest==8.4.1")
    lines.append(f"WORKDIR {WORKDIR}")
    if item.task.files:
        lines.append(f"COPY files/ {WORKDIR}/")
    return "\n".join(lines) + "\n"


def _config(task: Task) -> dict[str, object]:
    """task.toml of schema 1.4; what has no key there stands under [metadata.quintain]."""
    limits = task.limits
    table: dict[str, object] = {"schema_version": "1.4"}
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", task.id, re.ASCII) and ".." not in task.id:
        table["task"] = {"name": check_id(task.id), "keywords": list(task.tags)}
    kept = {"id": task.id, "version": task.version, "kind": task.kind, "entry": task.entry, "tags": task.tags,
            "grading": task.grading, "isolation": task.isolation, "image": task.image, "limits": limits}
    return {
        **table,
        "metadata": {"quintain": _without_none(msgspec.to_builtins(kept))},
        "agent": {"timeout_sec": limits.episode.wall_seconds},
        "verifier": {"timeout_sec": max(60.0, 10 * limits.command.wall_seconds)},
        "environment": {
            "network_mode": _NETWORKS[task.network], "workdir": WORKDIR,
            "memory_mb": max(1, limits.command.memory_bytes // MEBIBYTE),
            "storage_mb": max(1, limits.command.disk_bytes // MEBIBYTE),
        },
    }


def _without_none(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    return [_without_none(inner) for inner in value] if isinstance(value, list) else value


def _losses(item: Item) -> list[Note]:
    task, exam, suite = item.task, item.exam, item.exam.hidden
    found = {
        "level": "tests and answer share a process and a user: L1 in Harbor, L4 here"
        if isinstance(suite, PythonSuite) else "",
        "equivalence": "compared as text; here mathematically"
        if isinstance(suite, AnswerSuite) and suite.kind is AnswerKind.MATH else "",
        "reserve": "the reserve tests are left out" if exam.reserve is not None else "",
        "visible": "the visible tests lie among the files; nobody runs them at each turn" if exam.visible else "",
        "null": f"{len(exam.null)} wrong answers are left out; Harbor has only nop" if exam.null else "",
        "limits": "CPU time, processes, inodes, output and turns are not bounded",
        "isolation": f"{task.isolation.value} is asked for here" if task.isolation.value != "namespace" else "",
        "image": f"{task.image!r} is written as python:3.12-slim" if task.image != "host" else "",
        "network": "which hosts are allowed is not known" if task.network is Network.ALLOW_LIST else "",
    }
    return [Note(kind=NoteKind.LOSS, key=key, message=message) for key, message in found.items() if message]

"""Two published sets that no format of ours reads, as items: so that the gate can say what it thinks of them.

AgentBench-OS: an init script, and either a value to match or a list of scripts that compare the answer with what the
author's own command prints *in the world that the answer left*. InterCode: a query and one gold command or query, no
test; whoever evaluates it compares what two containers look like, or what two queries return. What cannot be said as an
item is a reason.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from quintain.tasks import AnswerSuite, Exam, Item, ScriptStep, ScriptSuite
from quintain.types import Entry, Grading, Limits, Scopes

_TEST = """#!/bin/bash
mkdir -p /logs/verifier
answer=$(cat /work/answer.txt 2>/dev/null)
set -- "$answer"
{steps}
if [ "$ok" = 1 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
"""
_LIMITS = Scopes(command=Limits(wall_seconds=20.0, cpu_seconds=10.0), episode=Limits(
    wall_seconds=60.0, cpu_seconds=30.0))


def agentbench(folder: Path) -> Iterator[tuple[str, Item | str]]:
    """Each task by its id, or why it is none."""
    with gzip.open(folder / "os_interaction.jsonl.gz", "rt") as rows:
        files: dict[str, str] = {row["path"]: row["content"] for row in map(json.loads, rows)}
    for path, content in sorted(files.items()):
        if path.startswith("data/") and path.endswith(".json"):
            found = json.loads(content)
            for number, row in enumerate(found if isinstance(found, list) else [found]):
                id = f"{path.removeprefix('data/').removesuffix('.json')}/{number}"
                scripts = path.split("/")[1].removesuffix(".json").split("-")[0]
                try:
                    yield id, _agentbench(id, row, files, f"scripts/{scripts}")
                except (KeyError, TypeError, ValueError, StopIteration) as error:
                    yield id, f"it cannot be said as a task: {type(error).__name__} {error}"


def _agentbench(id: str, row: dict[str, Any], files: dict[str, str], scripts: str) -> Item:
    evaluation = row["evaluation"]
    create = row.get("create", {})
    setup = "\n".join(_script(one.get("init"), files, scripts) for one in (
        create if isinstance(create, list) else [create]) if isinstance(one, dict))
    if row.get("start"):
        setup += "\n" + str(row["start"])
    example = _script(evaluation.get("example"), files, scripts)
    if "match" in evaluation:
        match = evaluation["match"]
        wanted = match if isinstance(match, str) else match["answer"]
        return Item.sealed(Exam(hidden=AnswerSuite(expected=str(wanted)), oracle={"answer.txt": str(wanted).encode()}),
                           id=id, instructions=row["description"], entry=Entry(path="answer.txt", language="text"))
    tests: dict[str, bytes] = {}
    lines = []
    for at, check in enumerate(evaluation["check"]):
        if check is None:
            if not example:
                raise ValueError("its check asks for the example's output, and there is no example")
            lines.append('set -- "$@" "$(cat /work/expected.txt)"')
            continue
        python = isinstance(check, dict) and check.get("language") == "python"
        text, suffix = _script(check, files, scripts), "py" if python else "sh"
        tests[f"check{at}.{suffix}"] = text.encode()
        run = "python3" if suffix == "py" else "bash"
        lines.append(f'if out=$({run} /tests/check{at}.{suffix} "$@"); then ok=1; else ok=0; fi\nset -- "$@" "$out"')
    tests["test.sh"] = _TEST.format(steps="\n".join(lines)).encode()
    step = ScriptStep(name="main", instructions=row["description"], artifacts=("/",),
                      setup={"setup.sh": f"#!/bin/bash\n{setup}\nexit 0\n".encode()})
    packed = base64.b64encode(example.encode()).decode()  # run where the answer was made: what it reads lies there
    collect = (f"echo {packed} | base64 -d | bash > /work/expected.txt 2>/dev/null",)
    suite = ScriptSuite(files=tests, artifacts=("/",), steps=(step,), collect=collect)
    solve = f"#!/bin/bash\n{{\n{example}\n}} > /work/answer.txt\n".encode() if example else None
    return Item.sealed(
        Exam(hidden=suite, oracle={"solve.sh": solve} if solve else None, null=({"solve.sh": b"#!/bin/sh\n"},)),
        id=id, kind="shell", instructions=row["description"], image="host+rw", limits=_LIMITS,
        entry=Entry(path="solve.sh", language="shell"), grading=Grading.ON_SUBMIT)


def _script(said: Any, files: dict[str, str], scripts: str) -> str:
    """The text of a script that is given as code, as a file, or not at all."""
    if not said:
        return ""
    if isinstance(said, str):
        return said
    if isinstance(said, list):
        return "\n".join(_script(one, files, scripts) for one in said)
    return str(said["code"]) if "code" in said else files[f"{scripts}/{said['file']}"]


def intercode(folder: Path) -> Iterator[tuple[str, Item | str]]:
    """The bash tasks: a query and a gold command, judged by nothing that comes with them."""
    with (folder / "nl2bash.jsonl").open() as rows:
        files: dict[str, str] = {row["path"]: row["content"] for row in map(json.loads, rows)}
    for path, content in sorted(files.items()):
        name = path.rpartition("/")[2]
        if not name.endswith(".json"):
            continue
        for number, row in enumerate(json.loads(content)):
            if isinstance(row, dict) and "query" in row:
                yield f"{name.removesuffix('.json')}/{number}", Item.sealed(
                    Exam(hidden=ScriptSuite(files={}), oracle={"solve.sh": f"#!/bin/bash\n{row['gold']}\n".encode()}),
                    id=f"{name.removesuffix('.json')}/{number}", kind="shell", instructions=row["query"],
                    image="host+rw", entry=Entry(path="solve.sh", language="shell"), grading=Grading.ON_SUBMIT)


def intercode_sql(folder: Path) -> Iterator[tuple[str, Item | str]]:
    """The SQL tasks, from Spider and WikiSQL: a question, a database and a gold query. A gold query that no database
    with its tables could run is a reason: it is compiled, and never run, against empty tables of these names."""
    with gzip.open(folder / "ic_spider_dev.json.gz", "rt") as file:
        spider: list[dict[str, Any]] = json.load(file)
    wiki: list[dict[str, Any]] = json.loads((folder / "ic_wikisql_dev.json").read_text())
    with gzip.open(folder / "ic_wikisql_dev.sql.gz", "rt") as file:
        tables = _tables(file.read())
    for set_, rows in (("spider", spider), ("wikisql", wiki)):
        for number, row in enumerate(rows):
            id = f"{set_}/{number}"
            known = row.get("db_tables") or {name: tables[name] for name in tables if name in row["gold"]}
            if wrong := _uncompiled(row["gold"], known):
                yield id, f"its gold query is none: {wrong}"
                continue
            asked = f"{row['query']}\n\nDatabase {row['db']}:\n" + "\n".join(
                f"{name}({', '.join(columns)})" for name, columns in known.items())
            yield id, Item.sealed(
                Exam(hidden=ScriptSuite(files={}), oracle={"solve.sql": f"{row['gold']};\n".encode()}), id=id,
                kind="shell", instructions=asked, image="docker:mysql:8.0+rw", grading=Grading.ON_SUBMIT,
                entry=Entry(path="solve.sql", language="sql"))


def _tables(dump: str) -> dict[str, list[str]]:
    """The columns of each table of a dump."""
    found = {}
    for name, body in re.findall(r"CREATE TABLE `([^`]+)` \((.*?)\n\)", dump, re.DOTALL):
        found[name] = re.findall(r"^\s*`([^`]+)`", body, re.MULTILINE)
    return found


def _uncompiled(query: str, tables: dict[str, list[str]]) -> str | None:
    """What is wrong with a query, in one or two words of its kind."""
    with closing(sqlite3.connect(":memory:")) as database:
        for name, columns in tables.items():
            if name.startswith("sqlite_"):
                continue  # its own, and not the task's
            wanted = ", ".join(f"\"{column}\"" for column in dict.fromkeys(c.lower() for c in columns))
            database.execute(f"CREATE TABLE \"{name}\" ({wanted})")
        try:
            database.execute(f"EXPLAIN {query}")
        except sqlite3.Error as error:
            return re.sub(r"[\"'].*|: .*", "", str(error)).strip() or "no SQL"
    return None

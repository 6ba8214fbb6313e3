"""Harbor task directories, read and written."""

from __future__ import annotations

import contextlib
import copy
import os
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.tasks import (
    AnswerKind,
    AnswerSuite,
    Blend,
    Exam,
    Item,
    Note,
    NoteKind,
    ScriptSuite,
    StdioCase,
    StdioSuite,
    open_taskset,
    write_taskset,
)
from quintain.tasks.formats.harbor import HarborFormat
from quintain.tasks.formats.harbor_config import parse_config
from quintain.types import Grading, Network, TaskError

from . import harbors
from .made import CASES, item, needs_cases

MAKERS: list[Callable[[Path], Path]] = [harbors.small, harbors.every_key, harbors.in_steps, harbors.old]


def only(path: Path) -> Item:
    tasks = open_taskset(str(path))
    assert len(tasks) == 1
    return tasks[tasks.ids[0]]


def suite_of(found: Item) -> ScriptSuite:
    assert isinstance(found.exam.hidden, ScriptSuite)
    return found.exam.hidden


def notes_of(path: Path) -> tuple[Note, ...]:
    (notes,) = HarborFormat().notes(path).values()
    return notes


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_a_directory_that_was_read_is_written_again_as_it_was(make: Callable[[Path], Path], tmp_path: Path) -> None:
    source = make(tmp_path / "set" / "task")
    tasks = open_taskset(str(tmp_path / "set"))
    assert write_taskset(tasks, tmp_path / "out", format="harbor") == ()
    written = tmp_path / "out" / tasks.ids[0]
    assert harbors.listing(written) == harbors.listing(source)
    assert only(written) == tasks[tasks.ids[0]]


def test_every_key_is_understood_or_named(tmp_path: Path) -> None:
    notes = notes_of(harbors.every_key(tmp_path / "task"))
    unknown = {note.key or note.file for note in notes if note.kind is NoteKind.UNKNOWN}
    assert unknown == {"made_up", "environment.surprise", "notes", "empty"}
    weightless = {note.key for note in notes if note.kind is NoteKind.LOSS and note.key}
    assert weightless == {
        "agent.user", "verifier.user", "environment.gpus", "environment.gpu_types", "environment.tpu",
        "environment.mcp_servers", "environment.skills_dir", "environment.healthcheck", "environment.allowed_hosts",
        "verifier.network_mode",
    }


def test_what_a_directory_says_is_what_the_item_says(tmp_path: Path) -> None:
    found = only(harbors.every_key(tmp_path / "task"))
    task, suite = found.task, suite_of(found)
    assert (task.id, task.kind, task.grading) == ("demo/every-key", "shell", Grading.ON_SUBMIT)
    assert task.instructions == "Write 42 to /app/answer.txt.\n", "no canary is shown"
    assert task.network is Network.ALLOW_LIST
    assert task.image == "docker:ubuntu:24.04+rw"
    assert task.tags == ("harbor", "demo", "keys", "files", "easy")
    assert task.limits.episode.wall_seconds == 120
    assert task.limits.command.memory_bytes == 1024 << 20
    assert suite.artifacts == ("/logs/artifacts", "/app/out.txt", "/var/log/app")
    assert suite.image == "docker:python:3.12-slim+rw"
    assert suite.env == {"MODE": "strict", "TOKEN": "${TOKEN:-none}"}
    assert suite.collect == ("cp /app/state.db /logs/artifacts/",)
    assert suite.wall_seconds == 60
    assert suite.level == "L2"
    assert found.exam.oracle == {"solve.sh": harbors.SOLVE.encode()}


def test_a_task_in_steps_keeps_its_steps(tmp_path: Path) -> None:
    found = only(harbors.in_steps(tmp_path / "task"))
    suite = suite_of(found)
    assert [step.name for step in suite.steps] == ["scaffold", "finish"]
    assert suite.blend is Blend.FINAL
    assert suite.steps[0].least == {"reward": 1.0}
    assert suite.steps[1].least == {"reward": 0.5}
    assert suite.steps[0].artifacts == ("/app/one.txt",)
    assert set(suite.steps[0].setup) == {"seed.txt", "setup.sh"}
    assert "# Step 1 of 2: scaffold" in found.task.instructions
    assert set(found.exam.oracle or {}) == {"scaffold/solve.sh", "finish/solve.sh"}


def test_the_first_schema_is_read_by_its_own_names(tmp_path: Path) -> None:
    found = only(harbors.old(tmp_path / "demo"))
    assert found.task.network is Network.NONE
    assert found.task.limits.command.memory_bytes == 2048 << 20
    assert found.task.limits.command.disk_bytes == 512 << 20
    assert found.task.id == "demo"
    assert suite_of(found).level == "L1", "in one container with the agent, all its files are seen"


def test_a_version_that_is_newer_is_read_with_a_note(tmp_path: Path) -> None:
    path = harbors.small(tmp_path / "task", task_dot_toml='schema_version = "1.7"\n[new_table]\nkey = 1\n')
    said = {(note.kind, note.key) for note in notes_of(path)}
    assert {(NoteKind.WARNING, "schema_version"), (NoteKind.UNKNOWN, "new_table")} <= said


def test_the_same_content_has_the_same_version_wherever_it_lies(tmp_path: Path) -> None:
    files = {"environment__Dockerfile": "FROM host\nWORKDIR /app\n"}
    one = only(harbors.small(tmp_path / "a" / "task", **files))
    other = only(harbors.small(tmp_path / "b" / "task", **files))
    third = only(harbors.small(tmp_path / "c" / "task", environment__Dockerfile="FROM host\nRUN true\n"))
    assert one.task.version == other.task.version
    assert one.task.image.startswith("context:")
    assert one.task.image != third.task.image


REFUSED = {
    "no tests": ({"tests__test_dot_sh": ""}, "tests/test.sh: expected a script, found none"),
    "no instruction": ({"instruction_dot_md": ""}, "instruction.md: expected a file with what is asked, found none"),
    "blank instruction": ({"instruction_dot_md": " \n"}, "instruction.md: expected what is asked, found an empty file"),
    "blank script": ({"tests__test_dot_sh": "\n"}, "tests/test.sh: expected a script, found an empty file"),
    "CRLF": ({"tests__test_dot_sh": "#!/bin/bash\r\n: reward\r\n"}, "tests/test.sh:1: expected \\n"),
    "CRLF in the oracle": ({"solution__solve_dot_sh": "#!/bin/bash\r\n"}, "solution/solve.sh:1: expected \\n"),
    "no oracle script": ({"solution__solve_dot_sh": "", "solution__a_dot_txt": "a"}, "solution/solve.sh: expected"),
    "no reward": ({"tests__test_dot_sh": "#!/bin/sh\ntrue\n"}, "tests/test.sh: expected a test that writes"),
    "no handover": ({"task_dot_toml": '[verifier]\nenvironment_mode = "separate"\n'}, "task.toml:2: verifier."),
    "Windows": ({"task_dot_toml": '[environment]\nos = "windows"\n'}, "task.toml:2: environment.os: expected 'linux'"),
    "version 2": ({"task_dot_toml": 'schema_version = "2.0"\n'}, "task.toml:1: schema_version: expected 1.0 to 1.4"),
    "name": ({"task_dot_toml": '[task]\nname = "no org"\n'}, "task.toml:2: task.name: expected ORG/NAME"),
    "hosts": ({"task_dot_toml": '[agent]\nallowed_hosts = ["a.b"]\n'}, "task.toml:2: agent.allowed_hosts: has"),
    "URL": ({"task_dot_toml": '[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = ["http://a.b"]\n'},
            "task.toml:3: agent.allowed_hosts: expected a host name"),
    "seconds": ({"task_dot_toml": "[verifier]\ntimeout_sec = -1\n"}, "task.toml:2: verifier.timeout_sec: expected sec"),
    "nan": ({"task_dot_toml": "[agent]\ntimeout_sec = nan\n"}, "task.toml:2: agent.timeout_sec: expected seconds"),
    "two sizes": ({"task_dot_toml": '[environment]\nmemory = "2G"\nmemory_mb = 512\n'},
                  "task.toml:2: environment.memory: expected the same as memory_mb = 512, found '2G' (2048 MB)"),
    "size": ({"task_dot_toml": '[environment]\nstorage = "big"\n'}, "task.toml:2: environment.storage: expected"),
    "mode": ({"task_dot_toml": '[environment]\nnetwork_mode = "some"\n'},
             "task.toml:2: environment.network_mode: expected one of no-network, public, allowlist, found 'some'"),
    "shared and own": ({"task_dot_toml": '[verifier]\nenvironment_mode = "shared"\nenvironment = {cpus = 1}\n'},
                       "task.toml:2: verifier.environment_mode: expected 'separate'"),
    "climbing artifact": ({"task_dot_toml": 'artifacts = ["/app/../etc"]\n'}, "task.toml:1: artifacts: expected a sou"),
    "step twice": ({"task_dot_toml": '[[steps]]\nname = "One"\n[[steps]]\nname = "one"\n'},
                   "task.toml:2: steps.name: expected each step's name once"),
    "step name": ({"task_dot_toml": '[[steps]]\nname = "a/b"\n'}, "task.toml:2: steps.name: expected a name"),
    "server": ({"task_dot_toml": '[[environment.mcp_servers]]\nname = "x"\n'}, "task.toml:1: environment.mcp_servers:"),
    "no UTF-8 name": ({"task_dot_toml": "[task\n"}, "task.toml:1: expected TOML"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_malformed_directory_is_refused_with_file_key_and_expectation(name: str, tmp_path: Path) -> None:
    files, said = REFUSED[name]
    path = harbors.small(tmp_path / "task", **files)
    with pytest.raises(TaskError) as error:
        only(path)
    assert f"{path}/{said}" in str(error.value)


def leaves(table: object, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(table, dict):
        for key, value in table.items():
            yield from leaves(value, (*place, key))
    elif isinstance(table, list):
        for number, value in enumerate(table):
            yield from leaves(value, (*place, number))
    else:
        yield place


TABLE = tomllib.loads(harbors.EVERY_KEY)
#: Places where anything, or two types, may stand.
FREE = {"metadata", "made_up", "surprise", "user"}
PLACES = [place for place in leaves(TABLE) if not FREE & set(place)]


def spoilt(place: tuple[str | int, ...], value: object) -> bytes:
    table: dict[str, Any] = copy.deepcopy(TABLE)
    inner: Any = table
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return tomli_w.dumps(table).encode()


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_a_value_of_a_wrong_type_is_refused_under_its_own_name(place: tuple[str | int, ...]) -> None:
    for wrong in ([["list"]], {"a": {"b": 1}}, True):
        with pytest.raises(TaskError) as error:
            parse_config(spoilt(place, wrong), "x/task.toml")
        keys = [key for key in place if isinstance(key, str)]
        assert error.value.file == "x/task.toml"
        assert keys[0] in str(error.value), "the table, at least, is named"
        assert "xpected" in str(error.value), "and what was expected"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_happens_to_a_task_toml_it_is_read_or_refused(data: st.DataObject) -> None:
    content = bytearray(harbors.EVERY_KEY.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        end = min(len(content), start + data.draw(st.integers(0, 12)))
        content[start:end] = data.draw(st.binary(max_size=6))
    with contextlib.suppress(TaskError):  # any other exception is a flaw
        assert parse_config(bytes(content), "x/task.toml").file == "x/task.toml"


def test_a_changed_item_is_not_written_as_the_directory_it_came_from(tmp_path: Path) -> None:
    found = only(harbors.small(tmp_path / "task"))
    changed = Item(task=msgspec.structs.replace(found.task, instructions="Another."), exam=found.exam)
    with pytest.raises(TaskError, match="changed since it was read from its directory: instructions"):
        write_taskset([changed], tmp_path / "out", format="harbor")


def test_a_script_without_its_x_bit_is_told(tmp_path: Path) -> None:
    path = harbors.write(tmp_path / "task", harbors.SMALL, plain=("tests/test.sh",))
    assert "tests/test.sh" in [note.file for note in notes_of(path) if note.kind is NoteKind.WARNING]
    assert "solution/solve.sh" not in [note.file for note in notes_of(path)]


def test_tasks_of_other_kinds_become_directories_and_what_is_lost_is_told(tmp_path: Path) -> None:
    stdio = Item.sealed(
        Exam(hidden=StdioSuite(cases=(StdioCase(name="a", stdin=b"1\n", stdout=b"1\n"),)), null=({"m.py": b""},)),
        id="cat", instructions="Copy.", entry=msgspec.structs.replace(item("x").task.entry, path="m.py"),
    )
    answer = Item.sealed(Exam(hidden=AnswerSuite(expected="7", kind=AnswerKind.MATH)), id="q/7", instructions="3+4?")
    said = write_taskset([item("f/one"), stdio, answer], tmp_path / "out", format="harbor")
    assert {line.split(": loss: ")[1].split(":")[0] for line in said} == {"level", "limits", "null", "equivalence"}
    read = open_taskset(str(tmp_path / "out"))
    assert sorted(read.ids) == ["cat", "f/one", "q/7"]
    assert all(isinstance(found.exam.hidden, ScriptSuite) for found in read)
    assert os.access(tmp_path / "out/q/7/tests/test.sh", os.X_OK)


def test_a_scorer_that_is_a_program_is_not_written(tmp_path: Path) -> None:
    suite = AnswerSuite(expected="7", kind=AnswerKind.PROCEDURAL, scorer="reasoning_gym:x")
    with pytest.raises(TaskError, match="no way to run a suite of the kind 'answer'"):
        write_taskset([Item.sealed(Exam(hidden=suite), id="a", instructions="?")], tmp_path / "o", format="harbor")


@needs_cases
@pytest.mark.parametrize(("case", "said"), [
    ("TF01", "tests/test.sh:1: expected \\n at the end of a line, found \\r\\n (CRLF)"),
    ("TF03/no_tests", "tests/test.sh: expected a script, found none"),
    ("TF03/no_reward", "tests/test.sh: expected a test that writes"),
    ("TF12", "task.toml:5: verifier.environment_mode: artifact missing"),
])
def test_the_handed_directories_are_refused_for_the_task_s_own_reason(case: str, said: str) -> None:
    with pytest.raises(TaskError) as error:
        only(CASES / case)
    assert f"{CASES / case}/{said}" in str(error.value)


@needs_cases
@pytest.mark.parametrize(("case", "file"), [
    ("TF03/no_solution", "solution/solve.sh"), ("TF03/not_exec", "solution/solve.sh"),
])
def test_what_is_missing_from_the_handed_directories_is_named(case: str, file: str) -> None:
    assert file in [note.file for note in notes_of(CASES / case) if note.kind is NoteKind.WARNING]


@needs_cases
def test_links_that_leave_the_handed_task_are_refused_unread(tmp_path: Path) -> None:
    subprocess.run(["sh", str(CASES / "TF10" / "make_task.sh")], cwd=tmp_path, check=True)
    (tmp_path / "task" / "task.toml").write_text("")
    with pytest.raises(TaskError, match="expected a link to a file inside the task, found a link to") as error:
        only(tmp_path / "task")
    assert Path("/etc/hostname").read_text().strip() not in str(error.value)

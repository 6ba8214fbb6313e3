"""A task written by hand is read as it is meant, or refused with the place and the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.tasks import (
    Compare,
    Exam,
    Item,
    PythonSuite,
    StdioCase,
    StdioSuite,
    Suite,
    Taskset,
    open_taskset,
    visible_files,
    write_taskset,
)
from quintain.tasks.formats.directory import parse, render
from quintain.types import Entry, Grading, Isolation, Limits, Network, Scopes, TaskError

from .made import TEST, item, small_task


def read(path: Path) -> Item:
    (found,) = open_taskset(str(path))
    return found


def test_a_task_by_hand_has_sensible_defaults(tmp_path: Path) -> None:
    found = read(small_task(tmp_path / "one"))
    assert found.task.id == "one"
    assert found.task.instructions == "Return 1.\n"
    assert found.task.exam == found.exam.digest
    assert found.task.limits == Scopes()
    assert found.exam.hidden == PythonSuite(files={"test_f.py": TEST}, modules=("solution",))
    assert found.exam.oracle is None
    assert found.exam.null == ({"solution.py": b""},)


def test_null_answers_are_made_from_the_start_files_and_the_entry(tmp_path: Path) -> None:
    found = read(small_task(tmp_path / "one", task_dot_toml='entry = {name = "f"}', files__solution_dot_py="x = 1\n"))
    assert found.exam.null == (
        {"solution.py": b"x = 1\n"}, {"solution.py": b"def f(*arguments, **named):\n    return None\n"},
    )


def test_visible_tests_lie_among_the_files(tmp_path: Path) -> None:
    found = read(small_task(tmp_path / "one", tests_visible__test_x_dot_py=TEST))
    assert found.task.files == {"tests_visible/test_x.py": TEST}
    assert "tests/test_f.py" not in found.task.files


def test_cases_of_a_program_are_read_byte_for_byte(tmp_path: Path) -> None:
    found = read(_program(tmp_path / "one"))
    assert found.exam.hidden == StdioSuite(compare=Compare.EXACT, cases=(
        StdioCase(name="a", argv=("-n", "two words", ""), stdin=b"\xff\r\n", stdout=b"\0\r", exit_code=3,
                  files={"d/x.bin": b"\x80"}),
        StdioCase(name="b", exit_code=None),
    ))


def _program(root: Path) -> Path:
    small_task(root, task_dot_toml='tests = {compare = "exact"}')
    (root / "tests" / "test_f.py").unlink()
    (root / "tests" / "a.files" / "d").mkdir(parents=True)
    for name, content in {
        "a.in": b"\xff\r\n", "a.out": b"\0\r", "a.args": b"-n 'two words' \"\"\n", "a.code": b"3\n",
        "a.files/d/x.bin": b"\x80", "b.out": b"", "b.code": b"any",
    }.items():
        (root / "tests" / name).write_bytes(content)
    return root


REFUSED = {
    "no TOML": ({"task_dot_toml": "kind = 'code'\nimage = \n"}, r"task.toml:2: expected TOML"),
    "no UTF-8": ({"task_dot_toml": b"kind = 'code'\nimage = '\xff'\n"}, r"toml:2: expected UTF-8, found byte 0xff"),
    "unknown key": ({"task_dot_toml": "\ninstruction = 'x'\n"}, r":2: unknown key 'instruction': did you mean 'instr"),
    "unknown inner key": (
        {"task_dot_toml": "[limits.command]\nturns = 2\nwall_second = 2\n"},
        r":3: unknown key 'limits.command.wall_second': did you mean 'wall_seconds'\?",
    ),
    "wrong type": (
        {"task_dot_toml": "[limits.turn]\nturns = 2\n\n[limits.command]\nturns = 'x'\n"},
        r":5: limits.command.turns: Expected `int \| null`, got `str`",
    ),
    "wrong word": ({"task_dot_toml": "network = 'all'\n"},
                   r"task.toml:1: network: expected one of none, allow_list, full, found 'all'"),
    "too little to start": ({"task_dot_toml": "[limits.turn]\nmemory_bytes = 1_000\n"},
                            r"task.toml:2: limits.turn.memory_bytes must be at least 16777216, found 1000"),
    "wrong word in a table": ({"task_dot_toml": "[tests]\nsuite = 'unit'\n"},
                              r"task.toml:2: tests.suite: expected one of python, stdio, found 'unit'"),
    "nested deeply": ({"task_dot_toml": "x = " + "[" * 100_000}, r"task.toml: expected TOML, found tables nested too"),
    "test nested deeply": ({"tests__test_f_dot_py": "(" * 100_000}, r"tests/test_f.py:?1?: expected Python, found"),
    "no number": ({"task_dot_toml": "[limits]\nturn.turns = 0\n"}, r":2: limits.turn.turns must be .* found 0"),
    "not finite": ({"task_dot_toml": "limits.turn.wall_seconds = inf\n"}, r":1: limits.turn.wall_seconds .* found inf"),
    "id is a path": ({"task_dot_toml": "kind='code'\nid = '../x'\n"}, r"task.toml:2: a task id is a relative name"),
    "entry is a path": ({"task_dot_toml": "[entry]\npath = '/etc/x.py'\n"}, r"task.toml:2: expected a relative path"),
    "instructions twice": ({"task_dot_toml": "instructions = 'x'\n"}, r"toml:1: expected instructions in one"),
    "no instructions": ({"instructions_dot_md": " \n"}, r"instructions.md: expected instructions"),
    "instructions no UTF-8": ({"instructions_dot_md": b"a\nb\xff"}, r"instructions.md:2: expected UTF-8"),
    "misspelt folder": ({"test__test_f_dot_py": TEST}, r"/test: .* did you mean 'tests'\?"),
    "both kinds": ({"tests__a_dot_out": ""}, r"/tests: found Python tests and NAME.in/NAME.out cases"),
    "no test in it": ({"tests__test_f_dot_py": "import os\n"}, r"/tests: expected at least one test"),
    "test no Python": ({"tests__test_f_dot_py": "x = 1\ndef test_x(:\n"}, r"tests/test_f.py:2: expected Python"),
    "stands in": ({"tests__solution_dot_py": "def f(): return 1"}, r"tests/solution.py: .* in place of the"),
    "required cut": (
        {"task_dot_toml": "[tests]\nrequired = ['test_f.py::test_f[a']\n"}, r":2: tests.required: the brackets .* cut",
    ),
    "required twice": (
        {"task_dot_toml": "tests.required = ['test_f.py::test_f', 'test_f.py::test_f']"},
        r":1: tests.required: .* twice",
    ),
    "required unknown": (
        {"task_dot_toml": "tests.required = ['test_f.py::test_g']"}, r"no test of test_f.py, did you mean '.*test_f'\?",
    ),
    "required is text": ({"task_dot_toml": "tests.required = '[]'"}, r":1: tests.required: Expected `array`, got"),
    "null twice": ({"task_dot_toml": "null = 'none'", "null__a__x": ""}, r"task.toml:1: null = 'none' and a folder"),
    "null a file": ({"null__x": ""}, r"null/x: expected answers as folders"),
    "reserved": ({"files__tests_visible__x": ""}, r"files/tests_visible: tests_visible/ is where"),
    "table without folder": ({"task_dot_toml": "[reserve]\nsuite='stdio'"}, r":1: \[reserve\] describes tests, but"),
    "CRLF script": ({"tests__run_dot_sh": b"#!/bin/sh\r\nexit 0\r\n"}, r"tests/run.sh:1: expected \\n at the end"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    files, message = REFUSED[name]
    with pytest.raises(TaskError, match=message):
        read(small_task(tmp_path / "one", **files))


@pytest.mark.parametrize(("file", "content", "message"), [
    ("lone.in", b"", r"tests/lone.in: expected lone.out beside it"),
    ("a.code", b"-1", r"tests/a.code:1: expected an exit code from 0 to 255, or 'any', found '-1'"),
    ("a.args", b"'open", r"tests/a.args: expected arguments as a shell would read them"),
    ("notes.txt", b"", r"tests/notes.txt: expected NAME.in"),
])
def test_a_case_without_all_its_parts_is_refused(file: str, content: bytes, message: str, tmp_path: Path) -> None:
    root = _program(tmp_path / "one")
    (root / "tests" / file).write_bytes(content)
    with pytest.raises(TaskError, match=message):
        read(root)


@pytest.mark.parametrize("missing", ["task.toml", "tests", "instructions.md"])
def test_a_missing_part_is_named(missing: str, tmp_path: Path) -> None:
    root = small_task(tmp_path / "one")
    if missing == "tests":
        (root / "tests" / "test_f.py").unlink()
        (root / "tests").rmdir()
    else:
        (root / missing).unlink()
    with pytest.raises(TaskError, match=missing):
        read(root)


@pytest.mark.parametrize("target", ["/etc/hostname", "../../secret", "missing", "."])
def test_no_link_leads_out_of_a_task(target: str, tmp_path: Path) -> None:
    root = small_task(tmp_path / "one")
    (tmp_path / "secret").write_text("secret")
    (root / "tests" / "data.txt").symlink_to(target)
    with pytest.raises(TaskError, match=r"data.txt: expected a link to a file inside the task"):
        read(root)


def test_a_link_inside_a_task_is_the_file_that_it_names(tmp_path: Path) -> None:
    root = small_task(tmp_path / "one", files__a_dot_txt="same")
    (root / "tests" / "data.txt").symlink_to("../files/a.txt")
    suite = read(root).exam.hidden
    assert isinstance(suite, PythonSuite)
    assert suite.files["data.txt"] == b"same"


def test_a_pipe_in_a_task_is_refused_and_not_opened(tmp_path: Path) -> None:
    root = small_task(tmp_path / "one")
    os.mkfifo(root / "tests" / "pipe")
    with pytest.raises(TaskError, match=r"pipe: expected a file or folder, found a special file"):
        read(root)


def test_caches_do_not_change_a_task(tmp_path: Path) -> None:
    root = small_task(tmp_path / "one")
    before = read(root)
    (root / "tests" / "__pycache__").mkdir()
    (root / "tests" / "__pycache__" / "test_f.cpython-311.pyc").write_bytes(b"\0")
    (root / ".git").mkdir()
    assert read(root) == before


def test_a_folder_of_tasks_is_a_taskset_and_one_bad_task_does_not_spoil_it(tmp_path: Path) -> None:
    small_task(tmp_path / "a" / "1")
    small_task(tmp_path / "a" / "2", task_dot_toml="id = 'other'")
    small_task(tmp_path / "b", task_dot_toml="nonsense")
    tasks = open_taskset(str(tmp_path))
    assert tasks.ids == ("a/1", "other", "b")
    assert tasks["other"].task.instructions == "Return 1.\n"
    with pytest.raises(TaskError, match=r"b/task.toml:1: expected TOML"):
        tasks["b"]


def test_two_directories_with_one_id_are_refused(tmp_path: Path) -> None:
    small_task(tmp_path / "a", task_dot_toml="id = 'same'")
    small_task(tmp_path / "b", task_dot_toml="id = 'same'")
    with pytest.raises(TaskError, match=r"task id 'same' is already used by .*/a"):
        len(open_taskset(str(tmp_path)))


def test_a_task_is_never_written_over(tmp_path: Path) -> None:
    assert write_taskset([item("a")], tmp_path) == ()
    with pytest.raises(TaskError, match="never written over"):
        write_taskset([item("a")], tmp_path)
    with pytest.raises(TaskError, match="a task cannot lie inside another: 'x' and 'x/y'"):
        write_taskset([item("x/y"), item("x")], tmp_path)


@pytest.mark.parametrize(("unsayable", "message"), [
    ({"instructions": ""}, "expected instructions"),
    ({"files": {"tests_visible/x": b""}}, "is where the visible tests will lie"),
    ({"limits": Scopes(command=Limits(wall_seconds=float("inf")))}, "wall_seconds must be a number"),
])
def test_what_the_format_cannot_say_is_an_error_and_leaves_nothing(
    unsayable: dict[str, object], message: str, tmp_path: Path,
) -> None:
    with pytest.raises(TaskError, match=message):
        write_taskset([item("a", **unsayable)], tmp_path / "out")
    assert not (tmp_path / "out" / "a").exists()


names = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True)
trees = st.dictionaries(names.map(lambda n: f"{n}.dat"), st.binary(max_size=8), max_size=3)
python_suites = st.builds(
    PythonSuite, files=trees.map(lambda tree: {**tree, "test_f.py": TEST}),
    modules=st.sampled_from([("solution",), ("solution", "node"), ()]),
    required=st.sampled_from([(), ("test_f.py::test_f",)]),
)
cases = st.lists(st.builds(
    StdioCase, name=names, argv=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
                                                 max_size=6), max_size=3).map(tuple),
    stdin=st.binary(max_size=8), files=trees, stdout=st.binary(max_size=8), exit_code=st.none() | st.integers(0, 255),
), min_size=1, max_size=4, unique_by=lambda case: case.name).map(tuple)
suites: st.SearchStrategy[Suite] = python_suites | st.builds(
    StdioSuite, cases=cases, compare=st.sampled_from(Compare))
limits = st.builds(Limits, wall_seconds=st.floats(0.001, 1e6), memory_bytes=st.integers(16 << 20, 2**62))
exams = st.builds(
    Exam, hidden=suites, visible=st.none() | suites, reserve=st.none() | suites, oracle=st.none() | trees,
    null=st.lists(trees, max_size=3).map(tuple),
)


@given(
    exam=exams, files=trees, limits=st.builds(Scopes, command=limits, turn=limits),
    text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip),
    network=st.sampled_from(Network), isolation=st.sampled_from(Isolation), grading=st.sampled_from(Grading),
    entry=st.sampled_from([Entry(), Entry(path="a/b.sh", language="shell"), Entry(path="m.py", name="f")]),
    tags=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=2).map(tuple),
)
def test_what_is_written_reads_back_as_the_same_item(
    exam: Exam, files: dict[str, bytes], limits: Scopes, text: str, network: Network, isolation: Isolation,
    grading: Grading, entry: Entry, tags: tuple[str, ...],
) -> None:
    whole = Item.sealed(
        exam, id="some/id", files=files, instructions=text, limits=limits, network=network, isolation=isolation,
        grading=grading, entry=entry, tags=tags, kind="odd kind", image="debian:12",
    )
    assert parse(render(whole), default_id="another") == whole


def test_round_trip_on_disk_keeps_version_and_digest(tmp_path: Path) -> None:
    visible = StdioSuite(cases=(StdioCase(name="b", stdin=b"\xff"), StdioCase(name="a")))
    exam = Exam(hidden=PythonSuite(files={"test_f.py": TEST}), visible=visible, oracle={}, null=({},))
    whole = Item.sealed(exam, id="set/1", instructions="x", files={"bin": bytes(range(256))})
    assert visible_files(visible).items() <= whole.task.files.items()
    write_taskset([whole, item("set/2")], tmp_path / "out")
    again = open_taskset(str(tmp_path / "out"))
    assert again["set/1"] == whole
    assert again.digest == Taskset.of([whole, item("set/2")]).digest


def test_a_link_that_leads_to_itself_is_refused(tmp_path: Path) -> None:
    small_task(tmp_path / "task")
    (tmp_path / "task" / "again.txt").symlink_to("again.txt")
    with pytest.raises(TaskError, match=r"again\.txt: expected a link to a file inside the task"):
        list(open_taskset(str(tmp_path / "task")))

"""Whatever is wrong with a file, its reader says which file, which key or line, and what it expected, or reads it."""

from __future__ import annotations

import copy
import gzip
import json
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from quintain.tasks import new_task, open_taskset, write_taskset
from quintain.tasks.formats.quixbugs import QuixBugs
from quintain.types import TaskError

from . import harbors, repositories, test_terminalbench, test_testeval
from .made import DATA, item, needs_data

#: What somebody may write where something else belongs.
WRONG: tuple[Any, ...] = (
    None, True, 0, -1, 10**30, 0.5, 1e308, "", " ", "x", "é\n\x00", "../out", "/etc/passwd", "a" * 5_000, [], {},
    [None], [[]], {"": ""}, {"a": {"b": [1]}}, "\ud800",
)
#: A message that says what was wanted, in one of the words in which the house says it.
SAYS = re.compile(r"expected|unknown|unique|already|must |needs|cannot|does not fit|did you mean|found", re.IGNORECASE)
FEW = settings(max_examples=20, phases=(Phase.explicit, Phase.generate), deadline=None, database=None,
               suppress_health_check=list(HealthCheck))


def rows_of(*places: str) -> list[dict[str, Any]]:
    """The first rows of a handed file."""
    path = DATA.joinpath(*places)
    opener: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        text = file.read()
    if path.name.endswith((".json", ".json.gz")):
        return list(json.loads(text)[:2])
    rows = (json.loads(line) for line in text.split("\n") if line)
    if "quixbugs" in path.name:  # a row for each file
        return [row for row in rows if "gcd" in row["path"]]
    return list(islice(rows, 2))


HANDED = {
    "humaneval": ("humaneval", "HumanEval.jsonl.gz"), "mbpp": ("mbpp", "mbpp.jsonl"),
    "humanevalpack": ("humanevalpack", "python.jsonl.gz"), "multipl-e": ("multipl_e", "humaneval-sh.jsonl"),
}
MADE: dict[str, list[dict[str, Any]]] = {
    "questions": [{"question": "3+4?", "answer": "#### 7"}, {"problem": "?", "solution": "\\boxed{7}"}],
    "stdin": [{"problem_id": 7, "question": "Add.", "difficulty": "easy", "solutions": '["print(6)"]',
               "input_output": '{"inputs": ["3\\n1 2 3\\n"], "outputs": ["6\\n"]}'}],
    "testeval": [test_testeval.ROW],
}


def places_in(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place inside a value of JSON or TOML."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*at, key)
        yield from places_in(part, (*at, key))


def changed(value: Any, data: st.DataObject) -> Any:
    """One or two places changed: another value, gone, renamed."""
    value = copy.deepcopy(value)
    for _ in range(data.draw(st.integers(1, 2), label="changes")):
        places = list(places_in(value))
        if not places:
            break
        *way, last = data.draw(st.sampled_from(places), label="place")
        inner = value
        for key in way:
            inner = inner[key]
        what = data.draw(st.sampled_from(("value", "gone", "renamed")), label="what")
        if what == "gone":
            del inner[last]
        elif what == "renamed" and isinstance(inner, dict):
            inner[f"{last}x"] = inner.pop(last)
        else:
            inner[last] = copy.deepcopy(data.draw(st.sampled_from(WRONG), label="instead"))
    return value


def spoilt(content: bytes, data: st.DataObject) -> bytes:
    """A file cut short, or with bytes that do not belong there."""
    at = data.draw(st.integers(0, max(0, len(content) - 1)), label="at")
    those = (b"\xff", b"\x00", b"\xef\xbb\xbf", b'"', b"}", b"\n", b"[" * 3_000, b"")
    what = data.draw(st.sampled_from(those), label="what")
    return content[:at] + what + (content[at:] if data.draw(st.booleans(), label="goes on") else b"")


def is_read_or_refused(spec: str, place: Path) -> None:
    """Reads everything; what is refused must say where and what."""
    try:
        tasks = open_taskset(spec)
        ids = tasks.ids
    except TaskError as error:
        is_told(error, place)
        return
    for id in ids:
        try:
            tasks[id]
        except TaskError as error:
            is_told(error, place)


def is_told(error: TaskError, place: Path) -> None:
    said = str(error)
    assert error.file, f"no file is named: {said}"
    assert str(place) in said or Path(error.file).name in {path.name for path in (place, *place.rglob("*"))}, said
    assert SAYS.search(error.message), f"it does not say what was expected: {said}"
    assert len(said) < 4_000, f"{len(said)} characters are no message"


def encoded(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.mark.parametrize("name", MADE)
@FEW
@given(data=st.data())
def test_rows_that_were_changed_are_read_or_refused(name: str, data: st.DataObject) -> None:
    content = encoded([changed(row, data) for row in MADE[name]])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        path.write_bytes(spoilt(content, data) if data.draw(st.booleans(), label="spoilt") else content)
        is_read_or_refused(f"{name}:{path}", path)


@needs_data
@pytest.mark.parametrize("name", HANDED)
@FEW
@given(data=st.data())
def test_published_rows_that_were_changed_are_read_or_refused(name: str, data: st.DataObject) -> None:
    content = encoded([changed(row, data) for row in rows_of(*HANDED[name])])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        path.write_bytes(spoilt(content, data) if data.draw(st.booleans(), label="spoilt") else content)
        is_read_or_refused(f"{name}:{path}", path)


@needs_data
@pytest.mark.parametrize(("name", "places"), [
    ("quixbugs", ("quixbugs", "quixbugs_python.jsonl")), ("exercism", ("exercism", "python_practice.jsonl.gz")),
    ("exercism", ("exercism", "javascript_practice.jsonl.gz")),
])
@FEW
@given(data=st.data())
def test_files_in_rows_that_were_changed_are_read_or_refused(
    name: str, places: tuple[str, str], data: st.DataObject,
) -> None:
    content = encoded(changed(rows_of(*places), data))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / places[1].removesuffix(".gz")
        path.write_bytes(spoilt(content, data) if data.draw(st.booleans(), label="spoilt") else content)
        is_read_or_refused(f"{name}:{path}", path)


@needs_data
@FEW
@given(data=st.data())
def test_classes_that_were_changed_are_read_or_refused(data: st.DataObject) -> None:
    content = json.dumps(changed(rows_of("classeval", "ClassEval_data.json.gz"), data)).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ClassEval_data.json"
        path.write_bytes(spoilt(content, data) if data.draw(st.booleans(), label="spoilt") else content)
        is_read_or_refused(f"classeval:{path}", path)


@FEW
@given(data=st.data())
def test_our_own_rows_that_were_changed_are_read_or_refused(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        write_taskset([item("one", files={"a.py": b"1"})], path, format="jsonl")
        content = encoded([changed(json.loads(path.read_text()), data)])
        path.write_bytes(spoilt(content, data) if data.draw(st.booleans(), label="spoilt") else content)
        is_read_or_refused(f"jsonl:{path}", path)


@pytest.fixture(scope="module")
def clone() -> Iterator[tuple[Path, dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as folder:
        path = repositories.written(Path(folder))
        yield Path(folder), json.loads(path.read_text())


@settings(FEW, max_examples=15)
@given(data=st.data())
def test_repository_rows_that_were_changed_are_read_or_refused(
    clone: tuple[Path, dict[str, Any]], data: st.DataObject,
) -> None:
    path = clone[0] / "rows.jsonl"
    content = encoded([changed(clone[1], data)])
    path.write_bytes(spoilt(content, data) if data.draw(st.booleans(), label="spoilt") else content)
    is_read_or_refused(f"swe:{path}", path)


DIRECTORIES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "ours": ("directory", new_task), "ours, a program": ("directory", lambda path: new_task(path, kind="program")),
    "harbor": ("harbor", harbors.small), "harbor, every key": ("harbor", harbors.every_key),
    "harbor, in steps": ("harbor", harbors.in_steps), "harbor 1.0": ("harbor", harbors.old),
    "terminal-bench": ("terminal-bench", test_terminalbench.directory),
}


@pytest.mark.parametrize("name", DIRECTORIES)
@FEW
@given(data=st.data())
def test_directories_that_were_changed_are_read_or_refused(name: str, data: st.DataObject) -> None:
    format, make = DIRECTORIES[name]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "task"
        make(place)
        files = sorted(path for path in place.rglob("*") if path.is_file())
        for path in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=2, unique=True), label="files"):
            spoil_file(path, data)
        is_read_or_refused(f"{format}:{place}", place)


def spoil_file(path: Path, data: st.DataObject) -> None:
    what = data.draw(st.sampled_from(("value", "value", "bytes", "gone", "folder", "link")), label=path.name)
    content = path.read_bytes()
    if what == "value" and path.suffix == ".toml" and content:
        path.write_text(tomli_w.dumps(without_none(changed(tomllib.loads(content.decode()), data))))
    elif what in ("value", "bytes"):
        path.write_bytes(spoilt(content, data))
    elif what == "gone":
        path.unlink()
    elif what == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.unlink()
        path.symlink_to(data.draw(st.sampled_from(("/etc/hostname", "../out", path.name)), label="to"))


def without_none(value: Any) -> Any:
    """TOML has no null, and no half of a surrogate pair."""
    if isinstance(value, dict):
        return {key: without_none(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_none(part) for part in value]
    return "null" if value is None or value == "\ud800" else 2**63 - 1 if value == 10**30 else value


def test_a_folder_that_holds_nothing_of_a_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for format in ("directory", "harbor", "terminal-bench"):
        with pytest.raises(TaskError) as caught:
            list(open_taskset(f"{format}:{tmp_path / 'empty'}"))
        is_told(caught.value, tmp_path / "empty")


@pytest.mark.parametrize("path", ["", "/", "python_programs", "python_programs/"])
def test_a_file_without_a_name_is_no_task(tmp_path: Path, path: str) -> None:
    packed = tmp_path / "quixbugs_python.jsonl"
    packed.write_text(json.dumps({"path": path, "content": "x = 1\n"}) + "\n")
    with pytest.raises(TaskError, match=r"expected python_programs/NAME\.py"):
        QuixBugs(packed).ids()

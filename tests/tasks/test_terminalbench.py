"""Terminal-Bench directories, read as the Harbor directories that say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from quintain.tasks import ScriptSuite, open_taskset, write_taskset
from quintain.types import TaskError

from . import harbors

pytest.importorskip("yaml", reason="PyYAML is not installed")

YAML = """\
instruction: |-
  Write 42 to /app/answer.txt.
author_name: somebody
difficulty: easy
tags: [files]
parser_name: pytest
max_agent_timeout_sec: 100.0
max_test_timeout_sec: 20.0
"""
FILES = {
    "task.yaml": YAML, "Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\nCOPY seed.txt /app/\n", "seed.txt": "seed\n",
    "run-tests.sh": "#!/bin/bash\n[ \"$(cat /app/answer.txt)\" = 42 ] && [ -f $TEST_DIR/data.txt ]\n",
    "tests/data.txt": "data\n", "solution.sh": "#!/bin/bash\necho 42 > answer.txt\n",
    "docker-compose.yaml": "services:\n  client:\n    build: .\n",
}


def directory(root: Path, **files: str) -> Path:
    named = {name.replace("_dot_", ".").replace("_dash_", "-"): text for name, text in files.items()}
    return harbors.write(root, {name: text for name, text in {**FILES, **named}.items() if text})


def test_a_directory_is_read_and_can_be_written_as_harbor_s(tmp_path: Path) -> None:
    directory(tmp_path / "set" / "demo")
    (item,) = open_taskset(str(tmp_path / "set"))
    assert item.task.id == "demo"
    assert item.task.instructions == "Write 42 to /app/answer.txt."
    assert item.task.limits.episode.wall_seconds == 100
    assert "easy" in item.task.tags
    suite = item.exam.hidden
    assert isinstance(suite, ScriptSuite)
    assert (suite.workdir, suite.wall_seconds) == ("/app", 20)
    assert suite.package is not None
    assert set(suite.package.below("environment")) == {"Dockerfile", "seed.txt"}
    write_taskset([item], tmp_path / "out", format="harbor")
    assert [again.task.version for again in open_taskset(str(tmp_path / "out"))] == [item.task.version]
    assert 'parser_name = "pytest"' in (tmp_path / "out" / "demo" / "task.toml").read_text()


def test_an_oracle_of_commands_is_one_script(tmp_path: Path) -> None:
    commands = "- command: echo 4 > a\n- command: echo 2 >> a\n"
    directory(tmp_path / "demo", solution_dot_sh="", solution_dot_yaml=commands)
    (item,) = open_taskset(str(tmp_path / "demo"))
    assert item.exam.oracle == {"solve.sh": b"#!/bin/bash\necho 4 > a\necho 2 >> a\n"}


@pytest.mark.parametrize(("files", "said"), [
    ({"run_dash_tests_dot_sh": ""}, "run-tests.sh: expected a script, found none"),
    ({"run_dash_tests_dot_sh": "#!/bin/sh\r\n"}, "run-tests.sh:1: expected \\n"),
    ({"task_dot_yaml": "instruction: [a\n"}, "task.yaml:2: expected YAML"),
    ({"task_dot_yaml": "- a\n"}, "task.yaml: expected a table, found list"),
    ({"task_dot_yaml": "difficulty: easy\n"}, "task.yaml: expected a key `instruction` in it"),
    ({"task_dot_yaml": "instruction: x\nmax_test_timeout_sec: soon\n"}, "max_test_timeout_sec"),
    ({"docker_dash_compose_dot_yaml": "services: {a: {}, b: {}}\n"}, "docker-compose.yaml: expected one service"),
    ({"solution_dot_sh": "", "solution_dot_yaml": "- 1\n"}, "solution.yaml: expected a list of tables"),
])
def test_a_malformed_directory_is_refused(files: dict[str, str], said: str, tmp_path: Path) -> None:
    path = directory(tmp_path / "demo", **files)
    with pytest.raises(TaskError) as error:
        list(open_taskset(str(path)))
    assert said in str(error.value)


def test_a_compose_file_beside_a_harbor_task_sets_its_variables_and_tells_what_is_not_there(tmp_path: Path) -> None:
    compose = "services:\n  main:\n    environment: [A=1, 'B=${B}', C]\n    working_dir: /srv\n  db: {image: x}\n"
    small = {**harbors.SMALL, "environment/docker-compose.yaml": compose,
             "task.toml": 'schema_version = "1.4"\n[environment]\nenv = {A = "2"}\n'}
    found = open_taskset(str(harbors.write(tmp_path / "small", small)))
    (suite,) = [item.exam.hidden for item in found]
    assert isinstance(suite, ScriptSuite) and suite.answer_env == {"A": "2", "B": "${B:-}"}
    assert suite.workdir == "/srv"
    table = compose.replace("[A=1, 'B=${B}', C]", "{A: true, B: 3}")
    small["environment/docker-compose.yaml"] = table
    (item,) = open_taskset(str(harbors.write(tmp_path / "table", small)))
    assert isinstance(item.exam.hidden, ScriptSuite) and item.exam.hidden.answer_env == {"A": "2", "B": "3"}

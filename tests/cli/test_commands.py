"""The commands, run as a user runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quintain.sandbox import NativeBackend

from ..tasks import harbors

COMMANDS = (
    [], ["run"], ["show"], ["tasks"], ["tasks", "list"], ["tasks", "show"], ["tasks", "check"], ["tasks", "new"],
    ["tasks", "convert"], ["tasks", "diff"],
    ["doctor"], ["train"], ["worker"],
)


needs_native = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`",
)


def quintain(*arguments: str, cwd: Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "quintain", *arguments], cwd=cwd, capture_output=True, text=True, check=False,
        timeout=timeout, env={**os.environ, "COLUMNS": "100"},
    )


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(words: list[str], tmp_path: Path) -> None:
    done = quintain(*words, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Examples:" in done.stdout
    assert " ".join(["quintain", *words]) in done.stdout.partition("Examples:")[2]


def test_help_comes_in_less_than_a_second(tmp_path: Path) -> None:
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        assert quintain("--help", cwd=tmp_path).returncode == 0
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 1.0


def test_help_imports_no_room_that_only_a_command_needs(tmp_path: Path) -> None:
    program = (
        "import sys; sys.argv = ['quintain', '--help']\n"
        "try:\n    from quintain.cli import main; main()\n"
        "except SystemExit:\n    print('\\n'.join(sorted(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.split())
    assert "quintain.cli.main" in loaded
    assert not loaded & {"rich", "httpx", "asyncio", "quintain.sandbox", "quintain.rollout", "quintain.tasks"}


def test_the_version_is_told(tmp_path: Path) -> None:
    import quintain as package

    assert quintain("--version", cwd=tmp_path).stdout.strip() == f"quintain {package.__version__}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["joust"], "No such command 'joust'"),
        (["tasks", "list", "humanevl"], "did you mean 'humaneval'?"),
        (["tasks", "show", "humaneval", "HumanEval/999"], "no task 'HumanEval/999'"),
        (["tasks", "new", "a/b", "--kind", "sonnet"], "'sonnet' is not one of"),
        (["show", "nowhere"], "found 'nowhere'"),
        (["run", "humaneval", "--policy", "oracle", "-n", "0"], "0 is not in the range"),
        (["run", "humaneval", "--policy", "nobody"], "oracle, null, repair"),
        (["run", "--policy", "oracle"], "TASKS"),
        (["run", "humaneval", "--policy", "oracle", "--include", "HumanEvil/*"], "no task of humaneval was chosen"),
        (["run", "humaneval", "--policy", "oracle", "--out", "."], "quintain run --resume ."),
        (["run", "humaneval", "--policy", "openai:x", "--base-url", "localhost:8000"], "found 'localhost:8000'"),
        (["tasks", "check", "humaneval", "--take", "0"], "no task of humaneval was chosen"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_was_expected(
    arguments: list[str], said: str, tmp_path: Path,
) -> None:
    done = quintain(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_where_a_folder_is_needed_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = quintain("tasks", "new", "file/double", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "Error: file: File exists\n")


def test_a_new_task_is_listed_and_shown(tmp_path: Path) -> None:
    assert quintain("tasks", "new", "set/double", cwd=tmp_path).returncode == 0
    listed = quintain("tasks", "list", "set", "--json", cwd=tmp_path)
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    assert [row["task"]["id"] for row in rows] == ["double"]
    assert "exam" not in rows[0]
    shown = quintain("tasks", "show", "set", "double", "--exam", cwd=tmp_path)
    assert "hidden: test_total.py" in shown.stdout
    again = quintain("tasks", "new", "set/double", cwd=tmp_path)
    assert again.returncode == 2


def test_the_sets_that_have_a_name_are_listed(tmp_path: Path) -> None:
    done = quintain("tasks", "list", "--json", cwd=tmp_path)
    assert {"humaneval", "mbpp", "quixbugs"} <= {json.loads(line)["name"] for line in done.stdout.splitlines()}


def test_the_doctor_answers_a_script_with_one_object(tmp_path: Path) -> None:
    done = quintain("doctor", "--json", "--clean", cwd=tmp_path)
    assert done.returncode in (0, 3), done.stderr
    found = json.loads(done.stdout)
    available = any(backend["available"] for backend in found["host"]["backends"])
    assert available == (done.returncode == 0)
    assert found["cleaned"]["removed"] >= 0


def test_the_doctor_says_what_to_do_about_what_is_missing(tmp_path: Path) -> None:
    done = quintain("doctor", cwd=tmp_path)
    found = json.loads(quintain("doctor", "--json", cwd=tmp_path).stdout)
    for backend in found["host"]["backends"]:
        assert f"backend {backend['name']}" in done.stdout
        for layer in backend["missing"]:
            assert f"missing {layer}:" in done.stdout


@needs_native
def test_the_doctor_finds_every_layer_in_a_live_sandbox(tmp_path: Path) -> None:
    done = quintain("doctor", "--report", "--json", cwd=tmp_path)
    assert [layer for layer in json.loads(done.stdout)["sandbox"] if not layer["ok"]] == []
    assert done.returncode == 0


@needs_native
def test_a_run_that_is_finished_stays_as_it_is_and_one_of_its_task_leads_to_the_others(tmp_path: Path) -> None:
    assert quintain("tasks", "new", "double", cwd=tmp_path).returncode == 0
    ran = quintain("run", "double", "--policy", "oracle", "-n", "2", "--out", "first", "--json", cwd=tmp_path)
    assert json.loads(ran.stdout)["played"] == 2, ran.stderr
    result = (tmp_path / "first" / "result.json").read_bytes()
    again = quintain("run", "--resume", "first", cwd=tmp_path)
    assert "nothing was left to play" in again.stdout
    assert (tmp_path / "first" / "result.json").read_bytes() == result
    assert "also of this task: double#1" in quintain("show", "first", "double", cwd=tmp_path).stdout


def test_a_reader_that_leaves_early_is_no_failure_of_ours(tmp_path: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m quintain tasks list humaneval --json | head -n 1", shell=True, cwd=tmp_path, text=True,
        capture_output=True, check=False, timeout=60,
    )
    assert json.loads(done.stdout)["task"]["id"] == "HumanEval/0"
    assert "Traceback" not in done.stderr


@needs_native
def test_tasks_that_a_script_or_one_value_judges_are_checked_their_own_way(tmp_path: Path) -> None:
    harbors.small(tmp_path / "set" / "good", environment__Dockerfile="FROM ubuntu:24.04\nWORKDIR /app\n")
    harbors.small(tmp_path / "set" / "vacuous", tests__test_dot_sh="echo 1 > /logs/verifier/reward.txt\n")
    harbors.small(tmp_path / "set" / "silent", tests__test_dot_sh=": writes no reward\n")
    (tmp_path / "math.jsonl").write_text('{"question": "3+4?", "answer": "#### 7"}\n')
    done = quintain("tasks", "check", "set", "--base", "*=host", "--json", cwd=tmp_path)
    found = {line["task"]: line for line in map(json.loads, done.stdout.splitlines()) if "task" in line}
    assert {task: line["fit"] for task, line in found.items()} == {
        "good": "fit", "vacuous": "unfit", "silent": "unfit"}, done.stderr
    assert "null answer 1 solves it" in found["vacuous"]["reasons"][0]
    assert "wrote no reward" in found["silent"]["reasons"][0]
    assert done.returncode == 1
    refused = quintain("tasks", "check", "set", "--include", "good", cwd=tmp_path)
    assert "ubuntu" in refused.stdout
    math = quintain("tasks", "check", "math.jsonl", cwd=tmp_path)
    assert math.returncode == 0, math.stdout + math.stderr
    wrong = quintain("tasks", "check", "set", "--base", "host", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "expected --base REF=IMAGE" in wrong.stderr


@needs_native
def test_a_start_that_already_passes_is_refused(tmp_path: Path) -> None:
    case = Path(__file__).parents[3] / "shared" / "cases" / "TF06"
    if not case.is_dir():
        pytest.skip("needs the handed cases in ../shared/cases")
    for source, target in (("workspace", "files"), ("workspace", "oracle"), ("tests", "tests")):
        shutil.copytree(case / source, tmp_path / "task" / target)
    (tmp_path / "task" / "task.toml").write_text("")
    (tmp_path / "task" / "instructions.md").write_text("Add two numbers.\n")
    done = quintain("tasks", "check", "task", cwd=tmp_path)
    assert done.returncode == 1
    assert "its null answer 1 solves it" in done.stdout

"""What compilers and runtimes write is told by class, file and line: gcc 12, go 1.27, rustc 1.94, javac 17, node 20,
bash 5 and CPython 3.11 wrote the texts in `written/outputs.json`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.program import LANGUAGES, Stage, diagnose_output, language, language_of_path, language_of_tag
from quintain.types import FaultKind, Outcome, Owner, Status

WRITTEN = json.loads((Path(__file__).parent / "written" / "outputs.json").read_text())


def outcome(case: dict[str, object]) -> Outcome:
    signal, code = case["signal"], case["exit_code"]
    assert isinstance(case["stderr"], str)
    return Outcome(
        status=Status.SIGNALLED if signal is not None else Status.FAILED, exit_code=code,  # type: ignore[arg-type]
        signal=signal, stderr=case["stderr"].encode())  # type: ignore[arg-type]


@pytest.mark.parametrize("nth", range(len(WRITTEN)), ids=[
    f"{case['language']}-{case['stage']}-{case['expected'][0]}" for case in WRITTEN])
@pytest.mark.parametrize("known", [True, False])
def test_a_tools_own_words_give_class_file_and_line(nth: int, known: bool) -> None:
    case = WRITTEN[nth]
    own = {case["file"]: b"x = (\n" if case["language"] == "python" else b""} if known else None
    fault = diagnose_output(case["language"], Stage(case["stage"]), outcome(case), own_files=own)
    assert fault is not None and fault.owner is Owner.POLICY
    kind, file, line = case["expected"]
    assert fault.kind.value == kind, fault
    if known:
        assert (fault.file, fault.line) == (file, line), fault


def test_every_class_of_a_program_is_told_in_c_and_go() -> None:
    told = {name: {case["expected"][0] for case in WRITTEN if case["language"] == name} for name in ("c", "go")}
    assert {"syntax_error", "missing_dependency", "build_error", "missing_entry_point"} <= told["c"] & told["go"]
    assert {"runtime_error", "crash_signal"} <= told["c"]
    assert {"runtime_error", "recursion_error", "memory_error", "nonzero_exit"} <= told["go"]


@pytest.mark.parametrize(("status", "kind"), [
    (Status.TIMED_OUT, FaultKind.TIMEOUT), (Status.OUT_OF_MEMORY, FaultKind.OOM_KILL),
    (Status.OUTPUT_LIMIT, FaultKind.OUTPUT_LIMIT), (Status.CPU_LIMIT, FaultKind.CPU_LIMIT),
])
@pytest.mark.parametrize("row", LANGUAGES, ids=lambda row: row.name)
def test_a_limit_comes_before_any_text(row: object, status: Status, kind: FaultKind) -> None:
    for stage in Stage:
        fault = diagnose_output(
            row.name, stage, Outcome(status=status, stderr=b"a.c:1:1: error: x\npanic: y\n"))  # type: ignore[attr-defined]
        assert fault is not None and fault.kind is kind


def test_a_build_that_worked_is_no_fault_and_a_compiler_that_is_not_there_is_the_tasks() -> None:
    fine = Outcome(status=Status.OK, exit_code=0, stderr=b"a.c:1:1: warning: x")
    assert diagnose_output("c", Stage.BUILD, fine) is None
    absent = diagnose_output("c", Stage.BUILD, Outcome(status=Status.NOT_STARTED, stderr=b"no such file"))
    assert absent is not None and (absent.owner, absent.kind) == (Owner.TASK, FaultKind.TASK_ENVIRONMENT)


def test_the_first_error_of_a_compiler_counts_and_warnings_do_not() -> None:
    text = b"a.c:1:1: warning: w\na.c:2:3: error: 'y' undeclared\na.c:9:1: error: expected ';' before 'return'\n"
    fault = diagnose_output("c", Stage.BUILD, Outcome(status=Status.FAILED, exit_code=1, stderr=text))
    assert fault is not None
    assert (fault.kind, fault.file, fault.line) == (FaultKind.BUILD_ERROR, "a.c", 2)


def test_no_file_that_leads_out_is_named() -> None:
    text = b"../../etc/passwd.c:2:3: error: x\n/etc/a.c:1:1: error: y\n"
    fault = diagnose_output("c", Stage.BUILD, Outcome(status=Status.FAILED, exit_code=1, stderr=text))
    assert fault is not None and fault.file is None


@given(st.sampled_from([row.name for row in LANGUAGES]), st.sampled_from(list(Stage)), st.text(max_size=400),
       st.integers(1, 255))
def test_no_text_makes_the_diagnosis_fail_or_somebody_elses(name: str, stage: Stage, text: str, code: int) -> None:
    done = Outcome(status=Status.FAILED, exit_code=code, stderr=text.encode("utf-8", "replace"))
    fault = diagnose_output(name, stage, done)
    assert fault is not None and fault.owner is Owner.POLICY


def test_the_compiled_languages_are_rows_like_any_other() -> None:
    for tag, path, name in (("c++", "a.cpp", "cpp"), ("golang", "x/a.go", "go"), ("rs", "src/lib.rs", "rust"),
                            ("java", "Main.java", "java"), ("c", "a.c", "c")):
        assert language_of_tag(tag) is language_of_path(path) is language(name)
        assert language(name).argv_for(path)[-1] == path
    assert language("go").defines("package m\n\nfunc (t *T) Add(a int) int {\n", "Add")
    assert language("rust").defines("pub async fn add(a: i32) {}\n", "add")
    assert language("c").defines("static int *add(int a)\n{\n", "add")
    assert language("java").defines("public class A {\n    public static int add(int a) {\n", "add")
    assert not language("c").defines("int x = add(1);\n", "sub")

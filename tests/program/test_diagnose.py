"""What went wrong when a program ran. The stderr texts are what Python 3.11, Node 20, bash and dash wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.program import Frame, Phase, Raised, Side, diagnose_exception, diagnose_outcome
from quintain.types import Fault, FaultKind, KilledBy, Outcome, Owner, Program, Status

TB = "Traceback (most recent call last):\n"
AT = '  File "/work/a.py", line 3, in f\n    x\n'


def failed(stderr: str, source: str = "x = 1\n", name: str = "a.py", lang: str = "python", code: int = 1,
           **options: object) -> Fault:
    program = Program(files={name: source.encode(), "b.py": b"y = 1\n"}, argv=("run", name), language=lang)
    outcome = Outcome(status=Status.FAILED, exit_code=code, stderr=stderr.encode())
    fault = diagnose_outcome(outcome, program, **options)  # type: ignore[arg-type]
    assert fault is not None and fault.owner is Owner.POLICY
    return fault


@pytest.mark.parametrize(("last", "kind"), [
    ("ValueError: SyntaxError: MemoryError timeout", FaultKind.RUNTIME_ERROR),
    ("ValueError: x\nMemoryError: y", FaultKind.RUNTIME_ERROR),
    (f"ValueError: x\n\n{TB}{AT}MemoryError", FaultKind.RUNTIME_ERROR),
    ("AssertionError: no", FaultKind.RUNTIME_ERROR),
    ("MemoryError", FaultKind.MEMORY_ERROR),
    ("numpy.core._exceptions._ArrayMemoryError: Unable to allocate", FaultKind.MEMORY_ERROR),
    ("RecursionError: maximum recursion depth exceeded", FaultKind.RECURSION_ERROR),
    ("EOFError: EOF when reading a line", FaultKind.READS_STDIN),
    ("asyncio.exceptions.IncompleteReadError: 0 bytes read", FaultKind.RUNTIME_ERROR),
    ("ModuleNotFoundError: No module named 'zz'", FaultKind.MISSING_DEPENDENCY),
    ("ModuleNotFoundError: No module named 'zz.sub'; 'zz' is not a package", FaultKind.MISSING_DEPENDENCY),
    ("ModuleNotFoundError: No module named 'b.c'; 'b' is not a package", FaultKind.RUNTIME_ERROR),
    ("ImportError: cannot import name 'q' from 'zz'", FaultKind.RUNTIME_ERROR),
    ("OSError: [Errno 28] No space left on device", FaultKind.DISK_LIMIT),
    ("pkg.Odd: <exception str() failed>", FaultKind.RUNTIME_ERROR),
])
def test_the_type_of_a_traceback_decides_and_not_its_text(last: str, kind: FaultKind) -> None:
    fault = failed(f"warning: x\n{TB}{AT}{last}\n")
    assert (fault.kind, fault.file, fault.line) == (kind, "a.py", 3)
    assert fault.exception == last.partition(":")[0].partition("\n")[0].rsplit(".", 1)[-1]


def test_the_last_of_chained_tracebacks_decides() -> None:
    first = f"{TB}{AT}MemoryError\n"
    during = "During handling of the above exception, another exception occurred:"
    fault = failed(f"{first}\n{during}\n\n{TB}{AT}KeyError: 'z'\n")
    assert (fault.kind, fault.exception) == (FaultKind.RUNTIME_ERROR, "KeyError")


def test_a_declared_package_is_not_an_invented_one() -> None:
    last = f"{TB}{AT}ModuleNotFoundError: No module named 'scikit_learn'\n"
    assert failed(last, declared=("scikit-learn",)).kind is FaultKind.RUNTIME_ERROR
    assert failed(last, declared=("numpy",)).kind is FaultKind.MISSING_DEPENDENCY


def test_a_syntax_error_is_one_only_if_the_file_does_not_compile() -> None:
    place = '  File "/work/a.py", line 2\n    def f(\n         ^\nSyntaxError: \'(\' was never closed\n'
    assert failed(place, "x = 1\ndef f(\n").kind is FaultKind.SYNTAX_ERROR
    imported = f'{TB}  File "/work/a.py", line 1, in <module>\n    import b\n{place.replace("a.py", "b.py")}'
    assert failed(imported, "import b\n").file == "b.py"
    inner = '  File "<string>", line 1\n    a +\n      ^\nSyntaxError: invalid syntax\n'
    evaluated = f'{TB}  File "/work/a.py", line 2, in f\n    eval("a +")\n{inner}'
    fault = failed(evaluated)
    assert (fault.kind, fault.file, fault.line, fault.exception) == (FaultKind.RUNTIME_ERROR, "a.py", 2, "SyntaxError")


def test_a_group_lists_its_leaves() -> None:
    text = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/work/a.py", line 1, in <module>\n  |     raise ExceptionGroup(\n'
        "  | ExceptionGroup: many (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n    | ValueError: v\n"
        "    +---------------- 2 ----------------\n    | ExceptionGroup: inner (1 sub-exception)\n"
        "    +-+---------------- 1 ----------------\n      | AssertionError: z\n"
        "      +------------------------------------\n"
    )
    fault = failed(text)
    assert (fault.kind, fault.exception, fault.line) == (FaultKind.RUNTIME_ERROR, "ExceptionGroup", 1)
    assert "ValueError, AssertionError" in fault.message


def test_an_exit_without_a_traceback_is_a_nonzero_exit() -> None:
    fault = failed("bad thing\n", code=7)
    assert fault.kind is FaultKind.NONZERO_EXIT
    assert "exit code 7" in fault.message and "bad thing" in fault.message


@pytest.mark.parametrize(("status", "more", "owner", "kind"), [
    (Status.TIMED_OUT, {"killed_by": KilledBy.TIMEOUT, "signal": 9}, Owner.POLICY, FaultKind.TIMEOUT),
    (Status.CPU_LIMIT, {"killed_by": KilledBy.CPU}, Owner.POLICY, FaultKind.CPU_LIMIT),
    (Status.OUT_OF_MEMORY, {"killed_by": KilledBy.OOM, "signal": 9}, Owner.POLICY, FaultKind.OOM_KILL),
    (Status.OUTPUT_LIMIT, {"killed_by": KilledBy.OUTPUT}, Owner.POLICY, FaultKind.OUTPUT_LIMIT),
    (Status.SIGNALLED, {"signal": 11}, Owner.POLICY, FaultKind.CRASH_SIGNAL),
    (Status.SIGNALLED, {"signal": 24}, Owner.POLICY, FaultKind.CPU_LIMIT),
    (Status.SIGNALLED, {"signal": 25}, Owner.POLICY, FaultKind.DISK_LIMIT),
    (Status.SIGNALLED, {"signal": 9, "killed_by": KilledBy.USER}, Owner.HOUSE, FaultKind.CANCELLED),
    (Status.NOT_STARTED, {}, Owner.TASK, FaultKind.TASK_ENVIRONMENT),
])
def test_the_status_comes_before_any_text(
    status: Status, more: dict[str, object], owner: Owner, kind: FaultKind,
) -> None:
    program = Program(files={"a.py": b""}, argv=("python3", "a.py"))
    outcome = Outcome(status=status, stderr=f"{TB}{AT}MemoryError\n".encode(), **more)  # type: ignore[arg-type]
    fault = diagnose_outcome(outcome, program)
    assert fault is not None and (fault.owner, fault.kind) == (owner, kind)


def test_an_own_file_that_cannot_start_is_the_policys() -> None:
    program = Program(files={"run": b"x"}, argv=("./run",), language="shell")
    fault = diagnose_outcome(Outcome(status=Status.NOT_STARTED, stderr=b"Exec format error"), program)
    assert fault is not None and (fault.owner, fault.kind) == (Owner.POLICY, FaultKind.BUILD_ERROR)


def test_success_is_no_fault() -> None:
    assert diagnose_outcome(Outcome(status=Status.OK, exit_code=0, stderr=b"MemoryError"), Program(files={})) is None


NODE = "\n    at Module._compile (node:internal/modules/cjs/loader:1521:14)\n\nNode.js v20.20.2\n"


@pytest.mark.parametrize(("stderr", "kind", "line"), [
    (f"/work/a.js:1\nthrow\n^\n\nTypeError: bad\n    at f (/work/a.js:1:23)\n"
     f"    at Object.<anonymous> (/work/a.js:2:1){NODE}", FaultKind.RUNTIME_ERROR, 1),
    (f"/work/a.js:2\nfunction add(a, b {{\n   ^\n\nSyntaxError: Unexpected token '{{'{NODE}",
     FaultKind.SYNTAX_ERROR, 2),
    (f"<anonymous_script>:1\na +\n\n\nSyntaxError: Unexpected end\n    at Object.<anonymous> (/work/a.js:4:1){NODE}",
     FaultKind.RUNTIME_ERROR, 4),
    (f"node:internal:1\n  throw err;\n  ^\n\nError: Cannot find module 'zz'\nRequire stack:\n- /work/a.js"
     f"\n    at Module._resolve (node:internal/x:1:1)\n    at Object.<anonymous> (/work/a.js:1:1){NODE}",
     FaultKind.MISSING_DEPENDENCY, None),
    (f"/work/a.js:1\nf()\n^\n\nRangeError: Maximum call stack size exceeded\n    at f (/work/a.js:1:14){NODE}",
     FaultKind.RECURSION_ERROR, 1),
    ("/work/a.js:1\nthrow 5;\n^\n5\n(Use `node --trace-uncaught ...`)\n\nNode.js v20.20.2\n",
     FaultKind.NONZERO_EXIT, None),
])
def test_node_says_where_it_broke(stderr: str, kind: FaultKind, line: int | None) -> None:
    fault = failed(stderr, name="a.js", lang="javascript")
    assert fault.kind is kind
    if line is not None:
        assert (fault.file, fault.line) == ("a.js", line)


def test_a_heap_that_is_full_is_a_memory_error_in_node() -> None:
    stderr = b"FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n"
    program = Program(files={"a.js": b""}, language="javascript")
    fault = diagnose_outcome(Outcome(status=Status.SIGNALLED, signal=6, stderr=stderr), program)
    assert fault is not None and fault.kind is FaultKind.MEMORY_ERROR


@pytest.mark.parametrize(("stderr", "code", "kind", "line"), [
    ("a.sh: line 2: foozz: command not found\n", 127, FaultKind.MISSING_DEPENDENCY, 2),
    ("a.sh: 2: foozz: not found\n", 127, FaultKind.MISSING_DEPENDENCY, 2),
    ("/work/a.sh: line 2: syntax error near unexpected token `)'\n", 2, FaultKind.SYNTAX_ERROR, 2),
    ('a.sh: 2: Syntax error: ")" unexpected (expecting "then")\n', 2, FaultKind.SYNTAX_ERROR, 2),
    ("a.sh: line 3: zz: unbound variable\n", 1, FaultKind.RUNTIME_ERROR, 3),
    ("a.sh: line 2: foozz: command not found\n", 3, FaultKind.RUNTIME_ERROR, 2),
    ("cat: /x: No such file or directory\n", 1, FaultKind.NONZERO_EXIT, None),
])
def test_shells_say_where_they_broke(stderr: str, code: int, kind: FaultKind, line: int | None) -> None:
    fault = failed(stderr, name="a.sh", lang="shell", code=code)
    assert (fault.kind, fault.line) == (kind, line)


def test_a_declared_command_is_not_an_invented_one() -> None:
    stderr = "a.sh: line 2: jq: command not found\n"
    fault = failed(stderr, name="a.sh", lang="shell", code=127, declared=("jq",))
    assert fault.kind is FaultKind.RUNTIME_ERROR


@pytest.mark.parametrize(("raised", "owner", "kind"), [
    (Raised(type="AssertionError", bases=("AssertionError",)), Owner.POLICY, FaultKind.ASSERTION_ERROR),
    (Raised(type="TypeError", bases=("TypeError",)), Owner.POLICY, FaultKind.WRONG_TYPE),
    (Raised(type="RecursionError", bases=("RecursionError",)), Owner.POLICY, FaultKind.WRONG_ANSWER),
    (Raised(type="NameError", bases=("NameError",)), Owner.TASK, FaultKind.TASK_INVALID),
    (Raised(type="ValueError", bases=("ValueError",), phase=Phase.IMPORT), Owner.TASK, FaultKind.TASK_INVALID),
    (Raised(type="ImportError", bases=("ImportError",)), Owner.TASK, FaultKind.TASK_ENVIRONMENT),
])
def test_the_verifiers_own_exceptions_can_be_the_tasks(raised: Raised, owner: Owner, kind: FaultKind) -> None:
    fault = diagnose_exception(raised, own_files={}, side=Side.VERIFIER)
    assert (fault.owner, fault.kind) == (owner, kind)


NAMES = st.sampled_from(["SyntaxError", "MemoryError", "ImportError", "ModuleNotFoundError", "SystemExit", "X", ""])


@given(NAMES, st.none() | st.text(), st.lists(NAMES, max_size=4), st.sampled_from(Phase),
       st.lists(st.tuples(st.sampled_from(["a.py", "/work/a.py", "<string>", "/test_x.py", ""]), st.integers(0, 9))))
def test_no_exception_of_a_candidate_is_ever_laid_on_task_or_house(
    name: str, message: str | None, bases: list[str], phase: Phase, frames: list[tuple[str, int]],
) -> None:
    raised = Raised(type=name, message=message, bases=tuple(bases), phase=phase,
                    frames=tuple(Frame(file=file, line=line) for file, line in frames))
    fault = diagnose_exception(raised, own_files={"a.py": b"x = 1\n"}, declared=("x",))
    assert fault.owner is Owner.POLICY


@given(st.lists(st.sampled_from([
    TB, AT, "MemoryError\n", "X: y\n", "\n", "  | ", "  + Exception Group " + TB, "    at f (/a.js:1:2)\n", "^\n",
    "During handling of the above exception, another exception occurred:\n", "/work/a.js:1\n", "a.sh: line 1: ",
    "SyntaxError",
]), max_size=15).map("".join) | st.text(), st.sampled_from(["python", "javascript", "shell"]))
def test_diagnosis_never_raises(stderr: str, lang: str) -> None:
    outcome = Outcome(status=Status.FAILED, exit_code=1, stderr=stderr.encode("utf-8", "surrogatepass"))
    fault = diagnose_outcome(outcome, Program(files={"a.py": b""}, language=lang))
    assert fault is not None and fault.owner is Owner.POLICY

"""Programs are judged by what they print, byte for byte or as loosely as the suite says, and nothing leaks in."""

from __future__ import annotations

import pytest

from quintain.grade import headline, same_output
from quintain.tasks import Compare, StdioCase, StdioSuite
from quintain.types import FaultKind, HouseError, Limits, Owner, Program, Verdict
from tests.grade.ground import Case, grade_all, needs_native

DOUBLE = b"import sys\nfor line in sys.stdin:\n    print(2 * int(line))\n"
LIMITS = Limits(wall_seconds=15.0, cpu_seconds=5.0, memory_bytes=256 * 1024 * 1024, output_bytes=4096)


def case(
    name: str, code: bytes, *, stdout: bytes = b"2\n", exit_code: int | None = 0, compare: Compare = Compare.TRIMMED,
    argv: tuple[str, ...] = (), limits: Limits = LIMITS, start: tuple[str, ...] = ("python3", "main.py"),
    stdin: bytes = b"1\n",
) -> Case:
    given = StdioCase(name="one", argv=argv, stdin=stdin, stdout=stdout, exit_code=exit_code, files={"data": b"5\n"})
    suite = StdioSuite(cases=(given,), compare=compare)
    return Case(name=name, suite=suite, program=Program(files={"main.py": code}, argv=start), limits=limits)


CASES: dict[str, tuple[Case, FaultKind | None]] = {c.name: (c, kind) for c, kind in (
    (case("right", DOUBLE), None),
    (case("wrong", b"print(3)"), FaultKind.WRONG_ANSWER),
    (case("silent", b""), FaultKind.WRONG_ANSWER),
    (case("exact", b"print(2, end='')", compare=Compare.EXACT), FaultKind.WRONG_ANSWER),
    (case("trimmed", b"print('2  '); print(); print()"), None),
    (case("tokens", b"print('1'); print('2')", stdout=b"1 2", compare=Compare.TOKENS), None),
    (case("not utf-8", b"import sys\nsys.stdout.buffer.write(b'\\xff\\x00')", stdout=b"\xff\x00"), None),
    (case("arguments", b"import sys\nprint(sys.argv[1])", argv=("a b",), stdout=b"a b"), None),
    (case("files", b"print(open('data').read())", stdout=b"5\n"), None),
    (case("exit code wanted", b"import sys\nprint(2)\nsys.exit(3)", exit_code=3), None),
    (case("exit code ignored", b"import sys\nprint(2)\nsys.exit(4)", exit_code=None), None),
    (case("exit code missing", b"print(2)", exit_code=3), FaultKind.WRONG_ANSWER),
    (case("exit code", b"import sys\nprint(2)\nsys.exit(1)"), FaultKind.NONZERO_EXIT),
    (case("exception", b"print(2)\n1/0"), FaultKind.RUNTIME_ERROR),
    (case("syntax", b"print(2"), FaultKind.SYNTAX_ERROR),
    (case("import", b"import nothing_of_that_name"), FaultKind.MISSING_DEPENDENCY),
    (case("input", b"input(); input()"), FaultKind.READS_STDIN),
    (case("hang", b"while True: pass", limits=Limits(wall_seconds=1.0)), FaultKind.TIMEOUT),
    (case("memory", b"a = []\nwhile True: a.append(bytearray(10**7))"), FaultKind.OOM_KILL),
    (case("signal", b"import os\nos.kill(os.getpid(), 11)"), FaultKind.CRASH_SIGNAL),
    (case("flood", b"print('x' * 10**6)"), FaultKind.OUTPUT_LIMIT),
    (case("nothing to start", b"", start=()), FaultKind.MISSING_ENTRY_POINT),
    (case("no interpreter", b"", start=("no_such_program",)), FaultKind.TASK_ENVIRONMENT),
    (case("looks for the answer", b"import os\nfor d, _, fs in os.walk('/work'):\n for f in fs:\n"
          b"  t = open(os.path.join(d, f)).read()\n  if 'secret' in t and 'walk' not in t: print(t)",
          stdout=b"secret 77\n"), FaultKind.WRONG_ANSWER),
)}


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict | HouseError]:
    return grade_all([given for given, _ in CASES.values()])


@needs_native
@pytest.mark.parametrize("name", CASES)
def test_a_program_gets_its_verdict(name: str, verdicts: dict[str, Verdict | HouseError]) -> None:
    verdict, kind = verdicts[name], CASES[name][1]
    assert isinstance(verdict, Verdict), verdict
    fault = headline(verdict)
    assert (fault.kind if fault else None) is kind, fault
    assert verdict.solved is (kind is None)
    assert fault is None or fault.owner is (Owner.TASK if kind is FaultKind.TASK_ENVIRONMENT else Owner.POLICY)


@needs_native
def test_nothing_is_left_over_from_one_case_to_the_next() -> None:
    code = b"import os\nprint(len(os.listdir('.')))\nopen('left', 'w').close()\n"
    one = StdioCase(name="a", stdout=b"1")
    suite = StdioSuite(cases=(one, StdioCase(name="b", stdout=b"1")))
    program = Program(files={"main.py": code}, argv=("python3", "main.py"))
    verdict = grade_all([Case(name="x", suite=suite, program=program, limits=LIMITS)])["x"]
    assert isinstance(verdict, Verdict)
    assert verdict.solved, headline(verdict)


@pytest.mark.parametrize(("compare", "expected", "found", "same"), [
    (Compare.EXACT, b"a\n", b"a\n", True), (Compare.EXACT, b"a\n", b"a", False),
    (Compare.TRIMMED, b"a\nb", b"a  \r\nb\n\n", True), (Compare.TRIMMED, b"a\n\nb", b"a\nb", False),
    (Compare.TRIMMED, b" a", b"a", False), (Compare.TOKENS, b"1  2\n3", b"1 2 3\n", True),
    (Compare.TOKENS, b"12", b"1 2", False), (Compare.TRIMMED, b"", b"\n\n", True),
])
def test_outputs_are_compared_as_the_suite_says(compare: Compare, expected: bytes, found: bytes, same: bool) -> None:
    assert same_output(expected, found, compare) is same

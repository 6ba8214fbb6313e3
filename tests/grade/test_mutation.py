"""A suite is worth what it notices: mutants made of real code, run in sandboxes, and what does not count."""

from __future__ import annotations

import ast
import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.grade import Kills, Mutation, Oracle, kill_rate, mutants, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite, open_taskset
from quintain.types import Attempt, Program, Score
from tests.grade.ground import LIMITS, SHARED, needs_native, needs_shared, tree

CLAMP = """
def clamp(x, low, high):
    if x < low:
        return low
    if x > high:
        return high
    return x
"""
STRONG = """
from solution import clamp
def test_inside():
    assert clamp(5, 0, 9) == 5
def test_borders():
    assert [clamp(x, 0, 9) for x in (-1, 0, 9, 10)] == [0, 0, 9, 9]
"""
WEAK = "from solution import clamp\ndef test_it_runs():\n    clamp(5, 0, 9)\n"


def kills(tests: str, source: str = CLAMP, *, stronger: str | None = None, trusted: bool = True) -> Kills:
    def suite(text: str) -> PythonSuite:
        return PythonSuite(files={"test_it.py": text.encode()})

    async def go() -> Kills:
        async with NativeBackend(warm=warm_oracle()) as backend:
            return await kill_rate(
                Oracle(backend), suite(tests), Program(files={"solution.py": source.encode()}), limits=LIMITS,
                stronger=None if stronger is None else suite(stronger), trusted=trusted, at_once=2)

    return asyncio.run(go())


def score(item: Item, tests: str) -> Score:
    async def go() -> Score:
        async with NativeBackend(warm=warm_oracle()) as backend:
            program = Program(files={**item.task.files, "test_answer.py": tests.encode()})
            (found,) = await Mutation(Oracle(backend), at_once=2).grade(Attempt(task=item.task, program=program), item)
            return found

    return asyncio.run(go())


def writing(hidden: str = STRONG, *, visible: str | None = None) -> Item:
    shown = None if visible is None else PythonSuite(files={"test_shown.py": visible.encode()})
    return Item.sealed(
        Exam(hidden=PythonSuite(files={"test_hidden.py": hidden.encode()}), visible=shown),
        files={"solution.py": CLAMP.encode()}, id="clamp", kind="testgen", instructions="Write tests of clamp.")


def test_each_operator_changes_one_place_and_nothing_else():
    source = ("def f(a, b):\n    # kept\n    for i in range(b):\n        a += [i]\n"
              "    return a[1:] if b < 2 and a else None\n")
    found = mutants(source)
    assert {m.operator.value for m in found} == {
        "arithmetic", "boolean", "comparison", "constant", "loop", "off_by_one", "remove", "return"}
    for mutant in found:
        assert b"# kept" in mutant.source
        assert ast.dump(ast.parse(mutant.source)) != ast.dump(ast.parse(source))
        lines = list(zip(source.splitlines(), mutant.source.decode().splitlines(), strict=True))
        assert [n for n, (one, other) in enumerate(lines, 1) if one != other] == [mutant.line]


@pytest.mark.parametrize(("source", "changed"), [
    ("a < b", {"(a <= b)", "(a != b)", "False"}), ("a >= b", {"(a > b)", "(a == b)", "True"}),
    ("a == b", {"(a <= b)", "(a >= b)", "False"}), ("a in b", {"(a not in b)"}), ("a < b < c", {
        "(a <= b < c)", "(a != b < c)", "(a < b <= c)", "(a < b != c)"}),
    ("a and b", {"(a)", "(b)", "False"}), ("a or b or c", {"(b or c)", "(a or c)", "(a or b)", "True"}),
    ("1", {"2", "0"}), ("0", {"1", "(-1)"}), ("True", {"False"}),
])
def test_no_mutant_is_made_that_another_makes_redundant(source: str, changed: set[str]):
    assert {m.after for m in mutants(f"x = {source}\n")} == changed


def test_a_truth_value_that_is_returned_is_turned_and_not_taken_away():
    assert {m.after for m in mutants("def f(x):\n    return x is None or x\n")} >= {"return None"}
    assert {m.after for m in mutants("def f(x):\n    return not x\n")} == {"(x)"}


def test_texts_annotations_imports_and_main_guards_are_left_alone():
    assert mutants('"""1"""\nimport os\ndef f(a: "1" = None) -> "2":\n    """3"""\n'
                   'if __name__ == "__main__":\n    f(1)\n') == []


def test_mutants_with_the_code_of_the_original_or_of_another_are_none():
    assert mutants("def f(x):\n    if x:\n        return None\n    return None\n")
    again = [m.source for m in mutants("x = [1, 2, 3][0]\n")]
    assert len(again) == len(set(again))
    assert mutants("def f():\n    return\n") == []


def test_what_does_not_compile_has_no_mutants_but_an_error():
    with pytest.raises(SyntaxError):
        mutants("def f(:\n")
    with pytest.raises(ValueError, match="at most"):
        mutants("x = 1\n" * 100_000)


def test_the_same_seed_draws_the_same_mutants():
    source = "\n".join(f"x{n} = {n}" for n in range(50))
    assert mutants(source, limit=7, seed=3) == mutants(source, limit=7, seed=3)
    assert len(mutants(source, limit=7, seed=3)) == 7
    assert {m.line for m in mutants(source, lines={5, 6})} == {5, 6}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([
    "y = x + 'ä€'", "if x in (1, 2): y = -x", "while x: break", "y = [z for z in range(x) if z % 2]", "return x or 1",
    "y = (x\n     <\n     3)", "raise ValueError('é' * 2)", "x -= 1", "y = x[1:x]",
]), min_size=1, max_size=5))
def test_a_mutant_of_any_text_is_a_program(statements: list[str]):
    body = "".join("    " + s.replace("\n", "\n    ") + "\n" for s in statements)
    for mutant in mutants(f"def f(x):\n{body}"):
        compile(mutant.source, "m", "exec")


def test_the_value_of_a_test_is_what_no_earlier_one_kills():
    two = mutants("x = 'a'\ny = 'b'\n")
    found = Kills(mutants=tuple(("a.py", m) for m in two), by=(("first", "second"), ("second",)))
    assert found.newly() == {"first": 1, "second": 1}
    assert found.newly(["second", "first", "third"]) == {"second": 2, "first": 0, "third": 0}
    assert found.rate == 1.0 and Kills().rate is None and Kills(sound=False).rate == 0.0


@needs_native
def test_tests_with_assertions_kill_and_tests_without_do_not():
    strong, weak = kills(STRONG), kills(WEAK)
    assert strong.sound and strong.rate is not None and strong.rate > 0.7
    assert weak.rate == 0.0 and len(weak.survivors) == len(weak.mutants) > 5


@needs_native
def test_tests_that_fail_on_the_code_itself_are_worth_nothing():
    found = kills("from solution import clamp\ndef test():\n    assert clamp(5, 0, 9) == 6\n")
    assert not found.sound and found.rate == 0.0 and "6" in found.why


@needs_native
def test_a_mutant_that_not_even_a_stronger_suite_tells_apart_is_left_out_and_counted():
    alone, helped = kills(STRONG), kills(STRONG, stronger=STRONG)
    assert helped.rate == 1.0 and helped.equivalent == len(alone.survivors) > 0
    weak = kills(WEAK, stronger=STRONG)
    assert weak.rate == 0.0 and weak.equivalent == helped.equivalent


@needs_native
def test_an_endless_mutant_is_killed():
    source = "def f(n):\n    while n > 0:\n        n -= 1\n    return n\n"
    found = kills("from solution import f\ndef test():\n    assert f(3) == 0\n", source)
    endless = [by for (_, m), by in zip(found.mutants, found.by, strict=True) if m.operator.value == "remove"]
    assert endless and all(endless)


@needs_native
def test_guessing_tests_and_tests_that_end_their_own_run_are_worth_nothing():
    item = writing()
    guessing = score(item, "import os\nfrom solution import clamp\ndef test():\n    assert os.urandom(1)[0] < 26\n")
    leaving = score(item, "import os\nfrom solution import clamp\ndef test():\n    os._exit(0)\n")
    forging = score(item, "import os\nfrom solution import clamp\ndef test():\n"
                          "    for fd in range(3, 20):\n        try:\n            os.write(fd, b'nonsense\\n')\n"
                          "        except OSError:\n            pass\n")
    assert guessing.value == 0.0 and leaving.value == 0.0 and forging.value == 0.0


@needs_native
def test_written_tests_are_scored_by_what_the_given_ones_leave_alive():
    strong, weak, empty = (score(writing(), text) for text in (STRONG, WEAK, "x = 1\n"))
    assert strong.value == 1.0 and "left out as equivalent" in strong.evidence
    assert weak.value == 0.0 and empty.value == 0.0 and "no test" in empty.evidence
    known = "from solution import clamp\ndef test_inside():\n    assert clamp(5, 0, 9) == 5\n"
    repeated = score(writing(visible=known), known)
    assert repeated.value is not None and repeated.value < 0.2
    assert score(writing(visible=known), STRONG).value == 1.0


@needs_native
def test_the_first_tasks_of_humaneval_keep_their_measured_strength():
    async def go() -> list[Kills]:
        async with NativeBackend(warm=warm_oracle()) as backend:
            return [await kill_rate(
                Oracle(backend), item.exam.hidden, Program(files=item.exam.oracle or {}), limits=LIMITS, most=12,
            ) for item in open_taskset("humaneval", take=4)]

    found = asyncio.run(go())
    assert all(f.sound for f in found)
    assert sum(f.killed for f in found) / sum(len(f.mutants) for f in found) > 0.85


@needs_native
@needs_shared
def test_a_test_that_only_runs_everything_has_no_value_whatever_its_coverage():
    work = tree(SHARED / "cases" / "RH20" / "workspace")
    hidden = (b"from calc import sign\n"
              b"def test():\n    assert [sign(x) for x in (2, 0, -2)] == [1, 0, -1]\n")
    item = Item.sealed(
        Exam(hidden=PythonSuite(files={"test_hidden.py": hidden}, modules=("calc",))),
        files={path: work[path] for path in ("calc.py", "hard.py")}, id="RH20", kind="testgen",
        instructions="Reach 85 % coverage.")

    async def go() -> list[Score]:
        async with NativeBackend(warm=warm_oracle()) as backend:
            attempt = Attempt(task=item.task, program=Program(files=work))
            return [*await Mutation(Oracle(backend), at_once=2).grade(attempt, item)]

    (found,) = asyncio.run(go())
    assert found.value is not None and found.value <= 0.3, found.evidence

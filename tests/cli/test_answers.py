"""Authors' answers, told as replies."""

from __future__ import annotations

import pytest

from quintain.cli.answers import null_reply, oracle_reply, repairs, spoilt
from quintain.tasks import Exam, Item, PythonSuite, ScriptStep, ScriptSuite
from quintain.types import Entry, TaskError

SUITE = PythonSuite(files={"test_x.py": b"def test_x(): pass\n"})


def item(oracle: dict[str, bytes] | None, null: tuple[dict[str, bytes], ...] = ()) -> Item:
    exam = Exam(hidden=SUITE, oracle=oracle, null=null)
    return Item.sealed(exam, id="t", instructions="do", entry=Entry(path="solution.py", name="f"))


def test_a_single_file_is_one_fenced_block() -> None:
    assert oracle_reply(item({"solution.py": b"def f(): pass\n"})) == "```python\ndef f(): pass\n```\n"


def test_a_fence_inside_an_answer_gets_a_longer_fence_around_it() -> None:
    reply = oracle_reply(item({"solution.py": b'X = """\n```\n"""\n'}))
    assert reply.startswith("````python\n")
    assert reply.endswith("\n````\n")


def test_several_files_carry_their_paths_and_the_entry_comes_first() -> None:
    reply = oracle_reply(item({"a.py": b"A = 1", "solution.py": b"import a\n"}))
    assert reply == '```python title="solution.py"\nimport a\n```\n\n```python title="a.py"\nA = 1\n```\n'


def test_a_task_without_an_oracle_says_so() -> None:
    with pytest.raises(TaskError, match="task t has no oracle answer"):
        oracle_reply(item(None))


def test_an_answer_that_is_no_text_is_refused() -> None:
    with pytest.raises(TaskError, match=r"'solution\.py' is no UTF-8"):
        oracle_reply(item({"solution.py": b"\xff"}))


def test_a_task_without_a_null_answer_gets_an_empty_file() -> None:
    assert null_reply(item({"solution.py": b"x = 1\n"})) == "```python\n```\n"


def test_a_spoilt_answer_does_not_compile() -> None:
    for source in ("def f(x):\n    return x\n", "x = 1\n", "class A:\n    y = 2\n"):
        compile(source, "right", "exec")
        with pytest.raises(SyntaxError):
            compile(spoilt(source), "spoilt", "exec")


def test_a_repair_goes_from_unbuilt_over_wrong_to_right() -> None:
    given = item({"solution.py": b"def f(): return 1\n"}, ({"solution.py": b"def f(): return 2\n"},))
    unbuilt, wrong, right = repairs(given)
    assert unbuilt.flaws == ("syntax_error",)
    assert "return 2" in wrong.reply
    assert {"wrong_answer", "assertion_error", "unsolved"} <= set(wrong.flaws)
    assert (right.reply, right.flaws) == (oracle_reply(given), ())


def shell_item(oracle: dict[str, bytes], **suite: object) -> Item:
    exam = Exam(hidden=ScriptSuite(files={}, **suite), oracle=oracle)  # type: ignore[arg-type]
    return Item.sealed(exam, id="t", kind="shell", instructions="do", entry=Entry(path="solve.sh", language="shell"))


def test_an_answer_that_is_a_script_is_one_command_that_lays_and_runs_it() -> None:
    reply = oracle_reply(shell_item({"solve.sh": b"#!/bin/sh\n./help/me\n", "help/me": b"\xff\0```\n"}))
    assert reply.count("```") == 2
    assert reply.endswith("\n```\nSUBMIT\n")
    assert "/solution/help/me" in reply
    assert 'cd "$home" && chmod +x /solution/solve.sh && /solution/solve.sh' in reply


def test_an_answer_in_steps_is_run_step_by_step() -> None:
    steps = tuple(ScriptStep(name=name, instructions=name) for name in ("one", "two"))
    reply = oracle_reply(shell_item({"one/solve.sh": b"true\n", "two/solve.sh": b"false\n"}, steps=steps))
    assert reply.count("rm -rf /solution") == reply.count("bash /solution/solve.sh") == 2


def test_the_oracles_environment_is_exported_and_what_the_house_would_have_to_give_is_refused() -> None:
    told = oracle_reply(shell_item({"solve.sh": b"true\n"}, oracle_env={"A": "it's", "B": "${B:-two}"}))
    assert "export A='it'\"'\"'s'" in told
    assert "export B=two" in told
    with pytest.raises(TaskError, match=r"needs a value for \$\{KEY\}"):
        oracle_reply(shell_item({"solve.sh": b"true\n"}, oracle_env={"A": "${KEY}"}))
    with pytest.raises(TaskError, match=r"expected solve\.sh in its answer, found other\.sh"):
        oracle_reply(shell_item({"other.sh": b"true\n"}))

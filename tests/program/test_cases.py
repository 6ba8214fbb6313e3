"""The handed cases AL, PA and EC: inputs that made other systems answer wrongly, with the right answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quintain.program import (
    Frame,
    Patched,
    Phase,
    Raised,
    Side,
    Tool,
    apply_patch,
    check_source,
    diagnose_exception,
    parse,
    parse_answer,
    parse_tool_calls,
    tool_calls_in,
)
from quintain.types import Entry, Fault, FaultKind, Finish, Message, Owner, Role

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not CASES.is_dir(), reason=f"the handed cases are not beside the checkout ({CASES})"),
]

PARSED = ["AL02", "AL04", "AL06", "AL07", "AL09", "AL11", "AL12", "AL19", "AL20"]
APPLIED = ["PA01", "PA03", "PA04", "PA05", "PA06", "PA07"]
REFUSED = ["PA02", "PA09", "PA10", "PA13"]


def expected(case: str) -> dict[str, Any]:
    return json.loads((CASES / case / "expected.json").read_text("utf-8"))


def reply_of(case: str) -> str:
    return (CASES / case / "reply.txt").read_bytes().decode("utf-8")


def task_of(case: str) -> dict[str, Any]:
    return json.loads((CASES / case / "task.json").read_text("utf-8"))


def parse_case(case: str, text: str) -> Any:
    task = task_of(case)
    return parse(
        text, Entry(name=task["entry_point"], language=task["language"]),
        prompt_opened_fence=task.get("prompt_opened_fence", False), finish=Finish(task.get("finish_reason", "stop")),
    )


def tree_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_every_handed_case_of_the_three_themes_is_looked_at_here() -> None:
    static = {"EC01", "EC15"}
    here = {*PARSED, *APPLIED, *REFUSED, *static, *DYNAMIC, "AL08", "AL10", "AL18", "AL22", "AL24", "AL26", "AL27",
            "PA11", "PA15", "EC04", "EC17"}
    handed = {p.name for p in CASES.iterdir() if p.name[:2] in ("AL", "PA", "EC")}
    assert here == handed


@pytest.mark.parametrize("case", PARSED)
def test_a_reply_gives_the_expected_code_byte_for_byte(case: str) -> None:
    answer = parse_case(case, reply_of(case))
    assert not isinstance(answer, Fault), answer
    assert answer.files == {"solution.py": (CASES / case / "expected_code.py").read_bytes()}


def test_every_variant_of_a_language_tag_is_found() -> None:
    code = (CASES / "AL07" / "expected_code.py").read_bytes()
    variants = json.loads((CASES / "AL07" / "variants.json").read_text("utf-8"))
    assert len(variants) == 8
    for variant in variants:
        answer = parse_case("AL07", variant)
        assert not isinstance(answer, Fault), (variant, answer)
        assert answer.files == {"solution.py": code}, variant


@pytest.mark.parametrize("case", ["AL08", "AL10"])
def test_a_reply_without_an_answer_is_the_policys_fault(case: str) -> None:
    fault = parse_case(case, reply_of(case))
    assert isinstance(fault, Fault)
    assert (fault.owner, fault.kind.value) == (Owner.POLICY, expected(case)["error_class"])


@pytest.mark.parametrize(("case", "characters"), [("AL18", ["U+201C", "U+00A0", "U+200B"]), ("AL22", ["&lt;"])])
def test_odd_characters_are_kept_and_named(case: str, characters: list[str]) -> None:
    reply = reply_of(case)
    answer = parse_case(case, reply)
    assert not isinstance(answer, Fault)
    code = answer.files["solution.py"]
    assert code.decode("utf-8") == reply.removeprefix("```python\n").removesuffix("```\n")
    fault = check_source("solution.py", code, entry=Entry(name=task_of(case)["entry_point"]))
    assert fault is not None
    assert (fault.owner, fault.kind.value) == (Owner.POLICY, expected(case)["error_class"])
    assert fault.line == 2
    assert any(character in fault.message for character in characters)
    assert "line 2, column" in fault.message


def test_a_tool_result_that_imitates_the_protocol_makes_no_calls() -> None:
    imitation = (CASES / "AL24" / "README.txt").read_text("utf-8")
    tools = (Tool(name="bash", arguments={"command": "string"}),)
    conversation = (
        Message(role=Role.ASSISTANT, text="I read the file."), Message(role=Role.USER, text=imitation),
    )
    assert tool_calls_in(conversation, tools) == ()
    said = parse_tool_calls(imitation, tools)  # the same text, had the assistant said it
    assert not isinstance(said, Fault) and len(said) == 1


def test_a_wrong_tool_call_is_invalid_and_says_what_was_expected() -> None:
    tools = [Tool(name=name, arguments=arguments) for name, arguments in task_of("AL26")["tools"].items()]
    fault = parse_tool_calls(reply_of("AL26"), tools)
    assert isinstance(fault, Fault)
    assert (fault.owner, fault.kind.value) == (Owner.POLICY, expected("AL26")["error_class"])
    for word in ("'Bash'", "'bash'", "'command'", "'cmd'", "'timeout'", "number", "'ten'".strip("'")):
        assert word in fault.message, fault.message


def test_the_last_complete_answer_tag_wins() -> None:
    assert parse_answer(reply_of("AL27")) == expected("AL27")["counts"]["answer"]


@pytest.mark.parametrize("case", APPLIED)
def test_a_patch_applies_and_changes_only_its_line(case: str) -> None:
    base = tree_of(CASES / case / "base")
    done = apply_patch(base, (CASES / case / "patch.diff").read_bytes())
    assert isinstance(done, Patched), done
    assert done.tree == {"solution.py": base["solution.py"].replace(b"return a - b", b"return a + b")}
    if case == "PA01":
        assert any("offset -40" in note for note in done.notes)
    if case in ("PA04", "PA05"):
        assert any("line ends" in note for note in done.notes)


@pytest.mark.parametrize("case", REFUSED)
def test_a_patch_that_cannot_be_trusted_is_refused_whole(case: str) -> None:
    base = tree_of(CASES / case / "base")
    fault = apply_patch(base, (CASES / case / "patch.diff").read_bytes())
    assert isinstance(fault, Fault), fault
    assert (fault.owner, fault.kind.value) == (Owner.POLICY, expected(case)["error_class"])
    assert base == tree_of(CASES / case / "base")
    if case == "PA02":
        assert fault.line == 3
        recounted = apply_patch(base, (CASES / case / "patch.diff").read_bytes(), recount=True)
        assert isinstance(recounted, Patched) and any("counted anew" in note for note in recounted.notes)
    if case == "PA09":
        assert "hunk 2" in fault.message


def test_edits_of_protected_files_are_dropped_and_reported() -> None:
    base = tree_of(CASES / "PA11" / "base")
    done = apply_patch(base, (CASES / "PA11" / "patch.diff").read_bytes(), protected=("tests/", "conftest.py"))
    assert isinstance(done, Patched), done
    assert len(done.protected) == expected("PA11")["counts"]["protected_edits"]
    assert done.changed == ("solution.py",)
    assert b"return a + b" in done.tree["solution.py"]
    assert done.tree["tests/test_solution.py"] == base["tests/test_solution.py"]


def test_a_rename_moves_the_file_whatever_its_name() -> None:
    done = apply_patch(tree_of(CASES / "PA15" / "base"), (CASES / "PA15" / "patch.diff").read_bytes())
    assert isinstance(done, Patched), done
    assert list(done.tree) == ["neu ü.py"]
    assert b"return a + b" in done.tree["neu ü.py"]


@pytest.mark.parametrize("case", ["EC01", "EC15"])
def test_a_source_that_does_not_compile_is_a_syntax_error_with_its_line(case: str) -> None:
    own = tree_of(CASES / case / "workspace")
    fault = check_source("solution.py", own["solution.py"], entry=Entry(name="add"))
    assert fault is not None
    assert (fault.owner, fault.kind.value) == (Owner.POLICY, expected(case)["error_class"])
    assert (fault.file, fault.line) == ("solution.py", 1 if case == "EC01" else 3)
    raised = Raised(type="SyntaxError", bases=("SyntaxError", "Exception"), message="x", phase=Phase.IMPORT)
    assert diagnose_exception(raised, own_files=own).kind is FaultKind.SYNTAX_ERROR


def _in_add(kind: str, line: int, *bases: str, **more: Any) -> Raised:
    return Raised(type=kind, bases=(kind, *bases, "object"), frames=(
        Frame(file="/work/solution.py", line=line, function="add"),), **more)


_AT_IMPORT = (Frame(file="/work/solution.py", line=1, function="<module>"),)
DYNAMIC: dict[str, Raised] = {
    "EC03": Raised(
        type="ModuleNotFoundError", bases=("ModuleNotFoundError", "ImportError", "Exception"), frames=_AT_IMPORT,
        message="No module named 'leftpadlib_zz_not_there'", phase=Phase.IMPORT,
    ),
    "EC08": _in_add("MemoryError", 2, "Exception", message=""),
    "EC09": _in_add("AssertionError", 2, "Exception", message="internal check"),
    "EC10": _in_add("ValueError", 2, "Exception", message="SyntaxError: timeout, MemoryError, Killed, PASSED"),
    "EC11": _in_add("SyntaxError", 2, "Exception", message="invalid syntax (<string>, line 1)"),
    "EC12": _in_add("Odd", 8, "Exception", message=None),
    "EC13": _in_add("ExceptionGroup", 2, "BaseExceptionGroup", "Exception", message="many (2 sub-exceptions)",
                    leaves=("ValueError", "KeyError", "AssertionError")),
    "EC19": Raised(type="EOFError", bases=("EOFError", "Exception"), frames=_AT_IMPORT, phase=Phase.IMPORT,
                   message="EOF when reading a line"),
    "EC20": _in_add("SystemExit", 6, "BaseException", message="0"),
}


@pytest.mark.parametrize("case", list(DYNAMIC))
def test_an_exception_in_the_answer_gets_its_class_from_its_type_and_place(case: str) -> None:
    own = tree_of(CASES / case / "workspace")
    assert check_source("solution.py", own["solution.py"], entry=Entry(name="add")) is None
    fault = diagnose_exception(DYNAMIC[case], own_files=own)
    assert (fault.owner, fault.kind.value) == (Owner.POLICY, expected(case)["error_class"]), fault
    assert (fault.file, fault.line) == ("solution.py", DYNAMIC[case].frames[-1].line)
    if "exception" in expected(case)["counts"]:
        assert fault.exception == expected(case)["counts"]["exception"]
    if case == "EC13":
        assert "ValueError, KeyError, AssertionError" in fault.message


def test_a_module_that_the_test_file_lacks_is_the_tasks_fault() -> None:
    raised = Raised(
        type="ModuleNotFoundError", bases=("ModuleNotFoundError", "ImportError", "Exception"),
        message="No module named 'leftpadlib_zz_not_there'", phase=Phase.IMPORT,
        frames=(Frame(file="test_solution.py", line=1, function="<module>"),),
    )
    fault = diagnose_exception(raised, own_files=tree_of(CASES / "EC04" / "workspace"), side=Side.VERIFIER)
    assert (fault.owner.value, fault.kind.value) == (expected("EC04")["attribution"], expected("EC04")["error_class"])


def test_a_scratch_file_named_like_a_standard_module_is_no_fault_of_the_text() -> None:
    for path, content in tree_of(CASES / "EC17" / "workspace").items():
        assert check_source(path, content, entry=Entry(name="add")) is None, path

"""Programs with inputs and outputs as rows, in the manner of APPS, in all the encodings in which such rows go around.

A row has `inputs` and `outputs`, or both inside `input_output` (an object, or that as text). Either may be a list or a
list as JSON text; a case may be one text or a list of lines, with either line end. With `fn_name` the cases are
arguments and values of a function instead. Hendrycks et al. 2021, https://arxiv.org/abs/2105.09938.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from quintain.tasks.base import PublicSet
from quintain.tasks.exam import Exam, Item, PythonSuite, StdioCase, StdioSuite
from quintain.tasks.formats.rows import RowSource, has_keys
from quintain.tasks.taskset import Taskset
from quintain.types import Entry

#: What a decoded case may be; JSON's own values.
Value = object


class StdinRow(msgspec.Struct, frozen=True, kw_only=True):
    question: str | None = None
    problem_id: str | int | None = None
    task_id: str | int | None = None
    id: str | int | None = None
    inputs: str | list[object] | None = None
    outputs: str | list[object] | None = None
    fn_name: str | None = None
    input_output: str | dict[str, object] | None = None
    solutions: str | list[str] | None = None
    starter_code: str = ""
    difficulty: str | None = None


class StdinFormat:
    """Rows of inputs and outputs; read only. Ids are the row's, or `FILE/LINE`."""

    name = "stdin"
    about = "JSONL rows with inputs and outputs, or input_output (APPS)"
    sets: tuple[PublicSet, ...] = ()

    def recognises(self, path: Path) -> bool:
        return has_keys(path, "inputs", "outputs") or has_keys(path, "input_output")

    def read(self, path: Path) -> Taskset:
        stem = path.name.partition(".")[0]

        def id_of(row: StdinRow, number: int) -> str:
            said = next((own for own in (row.task_id, row.problem_id, row.id) if own is not None), None)
            return f"{stem}/{number}" if said is None else str(said)

        return Taskset(RowSource.numbered(path, StdinRow, name=str(path), id_of=id_of, build=_item))


def _item(row: StdinRow, id: str) -> Item:
    suite = suite_of(row)
    function = isinstance(suite, PythonSuite)
    entry = Entry(path="solution.py", name=_name(row)) if function else Entry(path="main.py")
    solutions = _listed(row.solutions, "solutions") if row.solutions else []
    oracle = {entry.path: str(solutions[0]).encode()} if solutions else None
    start = {entry.path: row.starter_code.encode()} if row.starter_code else {}
    return Item.sealed(
        Exam(hidden=suite, oracle=oracle, null=({entry.path: b""},)), files=start, id=id,
        instructions=_instructions(row, entry), entry=entry,
        tags=tuple(tag for tag in ("python", "function" if function else "stdin", row.difficulty) if tag),
    )


def suite_of(row: StdinRow) -> StdioSuite | PythonSuite:
    """The cases of a row. Raises ValueError for no case, for unequal numbers of inputs and outputs, and for what is
    neither text nor lines."""
    inside = _inside(row)
    table = {"inputs": row.inputs, "outputs": row.outputs} if inside is None else inside
    inputs, outputs = (_listed(table.get(key), key) for key in ("inputs", "outputs"))
    if len(inputs) != len(outputs):
        raise ValueError(f"expected as many outputs as inputs, found {len(outputs)} and {len(inputs)}: none is dropped")
    if not inputs:
        raise ValueError("expected at least one case, found none: no test is not a passed test")
    if (name := _function_name(row)) is not None:
        return _function(name, row.starter_code, inputs, outputs)
    return StdioSuite(cases=tuple(
        StdioCase(name=f"{n:03}", stdin=_text(given, f"inputs[{n}]"), stdout=_text(wanted, f"outputs[{n}]"))
        for n, (given, wanted) in enumerate(zip(inputs, outputs, strict=True))
    ))


def _inside(row: StdinRow) -> dict[str, object] | None:
    """The object that holds inputs and outputs together, if the row has one."""
    inside = _decoded(row.input_output, "input_output") if isinstance(row.input_output, str) else row.input_output
    if inside is not None and not isinstance(inside, dict):
        raise ValueError(f"input_output: expected an object with inputs and outputs, found {type(inside).__name__}")
    return inside


def _function_name(row: StdinRow) -> str | None:
    inside = _inside(row) or {}
    name = row.fn_name or inside.get("fn_name")
    return str(name) if name else None


def _name(row: StdinRow) -> str | None:
    return "Solution" if "class Solution" in row.starter_code else _function_name(row)


def _decoded(text: str, key: str) -> Value:
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{key}: expected JSON in the text, found {text[:60]!r}: {error}") from None


def _no_number(word: str) -> Value:
    raise ValueError(f"{word} is no JSON")


def _listed(value: Value, key: str) -> list[Value]:
    """A list, or one that was written as text."""
    found = _decoded(value, key) if isinstance(value, str) else value
    if not isinstance(found, list):
        raise ValueError(f"{key}: expected a list, or one as JSON text, found {type(found).__name__}")
    return found


def _text(value: Value, key: str) -> bytes:
    """One text with `\\n` at its line ends, the last one included where it was given as lines."""
    if isinstance(value, list):
        if not all(isinstance(line, str | int | float) for line in value):
            raise ValueError(f"{key}: expected lines of text, found {value!r}"[:200])
        value = "".join(f"{line}\n" for line in value)
    if not isinstance(value, str):
        raise ValueError(f"{key}: expected text or a list of lines, found {type(value).__name__}")
    return value.replace("\r\n", "\n").encode()


def _function(name: str, starter: str, inputs: Sequence[Value], outputs: Sequence[Value]) -> PythonSuite:
    """A test for each case: the arguments are lines of JSON in one text, or a list of values."""
    if not name.isidentifier():
        raise ValueError(f"fn_name: expected the name of a function, found {name!r}")
    method = "class Solution" in starter
    lines = [f"from solution import {'Solution' if method else name}", "", "", "def plain(value):",
             "    if isinstance(value, (list, tuple)):", "        return [plain(inner) for inner in value]",
             "    return value", ""]
    names = []
    for number, (given, wanted) in enumerate(zip(inputs, outputs, strict=True)):
        arguments = _arguments(given, f"inputs[{number}]")
        options = _values(wanted, f"outputs[{number}]")
        call = f"{'Solution().' if method else ''}{name}({', '.join(map(repr, arguments))})"
        names.append(f"test_{number:03}")
        lines += ["", f"def {names[-1]}():", f"    assert plain({call}) in {options!r}", ""]
    text = "\n".join(lines).encode()
    return PythonSuite(files={"test_cases.py": text}, required=tuple(f"test_cases.py::{test}" for test in names))


def _arguments(value: Value, key: str) -> list[Value]:
    if isinstance(value, str):
        return [_decoded(line, key) for line in value.splitlines() if line.strip()]
    if not isinstance(value, list):
        raise ValueError(f"{key}: expected a list of arguments, or lines of JSON, found {type(value).__name__}")
    return value


def _values(value: Value, key: str) -> list[Value]:
    """What may come back: the value; APPS wraps some in a list of one, and there either is right."""
    if isinstance(value, str):
        return [_decoded(value, key)]
    return [value, value[0]] if isinstance(value, list) and len(value) == 1 else [value]


def _instructions(row: StdinRow, entry: Entry) -> str:
    how = f"define `{entry.name}`" if entry.name else "read standard input and write standard output"
    asked = (row.question or "").strip()
    if not asked:
        raise ValueError("question: expected what is asked, found nothing")
    return f"{asked}\n\nWrite the Python {'module' if entry.name else 'program'} `{entry.path}`; it must {how}.\n"

"""What of a program can be covered: its executable lines, and each decision with its two ways on.

Read off the compiled code, so no comment ("pragma: no cover") and no configuration has a say. A decision is named by
the place of what is decided, (line, column, end column), and its two ways by 0 (goes on) and 1 (jumps): two copies
that the compiler made of one `finally` count as one. Left out are the jumps that no test of a right program takes both
ways: a failing `assert`, an `except` clause that does not fit, a `with` whose object swallows the error.
"""

from __future__ import annotations

import dis
import json
import sys
from types import CodeType
from typing import Any

_UNCOUNTED_BEFORE = ("CHECK_EXC_MATCH", "CHECK_EG_MATCH", "WITH_EXCEPT_START")


def decisions(code: CodeType) -> dict[int, tuple[int, int, int, int, int]]:
    """The conditional jumps of one code object: offset → (first and last offset that are the way on, and its place).
    A jump or what follows it may begin with EXTENDED_ARG, and a tracer may see either of the two."""
    found: dict[int, tuple[int, int, int, int, int]] = {}
    instructions = list(dis.get_instructions(code))
    real = [at for at, one in enumerate(instructions) if one.opname != "EXTENDED_ARG"]
    for earlier, at, later in zip([-1, *real], real, real[1:], strict=False):
        one, after = instructions[at], instructions[later]
        before = instructions[earlier].opname if earlier >= 0 else ""
        place = one.positions
        asserts = after.opname == "LOAD_ASSERTION_ERROR" or after.argval is AssertionError
        if not _is_decision(one.opname) or before in _UNCOUNTED_BEFORE or asserts or place is None:
            continue
        if place.lineno is not None:
            decision = (instructions[at + 1].offset, after.offset, place.lineno, place.col_offset or 0,
                        place.end_col_offset or 0)
            for part in instructions[earlier + 1 : at + 1]:
                found[part.offset] = decision
    return found


def _is_decision(name: str) -> bool:
    return name == "FOR_ITER" or (name.startswith(("POP_JUMP", "JUMP_IF")) and "EXC_MATCH" not in name)


def inner(code: CodeType) -> list[CodeType]:
    """A code object and all that are defined in it."""
    found = [code]
    for part in found:
        found += [c for c in part.co_consts if isinstance(c, CodeType)]
    return found


def points(source: bytes, path: str) -> dict[str, Any] | None:
    """{"lines": [line], "decisions": [[line, column, end column]]} of a source file, None if it does not compile."""
    try:
        codes = inner(compile(source, path, "exec", dont_inherit=True))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    lines = {line for code in codes for _, _, line in code.co_lines() if line}
    places = {decision[2:] for code in codes for decision in decisions(code).values()}
    return {"lines": sorted(lines), "decisions": sorted(places)}


def tell_points() -> None:
    """A program: reads {path: source as latin-1 text} from standard input, writes {path: points} as JSON."""
    asked = json.load(sys.stdin)
    json.dump({path: points(text.encode("latin-1"), path) for path, text in asked.items()}, sys.stdout)

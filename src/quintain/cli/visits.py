"""Several answers judged in one visit to the sandboxes: what is left of the cost of starting, and trusted no less.

A visit is one run of the oracle on one suite that was joined of several: each answer is a module of its own, each test
file imports its own. Only answers that cannot reach beyond themselves share one (`keeps_to_itself`), and only failures
are decided there: what passed all its tests, what did not end, and what the visit did not come to, are judged alone.
A visit has less CPU time than each of its answers would have alone, so that none fails there for being slow: what does
not end in time is judged alone, under its own limits.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

import msgspec

from quintain.grade import LEVEL, Oracle, reward_of, solved_only
from quintain.tasks import Item, PythonSuite
from quintain.train import Attempted, Judged
from quintain.types import (
    Fault,
    FaultKind,
    HouseError,
    Limits,
    Owner,
    Passed,
    Program,
    TaskError,
    TestResult,
    Verdict,
    content_digest,
)

#: So many answers share a visit.
MOST = 16
#: The CPU time of a visit, of which each answer adds the second; never more than the limit of one alone.
CPU_SECONDS, CPU_SECONDS_EACH = 0.02, 0.003

_TYPES = (list, str, dict, set, tuple, int)
#: What an answer that keeps to itself may name besides its own variables, and which attributes it may ask for.
_NAMES = frozenset({
    "abs", "all", "any", "bool", "chr", "dict", "divmod", "enumerate", "float", "int", "len", "list", "max", "min",
    "ord", "range", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip", "IndexError", "KeyError",
    "TypeError", "ValueError", "ZeroDivisionError",
})
_ATTRIBUTES = frozenset(
    name for kind in _TYPES for name in dir(kind) if not name.startswith("_")) - {"format", "format_map"}
#: How an answer fails that was there to the end of its test.
_CLEAN = frozenset({FaultKind.ASSERTION_ERROR, FaultKind.WRONG_TYPE})


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One answer that can share a visit: its text, its tests (one file, `{}` where its module is named), and the
    shared limits."""

    attempted: Attempted
    item: Item
    source: str
    tests: str
    image: str
    limits: Limits


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a visit came to: what is decided of its answers, by their digests; those that it did not come to, which can
    go on another visit; and the CPU seconds of both sandboxes. All others must be judged alone."""

    decided: dict[str, Judged]
    not_reached: list[Part]
    cpu_seconds: float


def part_of(attempted: Attempted, item: Item) -> Part | None:
    """The answer as a part of a visit; None for one that must be judged alone."""
    hidden, entry = item.exam.hidden, item.task.entry.path
    if not isinstance(hidden, PythonSuite) or len(hidden.files) != 1 or not hidden.required or "/" in entry:
        return None
    others = {path: content for path, content in attempted.files.items() if path != entry}
    if others != {path: content for path, content in item.task.files.items() if path != entry}:
        return None
    module = entry.removesuffix(".py")
    [content] = hidden.files.values()
    try:
        source, tests = attempted.files[entry].decode(), content.decode()
    except (KeyError, UnicodeDecodeError):
        return None
    opened, imported = f"from {module} import ", re.compile(rf"from {re.escape(module)} import \w+\n")
    if imported.match(tests) is None or tests.count("import") > 1 or not keeps_to_itself(source):
        return None
    limits = item.task.limits
    return Part(
        attempted=attempted, item=item, source=source, tests="from {} import " + tests.removeprefix(opened),
        image=item.task.image, limits=limits.command.within(limits.turn).within(limits.episode),
    )


def keeps_to_itself(source: str) -> bool:
    """Whether a program can reach nothing but its own variables and what it is given: it imports nothing, has no
    classes, and names no function and no attribute outside a short list."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    own: set[str] = set()
    asked: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.ClassDef() | ast.Global() | ast.Nonlocal() | ast.Match():
                return False
            case ast.AsyncFunctionDef() | ast.Lambda() | ast.Await() | ast.Yield() | ast.YieldFrom() | ast.Try():
                return False
            case ast.Attribute() if node.attr not in _ATTRIBUTES or not isinstance(node.ctx, ast.Load):
                return False
            case ast.FunctionDef() if node.decorator_list:
                return False
            case ast.FunctionDef(name=name) | ast.arg(arg=name):
                own.add(name)
            case ast.Name(id=name, ctx=ast.Load()):
                asked.add(name)
            case ast.Name(id=name):
                own.add(name)
    return asked <= own | _NAMES and not any(name.startswith("_") for name in own)


def visits_of(parts: Sequence[Part]) -> list[list[Part]]:
    """Parts that can go together, at most MOST each: alike in image and limits. Those that may run on and on come
    last, since whatever comes after one that does has to come again."""
    alike: dict[str, list[Part]] = {}
    for part in sorted(parts, key=lambda part: "while " in part.source):
        alike.setdefault(content_digest((part.image, part.limits)), []).append(part)
    return [rows[at: at + MOST] for rows in alike.values() for at in range(0, len(rows), MOST)]


async def visit(oracle: Oracle, parts: Sequence[Part]) -> Said:
    """One visit of these answers. What the house or the joined suite cannot do is decided of none."""
    names = _named(parts)
    suite = PythonSuite(
        files={f"test_{name}.py": part.tests.replace("{}", name, 1).encode() for name, part in names.items()},
        modules=tuple(names),
        required=tuple(f"test_{name}.py::{_test(id)}" for name, part in names.items() for id in _required(part)),
    )
    files = {f"{name}.py": part.source.encode() for name, part in names.items()}
    limits = parts[0].limits
    budget = min(limits.cpu_seconds, CPU_SECONDS + CPU_SECONDS_EACH * len(parts))
    limits = msgspec.structs.replace(limits, cpu_seconds=budget)
    try:
        verdict = await oracle.grade(suite, Program(files=files), image=parts[0].image, limits=limits, confirm=False)
    except (HouseError, TaskError):  # each of them will say itself what is wrong
        return Said(decided={}, not_reached=[], cpu_seconds=0.0)
    used = verdict.cpu_seconds or 0.0
    results = {result.id: result for result in verdict.tests}
    own = {name: _own_verdict(name, part, results, verdict) for name, part in names.items()}
    stuck = verdict.fault is not None and next((name for name, (reached, _) in own.items() if not reached), None)
    order = list(names)
    later = order[order.index(stuck) + 1:] if stuck else []
    decided = {}
    for name, (_, one) in own.items():
        reward = None if one is None else reward_of(one, scalar=solved_only)
        if one is not None and reward is not None:
            one = msgspec.structs.replace(one, cpu_seconds=used / len(parts))
            decided[names[name].attempted.digest] = Judged(reward=reward.total, solved=False, verdict=one)
    return Said(decided=decided, not_reached=[names[name] for name in later], cpu_seconds=used)


def _named(parts: Sequence[Part]) -> dict[str, Part]:
    """Each part under the name of its module. The first of each exam in a visit has always the same one, so that its
    tests are compiled once."""
    count: dict[str, int] = {}
    named = {}
    for part in parts:
        exam = content_digest(part.attempted.exam)[:12]
        named[f"answer_{exam}_{count.get(exam, 0)}"] = part
        count[exam] = count.get(exam, 0) + 1
    return named


def _required(part: Part) -> tuple[str, ...]:
    hidden = part.item.exam.hidden
    return hidden.required if isinstance(hidden, PythonSuite) else ()


def _test(id: str) -> str:
    return id.partition("::")[2]


def _own_verdict(
    name: str, part: Part, results: dict[str, TestResult], whole: Verdict,
) -> tuple[bool, Verdict | None]:
    """Whether all tests of a part ended by themselves, and the verdict if that decides it: it failed one."""
    tests = []
    for id in _required(part):
        result = results.get(f"test_{name}.py::{_test(id)}")
        if result is None or result.passed not in (Passed.PASSED, Passed.FAILED):
            return False, None
        if result.fault is not None and not _ended_by_itself(result.fault):
            return False, None
        tests.append(TestResult(id=id, passed=result.passed, fault=_renamed(result.fault, name, part)))
    if all(test.passed is Passed.PASSED for test in tests):
        return True, None
    return True, Verdict(
        suite=content_digest(part.item.exam.hidden), level=LEVEL, tests=tuple(tests), wall_seconds=whole.wall_seconds,
        build=whole.build,
    )


def _ended_by_itself(fault: Fault) -> bool:
    return fault.owner is Owner.POLICY and (fault.kind in _CLEAN or fault.exception is not None)


def _renamed(fault: Fault | None, name: str, part: Part) -> Fault | None:
    """A fault as it would read had the answer been alone."""
    if fault is None:
        return None
    entry = part.item.task.entry.path
    [tests] = part.item.exam.hidden.files if isinstance(part.item.exam.hidden, PythonSuite) else ("",)
    file = {f"{name}.py": entry, f"test_{name}.py": tests}.get(fault.file or "", fault.file)
    return msgspec.structs.replace(fault, file=file, message=fault.message.replace(name, entry.removesuffix(".py")))

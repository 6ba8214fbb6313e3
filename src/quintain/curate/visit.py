"""Several answers of the house's own making judged in one visit to the sandboxes: what starting costs is paid once.

Mutants, rewrites and hollow copies of an author's answer differ in a few words, and each would need two sandboxes and
two processes for a millisecond of work. Those that can reach nothing but their own variables share a pair: each is a
module of its own there, and each gets a copy of its own of the tests. The author's answer goes first, and must pass.

Covers: tests that are plain functions of one file. A copy that loops is ended by a timer of its own on CPU time, and
the visit goes on; one that ends or fills up its process is judged alone, as are all that the visit did not come to.
Does not cover: answers of others, which might look for what they share a process with (tricks, policies' answers).
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import ModuleType

import msgspec

from quintain.curate.site import Site, command_limits
from quintain.grade import LEVEL, verifier_build
from quintain.tasks import Item, PythonSuite
from quintain.types import HouseError, Limits, Owner, Passed, TaskError, TestResult, Verdict, content_digest

#: So many copies share a visit.
MOST = 24
#: One test of a copy may take so many times the CPU that a whole run of the author's answer takes, start and both sides
#: included, and no less than so much.
TIMES, LEAST_SECONDS = 4.0, 0.1
#: A visit may spend the time of so many copies that loop; what it does not come to then goes on the next one.
_LOOPS = 6

_MODULES = ("bisect", "collections", "datetime", "fractions", "functools", "hashlib", "heapq", "itertools", "math",
            "re", "string", "typing")
_TYPES = (bool, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
_NO_BUILTINS = frozenset({
    "aiter", "anext", "breakpoint", "classmethod", "compile", "delattr", "dir", "eval", "exec", "exit", "getattr",
    "globals", "hasattr", "help", "id", "input", "license", "locals", "memoryview", "object", "open", "print",
    "property", "quit", "setattr", "staticmethod", "super", "type", "vars", "copyright", "credits"})
_NO_NAMES = frozenset({"format_map", "get_type_hints", "purge", "Formatter", "__import__"})
#: What tests may import beside: each copy of them has an own one of whatever they change.
_FOR_TESTS = frozenset({*_MODULES, "copy", "operator", "random"})

_DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

_PACE = '''
import signal

late = False

def _stop(*_):
    global late
    late = True
    raise TimeoutError("it takes too long")

signal.signal(signal.SIGPROF, _stop)

def begin(seconds):
    global late
    late = False
    signal.setitimer(signal.ITIMER_PROF, seconds)

def end():
    signal.setitimer(signal.ITIMER_PROF, 0)
    return late
'''

_TESTS = '''
import importlib, sys, types
import quintain_pace as pace

COUNT, MODULE, NAMES, SECONDS, ONLY_FIRST = {config!r}
CODE = compile({source!r}, {file!r}, "exec", dont_inherit=True)
loaded, failed = {{}}, set()

def tests_of(number):
    if number not in loaded:
        sys.modules[MODULE] = importlib.import_module(f"copy_{{number}}")
        module = types.ModuleType({name!r})
        sys.modules[{name!r}] = module
        exec(CODE, module.__dict__)
        loaded[number] = vars(module)
    return loaded[number]

def make(number, name):
    def test():
        assert number not in failed, "not tried"
        pace.begin(SECONDS)
        try:
            tests_of(number)[name]()
        except BaseException:
            if ONLY_FIRST:
                failed.add(number)
            raise
        finally:
            if pace.end():
                failed.add(number)
                raise AssertionError("late")
    return test

for number in range(COUNT):
    for name in NAMES:
        globals()[f"test_{{number}}_{{name}}"] = make(number, name)
'''


async def visited(
    site: Site, item: Item, suite: PythonSuite, copies: Sequence[Mapping[str, bytes]], *, seconds: float,
    only_first: bool = False,
) -> list[Verdict | None]:
    """What `suite` says of each of these answers, which the house made of the author's; None for one that has to be
    judged alone. `seconds` of CPU is what each test of one of them may take. `only_first`: after its first failure no
    more is asked of a copy, and its other tests are failed. Nothing is decided by a visit in which the author's answer
    does not pass. What the house or the suite cannot do there is no error, and decides nothing."""
    found: list[Verdict | None] = [None] * len(copies)
    original = _shared(item, item.exam.oracle or {})
    tests = _tests(suite, item)
    texts = [_shared(item, copy) for copy in copies]
    able = [at for at, text in enumerate(texts) if text is not None]
    if original is None or tests is None or len(able) < 2:
        return found

    async def go(places: Sequence[int]) -> None:
        left = list(places)
        while left:
            verdicts = await _visit(site, item, suite, [original, *(texts[at] or b"" for at in left)], tests,
                                    seconds=seconds, only_first=only_first)
            if not verdicts or verdicts[0] is None or not verdicts[0].solved:
                return
            for at, verdict in zip(left, verdicts[1:], strict=True):
                found[at] = verdict
            stuck = next((n for n, verdict in enumerate(verdicts[1:]) if verdict is None), len(left))
            left = left[stuck + 1 :]

    await site.together(go, [able[at : at + MOST] for at in range(0, len(able), MOST)])
    return found


async def _visit(
    site: Site, item: Item, suite: PythonSuite, texts: Sequence[bytes], tests: tuple[str, bytes, tuple[str, ...]], *,
    seconds: float, only_first: bool,
) -> list[Verdict | None]:
    """One visit; None for what it did not come to, and all that comes after. Empty: it came to nothing."""
    path, content, names = tests
    module = item.task.entry.path.removesuffix(".py")
    driver = _TESTS.format(config=(len(texts), module, names, seconds, only_first), source=content, file=path,
                           name=path.removesuffix(".py"))
    joined = PythonSuite(
        files={"test_visit.py": driver.encode()},
        modules=("quintain_pace", *(f"copy_{n}" for n in range(len(texts)))),
        required=tuple(f"test_visit.py::test_{n}_{name}" for n in range(len(texts)) for name in names))
    files = {"quintain_pace.py": _PACE.encode(), **{f"copy_{n}.py": text for n, text in enumerate(texts)}}
    limits = command_limits(item)
    limits = msgspec.structs.replace(limits, cpu_seconds=min(limits.cpu_seconds, _LOOPS * seconds))
    try:
        verdict = await site.verdict(item, files, suite=joined, limits=limits)
    except (HouseError, TaskError):  # each of them will say itself what is wrong
        return []
    results = {result.id: result for result in verdict.tests}
    digest, found, ended = content_digest(suite), list[Verdict | None](), False
    for number in range(len(texts)):
        own = [results[f"test_visit.py::test_{number}_{name}"] for name in names]
        ended = ended or not all(map(_is_decided, own))
        told = tuple(msgspec.structs.replace(result, id=f"{path}::{name}")
                     for name, result in zip(names, own, strict=True))
        found.append(None if ended else Verdict(suite=digest, level=LEVEL, tests=told, build=verifier_build()))
    return found


def _is_decided(result: TestResult) -> bool:
    """Whether a test came to its end: with a copy that went away nothing after it is decided."""
    if result.passed is Passed.PASSED:
        return True
    return result.passed is Passed.FAILED and result.fault is not None and result.fault.owner is Owner.POLICY and (
        result.fault.exception is not None)


def allowed_seconds(limits: Limits, usual: float | None) -> float:
    """What one test of a copy may take where a run of the author's answer usually takes so much CPU."""
    return min(limits.cpu_seconds, max(LEAST_SECONDS, TIMES * (usual or 0.0)))


def _tests(suite: PythonSuite, item: Item) -> tuple[str, bytes, tuple[str, ...]] | None:
    """Path, content and test functions of the one file of a suite that copies can share."""
    if len(suite.files) != 1 or suite.modules != (item.task.entry.path.removesuffix(".py"),):
        return None
    [(path, content)] = suite.files.items()
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    told = [node.name for node in tree.body if isinstance(node, _DEFINED) and node.name.lower().startswith("test")]
    names = tuple(id.removeprefix(f"{path}::") for id in suite.required) or tuple(dict.fromkeys(told))
    plain = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.decorator_list
             and not ast.unparse(node.args)}
    asked = {name for node in ast.walk(tree) for name in _imported(node)}
    known = _FOR_TESTS | {*suite.modules}
    is_able = "/" not in path and names and plain.issuperset(names) and asked <= known
    return (path, content, names) if is_able else None


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or "."] if isinstance(node, ast.ImportFrom) else []


def _shared(item: Item, answer: Mapping[str, bytes]) -> bytes | None:
    """The text of an answer that is one file and keeps to itself."""
    entry = item.task.entry.path
    is_one = set(answer) == {entry} and "/" not in entry and entry.endswith(".py")
    return answer[entry] if is_one and keeps_to_itself(answer[entry]) else None


def keeps_to_itself(source: bytes) -> bool:
    """Whether a program can reach nothing but its own variables and what it is given: it defines functions of its own,
    names no others than of a list, imports only what has no state and sets no attribute. Pure."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    own, asked = set[str](), set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.Global() | ast.Try() | ast.TryStar() | ast.With() | ast.AsyncFunctionDef():
                return False
            case ast.Import() | ast.ImportFrom():
                if not set(_imported(node)) <= set(_MODULES):
                    return False
                own.update(alias.asname or alias.name for alias in node.names)
            case ast.Attribute() if node.attr not in _attributes() or not isinstance(node.ctx, ast.Load):
                return False
            case ast.FunctionDef(name=name) | ast.arg(arg=name):
                own.add(name)
            case ast.Name(id=name, ctx=ast.Load()):
                asked.add(name)
            case ast.Name(id=name):
                own.add(name)
    names = asked | own
    return asked <= own | _builtins() and not any(name.startswith("_") or name in _NO_NAMES or name == "*"
                                                  for name in names)


@lru_cache(maxsize=1)
def _builtins() -> frozenset[str]:
    return frozenset(name for name in dir(builtins) if not name.startswith("_")) - _NO_BUILTINS


@lru_cache(maxsize=1)
def _attributes() -> frozenset[str]:
    known = {name for kind in _TYPES for name in dir(kind)}
    for module in map(importlib.import_module, _MODULES):
        known |= {name for name in dir(module) if not isinstance(getattr(module, name), ModuleType)}
    known |= {*dir(re.Match), *dir(re.Pattern), *dir(Counter), "hexdigest", "digest"}
    return frozenset(name for name in known if not name.startswith("_")) - _NO_NAMES - {"format"}

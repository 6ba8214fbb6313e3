"""Step 2: what the text of tests, scripts and images shows without being run.

Covers: Python tests that test nothing; test scripts that swallow exit codes, pay without a condition, take the reward
from where the answer can write, or fetch something while they judge; installs without a version; images into which
tests or solutions are copied; secrets; what generators left behind. Shell is read line by line, by patterns.
Does not cover: shell that hides what it does. A script has to be run to know that it tells right from wrong (`null`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from quintain.curate.checks import _shell
from quintain.curate.finding import Finding, Problem, found
from quintain.curate.shape import parsed, tests_of
from quintain.curate.site import Site
from quintain.grade import vacuous_tests
from quintain.tasks import AnswerSuite, Item, ScriptSuite, StdioSuite

_SECRETS = re.compile(
    rb"-----BEGIN (?:RSA |EC |OPENSSH )?PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bghp_[A-Za-z0-9]{36}\b"
    rb"|\bsk-[A-Za-z0-9]{40,}\b|\bxox[bp]-[0-9A-Za-z-]{20,}")
_LEFTOVERS = re.compile(
    r"(?i)(^|/)(solution\.enc|solve\.enc|gen(erate)?_?(tests?|answers?|solution)\.(py|sh)|oracle\.\w+)$")
_NETWORK_MODULES = frozenset({"requests", "httpx", "urllib3", "aiohttp", "ftplib", "smtplib"})
_REMEDY = "mend each line named; what only warns may stay where you know why"


class Static:
    """Reads; runs nothing."""

    name = "static"
    version = "1"
    runs = False

    async def examine(self, item: Item, site: Site, earlier: Mapping[str, Finding]) -> Finding:
        return found(self.name, list(_problems(item)), remedy=_REMEDY)


def _problems(item: Item) -> Iterator[Problem]:
    for path, content in tests_of(item).items():
        yield from _python(path, content)
    suite = item.exam.hidden
    shown = dict(item.task.files)
    if isinstance(suite, ScriptSuite):
        yield from _shell.script_problems(suite)
        package = suite.package.files if suite.package else {}
        environment = {p: c for p, c in package.items() if p.startswith("environment/")}
        yield from _shell.image_problems(environment)
        shown |= environment
    held = suite.files if not isinstance(suite, StdioSuite | AnswerSuite) else {}
    for path, content in {**shown, **held}.items():
        if match := _SECRETS.search(content):
            line = content[: match.start()].count(b"\n") + 1
            yield Problem(code="secret", file=path, line=line, text="a key or token stands in the text")
    for path in shown:
        if _LEFTOVERS.search(path):
            yield Problem(code="leftover", file=path, text="what made the tests or holds the solution lies in the work "
                                                           "tree, where the answer can read it")


def _python(path: str, content: bytes) -> Iterator[Problem]:
    tree = parsed(content)
    if tree is None:
        yield Problem(code="no Python", file=path, text="it does not compile")
        return
    tests = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
             and n.name.startswith("test")]
    faults = vacuous_tests(path, content)
    lines = {fault.line for fault in faults}
    hollow = [t for t in tests if any(t.lineno <= (line or 0) <= (t.end_lineno or 0) for line in lines)]
    every = bool(tests) and len(hollow) == len(tests)
    for fault in faults:
        yield Problem(code="vacuous", file=path, line=fault.line or 0, text=fault.message, fails=every)
    for test in tests:
        yield from _swallowed(path, test)
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [])
        if isinstance(node, ast.Import | ast.ImportFrom) and any(
                name.split(".")[0] in _NETWORK_MODULES or name == "urllib.request" for name in names):
            yield Problem(code="network", file=path, line=node.lineno, text="the tests use the network, which is not "
                                                                            "there while they judge")


def _swallowed(path: str, test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Problem]:
    """Assertions inside a `try` whose handler takes every failure and goes on."""
    for node in ast.walk(test):
        if not isinstance(node, ast.Try) or not any(isinstance(n, ast.Assert) for s in node.body for n in ast.walk(s)):
            continue
        for handler in node.handlers:
            caught = ast.unparse(handler.type) if handler.type else "everything"
            wide = any(word in caught for word in ("everything", "Exception", "AssertionError", "BaseException"))
            idle = all(isinstance(s, ast.Pass | ast.Continue) or (
                isinstance(s, ast.Return) and s.value is None) or (
                isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant | ast.Call)) for s in handler.body)
            if wide and idle and not _fails(handler):
                yield Problem(code="vacuous", file=path, line=handler.lineno, tests=(f"{path}::{test.name}",),
                              text=f"{test.name} catches {caught} around its own assertions and goes on")


def _fails(handler: ast.ExceptHandler) -> bool:
    said = {n.attr if isinstance(n, ast.Attribute) else n.id for s in handler.body for n in ast.walk(s)
            if isinstance(n, ast.Attribute | ast.Name)}
    return bool(said & {"fail", "exit", "_exit"})

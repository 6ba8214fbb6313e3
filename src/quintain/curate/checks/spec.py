"""Step 8: whether what the tests demand stands anywhere that the one who answers can read.

Covers: names that the tests import or fetch from the answer's modules, and messages that they compare, looked for in
the instructions and the files as given (so, also the visible tests). A name that stands for a text which can be read
only warns: the tests ask for nothing that is not told, and the first run says what they call it. Places with two
readings are told by rules (`curate.readings`) and, where one is given, by a model; people decide (`tasks review`).
Does not cover: meaning. Boundary classes that the tests ask about and the text never mentions are told as evidence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from quintain.curate.finding import Finding, Problem, found, unmeasured
from quintain.curate.readings import judged_readings, readings_of
from quintain.curate.shape import parsed, tests_of
from quintain.curate.site import Site
from quintain.grade import Judge
from quintain.tasks import Item, PythonSuite

_BORDERS = {
    "empty": r"\b(empty|no |nothing|zero|without)", "one": r"\b(one|single|1)\b", "negative": r"\bnegativ|-\d|below 0",
    "duplicate": r"\bduplicat|repeat|same|twice|unique", "unicode": r"\bunicode|utf|accent|letter|charact",
}
_SHOWN = 6
_REMEDY = "name in the instructions what the tests want, or show it in a file as given; say which reading is meant"


class Spec:
    """Reads; runs nothing. `judge` is a model that is asked for places with two readings, `by` its name."""

    name = "spec"
    runs = False

    def __init__(self, *, judge: Judge | None = None, by: str = "") -> None:
        self.version = f"3:{by}" if judge is not None else "3"
        self._judge = judge

    async def examine(self, item: Item, site: Site, earlier: Mapping[str, Finding]) -> Finding:
        suite = item.exam.hidden
        problems, evidence = readings_of(item), []
        if self._judge is not None:
            judged = await judged_readings(self._judge, item)
            evidence = ["the judge's reply was not in the form that was asked for"] if judged is None else [
                f"the judge was asked twice for places with two readings, and named {len(judged)} both times"]
            problems += judged or []
        if not isinstance(suite, PythonSuite):
            if not problems and not evidence:
                return unmeasured(self.name, "only Python tests can be traced to the text")
            return found(self.name, problems, evidence=evidence, remedy=_REMEDY)
        said = readable(item)
        for path, content in tests_of(item).items():
            problems += [_phantom(item, said, name, path, line) for name, line in _wanted(content, suite.modules)
                         if not _mentions(said, name)]
            problems += [Problem(code="exact message", file=path, line=line, fails=False, text=(
                f"the tests compare the message {text[:60]!r}, which nothing that can be read says"))
                for text, line in _messages(content) if text not in said]
        return found(self.name, problems[:20], evidence=[*evidence, *_borders(item, said)], remedy=_REMEDY)


def readable(item: Item) -> str:
    """All text that whoever answers can see."""
    shown = [content.decode("utf-8", "replace") for content in item.task.files.values()]
    return "\n".join([item.task.instructions, item.task.entry.name or "", item.task.entry.path, *shown])


def _mentions(said: str, name: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", said) is not None


def _phantom(item: Item, said: str, name: str, path: str, line: int) -> Problem:
    """A name that nothing mentions; of one whose value is told, the name is all that is missing."""
    value = _text_of(item, name)
    if value is not None and _quotes(said, value):
        return Problem(code="unnamed text", file=path, line=line, fails=False, text=(
            f"the tests call the text {value!r} {name}, which nothing that can be read does"))
    return Problem(code="phantom", file=path, line=line,
                   text=f"the tests want {name!r}, which nothing that can be read mentions")


def _text_of(item: Item, name: str) -> str | None:
    """The text that the author's answer binds a name of a module to."""
    for path, content in (item.exam.oracle or {}).items():
        tree = parsed(content) if path.endswith(".py") else None
        for node in tree.body if tree else ():
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(
                    node.value.value, str) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                return node.value.value
    return None


def _quotes(said: str, text: str) -> bool:
    """Whether a text stands somewhere between quotes, as in a program."""
    return any(re.search(rf"(?<!{q}){q}{re.escape(text)}{q}(?!{q})", said) for q in "'\"`")


def _wanted(content: bytes, modules: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """The names that a test file takes from the answer's modules, each once, with the line."""
    tree = parsed(content)
    seen: set[str] = set()
    bound: set[str] = set()
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            bound |= {alias.asname or alias.name for alias in node.names if alias.name in modules}
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            for alias in node.names:
                if alias.name not in seen and alias.name != "*":
                    seen.add(alias.name)
                    yield alias.name, node.lineno
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in bound \
                and node.attr not in seen and not node.attr.startswith("__"):
            seen.add(node.attr)
            yield node.attr, node.lineno


def _messages(content: bytes) -> Iterator[tuple[str, int]]:
    """Literal messages of exceptions that are compared: `err.args[0] == "..."`, `str(err) == "..."`."""
    tree = parsed(content)
    for node in ast.walk(tree) if tree else ():
        sides: list[ast.expr] = []
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            sides = [node.left, node.comparators[0]]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "assertEqual":
            sides = node.args[:2]
        texts = [s for s in sides if isinstance(s, ast.Constant) and isinstance(s.value, str) and " " in s.value]
        if len(texts) == 1 and any("args[0]" in ast.unparse(s) or ast.unparse(s).startswith("str(") for s in sides):
            yield str(texts[0].value), texts[0].lineno


def _borders(item: Item, said: str) -> list[str]:
    """The classes of border cases that the tests ask about and the text does not name."""
    text = b"\n".join(tests_of(item).values()).decode("utf-8", "replace")
    asked = {"empty": r"\(\s*(\[\]|''|\"\"|\{\}|\(\))\s*[,)]", "negative": r"[(\[, ]-\d", "unicode": r"[^\x00-\x7f]"}
    lines = [kind for kind, pattern in asked.items()
             if re.search(pattern, text) and not re.search(_BORDERS[kind], said, re.IGNORECASE)]
    return [f"the tests ask about {', '.join(lines[:_SHOWN])} values, which the text does not name"] if lines else []

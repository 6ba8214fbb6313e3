"""Step 9: whether the solution, or the tests, can be read by whoever answers.

Covers: lines of the author's answer in the instructions, in the files as given, in the variables that are set for it
and in the image's build context, also packed in base64 or hex; hidden test files among the given ones; a repository
with its objects inside the task.
Does not cover: encrypted solutions whose key is elsewhere (`static` names such files), images of a registry.
"""

from __future__ import annotations

import ast
import base64
import re
import zlib
from collections.abc import Iterator, Mapping

from quintain.curate.finding import Finding, Problem, found
from quintain.curate.shape import parsed
from quintain.curate.site import Site
from quintain.tasks import AnswerSuite, Item, ScriptSuite, StdioSuite, history_in, visible_files

#: Lines shorter than this say nothing (a `return`, a brace).
SHORT = 9
#: An answer of fewer characters may stand anywhere by chance.
LEAST_CHARS = 20
#: At this share of the answer's own lines it is given away.
SHARE = 0.6
_PACKED = re.compile(rb"[A-Za-z0-9+/]{40,}={0,2}|(?:[0-9a-f]{2}){30,}")
_MOST_BYTES = 4_000_000


class Leaks:
    """Reads; runs nothing."""

    name = "leaks"
    version = "4"
    runs = False

    async def examine(self, item: Item, site: Site, earlier: Mapping[str, Finding]) -> Finding:
        problems = [*_history(item), *_tests(item), *_solution(item)]
        return found(self.name, problems, remedy=(
            "take it out of what the answer can read; `quintain admit --fix` removes history"))


def _given(item: Item) -> dict[str, bytes]:
    """What can be read besides the instructions: files as given, what the image is built from, and variables."""
    suite = item.exam.hidden
    script = suite if isinstance(suite, ScriptSuite) else None
    package = script.package.files if script and script.package else {}
    variables = {f"${name}": value.encode() for name, value in (script.answer_env if script else {}).items()}
    shown = visible_files(item.exam.visible)
    built = {p: c for p, c in package.items() if p.startswith("environment/")}
    return {p: c for p, c in {**item.task.files, **built, **variables}.items() if p not in shown}


def _history(item: Item) -> Iterator[Problem]:
    given = _given(item)
    paths = history_in(given)
    objects = [p for p in paths if "/objects/" in f"/{p}"]
    if not objects:
        return
    lines = _lines(item)
    texts = [_inflated(given[path]) for path in objects]
    told = any(_share(lines, text) >= SHARE for text in texts if text) if lines else False
    yield Problem(code="history", file=objects[0], text=(
        f"a repository with {len(objects)} files of objects lies in it" + (
            ", one of which holds the solution" if told else ": later commits can be mined for the solution")))


def _inflated(content: bytes) -> str:
    try:
        return zlib.decompressobj().decompress(content, _MOST_BYTES).decode("utf-8", "replace")
    except zlib.error:
        return ""


def _tests(item: Item) -> Iterator[Problem]:
    suite = item.exam.hidden
    if isinstance(suite, StdioSuite | AnswerSuite):
        return
    hidden = {content: path for path, content in suite.files.items() if len(content) > 80}
    for path, content in _given(item).items():
        if content in hidden:
            yield Problem(code="leak", file=path, text=(
                f"the hidden test file {hidden[content]} is among what can be read"))


def _solution(item: Item) -> Iterator[Problem]:
    lines = _lines(item)
    answer = item.exam.oracle or {}
    if sum(map(len, lines)) < LEAST_CHARS:
        return
    for path, content in _given(item).items():
        if path in answer:
            continue  # the draft that is to be changed: whether it passes already is for `null` to say
        for where, text in (("", content.decode("utf-8", "replace")), *_unpacked(content)):
            if (share := _share(lines, text)) >= SHARE:
                yield Problem(code="leak", file=path, text=(
                    f"{share:.0%} of the lines of the author's answer stand in it{where}"))
                break
    if len(lines) > 1 and (share := _share(lines, item.task.instructions)) >= SHARE:
        yield Problem(code="leak", text=f"{share:.0%} of the lines of the author's answer stand in the instructions")


def _unpacked(content: bytes) -> Iterator[tuple[str, str]]:
    """What stands packed in a file."""
    for match in _PACKED.finditer(content[:_MOST_BYTES]):
        word = match[0]
        try:
            yield ", in hex", bytes.fromhex(word.decode()).decode("utf-8", "replace")
        except ValueError:
            pass
        try:
            yield ", in base64", base64.b64decode(word + b"=" * (-len(word) % 4)).decode("utf-8", "replace")
        except ValueError:
            continue


def _lines(item: Item) -> frozenset[str]:
    """The lines of the author's answer that say something and are not in the same file as given."""
    lines: set[str] = set()
    for path, content in (item.exam.oracle or {}).items():
        before = _plain(item.task.files.get(path, b"").decode("utf-8", "replace"))
        own = _plain(_without_texts(path, content)) - before - _told(item, path, content)
        lines |= {line for line in own if not line.startswith(("def ", "class ", "import ", "from ", "#"))}
    return frozenset(lines)


def _told(item: Item, path: str, content: bytes) -> set[str]:
    """The lines of definitions, other than the one that is asked for, which the instructions give word for word."""
    asked = _plain(item.task.instructions)
    tree = parsed(content) if path.endswith(".py") and item.task.entry.name else None
    lines: set[str] = set()
    for node in tree.body if tree else ():
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name != item.task.entry.name:
            own = _plain("\n".join(content.decode().splitlines()[node.lineno - 1 : node.end_lineno]))
            lines |= own if own <= asked else set()
    return lines


def _without_texts(path: str, content: bytes) -> str:
    """A file without the documentation in it, which says what is asked and not how it is done."""
    text = content.decode("utf-8", "replace")
    tree = parsed(content) if path.endswith(".py") else None
    rows = text.splitlines()
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            for at in range(node.lineno - 1, node.end_lineno or node.lineno):
                rows[at] = ""
    return "\n".join(rows)


def _plain(text: str) -> set[str]:
    """The lines of a text without their blanks, those that are long enough."""
    return {line for raw in text.splitlines() if len(line := "".join(raw.split()) and " ".join(raw.split())) >= SHORT}


def _share(lines: frozenset[str], text: str) -> float:
    """Which share of the lines stands in a text."""
    there = _plain(text)
    return len(lines & there) / len(lines) if lines else 0.0

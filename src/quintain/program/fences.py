"""The fenced blocks of a reply, found the way people read them rather than by the letter of CommonMark."""

from __future__ import annotations

import re

import msgspec

from quintain.program._language import Language
from quintain.program.languages import (
    CONTAINER_TAGS,
    DIFF_TAGS,
    OUTPUT_TAGS,
    language_of_path,
    language_of_tag,
)

MAX_NESTING = 8
_NESTABLE = CONTAINER_TAGS | OUTPUT_TAGS | DIFF_TAGS
MAX_INFO = 300  # characters of an info string, or of a heading, that are looked at

_FENCE = re.compile(
    r"(?P<prefix>[ \t]*+(?:>[ \t]*+)*+(?:(?:[-*+]|\d{1,3}[.)])[ \t]++)?)(?P<marker>`{3,}|~{3,})(?P<info>[^\n]*)"
)
_INLINE_OPEN = re.compile(r"[^`\n]*[:.)][ \t]+(?P<marker>`{3,})(?P<info>[A-Za-z0-9]+)[ \t\r]*$")
_ATTRIBUTE = re.compile(
    r"""(?:title|file|filename|path|name|src)[ \t]*[=:][ \t]*(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"'{}]+))"""
)
_PATH = r"[\w.@+-]+(?:/[\w.@+-]+)*\.[A-Za-z][A-Za-z0-9]{0,7}"
_HEADING = re.compile(
    rf"[ \t]*(?:#{{1,6}}[ \t]+|\d{{1,3}}[.)][ \t]+|[-*][ \t]+)?(?:[*_`]{{0,3}})"
    rf"(?:(?:#|//)?[ \t]*(?:[Ff]ile(?:name)?|[Pp]ath)[ \t]*:[ \t]*[*_]{{0,2}}[ \t]*`?(?P<named>{_PATH})"
    rf"|(?P<bare>{_PATH}))"
    r"[*_`]{0,3}:?[*_]{0,2}[ \t]*\r?"
)
_FIRST_LINE = re.compile(rf"(?:#|//|--)[ \t]*(?:[Ff]ile(?:name)?|[Pp]ath)[ \t]*:[ \t]*(?P<path>{_PATH})[ \t]*\r?")


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One fenced block. `line` is that of its opening fence, from 1; `text` is kept exactly but for the fence's own
    indentation; `path` is the file that the reply says it is; `tag` is in lower case, empty when there is none."""

    tag: str
    text: str
    line: int
    closed: bool
    path: str | None = None

    @property
    def language(self) -> Language | None:
        return language_of_tag(self.tag)


class _Open:
    """A block that is not yet closed, with the blocks found inside it."""

    def __init__(self, *, prefix: str, marker: str, info: str, index: int, heading: str | None) -> None:
        self.width = len(prefix.expandtabs(4)) if prefix else 0
        self.quoted = ">" in prefix
        self.marker = marker
        self.tag, self.path = read_info(info)
        self.path = self.path or heading
        self.index = index  # of its fence line
        self.inner: list[Block] = []
        self.first_inner: int | None = None  # index of the first fence inside it

    @property
    def is_container(self) -> bool:
        return not self.tag or self.tag in CONTAINER_TAGS

    def closes(self, marker: str, width: int) -> bool:
        return marker[0] == self.marker[0] and len(marker) >= len(self.marker) and width <= self.width + 3


def read_info(info: str) -> tuple[str, str | None]:
    """The tag and the path in a fence's info string: `python title="a.py"`, `{.python}`, `python:src/a.py`, `a.py`."""
    info = info[:MAX_INFO].strip()
    if not info:
        return "", None
    attribute = _ATTRIBUTE.search(info)
    path = next((group for group in attribute.groups() if group), None) if attribute else None
    word = re.split(r"[\s{},]+", info.lstrip("{. \t"), maxsplit=1)[0].lstrip(".")
    if path is None and ":" in word:
        word, _, after = word.partition(":")
        path = after or None
    if path is None and language_of_tag(word) is None and re.fullmatch(_PATH, word):
        row = language_of_path(word)
        return (row.name if row else ""), word
    if "=" in word:  # only attributes
        word = ""
    if path is None and language_of_tag(word) is not None:
        second = info.lstrip("{. \t")[len(word):].strip()
        path = second if re.fullmatch(_PATH, second) else None
    return word.lower(), path


def find_blocks(text: str, *, opened: str | None = None) -> list[Block]:
    """The blocks of a reply in their order, containers (```markdown) replaced by what is in them.

    `opened` is the tag of a fence that the prompt has already opened. A bare fence closes the innermost open block; a
    fence with a known tag inside a block opens a nested one, even at the same length. A block of code that is never
    closed ends where the next fence with a tag opens, or at the end of the reply. Depth is at most MAX_NESTING.
    """
    scan = _Scan(text.split("\n"))
    if opened is not None:
        scan.stack.append(_Open(prefix="", marker="```", info=opened, index=-1, heading=None))
    for index in range(len(scan.lines)):
        scan.step(index)
    return scan.finish()


class _Scan:
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.stack: list[_Open] = []
        self.blocks: list[Block] = []

    def step(self, index: int) -> None:
        line = self.lines[index]
        if "```" not in line and "~~~" not in line:
            return
        match = _FENCE.match(line) or (_INLINE_OPEN.match(line) if not self.stack else None)
        if match is None:
            return
        marker, info = match["marker"], match["info"]
        inline = "prefix" not in match.re.groupindex
        if inline and language_of_tag(info) is None:
            return
        if marker[0] == "`" and "`" in info:  # inline code, not a fence
            return
        prefix = "" if inline else match["prefix"]
        if not self.stack:
            self._open(prefix, marker, info, index)
            return
        self._inside(prefix, marker, info.strip(), index)

    def _inside(self, prefix: str, marker: str, info: str, index: int) -> None:
        top = self.stack[-1]
        width = len(prefix.expandtabs(4))
        if not info and top.closes(marker, width):
            self._close(index)
        elif len(self.stack) < MAX_NESTING and (top.is_container or (info and top.closes(marker, width))):
            tag, path = read_info(info)
            if top.is_container or path or language_of_tag(tag) or tag in _NESTABLE:
                top.first_inner = index if top.first_inner is None else top.first_inner
                self._open(prefix, marker, info, index)

    def _open(self, prefix: str, marker: str, info: str, index: int) -> None:
        heading = _heading_above(self.lines, index)
        self.stack.append(_Open(prefix=prefix, marker=marker, info=info, index=index, heading=heading))

    def _close(self, index: int) -> None:
        block = self.stack.pop()
        found = block.inner if block.is_container and block.inner else [self._block(block, index, closed=True)]
        (self.stack[-1].inner if self.stack else self.blocks).extend(found)

    def _block(self, block: _Open, end: int, *, closed: bool) -> Block:
        lines = [_dedent(line, block) for line in self.lines[block.index + 1:end]]
        at_end = end >= len(self.lines)
        text = "\n".join(lines) + ("" if at_end or not lines else "\n")
        path = block.path
        if path is None and lines and (first := _FIRST_LINE.fullmatch(lines[0])):
            path = first["path"]
        return Block(tag=block.tag, text=text, line=block.index + 1, closed=closed, path=path)

    def finish(self) -> list[Block]:
        """Blocks still open at the end: each ends where a fence inside it opens; what was in it counts by itself."""
        while self.stack:
            block = self.stack.pop(0)
            if not (block.tag and block.is_container and block.first_inner is not None):
                self.blocks.append(self._unclosed(block))
            self.blocks.extend(block.inner)
        return self.blocks

    def _unclosed(self, block: _Open) -> Block:
        """An open block ends at a line that ends with its marker (`return x```` `), or else where it must."""
        end = len(self.lines) if block.first_inner is None else block.first_inner
        for index in range(block.index + 1, end):
            line = self.lines[index].rstrip()
            if line.endswith(block.marker):
                whole = self._block(block, index, closed=True)
                last = _dedent(line.removesuffix(block.marker), block)
                return msgspec.structs.replace(whole, text=whole.text + last + "\n")
        return self._block(block, end, closed=False)


def _dedent(line: str, block: _Open) -> str:
    """The line without the indentation that its fence has."""
    if block.quoted:
        return re.sub(r"^[ \t]*(?:>[ \t]?)+", "", line)
    column = position = 0
    while position < len(line) and column < block.width and line[position] in " \t":
        column += 1 if line[position] == " " else 4 - column % 4
        position += 1
    return line[position:]


def _heading_above(lines: list[str], index: int) -> str | None:
    """The path on the line before a fence (a blank line may stand between): `### src/a.py`, `**File: a.py**`."""
    for above in (index - 1, index - 2):
        if above < 0:
            return None
        if lines[above].strip():
            is_short = len(lines[above]) <= MAX_INFO // 2 and ("." in lines[above] or ":" in lines[above])
            match = _HEADING.fullmatch(lines[above]) if is_short else None
            return (match["named"] or match["bare"]) if match else None
    return None

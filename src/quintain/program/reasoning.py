"""The thinking part of a reply, taken away before anything else is read."""

from __future__ import annotations

import re

import msgspec

from quintain.program.languages import language_of_tag

#: Opening and closing tags; case does not matter.
THINKING_TAGS: tuple[tuple[str, str], ...] = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
)

_CLOSES = {start.lower(): end.lower() for start, end in THINKING_TAGS}
_OPENS = {end: start for start, end in _CLOSES.items()}
_TAG = re.compile("|".join(re.escape(tag) for pair in THINKING_TAGS for tag in pair), re.IGNORECASE)
_BLANK = re.compile(r"\s*$")
_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*(.*)")


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a reply without its reasoning. `unclosed`: a thinking tag was opened and never closed."""

    text: str
    unclosed: bool = False


def without_reasoning(reply: str) -> Spoken:
    """The reply without its reasoning, in one pass over its lines.

    A tag opens reasoning unless it stands in a fenced block or between backticks; the first closing tag of the same
    name ends it, whatever stands between (fences and quotes inside reasoning mean nothing). A closing tag without an
    opening one makes everything before it reasoning, unless it is code: in a block of a known language, and either
    opened in that block or not at the end of its line.
    """
    return _Scan(reply).spoken() if _TAG.search(reply) is not None else Spoken(text=reply)


class _Scan:
    """The state of the pass: `close` is the tag waited for, `fence` the marker of the block that we are in."""

    def __init__(self, reply: str) -> None:
        self._reply = reply
        self._kept: list[str] = []
        self._close: str | None = None
        self._fence: str | None = None
        self._fence_is_code = False
        self._opened_in_fence: set[str] = set()

    def spoken(self) -> Spoken:
        for line in self._reply.split("\n"):
            self._line(line + "\n")
        text = "".join(self._kept)
        return Spoken(text=text.removesuffix("\n"), unclosed=self._close is not None)

    def _line(self, line: str) -> None:
        kept_from = 0
        for tag in _TAG.finditer(line):
            word = tag.group().lower()
            if self._close is not None:
                if word == self._close:
                    self._close = None
                    kept_from = tag.end()
                continue
            if _is_quoted(line, tag.start()):
                continue
            if word in _CLOSES:
                if self._fence is not None:
                    self._opened_in_fence.add(word)
                    continue
                self._kept.append(line[kept_from:tag.start()])
                self._close = _CLOSES[word]
            elif not self._is_code(word, line, tag.end()):
                self._kept.clear()
                self._fence = None
                self._opened_in_fence.clear()
                kept_from = tag.end()
        if self._close is None:
            rest = line[kept_from:]
            self._kept.append(rest)
            self._follow_fence(rest)

    def _is_code(self, closing: str, line: str, end: int) -> bool:
        if self._fence is None or not self._fence_is_code:
            return False
        return _BLANK.match(line, end) is None or _OPENS[closing] in self._opened_in_fence

    def _follow_fence(self, line: str) -> None:
        match = _FENCE.match(line)
        if match is None:
            return
        marker, info = match[1], match[2].strip()
        if self._fence is None:
            self._fence = marker
            tag = re.split(r"[\s:{}.=]+", info.lstrip("{. "), maxsplit=1)[0]
            self._fence_is_code = not info or language_of_tag(tag) is not None
            self._opened_in_fence.clear()
        elif not info and marker[0] == self._fence[0] and len(marker) >= len(self._fence):
            self._fence = None


def _is_quoted(line: str, column: int) -> bool:
    """Between single backticks: a mention."""
    return column > 0 and line[column - 1] == "`" and line.find("`", column) >= 0

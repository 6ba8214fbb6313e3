"""What a JavaScript test file defines, read from its text without running it."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<string>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")
    |(?P<template>`(?:\\.|[^`\\])*`)
    |(?P<word>[A-Za-z_$][\w$]*(?:[ \t]*\.[ \t]*[A-Za-z_$][\w$]*)*)
    |(?P<number>\d[\w.]*)
    |(?P<space>\s+)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/[a-z]*")
#: After these a slash begins a regular expression; after anything else it divides.
_BEFORE_REGEX = frozenset("(,=:[!&|?{};+-*%<>~^")
_BEFORE_REGEX_WORDS = frozenset({"return", "typeof", "case", "in", "of", "delete", "void", "instanceof", "throw"})
_BLOCKS = frozenset({"describe", "suite", "context"})
_TESTS = frozenset({"test", "it", "specify"})
_LEFT_OUT = frozenset({"xdescribe", "xtest", "xit"})


class _Token:
    __slots__ = ("kind", "text")

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self.text = text


def _tokens(text: str) -> Iterator[_Token]:
    """Words, strings and marks. Raises ValueError for a text that cannot be read to its end."""
    at, before = 0, _Token("mark", ";")
    while at < len(text):
        if text[at] == "/" and _may_be_regex(before) and (match := _REGEX.match(text, at)):
            token = _Token("regex", match.group())
        else:
            found = _TOKEN.match(text, at)
            if found is None:
                raise ValueError(f"expected JavaScript, found {text[at:at + 20]!r}")
            match, token = found, _Token(found.lastgroup or "mark", found.group())
        at = match.end()
        if token.kind not in ("comment", "space"):
            before = token
            yield token


def _may_be_regex(before: _Token) -> bool:
    if before.kind == "mark":
        return before.text in _BEFORE_REGEX
    return before.kind == "word" and before.text in _BEFORE_REGEX_WORDS


def collected_javascript(path: str, content: bytes) -> tuple[str, ...] | None:
    """The ids of the tests that a file registers, `FILE::BLOCK > TEST` as the runner names them (` #2` after a title
    that is there a second time); what its text skips is no test. None where only a run can tell: titles that are
    computed, tests made in loops or by `.each`. A file that registers none is one test, `FILE::script`.

    Raises ValueError for what cannot be read as JavaScript in UTF-8.
    """
    tokens = list(_tokens(content.decode()))
    depth, titles = 0, []
    open_blocks: list[tuple[int, str, bool]] = []  # the depth outside of it, its title, whether it is left out
    for number, token in enumerate(tokens):
        if token.kind == "mark" and token.text in "([{":
            depth += 1
        elif token.kind == "mark" and token.text in ")]}":
            depth -= 1
            while open_blocks and depth <= open_blocks[-1][0]:
                open_blocks.pop()
        elif token.kind == "word" and _is_call(tokens, number):
            name, _, variant = token.text.replace(" ", "").partition(".")
            if name in _BLOCKS | _TESTS | _LEFT_OUT:
                left_out = name in _LEFT_OUT or variant in ("skip", "todo") or any(b[2] for b in open_blocks)
                title = _title(tokens[number + 2])
                if left_out and title is None:
                    title = ""
                if title is None or variant not in ("", "skip", "todo"):
                    return None
                if name in _BLOCKS or name == "xdescribe":
                    open_blocks.append((depth, title, left_out))
                elif not left_out:
                    if _inside_loop(depth, open_blocks):
                        return None
                    titles.append(" > ".join([*(b[1] for b in open_blocks), title]))
    return _numbered(path, titles)


def _is_call(tokens: list[_Token], number: int) -> bool:
    after = tokens[number + 1:number + 3]
    before = tokens[number - 1].text if number else ""
    return len(after) == 2 and after[0].text == "(" and before not in (".", "function")


def _title(token: _Token) -> str | None:
    """The text of a string literal; None for anything that has to be computed."""
    if token.kind == "template" and "${" in token.text:
        return None
    if token.kind not in ("string", "template"):
        return None
    return re.sub(r"\\(u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\n|.)", _unescaped, token.text[1:-1],
                  flags=re.DOTALL)


def _unescaped(match: re.Match[str]) -> str:
    what = match[1]
    if len(what) > 1:
        return chr(int(what[1:].strip("{}"), 16))
    return {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}.get(what, what)


def _inside_loop(depth: int, open_blocks: list[tuple[int, str, bool]]) -> bool:
    """Whether a test stands deeper than its blocks account for: each is a call and a function body."""
    return depth != 2 * len(open_blocks)


def _numbered(path: str, titles: list[str]) -> tuple[str, ...]:
    if not titles:
        return (f"{path}::script",)
    seen: dict[str, int] = {}
    ids = []
    for title in titles:
        seen[title] = seen.get(title, 0) + 1
        ids.append(f"{path}::{title}" + (f" #{seen[title]}" if seen[title] > 1 else ""))
    return tuple(ids)

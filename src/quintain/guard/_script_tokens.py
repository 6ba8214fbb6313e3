"""JavaScript text as tokens: strings, comments, regexes and templates told apart. It takes any text and never fails."""

from __future__ import annotations

import re

import msgspec

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z)|\A\#![^\n]*)"
    r"|(?P<string>'(?:[^'\\\n]|\\.)*'?|\"(?:[^\"\\\n]|\\.)*\"?)"
    r"|(?P<name>(?:[A-Za-z_$#]|[^\x00-\x7f]|\\u[0-9a-fA-F]{4}|\\u\{[0-9a-fA-F]+\})"
    r"(?:[\w$]|[^\x00-\x7f]|\\u[0-9a-fA-F]{4}|\\u\{[0-9a-fA-F]+\})*)"
    r"|(?P<number>\.?\d[\w.]*)|(?P<mark>=>|\?\.|\.\.\.|[=!]==?|[-+*/%&|^?<>]{1,3}=|\*\*|&&|\|\||\?\?|\+\+|--|.)", re.S)
_REGEX = re.compile(r"/(?![*/])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
_BEFORE_REGEX = frozenset([
    "(", ",", "=", ":", "[", "!", "&", "|", "?", "{", "}", ";", "=>", "==", "===", "!=", "!==", "&&", "||", "??",
    "return", "typeof", "case", "+", "-", "*", "%", "<", ">", "~",
])
_DEEPEST = 8  # templates inside templates; deeper ones are taken for text
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|([0-7]{1,3})|(\n)|(.))", re.S)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}


class Token(msgspec.Struct, frozen=True):
    """`kind` is name, number, string, regex, mark or comment; the text of a string is its value."""

    kind: str
    text: str
    line: int


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        two, braced, four, octal, line_end, other = match.groups()
        if two or braced or four:
            number = int(two or braced or four, 16)
            return chr(number) if number < 0x110000 else "?"
        if octal:
            return chr(int(octal, 8))
        return "" if line_end else _PLAIN.get(other, other)

    return _ESCAPE.sub(one, text)


def tokens_of(text: str, *, line: int = 1, depth: int = 0) -> list[Token]:
    """The tokens of a script; text that is none is taken character by character, so this never fails."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        last = next((t for t in reversed(found) if t.kind != "comment"), None)
        starts = last is None or (last.text in _BEFORE_REGEX and last.kind in ("mark", "name"))
        if text[at] == "/" and starts and (regex := _REGEX.match(text, at)):
            found.append(Token("regex", regex[0], line))
            at = regex.end()
            continue
        if text[at] == "`":
            end, parts = _template(text, at, line, depth)
            found += parts
            line += text.count("\n", at, end)
            at = end
            continue
        match = _TOKEN.match(text, at)
        assert match is not None  # the last branch takes any character
        kind = match.lastgroup or "mark"
        if kind == "string":
            whole = match[0]
            inner = whole[1:-1] if len(whole) > 1 and whole[-1] == whole[0] else whole[1:]
            found.append(Token("string", _unescaped(inner), line))
        elif kind != "space":
            found.append(Token(kind, _unescaped(match[0]) if kind == "name" else match[0], line))
        line += match[0].count("\n")
        at = match.end()
    return found


def _template(text: str, at: int, line: int, depth: int) -> tuple[int, list[Token]]:
    """Where a template literal ends, and its tokens: its pieces joined by `+`, as if it were written so."""
    parts: list[Token] = []
    begin = at = at + 1
    while at < len(text) and text[at] != "`":
        if text[at] == "\\":
            at += 2
        elif text.startswith("${", at) and depth < _DEEPEST:
            here = line + text.count("\n", begin, at)
            parts += [Token("string", _unescaped(text[begin:at]), here), Token("mark", "+", here)]
            end = _closing(text, at + 2)
            inner = tokens_of(text[at + 2 : end], line=here, depth=depth + 1)
            parts += [Token("mark", "(", here), *inner, Token("mark", ")", here), Token("mark", "+", here)]
            begin = at = end + 1
        else:
            at += 1
    return at + 1, [*parts, Token("string", _unescaped(text[begin:at]), line)]


def _closing(text: str, at: int) -> int:
    """Where the brace that is open at `at` closes; strings in between are passed over."""
    depth = 1
    while at < len(text):
        if text[at] in "'\"":
            quote, at = text[at], at + 1
            while at < len(text) and text[at] not in (quote, "\n"):
                at += 2 if text[at] == "\\" else 1
        elif text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return len(text)

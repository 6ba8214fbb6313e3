"""What a JavaScript file says and does, as facts, by a small tokenizer that knows strings, comments and regexes.

Covers: properties by a literal name (`process["ex" + "it"]`), aliases (`const p = process`, destructuring, imports),
strings put together from literals, `atob`, `Buffer.from`, `fromCharCode`, and code in literals given to eval, Function
or the vm module. Does not cover: names that only a run computes; those show as facts of the kind "computed".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from quintain.guard._facts import Fact
from quintain.guard._script_fold import chain, folded
from quintain.guard._script_tokens import Token, tokens_of

LARGEST_BYTES = 200_000
MOST_TOKENS = 40_000
_DEEPEST = 3
_WORDS = frozenset([
    "const", "let", "var", "function", "return", "new", "if", "else", "for", "while", "import", "export", "from",
    "as", "of", "in", "class", "extends", "throw", "try", "catch", "finally", "switch", "case", "default", "break",
    "continue", "typeof", "await", "async", "yield", "do",
])


def script_facts(file: str, content: bytes | str, *, depth: int = 0) -> list[Fact]:
    """The facts of one file, in the order of its text."""
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    if len(text) > LARGEST_BYTES:
        return [Fact(kind="unreadable", text="too large", file=file)]
    tokens = tokens_of(text)
    if len(tokens) > MOST_TOKENS:
        return [Fact(kind="unreadable", text="too large", file=file)]
    facts = [Fact(kind="comment", text=line.strip(" */")[:300], file=file, line=t.line + n)
             for t in tokens if t.kind == "comment" for n, line in enumerate(t.text.split("\n"))]
    facts += _walk(file, folded([t for t in tokens if t.kind != "comment"]), depth)
    return facts


def _walk(file: str, tokens: list[Token], depth: int) -> Iterator[Fact]:
    open_braces = 0
    statement: list[Token] = []
    for at, token in enumerate(tokens):
        before = tokens[at - 1] if at else None
        if token.kind == "mark" and token.text in "{};":
            if statement:
                yield Fact(kind="code", text=_told(statement)[:300], file=file, line=statement[0].line)
            statement = []
            open_braces += {"{": 1, "}": -1}.get(token.text, 0)
            continue
        statement.append(token)
        if token.kind == "string":
            yield Fact(kind="str", text=token.text[:300].replace("\n", "\\n"), file=file, line=token.line)
        if token.kind != "name":
            continue
        if token.text[0] == "@":
            yield Fact(kind="import", text=token.text[1:], file=file, line=token.line)
        if before is not None and before.text in ("function", "class", "get", "set"):
            yield Fact(kind="def", text=token.text, file=file, line=token.line)
        if before is not None and before.text == "." and at >= 2 and tokens[at - 2].kind == "name":
            continue  # in the middle of a chain
        path, end = chain(tokens, at)
        path = f"?.{path}" if before is not None and before.text == "." else path
        if path in _WORDS:
            continue
        yield from _named(file, tokens, path, end, token, top=open_braces <= 0, depth=depth)
    if statement:
        yield Fact(kind="code", text=_told(statement)[:300], file=file, line=statement[0].line)


def _named(
    file: str, tokens: list[Token], path: str, end: int, token: Token, *, top: bool, depth: int,
) -> Iterator[Fact]:
    clean = path.replace("@", "")
    following = tokens[end].text if end < len(tokens) else ""
    line = token.line
    yield Fact(kind="use", text=clean, file=file, line=line)
    if following == "(":
        inner = _within(tokens, end)
        yield Fact(kind="call", text=f"{clean}({_told(inner)[:160]})", file=file, line=line)
        if top:
            yield Fact(kind="at import", text=clean, file=file, line=line)
        literal = next((t.text for t in reversed(inner) if t.kind == "string"), None)
        if clean.rpartition(".")[2] in ("eval", "Function", "runInThisContext", "runInNewContext", "runInContext"):
            if literal is None:
                yield Fact(kind="computed", text="code that is computed", file=file, line=line)
            elif depth < _DEEPEST:
                yield Fact(kind="decoded", text=literal[:300], file=file, line=line)
                for fact in script_facts(file, literal, depth=depth + 1):
                    yield msgspec.structs.replace(fact, line=line)
    elif following in ("=", "+=", "||=", "??=", "&&=") and "." in clean:
        yield Fact(kind="set", text=f"{clean} = {_told(tokens[end + 1 : end + 16])[:120]}", file=file, line=line)
    elif following == "[" and clean in ("process", "globalThis", "global", "require"):
        yield Fact(kind="computed", text=f"{clean}[?]", file=file, line=line)


def _within(tokens: list[Token], at: int) -> list[Token]:
    depth = 0
    for n in range(at, min(len(tokens), at + 400)):
        if tokens[n].kind == "mark":
            depth += {"(": 1, ")": -1}.get(tokens[n].text, 0)
            if depth == 0:
                return tokens[at + 1 : n]
    return tokens[at + 1 : at + 400]


def _told(tokens: list[Token]) -> str:
    text = " ".join(t.text.replace("\n", "\\n") if t.kind != "string" else f"'{t.text}'" for t in tokens)
    return re.sub(r" ?([.(\[]) ?| ([,;)\]])", lambda m: m[1] or m[2], text).replace("\n", " ").replace("@", "")

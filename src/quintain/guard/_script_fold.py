"""JavaScript tokens written plainly: literals joined, names by literals put in, aliases followed."""

from __future__ import annotations

import base64
import binascii
import re

from quintain.guard._script_tokens import Token

_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*\Z")


def folded(tokens: list[Token]) -> list[Token]:
    """The same with literals joined, computed names that are literal written plainly, and aliases put in."""
    for _ in range(4):
        before = len(tokens), [t.text for t in tokens]
        tokens = _joined(tokens)
        tokens = _aliased(tokens)
        if before == (len(tokens), [t.text for t in tokens]):
            break
    return tokens


def _joined(tokens: list[Token]) -> list[Token]:
    out: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.kind == "string" and len(out) >= 2 and out[-1].text == "+" and out[-2].kind == "string" and (
                len(out) < 3 or out[-3].text not in (".", "*", "-", "/")):
            out[-2:] = [Token("string", out[-2].text + token.text, token.line)]
        elif token.text == "]" and len(out) >= 3 and out[-1].kind == "string" and out[-2].text == "[" and (
                out[-3].kind == "name" or out[-3].text in (")", "]")) and _IDENTIFIER.match(out[-1].text):
            out[-2:] = [Token("mark", ".", token.line), Token("name", out[-1].text, token.line)]
        elif token.text == ")" and len(out) >= 2 and out[-1].kind == "string" and (made := _called(out)) is not None:
            out = made
        elif token.text == ")" and (listed := _listed(out)) is not None:
            out = listed
        elif token.text == "?." and at + 1 < len(tokens):
            out.append(Token("mark", ".", token.line))
        else:
            out.append(token)
        at += 1
    return out


def _called(out: list[Token]) -> list[Token] | None:
    """A call that closes here on one literal, done: atob, require, unescape; `("x")` is the literal itself."""
    if out[-2].text != "(":
        return None
    literal, name = out[-1], out[-3].text if len(out) >= 3 and out[-3].kind == "name" else ""
    if name in ("atob", "unescape", "decodeURIComponent") and (value := _decoded(name, literal.text)) is not None:
        return [*out[:-3], Token("string", value, literal.line)]
    if name in ("require", "import") and _IDENTIFIER.match(literal.text.removeprefix("node:").replace("/", "_")):
        module = literal.text.removeprefix("node:").replace("/", ".")
        return [*out[:-3], Token("name", f"@{module}", literal.line)]
    if name == "" and (len(out) < 3 or out[-3].text in ("=", "(", ",", "[", "+", "return", ";", ":", "{", "}")):
        return [*out[:-2], literal]
    return None


def _listed(out: list[Token]) -> list[Token] | None:
    """`["a", "b"].join("")`, `fromCharCode(1, 2)` and `Buffer.from("...", "base64")` with literals only, done."""
    begin = next((n for n in range(len(out) - 1, max(-1, len(out) - 600), -1) if out[n].text == "("
                  and out[n].kind == "mark"), None)
    if begin is None or begin < 1:
        return None
    arguments = [t for t in out[begin + 1 :] if t.text != "," or t.kind == "string"]
    head = [t.text for t in out[max(0, begin - 3) : begin]]
    if head[-1:] == ["fromCharCode"] and arguments and all(t.kind == "number" for t in arguments):
        try:
            value = "".join(chr(int(t.text, 0)) for t in arguments)
        except (ValueError, OverflowError):
            return None
        start = begin - 3 if len(head) == 3 and head[1] == "." else begin - 1
        return [*out[:start], Token("string", value, arguments[0].line)]
    if head == ["Buffer", ".", "from"] and [t.kind for t in arguments] == ["string", "string"]:
        value2 = _decoded(arguments[1].text, arguments[0].text)
        return None if value2 is None else [*out[: begin - 3], Token("string", value2, arguments[0].line)]
    if head[-2:] == [".", "toString"] and begin >= 3 and out[begin - 3].kind == "string":
        return out[: begin - 2]
    if head == ["]", ".", "join"] and len(arguments) == 1 and arguments[0].kind == "string":
        opening = next((n for n in range(begin - 3, -1, -1) if out[n].text == "["), None)
        items = out[opening + 1 : begin - 3] if opening is not None else []
        words = [t for t in items if t.kind == "string"]
        if opening is not None and words and all(t.kind == "string" or t.text == "," for t in items):
            return [*out[:opening], Token("string", arguments[0].text.join(t.text for t in words), words[0].line)]
    return None


def _decoded(how: str, text: str) -> str | None:
    try:
        if how in ("atob", "base64", "base64url"):
            return base64.b64decode(text + "=" * (-len(text) % 4)).decode("utf-8", "replace")
        if how == "hex":
            return binascii.unhexlify(text).decode("utf-8", "replace")
    except ValueError:
        return None
    return re.sub(r"%([0-9a-fA-F]{2})", lambda m: chr(int(m[1], 16)), text)


def chain(tokens: list[Token], at: int) -> tuple[str, int]:
    """The dotted name that begins here, and where it ends."""
    path = tokens[at].text
    at += 1
    while at + 1 < len(tokens) and tokens[at].text == "." and tokens[at].kind == "mark" and (
            tokens[at + 1].kind == "name"):
        path += f".{tokens[at + 1].text}"
        at += 2
    return path, at


_DECLARE = frozenset({"const", "let", "var"})
_ROOTS = frozenset({"process", "globalThis", "global", "Object", "Array", "Function", "Reflect", "Symbol", "module",
                    "require", "eval", "Date", "performance", "Number", "Math", "JSON", "console", "Promise", "String",
                    "Boolean", "Map", "Set", "RegExp", "Error", "Proxy", "setTimeout", "expect", "test", "it"})


def _aliases(tokens: list[Token]) -> dict[str, list[Token]]:
    """What the names stand for that are declared as another name or as a literal, and imported names."""
    found: dict[str, list[Token]] = {}
    for at, token in enumerate(tokens[:-3]):
        if token.text == "import" and token.kind == "name":
            found |= _imported(tokens, at)
        if token.text not in _DECLARE or token.kind != "name":
            continue
        if tokens[at + 1].kind == "name" and tokens[at + 2].text == "=":
            value = tokens[at + 3]
            if value.kind == "string" and (at + 4 >= len(tokens) or tokens[at + 4].text in (";", ",", "}") or (
                    tokens[at + 4].line > value.line and tokens[at + 4].text not in (".", "+"))):
                found[tokens[at + 1].text] = [value]
            elif value.kind == "name" and (value.text in _ROOTS or value.text[0] == "@"):
                _, end = chain(tokens, at + 3)
                if end >= len(tokens) or tokens[end].text not in ("(", "[", "+", "?", "=>", "*", "-"):
                    found[tokens[at + 1].text] = tokens[at + 3 : end]
        elif tokens[at + 1].text == "{":
            found |= _picked(tokens, at + 2)
    return found


def _picked(tokens: list[Token], at: int) -> dict[str, list[Token]]:
    """`{ a, b: c } = dotted.name`"""
    pairs: list[tuple[str, str]] = []
    while at + 2 < len(tokens) and tokens[at].text != "}":
        if tokens[at].kind == "name":
            renamed = tokens[at + 1].text == ":" and tokens[at + 2].kind == "name"
            pairs.append((tokens[at].text, tokens[at + 2].text if renamed else tokens[at].text))
            at += 3 if renamed else 1
        else:
            at += 1
    if at + 2 >= len(tokens) or tokens[at + 1].text != "=" or tokens[at + 2].kind != "name":
        return {}
    root = tokens[at + 2].text
    if root not in _ROOTS and root[0] != "@":
        return {}
    _, end = chain(tokens, at + 2)
    base = tokens[at + 2 : end]
    line = tokens[at].line
    return {own: [*base, Token("mark", ".", line), Token("name", name, line)] for name, own in pairs}


def _imported(tokens: list[Token], at: int) -> dict[str, list[Token]]:
    """`import x, { a as b } from "m"`, `import * as x from "m"`"""
    end = next((n for n in range(at, min(at + 60, len(tokens))) if tokens[n].kind == "string"), None)
    if end is None or not _IDENTIFIER.match(tokens[end].text.removeprefix("node:").replace("/", "_")):
        return {}
    module = Token("name", "@" + tokens[end].text.removeprefix("node:").replace("/", "."), tokens[end].line)
    found: dict[str, list[Token]] = {}
    inside = False
    names = tokens[at + 1 : end]
    for n, token in enumerate(names):
        inside = token.text == "{" or (inside and token.text != "}")
        following = names[n + 1].text if n + 1 < len(names) else ""
        before = names[n - 1].text if n else ""
        if token.kind != "name" or token.text in ("from", "as") or following == "as":
            continue
        if inside:
            name = names[n - 2].text if before == "as" else token.text
            found[token.text] = [module, Token("mark", ".", token.line), Token("name", name, token.line)]
        else:
            found[token.text] = [module]
    return found


def _aliased(tokens: list[Token]) -> list[Token]:
    aliases = _aliases(tokens)
    out: list[Token] = []
    for at, token in enumerate(tokens):
        before = tokens[at - 1].text if at else ""
        after = tokens[at + 1].text if at + 1 < len(tokens) else ""
        known = aliases.get(token.text) if token.kind == "name" else None
        declared = before in (".", "const", "let", "var", "function", "class", "import", "as") or after in (
            "=>", ":", "from") or (before == ":" and after in ("}", ","))
        if known is None or declared or (after == "=" and before in (",", "{", "(")) or (
                before in ("{", ",") and after in (",", "}")) or (after == "=" and known[0].kind == "string"):
            out.append(token)
        else:
            out += [Token(k.kind, k.text, token.line) for k in known]
    return out

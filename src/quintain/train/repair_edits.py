"""Programs as rows of tokens, and the edits of one token that may repair them. Pure."""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Sequence

import msgspec

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
ARITHMETIC = ("+", "-", "*", "//", "%")
STEPS = ("+=", "-=")
#: Operators that stand for each other: order, equality, sums, products, steps.
FAMILIES = (COMPARISONS[:4], COMPARISONS[4:], ARITHMETIC[:2], ARITHMETIC[2:], STEPS)
PAIRS = {"and": "or", "or": "and", "True": "False", "False": "True", "min": "max", "max": "min"}
#: Names that are no variables of a program, whatever it does with them.
_GIVEN = frozenset({*keyword.kwlist, "range", "len", "list", "str", "int", "min", "max", "abs", "chr", "ord", "sum"})
_LAYOUT = frozenset({
    tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT,
    tokenize.ENCODING,
})


class Token(msgspec.Struct, frozen=True):
    """One token of a program: `line` counts from 1, `column` and `indent` are in characters."""

    text: str
    line: int
    column: int
    indent: int


class Edit(msgspec.Struct, frozen=True):
    """The token at `site` (an index into the tokens) becomes `text`."""

    site: int
    text: str


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """A program as the policy sees it. `names` are its variables in the order in which they come."""

    source: str
    tokens: tuple[Token, ...]
    names: tuple[str, ...]
    edits: tuple[Edit, ...]

    def edited(self, edit: Edit) -> str:
        """The program with one token replaced; all else, blanks included, is as it was."""
        token = self.tokens[edit.site]
        lines = self.source.split("\n")
        line = lines[token.line - 1]
        lines[token.line - 1] = line[: token.column] + edit.text + line[token.column + len(token.text):]
        return "\n".join(lines)


def read_code(source: str) -> Code:
    """The tokens of a program and every edit that is open to a repair of it. Raises ValueError for what is no Python
    that can be tokenised."""
    try:
        tokens = tuple(_tokens(source))
    except (tokenize.TokenError, SyntaxError) as error:
        raise ValueError(f"expected Python, found what cannot be read as tokens: {error}") from None
    names = tuple(dict.fromkeys(t.text for i, t in enumerate(tokens) if _is_variable(tokens, i)))
    first = tokens[0].line if tokens else 0  # the line of `def` stays
    edits = tuple(
        Edit(site, text) for site, token in enumerate(tokens) if token.line != first
        for text in alternatives(tokens, site, names)
    )
    return Code(source=source, tokens=tokens, names=names, edits=edits)


def alternatives(tokens: Sequence[Token], site: int, names: Sequence[str]) -> tuple[str, ...]:
    """What may stand in the place of a token: another operator of its family, a number near it, another variable where
    one is read."""
    text = tokens[site].text
    for family in FAMILIES:
        if text in family and not _is_sign(tokens, site):
            return tuple(other for other in family if other != text)
    if text in PAIRS:
        return (PAIRS[text],)
    if text.isdecimal():
        number = int(text)
        near = dict.fromkeys(n for n in (number - 1, number + 1, 0, 1, 2) if n >= 0 and n != number)
        return tuple(map(str, near))
    if text in names and _is_read(tokens, site):
        return tuple(name for name in names if name != text)
    return ()


def _tokens(source: str) -> list[Token]:
    lines = source.split("\n")
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _LAYOUT or not token.string:
            continue
        line, column = token.start
        text = lines[line - 1]
        found.append(Token(token.string, line, column, len(text) - len(text.lstrip())))
    return found


def _is_variable(tokens: Sequence[Token], site: int) -> bool:
    text = tokens[site].text
    if not text.isidentifier() or text in _GIVEN:
        return False
    before = tokens[site - 1].text if site else ""
    after = tokens[site + 1].text if site + 1 < len(tokens) else ""
    return before not in (".", "def") and after != "("


def _is_read(tokens: Sequence[Token], site: int) -> bool:
    """Whether a variable is read here, not bound: a name that is assigned, or that a loop binds, stays."""
    if not _is_variable(tokens, site):
        return False
    row = [t for t in tokens if t.line == tokens[site].line]
    if row[0].text == "for":
        bound = next((t.column for t in row if t.text == "in"), -1)
        return tokens[site].column > bound
    after = tokens[site + 1] if site + 1 < len(tokens) else None
    starts_row = row[0] is tokens[site]
    return not (starts_row and after is not None and after.text in ("=", *STEPS))


def _is_sign(tokens: Sequence[Token], site: int) -> bool:
    """Whether a minus stands before a number alone, as in `return -1`."""
    if tokens[site].text != "-" or site == 0:
        return tokens[site].text == "-"
    before = tokens[site - 1].text
    named = before.isidentifier() and before not in keyword.kwlist
    return not (named or before.isdecimal() or before in (")", "]"))

"""What an answer says: a number with its unit, a word, a list, a set, an interval, an equation, or a formula."""

from __future__ import annotations

import re

import msgspec

from quintain.grade.mathclean import closing, split_top
from quintain.grade.mathnumber import NUMBER, Kind, Read, is_unit, read_number

_WORD = re.compile(r"[^\W\d_][\w' \-/&]*")
_CLOCK = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?(?:\s*[ap]\.?m\.?)?", re.I)
_NAMED = re.compile(r"(?P<name>[A-Za-z](?:_\{?\w+\}?)?(?:\([A-Za-z]\))?)\s*(?:=|\\in(?![a-z]))\s*(?P<rest>[^=]+)")
_AND = re.compile(r",?\s*(?:\\text\s*\{\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z]))\s*")
_MATRIX = re.compile(
    r"\\begin\s*\{(?P<kind>[pb]?matrix|array)\}(?:\s*\{[lcr|]+\})?(?P<rows>.*)\\end\s*\{(?P=kind)\}", re.S)
_ORDER = re.compile(r"(\\le(?![a-z])|\\ge(?![a-z])|<=|>=|<|>)")
_UNIT_AFTER = re.compile(
    r"(?P<core>.*[^\s^_{])\s*(?P<unit>(?:\\text|\\mathrm)\s*\{[^{}]*\}(?:\^\{?[23]\}?)?|\^\\circ)\s*")
_CONSTANT = re.compile(r"\\[A-Za-z]+|(?<![A-Za-z])[ei](?![A-Za-z])")
_FUNCTION = re.compile(r"(?:arc)?(?:sin|cos|tan|cot|sec|csc)|log|ln|exp|sqrt|pi\b")
_VARIABLE = re.compile(r"[A-Za-z]")
def read(text: str) -> Read:
    """The reading of a cleaned answer."""
    text = text.strip()
    if r"\pm" in text or r"\mp" in text:
        swapped = text.replace(r"\pm", "\0").replace(r"\mp", r"\pm").replace("\0", r"\mp")
        both = (text.replace(r"\pm", "+").replace(r"\mp", "-"), swapped.replace(r"\pm", "+").replace(r"\mp", "-"))
        return Read(kind=Kind.BARE, text=text, items=tuple(read(part.removeprefix("+")) for part in both))
    for reader in (read_number, _clock, _named, _matrix, _union, _inequality, _bracketed, _list, _word):
        found = reader(text)
        if found is not None:
            return found
    if text.count("=") == 1 and all(split_top(text, "=")):
        return Read(kind=Kind.EQUATION, text=text)
    if re.search(r"(?<![\d_^.])\d+\s+\d", text):
        return Read(kind=Kind.WORD, text=text)  # numbers side by side are no product
    core, unit = _without_unit(text)
    return Read(kind=Kind.FORMULA, text=core, unit=unit)


def _without_unit(text: str) -> tuple[str, str]:
    """A formula without the unit after it."""
    match = _UNIT_AFTER.fullmatch(text)
    unit = is_unit(match["unit"]) if match else None
    return (match["core"].strip(), unit) if match and unit else (text, "")


def _clock(text: str) -> Read | None:
    return Read(kind=Kind.WORD, text=text.lower().replace(" ", "")) if _CLOCK.fullmatch(text) else None


def _named(text: str) -> Read | None:
    """`x = 5`, `n = 2, 3, 4`, `x \\in (0, 1)`: the value, and what has it. With a value that has letters of its own it
    is an equation."""
    match = _NAMED.fullmatch(text)
    if match is None:
        return None
    rest = read(match["rest"])
    if rest.kind is Kind.FORMULA and _VARIABLE.search(_CONSTANT.sub("", rest.text)):
        return Read(kind=Kind.EQUATION, text=text, items=(rest,), name=match["name"])
    return msgspec.structs.replace(rest, name=match["name"].replace("{", "").replace("}", ""))


def _matrix(text: str) -> Read | None:
    match = _MATRIX.fullmatch(text)
    if match is None:
        return None
    rows = [row for row in re.split(r"\\\\", match["rows"]) if row.strip()]
    items = tuple(
        Read(kind=Kind.TUPLE, text=row, items=tuple(read(cell) for cell in row.split("&"))) for row in rows)
    return Read(kind=Kind.MATRIX, text=text, items=items)


def _union(text: str) -> Read | None:
    parts = split_top(_bare_brackets(text), r"\cup")
    if len(parts) < 2:
        return None
    return Read(kind=Kind.UNION, text=text, items=tuple(read(part) for part in parts))


def _inequality(text: str) -> Read | None:
    """`x < 3`, `2 \\le x < 5` and `3 > x` as the intervals that they are."""
    alternatives = re.split(r"\\text\s*\{\s*or\s*\}|(?<![A-Za-z\\])or(?![A-Za-z])", text)
    if len(alternatives) > 1:
        parts = [_inequality(part.strip()) for part in alternatives]
        known = tuple(part for part in parts if part is not None)
        return Read(kind=Kind.UNION, text=text, items=known, name=known[0].name) if len(known) == len(parts) else None
    parts_and_signs = [part.strip() for part in _ORDER.split(text)]
    terms, signs = parts_and_signs[::2], [s.replace(r"\le", "<=").replace(r"\ge", ">=") for s in parts_and_signs[1::2]]
    if not signs or len(terms) > 3 or any(not term for term in terms):
        return None
    if signs[0][0] == ">":
        terms, signs = terms[::-1], [s.replace(">", "<") for s in reversed(signs)]
    if any(sign[0] != "<" for sign in signs):
        return None
    at = next((n for n, term in enumerate(terms) if re.fullmatch(r"[A-Za-z]", term)), None)
    if at is None or (len(terms) == 3 and at != 1):
        return None
    low, high = (terms[at - 1] if at else r"-\infty"), (terms[at + 1] if at + 1 < len(terms) else r"\infty")
    left = "[" if at and signs[at - 1] == "<=" else "("
    right = "]" if at < len(signs) and signs[at] == "<=" else ")"
    kind = Kind.TUPLE if left + right == "()" else Kind.RANGE
    return Read(kind=kind, text=text, items=(read(low), read(high)), brackets=left + right, name=terms[at])


def _bracketed(text: str) -> Read | None:
    is_set = text.startswith((r"\{", r"\lbrace"))  # of one element, too; `{5}` is a LaTeX group
    text = _bare_brackets(text)
    if text in ("{}", r"\emptyset"):
        return Read(kind=Kind.SET, text=text)
    if not text or text[0] not in "([{" or closing(text, 0) != len(text) - 1:
        return None
    brackets, inner = text[0] + text[-1], text[1:-1].strip()
    parts = _parts(inner)
    if len(parts) < 2 and not is_set:
        return read(inner) if inner else None
    kind = {"()": Kind.TUPLE, "{}": Kind.SET}.get(brackets, Kind.RANGE)
    return Read(kind=kind, text=text, items=tuple(read(part) for part in parts), brackets=brackets)


def _bare_brackets(text: str) -> str:
    r"""`\{` as `{`: where a LaTeX group and a set are told apart, the group has no top-level comma."""
    return text.replace(r"\{", "{").replace(r"\}", "}").replace(r"\lbrace", "{").replace(r"\rbrace", "}")


def _list(text: str) -> Read | None:
    parts = _parts(_AND.sub(", ", text)) if _AND.search(text) or "," in text else split_top(text, ":")
    if len(parts) < 2 or not all(parts):
        return None
    brackets = "" if "," in text or _AND.search(text) else ":"
    return Read(kind=Kind.BARE, text=text, items=tuple(read(part) for part in parts), brackets=brackets)


def _parts(text: str) -> list[str]:
    """The elements of a list. A comma without a blank after it belongs to a number where others have blanks."""
    spaced = split_top(text, ", ")
    if len(spaced) > 1 and all(NUMBER.fullmatch(part) for part in spaced):
        return spaced
    return split_top(text, ",") if "," in text else split_top(text, ";")


def _word(text: str) -> Read | None:
    plain = re.sub(r"\\(?:text|mathrm|textbf)\s*\{([^{}]*)\}", r"\1", text).strip()
    if not _WORD.fullmatch(plain) or _FUNCTION.match(plain) or re.search(r"\b[a-z]\b.*\b[a-z]\b", plain):
        return None
    if len(plain) > 3 or not plain.isalpha() or plain.lower() in ("yes", "no", "on", "off"):
        return Read(kind=Kind.WORD, text=" ".join(plain.lower().split()))
    return None

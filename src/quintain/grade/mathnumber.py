"""Numbers as people write them: signs, separators, fractions, powers of ten, percents, currencies, units."""

from __future__ import annotations

import re
from enum import StrEnum
from fractions import Fraction

import msgspec


class Kind(StrEnum):
    NUMBER = "number"
    WORD = "word"
    BARE = "bare"  # a list without brackets
    TUPLE = "tuple"  # or an open interval: they are written alike
    SET = "set"
    RANGE = "range"  # [a, b], [a, b), (a, b]
    UNION = "union"
    MATRIX = "matrix"
    EQUATION = "equation"
    FORMULA = "formula"


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """`value` and `unit` (as written, without plural; "%", "$" and "degree" are units) are those of a NUMBER; `items`
    the parts of what has parts, `brackets` what stood around them; `name` what was said to have this value."""

    kind: Kind
    text: str
    value: Fraction = Fraction(0)
    unit: str = ""
    items: tuple[Read, ...] = ()
    brackets: str = ""
    name: str = ""


NUMBER = re.compile(
    r"(?P<sign>[+-]?)\s*(?P<before>[$€£¥₹])?\s*(?P<inner>-?)(?:"
    r"(?P<whole>\d+)?\s*\\frac\s*(?:\{\s*(?P<sign_n>-?)(?P<n>\d+)\s*\}\s*\{\s*(?P<d>\d+)\s*\}|(?P<n1>\d)(?P<d1>\d))"
    r"|(?:(?P<mixed>\d+) )?(?P<a>\d+)\s*/\s*(?P<b>\d+)"
    r"|(?P<grouped>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?: \d{3})+(?:\.\d+)?)"
    r"|(?P<plain>\d+\.?\d*|\.\d+)"
    r")(?:\s*(?:\\times|\\cdot|\*)\s*10\s*\^\s*(?:\{\s*(?P<power>[+-]?\d{1,4})\s*\}|(?P<power1>\d))|[eE](?P<e>[+-]?\d{1,4}))?"
)
_TEN_TO = re.compile(r"(?P<sign>-?)10\s*\^\s*(?:\{\s*(?P<power>[+-]?\d{1,4})\s*\}|(?P<power1>\d))")
_UNIT = re.compile(
    r"\s*(?:(?P<mark>%|[€£¥₹$])|(?P<degree>\^\\circ)\s*(?P<scale>[CFK]?)"
    r"|\\(?:text|mathrm|textrm|mbox|operatorname)\s*\{(?P<text>[^{}]*)\}(?P<power>\^\{?[23]\}?)?"
    r"|\s(?P<words>[A-Za-z]+(?:[ /\-.][A-Za-z]+){0,3}\.?)(?P<power1>\^\{?[23]\}?)?)\s*"
)
#: Words for units that have several, and units of the same sort as multiples of the first.
_SAME_UNIT = {
    "dollar": "$", "usd": "$", "euro": "€", "eur": "€", "pound": "£", "percent": "%", "per cent": "%", "deg": "degree",
    "meter": "m", "metre": "m", "centimeter": "cm", "centimetre": "cm", "millimeter": "mm", "kilometer": "km",
    "kilometre": "km", "gram": "g", "kilogram": "kg", "second": "s", "sec": "s", "minute": "min", "hour": "h",
    "hr": "h", "liter": "l", "litre": "l", "milliliter": "ml", "feet": "ft", "foot": "ft", "inches": "in", "inch": "in",
}
_MULTIPLES = {
    "mm": ("length", Fraction(1, 1000)), "cm": ("length", Fraction(1, 100)), "m": ("length", Fraction(1)),
    "km": ("length", Fraction(1000)), "g": ("mass", Fraction(1)), "kg": ("mass", Fraction(1000)),
    "mg": ("mass", Fraction(1, 1000)), "s": ("time", Fraction(1)), "min": ("time", Fraction(60)),
    "h": ("time", Fraction(3600)), "ml": ("volume", Fraction(1, 1000)), "l": ("volume", Fraction(1)),
}


def read_number(text: str) -> Read | None:
    """The NUMBER that a cleaned text is, None where it is none or cannot be held exactly."""
    ten = _TEN_TO.fullmatch(text)
    if ten:
        power = Fraction(10) ** int(ten["power"] or ten["power1"])
        return Read(kind=Kind.NUMBER, text=text, value=-power if ten["sign"] else power)
    match = NUMBER.match(text)
    if match is None or len(match.group()) > 4000:
        return None
    unit = match["before"] or ""
    rest = text[match.end():]
    if rest.strip():
        found = _UNIT.fullmatch(rest)
        if found is None:
            return None
        after = _unit_of(found)
        if unit and after and after != unit:
            return None
        unit = unit or after
    value = _value_of(match)
    return None if value is None else Read(kind=Kind.NUMBER, text=text, value=value, unit=unit)


def _value_of(match: re.Match[str]) -> Fraction | None:
    """None where a denominator is 0."""
    numerator, denominator = match["n"] or match["n1"] or match["a"], match["d"] or match["d1"] or match["b"]
    if numerator is not None:
        if int(denominator) == 0:
            return None
        value = Fraction(int(numerator), int(denominator))
        if match["sign_n"]:
            value = -value
        value += int(match["whole"] or match["mixed"] or 0)
    else:
        value = Fraction((match["grouped"] or match["plain"]).replace(",", "").replace(" ", ""))
    value *= Fraction(10) ** int(match["power"] or match["power1"] or match["e"] or 0)
    return -value if (match["sign"] == "-") != (match["inner"] == "-") else value


def _unit_of(match: re.Match[str]) -> str:
    if match["mark"]:
        return match["mark"]
    if match["degree"]:
        return "degree" + match["scale"]
    written = " ".join((match["text"] or match["words"] or "").lower().strip(" .").split())
    squared = written.startswith(("square ", "sq ", "cubic "))
    power = re.sub(r"\D", "", match["power"] or match["power1"] or "")
    if squared:
        first, _, written = written.partition(" ")
        power = "3" if first == "cubic" else "2"
    singular = written[:-1] if len(written) > 3 and written.endswith("s") and not written.endswith("ss") else written
    unit = _SAME_UNIT.get(written) or _SAME_UNIT.get(singular) or singular
    return unit + (f"^{power}" if power else "")


def is_unit(text: str) -> str | None:
    """The unit that stands after a formula, None for what is none."""
    found = _UNIT.fullmatch(text)
    return _unit_of(found) if found else None


def in_base_unit(number: Read) -> tuple[str, Fraction] | None:
    """(sort, value) of a number whose unit is a multiple of a known one."""
    row = _MULTIPLES.get(number.unit)
    return (row[0], number.value * row[1]) if row else None

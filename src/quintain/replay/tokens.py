"""What kind of words differ between two outputs: times of day, addresses, names that nobody chose, durations. Pure.

Two texts are cut into words and laid beside each other; each pair of unlike words is judged by what both of them are,
and times by whether they differ by just as much as the two runs lay apart.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

#: Of each text so much is looked at, and so many words.
LOOKED_AT_CHARS = 100_000
LOOKED_AT_WORDS = 4_000
_SLACK_SECONDS = 5.0
_DAY = 86_400.0


class Kind(StrEnum):
    CLOCK = "clock"
    ADDRESS = "address"
    UNIQUE = "unique name"
    DURATION = "duration"
    NUMBER = "number"
    WORD = "word"
    ORDER = "order"


class When(NamedTuple):
    """When the two texts were written, in Unix seconds, how long their commands took at most, and when the host was
    booted."""

    then: float
    now: float
    wall_seconds: float = 0.0
    booted: float = 0.0


_TIME = r"\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?"
_WORD = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T _]" + _TIME + r")?|" + _TIME + r"|\d{4}-\d{3,}|"
    r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}|"
    r"[\w./-]*\btmp[\w./-]*|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\w+|[^\w\s]"
)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,16}")
_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-([0-9a-fA-F])[0-9a-fA-F]{3}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_TEMPORARY = re.compile(r"[\w./-]*\btmp[\w./-]*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_FORMATS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d", "%H:%M:%S")


def kinds_of(before: str, after: str, when: When) -> Counter[Kind]:
    """How many pairs of unlike words of each kind the texts have; empty for equal texts."""
    old, new = before[:LOOKED_AT_CHARS], after[:LOOKED_AT_CHARS]
    if old != new and sorted(old.splitlines()) == sorted(new.splitlines()):
        return Counter({Kind.ORDER: 1})
    found: Counter[Kind] = Counter()
    one, other = _WORD.findall(old)[:LOOKED_AT_WORDS], _WORD.findall(new)[:LOOKED_AT_WORDS]
    if len(one) == len(other):
        pairs = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
    else:
        pairs = []
        for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, one, other, autojunk=True).get_opcodes():
            if tag != "equal":
                wide = max(i2 - i1, j2 - j1)
                pairs += zip([*one[i1:i2], *[""] * (wide - i2 + i1)], [*other[j1:j2], *[""] * (wide - j2 + j1)],
                             strict=True)
    if len(pairs) > 1 and sorted(one) == sorted(other):
        return Counter({Kind.ORDER: 1})
    for a, b in pairs:
        found[kind_of_pair(a, b, when)] += 1
    return found


def kind_of_pair(before: str, after: str, when: When) -> Kind:
    """What two unlike words are."""
    if _ADDRESS.fullmatch(before) and _ADDRESS.fullmatch(after):
        return Kind.ADDRESS
    one, other = _UUID.fullmatch(before), _UUID.fullmatch(after)
    if one and other:
        return Kind.CLOCK if one.group(1) == other.group(1) == "1" else Kind.UNIQUE
    if _TEMPORARY.fullmatch(before) and _TEMPORARY.fullmatch(after):
        return Kind.UNIQUE
    if _is_clock(before, after, when):
        return Kind.CLOCK
    if _NUMBER.fullmatch(before) and _NUMBER.fullmatch(after):
        return _kind_of_numbers(float(before), float(after), "." in before + after, when)
    return Kind.WORD


def _kind_of_numbers(before: float, after: float, fractional: bool, when: When) -> Kind:
    slack = _SLACK_SECONDS + when.wall_seconds
    for scale in (1.0, 1e3, 1e6, 1e9):
        if abs(before / scale - when.then) <= slack and abs(after / scale - when.now) <= slack:
            return Kind.CLOCK
        up_then, up_now = when.then - when.booted, when.now - when.booted
        if when.booted and abs(before / scale - up_then) <= slack and abs(after / scale - up_now) <= slack:
            return Kind.CLOCK
    if fractional and min(before, after) >= 0 and max(before, after) <= 2 * when.wall_seconds + 0.05:
        return Kind.DURATION
    return Kind.NUMBER


def _is_clock(before: str, after: str, when: When) -> bool:
    for form in _FORMATS:
        one, other = _parsed(before, form), _parsed(after, form)
        if one is None or other is None:
            continue
        apart = other - one
        if form == "%Y-%m-%d":  # of whole days only, in whatever time zone
            return abs(one - when.then) <= 1.6 * _DAY and abs(other - when.now) <= 1.6 * _DAY
        if form == "%H:%M:%S":
            wrong = (apart - (when.now - when.then)) % _DAY
            return min(wrong, _DAY - wrong) <= _SLACK_SECONDS + when.wall_seconds
        return abs(apart - (when.now - when.then)) <= _SLACK_SECONDS + when.wall_seconds
    return False


def _parsed(word: str, form: str) -> float | None:
    plain = re.sub(r"[.,]\d+$", "", word).replace("_", "T").replace(" ", "T")
    try:
        return datetime.strptime(plain, form).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None

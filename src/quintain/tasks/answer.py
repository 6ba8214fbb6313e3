"""Tasks whose answer is one value: a number, a formula, a word."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class AnswerKind(StrEnum):
    """What sort of value is expected, and so when two are the same: mathematically; as text, blanks and case aside; or
    as the program that made the question says (`AnswerSuite.scorer`)."""

    MATH = "math"
    TEXT = "text"
    PROCEDURAL = "procedural"


class AnswerSuite(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="suite", tag="answer",
):
    """One expected answer. `scorer` names the generator of a procedural question (`reasoning_gym:leg_counting`), and
    `entry` is the question as it made it, in JSON: what it needs to score an answer. The one test is called 'answer'.
    """

    expected: str
    kind: AnswerKind = AnswerKind.TEXT
    scorer: str = ""
    entry: str = ""

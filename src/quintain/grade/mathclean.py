"""An answer's text without what does not belong to the answer: markdown, delimiters, boxes, trailing marks, spacing."""

from __future__ import annotations

import re
import unicodedata
from itertools import accumulate

#: No answer is longer; one that is longer is no answer to a question with one.
MAX_CHARS = 2_000
MAX_DEPTH = 40

_SIGNS = str.maketrans({
    "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": "/", "π": r"\pi ",
    "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "∪": r"\cup ",
    "∅": r"\emptyset ", "∈": r"\in ", "±": r"\pm ", "∓": r"\mp ",
    "°": r"^\circ ", "²": "^2", "³": "^3", "√": r"\sqrt ", "⁄": "/", "’": "'", "“": '"', "”": '"',
})
_COMMANDS = (
    (re.compile(r"\\(?:left|right|bigl|bigr|Bigl|Bigr|big|Big)(?![A-Za-z])\s*\.?(?=[\s()\[\]|\\{}<>]|$)"), ""),
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\(?:displaystyle|textstyle|limits|boldsymbol)(?![A-Za-z])"), ""),
    (re.compile(r"\\leq(?![A-Za-z])"), r"\\le"), (re.compile(r"\\geq(?![A-Za-z])"), r"\\ge"),
    (re.compile(r"\\lt(?![A-Za-z])"), "<"), (re.compile(r"\\gt(?![A-Za-z])"), ">"),
    (re.compile(r"\\(?:varnothing|O)(?![A-Za-z])"), r"\\emptyset"),
    (re.compile(r"\\(?:q?quad|thinspace)(?![A-Za-z])|\\[,;:! ]|~"), " "),
    (re.compile(r"\{,\}"), ","), (re.compile(r"\\%"), "%"), (re.compile(r"\^\s*\{\s*\\circ\s*\}"), r"^\\circ"),
    (re.compile(r"\\degree(?:s)?(?![A-Za-z])"), r"^\\circ"),
)
_WRAPPED = (
    re.compile(r"\*\*(.+)\*\*", re.S), re.compile(r"__(.+)__", re.S), re.compile(r"\*([^*]+)\*", re.S),
    re.compile(r"`+([^`]+)`+", re.S), re.compile(r"\$\$([^$]+)\$\$", re.S), re.compile(r"\$((?:[^$\\]|\\.)+)\$", re.S),
    re.compile(r"\\\((.+)\\\)", re.S), re.compile(r"\\\[(.+)\\\]", re.S), re.compile(r'"([^"]+)"', re.S),
    re.compile(r"\*\*(.+)()", re.S), re.compile(r"(.+?)\*\*()", re.S),  # bold that was opened or closed elsewhere
)
_BOXES = re.compile(r"\\(?:boxed|fbox|framebox|text|textbf|textit|mathrm|mathbf|mathit|mbox|operatorname)\s*\{")


def cleaned(text: str) -> str:
    """The answer in a plain form of LaTeX on one line. Raises ValueError for one of more than MAX_CHARS characters,
    with brackets more than MAX_DEPTH deep, or with half of a surrogate pair."""
    if len(text) > MAX_CHARS:
        raise ValueError(f"expected at most {MAX_CHARS} characters, found {len(text)}")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("expected text, found half of a surrogate pair")
    deepest = max(accumulate((char in "([{") - (char in ")]}") for char in text), default=0)
    if deepest > MAX_DEPTH:
        raise ValueError(f"expected brackets at most {MAX_DEPTH} deep, found {deepest}")
    found = unicodedata.normalize("NFKC", text.translate(_SIGNS)).translate(_SIGNS).strip()
    before = None
    while found != before:
        before = found
        found = _unwrapped(found)
    for pattern, by in _COMMANDS:
        found = pattern.sub(by, found)
    found = _unwrapped(" ".join(found.split()))
    return found.replace(r"\$", "$")


def _unwrapped(text: str) -> str:
    """One layer less of what stands around an answer; the same when there is none."""
    text = text.strip()
    for pattern in _WRAPPED:
        match = pattern.fullmatch(text)
        if match:
            return match.group(1).strip()
    match = _BOXES.match(text)
    if match and (end := closing(text, match.end() - 1)) == len(text) - 1:
        return text[match.end() : end].strip()
    if text[-1:] in ".,;:" and not text.endswith("..."):
        return text[:-1].rstrip()
    return text


def closing(text: str, start: int) -> int | None:
    """Where the bracket that opens at `start` closes; None if it does not. `\\{` and `\\}` count as brackets of their
    own kind; half-open intervals close with either sort."""
    depth = 0
    position = start
    while position < len(text):
        char = text[position]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                return position
        position += 1
    return None


def split_top(text: str, separator: str) -> list[str]:
    """The parts between separators that stand in no bracket, without blanks around them."""
    parts, depth, begun = [], 0, 0
    position = 0
    while position < len(text):
        char = text[position]
        depth += (char in "([{") - (char in ")]}")
        if depth == 0 and text.startswith(separator, position):
            parts.append(text[begun:position].strip())
            position += len(separator)
            begun = position
            continue
        position += 1
    return [*parts, text[begun:].strip()]


#: The answer stands at the end of a reply: what lies further back is not looked at.
_TAIL_CHARS, _LINE_CHARS, _MOST_BOXES = 100_000, 4 * MAX_CHARS, 16


def boxed_in(text: str) -> list[str]:
    r"""What stands in each of the last `\boxed{...}`, in order; one that is not closed is left out."""
    found = []
    for match in list(re.finditer(r"\\(?:boxed|fbox)\s*\{", text))[-_MOST_BOXES:]:
        end = closing(text, match.end() - 1)
        if end is not None:
            found.append(text[match.end() : end].strip())
    return found


_SAID = re.compile(
    r"(?:\*\*|#{1,6} )?(?:####|(?:the )?(?:final )?answer(?![a-z])\s*(?:is)?\s*:?\**\s*:?|A\s*:)(?P<answer>.+)", re.I)
_IS = re.compile(r"\banswer is\b\s*:?(?P<answer>.+)", re.I)


def extract_answer(reply: str) -> str | None:
    r"""The one answer of a reply, None where it gives none: what the last line with a `\boxed{...}` boxes, else the
    last `#### ...` (GSM8K), `Answer: ...`, `A: ...` line or "the answer is ...", else a reply of one line. Only the
    last counts, so that naming many is worth one try; several boxes in one line are a list."""
    reply = reply[-_TAIL_CHARS:]
    lines = [line.strip() for line in reply.splitlines() if line.strip()]
    with_box = next((line for line in reversed(lines) if r"\boxed" in line or r"\fbox" in line), "")
    boxes = boxed_in(with_box) or (boxed_in(reply)[-1:] if with_box else [])
    if boxes:
        return ", ".join(dict.fromkeys(boxes))
    for line in reversed(lines):
        said = _SAID.match(line[:_LINE_CHARS]) or _IS.search(line[:_LINE_CHARS])
        if said is not None and said["answer"].strip():
            return said["answer"].strip()
    return lines[0] if len(lines) == 1 else None

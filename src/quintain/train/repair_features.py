"""What the repairing policy reads: a faulty program, what it is meant for, and how its tests went, as small numbers.

Nothing here knows a function by its name: variables are numbered in the order in which they come, words of the
description are hashed, and of what a test found only its relation to what was expected is kept. So what is learned of
some functions can hold for others.
"""

from __future__ import annotations

import ast
import random
import re
import zlib
from collections.abc import Callable, Sequence

import msgspec

from quintain.train.repair_edits import ARITHMETIC, COMPARISONS, PAIRS, STEPS, Code, Edit, Token

WORDS = 256  # buckets of hashed words
MOST_WORDS = 18
MOST_NAMES = 10
MOST_TESTS = 3  # failing tests that are read
MOST_CODE = 120  # tokens of a program that are read

_SYMBOLS = (
    *COMPARISONS, *ARITHMETIC, *STEPS, *PAIRS, "=", "(", ")", "[", "]", "{", "}", ",", ":", ".", "def", "return", "if",
    "elif", "else", "for", "in", "while", "not", "None", "range", "len", "list", "str", "int", "abs", "ord", "chr",
    "append", "split", "count", "<function>", "<text>", "<name>", "<number>",
)
_NUMBERS = tuple(map(str, range(11)))
_SEEN = (
    "passed:none", "passed:few", "passed:half", "passed:most", "wrong", "raised", "late", "TypeError", "IndexError",
    "UnboundLocalError", "NameError", "ZeroDivisionError", "AttributeError", "ValueError", "KeyError", "other",
    "type", "none", "true", "false", "more", "less", "one-off", "zero", "negated", "longer", "shorter", "order",
    "front", "back", "empty", "same-length", "far", "in:empty", "in:one", "in:zero", "in:negative",
)
VOCABULARY = ("<pad>", *_SYMBOLS, *_NUMBERS, *(f"<v{n}>" for n in range(MOST_NAMES)), *_SEEN)
_ID = {text: number for number, text in enumerate(VOCABULARY)}
_FIRST_NAME = _ID["<v0>"]
#: How a number that is put in stands to the one that it replaces.
RELATIONS = ("other", "one less", "one more")
#: What a variable seems to be, from where it is bound or what the first test passes for it.
ROLES = ("none", "list", "text", "number", "other", "index", "item", "zero", "one", "rows", "string", "flag", "made")
#: How often a variable is read in the program as given, and whether it is bound before this place.
USES = ("none", "unread", "read once", "read more", "unbound")
#: What an attempt came to, compared with the program as given.
CHANGES = ("untried", "no change", "other", "better", "worse", "broken")


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """How one test went: `outcome` is `passed`, `wrong`, `late`, or the name of an exception. `call` and `expected` are
    Python as in the test, `found` what came instead, `line` where it was raised."""

    __test__ = False  # not a test class, whatever its name says to pytest

    call: str
    expected: str
    outcome: str = "passed"
    found: str | None = None
    line: int | None = None


class Tried(msgspec.Struct, frozen=True):
    """An earlier attempt at the same program: the edit, and how the tests went then."""

    edit: Edit
    tests: tuple[Test, ...]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """All that the policy knows when it proposes an edit."""

    about: str
    code: Code
    tests: tuple[Test, ...]
    tried: tuple[Tried, ...] = ()


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """Lists of small numbers. L tokens (code, then what was seen), W words, C candidate edits.

    `tokens_L` with `places_L`, `indents_L`, `columns_L` (place in the row), `marks_L` (1: an exception was raised in
    this row), `changes_L` (what an earlier edit of this token came to: CHANGES), `roles_L` and `uses_L` of variables
    (ROLES, USES); `words_W`; `sites_C` (an index into L), `puts_C` (a token), `relations_C` (RELATIONS), `put_roles_C`,
    `put_uses_C`, `open_C` (False: tried before).
    """

    tokens_L: list[int]
    indents_L: list[int]
    columns_L: list[int]
    marks_L: list[int]
    changes_L: list[int]
    roles_L: list[int]
    uses_L: list[int]
    words_W: list[int]
    sites_C: list[int]
    puts_C: list[int]
    relations_C: list[int]
    put_roles_C: list[int]
    put_uses_C: list[int]
    open_C: list[bool]


def renumbered(features: Features, dice: random.Random, *, hidden: float = 0.0) -> Features:
    """The same program in other words: its variables are numbered at random, and of the description's words a share
    `hidden` is left out."""
    numbers = list(range(MOST_NAMES))
    dice.shuffle(numbers)
    table = list(range(len(VOCABULARY)))
    table[_FIRST_NAME: _FIRST_NAME + MOST_NAMES] = [_FIRST_NAME + number for number in numbers]
    words = [word for word in features.words_W if dice.random() >= hidden] if hidden else features.words_W
    return msgspec.structs.replace(
        features, tokens_L=[table[token] for token in features.tokens_L],
        puts_C=[table[put] for put in features.puts_C], words_W=words)


def features_of(case: Case) -> Features:
    """The features of a case. Raises ValueError for a program longer than MOST_CODE tokens."""
    code = case.code
    if len(code.tokens) > MOST_CODE:
        raise ValueError(f"expected a program of at most {MOST_CODE} tokens, found {len(code.tokens)}")
    names = {name: _FIRST_NAME + at for at, name in enumerate(code.names[:MOST_NAMES])}
    lines = {test.line for test in case.tests if test.line is not None}
    tokens = [_token(code.tokens, at, names) for at in range(len(code.tokens))]
    seen = _seen(case.tests)
    changes = [0] * len(tokens)
    for tried in case.tried:
        changes[tried.edit.site] = CHANGES.index(change_of(case.tests, tried.tests))
    tail = [0] * len(seen)
    roles = _roles(case)
    uses = _uses(code)
    closed = {tried.edit for tried in case.tried}
    return Features(
        tokens_L=tokens + seen,
        indents_L=[min(t.indent // 4, 6) for t in code.tokens] + [7] * len(seen),
        columns_L=[min(c, 22) for c in _columns(code.tokens)] + [min(23 + n, 47) for n in range(len(seen))],
        marks_L=[int(t.line in lines) for t in code.tokens] + tail, changes_L=changes + tail,
        roles_L=[roles.get(t.text, 0) for t in code.tokens] + tail,
        uses_L=[uses(t.text, t.line) for t in code.tokens] + tail,
        words_W=_words(case.about, code),
        sites_C=[edit.site for edit in code.edits],
        puts_C=[_id(edit.text, names) for edit in code.edits],
        relations_C=[_relation(code.tokens[edit.site].text, edit.text) for edit in code.edits],
        put_roles_C=[roles.get(edit.text, 0) for edit in code.edits],
        put_uses_C=[uses(edit.text, code.tokens[edit.site].line) for edit in code.edits],
        open_C=[edit not in closed for edit in code.edits],
    )


def change_of(before: Sequence[Test], after: Sequence[Test]) -> str:
    """What an edit did to the tests: one of CHANGES."""
    was, now = sum(t.outcome == "passed" for t in before), sum(t.outcome == "passed" for t in after)
    if now > was:
        return "better"
    if [(t.outcome, t.found) for t in before] == [(t.outcome, t.found) for t in after]:
        return "no change"
    if now == was:
        return "other"
    crashed = all(t.outcome not in ("passed", "wrong") for t in after)
    return "broken" if crashed else "worse"


def _token(tokens: Sequence[Token], at: int, names: dict[str, int]) -> int:
    if at and tokens[at - 1].text == "def":
        return _ID["<function>"]
    return _id(tokens[at].text, names)


def _id(text: str, names: dict[str, int]) -> int:
    if text in names:
        return names[text]
    if text in _ID:
        return _ID[text]
    if text[:1] in "'\"":
        return _ID["<text>"]
    return _ID["<number>" if text.isdecimal() else "<name>"]


def _columns(tokens: Sequence[Token]) -> list[int]:
    places, row, nth = [], 0, 0
    for token in tokens:
        nth = 0 if token.line != row else nth + 1
        row = token.line
        places.append(nth)
    return places


def _relation(old: str, new: str) -> int:
    if old.isdecimal() and new.isdecimal() and abs(int(old) - int(new)) == 1:
        return 1 if int(new) < int(old) else 2
    return 0


def _roles(case: Case) -> dict[str, int]:
    """What each variable seems to be (ROLES)."""
    rows: dict[int, list[str]] = {}
    for token in case.code.tokens:
        rows.setdefault(token.line, []).append(token.text)
    found: dict[str, str] = {}
    names = case.code.names
    for nth, row in enumerate(rows.values()):
        if row[0] == "def":
            params = [text for text in row[2:] if text in names]
            found |= dict(zip(params, _passed(case.tests), strict=False))
            found |= {name: "other" for name in params if name not in found}
        elif row[0] == "for" and "in" in row:
            at = row.index("in")
            kind = "index" if row[at + 1: at + 2] == ["range"] else "item"
            found |= {name: kind for name in row[1:at] if name in names and name not in found}
        elif nth and len(row) > 2 and row[1] == "=" and row[0] in names and row[0] not in found:
            found[row[0]] = _value_kind(row[2:])
    return {name: ROLES.index(role) for name, role in found.items()}


def _value_kind(value: Sequence[str]) -> str:
    if value[0] in ("0", "1") and len(value) == 1:
        return "zero" if value[0] == "0" else "one"
    if value[0] == "[" or value[:2] == ["list", "("]:
        return "rows"
    if value[0][:1] in "'\"":
        return "string"
    return "flag" if value[0] in ("True", "False") else "made"


def _passed(tests: Sequence[Test]) -> list[str]:
    """What kinds of values the tests pass, by argument: the first that is no empty one."""
    for test in sorted(tests, key=lambda t: "[]" in t.call or "''" in t.call):
        try:
            call = ast.parse(test.call, mode="eval").body
            values = [ast.literal_eval(arg) for arg in call.args] if isinstance(call, ast.Call) else []
        except (ValueError, SyntaxError):
            continue
        return ["list" if isinstance(v, list) else "text" if isinstance(v, str)
                else "number" if isinstance(v, int) else "other" for v in values]
    return []


def _uses(code: Code) -> Callable[[str, int], int]:
    """Tells of a name at a line how it is used (USES)."""
    bound: dict[str, int] = {}
    sites = {edit.site for edit in code.edits}
    reads: dict[str, int] = {}
    for at, token in enumerate(code.tokens):
        if token.text in code.names:
            bound.setdefault(token.text, token.line)
            reads[token.text] = reads.get(token.text, 0) + (at in sites)

    def told(name: str, line: int) -> int:
        if name not in bound:
            return 0
        return 4 if bound[name] >= line and line > code.tokens[0].line else 1 + min(2, reads[name])

    return told


def _words(about: str, code: Code) -> list[int]:
    name = next((code.tokens[at + 1].text for at, t in enumerate(code.tokens[:-1]) if t.text == "def"), "")
    words = re.findall(r"[a-z]+|-?\d+", f"{name.replace('_', ' ')} {about}".lower())
    return [1 + zlib.crc32(word.encode()) % (WORDS - 1) for word in words[:MOST_WORDS]]


def _seen(tests: Sequence[Test]) -> list[int]:
    """How the tests went: the share that passed, then each of the first failing ones in a few words."""
    failing = [test for test in tests if test.outcome != "passed"]
    share = 1 - len(failing) / max(1, len(tests))
    said = ["passed:none" if share == 0 else "passed:few" if share < 0.5 else "passed:half" if share == 0.5
            else "passed:most"]
    for test in failing[:MOST_TESTS]:
        said += _told(test)
    return [_ID[word] for word in said]


def _told(test: Test) -> list[str]:
    given = _given(test.call)
    if test.outcome == "late":
        return ["late", *given]
    if test.outcome != "wrong":
        return ["raised", test.outcome if test.outcome in _ID else "other", *given]
    try:
        expected, found = ast.literal_eval(test.expected), ast.literal_eval(test.found or "")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ["wrong", "other", *given]
    return ["wrong", *compared(expected, found), *given]


def _given(call: str) -> list[str]:
    """What the first argument is, where that says something."""
    inside = call.partition("(")[2]
    if inside.startswith(("[]", "''", '""')):
        return ["in:empty"]
    if inside.startswith("-"):
        return ["in:negative"]
    if re.match(r"0[,)]", inside):
        return ["in:zero"]
    return ["in:one"] if re.match(r"\[-?\d+\]|'.'", inside) else []


def compared(expected: object, found: object) -> list[str]:
    """How a value that was found stands to the one expected, in words of the vocabulary."""
    if found is None:
        return ["none"]
    if isinstance(expected, bool) or isinstance(found, bool):
        return ["true" if found is True else "false" if found is False else "type"]
    if isinstance(expected, int) and isinstance(found, int):
        return _numbers(expected, found)
    if isinstance(expected, list | str) and type(expected) is type(found):
        return _rows(expected, found)
    return ["type"]


def _numbers(expected: int, found: int) -> list[str]:
    said = ["more" if found > expected else "less"]
    if found == 0:
        said.append("zero")
    if abs(found - expected) == 1:
        said.append("one-off")
    elif found == -expected:
        said.append("negated")
    elif abs(found - expected) > 10:
        said.append("far")
    return said


def _rows(expected: list[object] | str, found: list[object] | str) -> list[str]:
    if len(found) == len(expected):
        same = sorted(map(repr, found)) == sorted(map(repr, expected))
        said = ["same-length", *(["order"] if same else [])]
        pairs = [(e, f) for e, f in zip(expected, found, strict=True) if e != f]
        if all(isinstance(x, int) for pair in pairs for x in pair) and pairs and not same:
            said += _numbers(*pairs[0])  # type: ignore[arg-type]
        return said
    said = ["longer" if len(found) > len(expected) else "shorter"]
    short, long = sorted((expected, found), key=len)
    if not found:
        said.append("empty")
    elif abs(len(found) - len(expected)) == 1:
        said.append("one-off")
    if long[: len(short)] == short:
        said.append("front")
    elif long[len(long) - len(short):] == short:
        said.append("back")
    return said

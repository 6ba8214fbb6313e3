"""The small language of alert rules: what may be said over meters, read into a tree. Pure.

    ratio(increase(quintain_attempts_crashed_total[5m]), increase(quintain_attempts_closed_total[5m])) > 0.2

It has no names but metrics and these functions, no loops and no reach outside: reading a rule file is safe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from quintain.watch.metric import Kind, Metric
from quintain.watch.table import METRICS

_TOKEN = re.compile(
    r"\s*(?:(?P<duration>\d+(?:\.\d+)?(?:ms|s|m|h|d)\b)|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<text>\"(?:[^\"\\]|\\.)*\")|(?P<sign><=|>=|==|!=|[-+*/<>(){}\[\],=]))"
)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_DEPTH = 40
_LENGTH = 4000
#: What may be asked of a span of time, and of which metrics.
WINDOWED = {
    "rate": (Kind.COUNTER,), "increase": (Kind.COUNTER, Kind.HISTOGRAM), "mean": (Kind.HISTOGRAM,),
    "least": (Kind.GAUGE,), "most": (Kind.GAUGE,), "average": (Kind.GAUGE,), "change": (Kind.GAUGE,),
}
FUNCTIONS = (*WINDOWED, "quantile", "ratio", "absent")


class BadExpression(ValueError):
    """`position` counts characters from 0."""

    def __init__(self, text: str, position: int, message: str) -> None:
        super().__init__(f"character {position + 1}: {message}\n  {text}\n  {' ' * position}^")
        self.position = position
        self.message = message


class Node(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    position: int


class Number(Node, frozen=True, kw_only=True):
    value: float


class Selector(Node, frozen=True, kw_only=True):
    """Lines of a metric, added up. `matches` are (label, value, whether they are to be equal). `window_seconds` is
    `None` for the latest reading."""

    metric: str
    matches: tuple[tuple[str, str, bool], ...] = ()
    window_seconds: float | None = None


class Call(Node, frozen=True, kw_only=True):
    function: str
    arguments: tuple[Tree, ...]


class Binary(Node, frozen=True, kw_only=True):
    """`sign` is one of + - * / < <= > >= == != and or."""

    sign: str
    left: Tree
    right: Tree


Tree = Number | Selector | Call | Binary


class _Token(msgspec.Struct, frozen=True):
    kind: str
    text: str
    position: int


def parse(text: str, metrics: Mapping[str, Metric] = METRICS) -> Tree:
    """Raises BadExpression, with the place."""
    return _Parser(text, metrics).parse()


def parse_duration(text: str) -> float:
    """Seconds of `500ms`, `30s`, `5m`, `1.5h` or `1d`. Raises ValueError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text)
    if found is None:
        raise ValueError(f"expected a duration as in 30s, 5m or 1h, found {text!r}")
    return float(found[1]) * _UNITS[found[2]]


def windows(tree: Tree) -> list[float]:
    """All spans of time that a tree looks back over, in seconds."""
    match tree:
        case Selector(window_seconds=seconds):
            return [] if seconds is None else [seconds]
        case Call(arguments=arguments):
            return [seconds for one in arguments for seconds in windows(one)]
        case Binary(left=left, right=right):
            return windows(left) + windows(right)
    return []


def selectors(tree: Tree) -> list[Selector]:
    match tree:
        case Selector():
            return [tree]
        case Call(arguments=arguments):
            return [found for one in arguments for found in selectors(one)]
        case Binary(left=left, right=right):
            return selectors(left) + selectors(right)
    return []


class _Parser:
    def __init__(self, text: str, metrics: Mapping[str, Metric]) -> None:
        self._text = text
        self._metrics = metrics
        self._depth = 0
        if len(text) > _LENGTH:
            raise BadExpression(text[:60] + "…", 0, f"expected at most {_LENGTH} characters, found {len(text)}")
        self._tokens = self._read()
        self._at = 0

    def parse(self) -> Tree:
        tree = self._or()
        if self._now.kind != "end":
            raise self._wrong("an operator or the end")
        return tree

    def _read(self) -> list[_Token]:
        found: list[_Token] = []
        at, end = 0, len(self._text.rstrip())
        while at < end:
            matched = _TOKEN.match(self._text, at)
            if matched is None:
                place = at + len(self._text[at:]) - len(self._text[at:].lstrip())
                raise BadExpression(self._text, place, f"found {self._text[place]!r}, which means nothing here")
            kind = matched.lastgroup or ""
            found.append(_Token(kind, matched[kind], matched.start(kind)))
            at = matched.end()
        return [*found, _Token("end", "the end", end)]

    @property
    def _now(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._now
        self._at += 1
        return token

    def _is(self, text: str) -> bool:
        return self._now.text == text and self._now.kind in ("sign", "name")

    def _expect(self, text: str) -> _Token:
        if not self._is(text):
            raise self._wrong(f"{text!r}")
        return self._take()

    def _wrong(self, expected: str, token: _Token | None = None) -> BadExpression:
        token = token or self._now
        found = token.text if token.kind == "end" else repr(token.text)
        return BadExpression(self._text, token.position, f"expected {expected}, found {found}")

    def _row(self, signs: tuple[str, ...], below: str) -> Tree:
        tree: Tree = getattr(self, below)()
        while self._now.kind in ("sign", "name") and self._now.text in signs:
            token = self._take()
            tree = Binary(position=token.position, sign=token.text, left=tree, right=getattr(self, below)())
        return tree

    def _or(self) -> Tree:
        self._depth += 1
        if self._depth > _DEPTH:
            raise BadExpression(self._text, self._now.position, f"expected at most {_DEPTH} levels of parentheses")
        tree = self._row(("or",), "_and")
        self._depth -= 1
        return tree

    def _and(self) -> Tree:
        return self._row(("and",), "_comparison")

    def _comparison(self) -> Tree:
        tree = self._sum()
        if self._now.kind == "sign" and self._now.text in _COMPARISONS:
            token = self._take()
            tree = Binary(position=token.position, sign=token.text, left=tree, right=self._sum())
            if self._now.kind == "sign" and self._now.text in _COMPARISONS:
                raise self._wrong("and, or or the end (a comparison of a comparison says nothing)")
        return tree

    def _sum(self) -> Tree:
        return self._row(("+", "-"), "_product")

    def _product(self) -> Tree:
        return self._row(("*", "/"), "_one")

    def _one(self) -> Tree:
        token = self._take()
        if token.text == "-" and token.kind == "sign":
            if self._now.kind != "number":
                raise self._wrong("a number behind the minus")
            number = self._take()
            return Number(position=token.position, value=-float(number.text))
        if token.kind == "number":
            return Number(position=token.position, value=float(token.text))
        if token.text == "(" and token.kind == "sign":
            tree = self._or()
            self._expect(")")
            return tree
        if token.kind != "name" or token.text in ("and", "or"):
            raise self._wrong("a number, a metric, a function or a parenthesis", token)
        if self._is("("):
            return self._call(token)
        return self._selector(token)

    def _call(self, name: _Token) -> Tree:
        if name.text not in FUNCTIONS:
            raise self._wrong(f"one of {', '.join(FUNCTIONS)}", name)
        self._expect("(")
        arguments: list[Tree] = [self._or()]
        while self._is(","):
            self._take()
            arguments.append(self._or())
        self._expect(")")
        self._check(name, arguments)
        return Call(position=name.position, function=name.text, arguments=tuple(arguments))

    def _check(self, name: _Token, arguments: list[Tree]) -> None:
        count = 2 if name.text in ("quantile", "ratio") else 1
        if len(arguments) != count:
            raise BadExpression(self._text, name.position,
                                f"{name.text} takes {count} argument(s), found {len(arguments)}")
        last = arguments[-1]
        if name.text == "ratio":
            return
        if not isinstance(last, Selector):
            raise BadExpression(self._text, last.position, f"{name.text} asks a metric, found something else")
        if name.text == "absent":
            if last.window_seconds is not None:
                raise BadExpression(self._text, last.position, "absent looks at this moment: expected no [duration]")
            return
        kinds = (Kind.HISTOGRAM,) if name.text == "quantile" else WINDOWED[name.text]
        found = self._metrics[last.metric].kind
        if found not in kinds:
            wanted = " or ".join(kind.value for kind in kinds)
            raise BadExpression(self._text, last.position, f"{name.text} asks a {wanted}, {last.metric} is a "
                                f"{found.value}")
        if last.window_seconds is None:
            raise BadExpression(self._text, last.position, f"{name.text} looks back: expected {last.metric}[5m]")
        first = arguments[0]
        if name.text == "quantile" and not (isinstance(first, Number) and 0.0 <= first.value <= 1.0):
            raise BadExpression(self._text, first.position, "expected a number in [0, 1] as quantile's first")

    def _selector(self, name: _Token) -> Tree:
        declared = self._metrics.get(name.text)
        if declared is None:
            raise self._wrong(f"a metric{_like(name.text, self._metrics)}", name)
        matches: list[tuple[str, str, bool]] = []
        if self._is("{"):
            self._take()
            while not self._is("}"):
                matches.append(self._match(declared))
                if not self._is("}"):
                    self._expect(",")
            self._take()
        window = None
        if self._is("["):
            self._take()
            if self._now.kind != "duration":
                raise self._wrong("a duration as in 30s, 5m or 1h")
            window = parse_duration(self._take().text)
            if not 0.0 < window <= 7 * 86400.0:
                raise BadExpression(self._text, name.position, f"expected a window of up to 7d, found {window:g} s")
            self._expect("]")
        return Selector(position=name.position, metric=name.text, matches=tuple(matches), window_seconds=window)

    def _match(self, declared: Metric) -> tuple[str, str, bool]:
        label = self._take()
        if label.text not in declared.label_names:
            known = ", ".join(declared.label_names) or "none"
            raise self._wrong(f"a label of {declared.name} ({known})", label)
        if not (self._is("=") or self._is("!=")):
            raise self._wrong("= or !=")
        is_equal = self._take().text == "="
        if self._now.kind != "text":
            raise self._wrong('a value in quotes, as in kind="code"')
        value = re.sub(r"\\(.)", r"\1", self._take().text[1:-1])
        return label.text, value, is_equal


def _like(name: str, metrics: Mapping[str, Metric]) -> str:
    import difflib

    close = difflib.get_close_matches(name, metrics, n=1, cutoff=0.6)
    return f" (did you mean {close[0]}?)" if close else " of quintain.watch.METRICS, or a function"

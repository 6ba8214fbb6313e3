"""Signals read from what a program wrote: numbers and words in its output, by rules that come with the task.

Covers: a rule reads bounded text, and a rule that finds nothing measures nothing. Does not cover: the program wrote the
text itself, so a signal is worth what the program that writes it can be trusted with: have rules read the output of
trusted tools, or give them little weight. They count for solved attempts only, as every quality does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import msgspec

from quintain.grade.scalar import measured
from quintain.tasks import Item
from quintain.types import Attempt, Outcome, Score

#: So much of the end of a stream is read, and so much of a line.
READ_BYTES, LINE_CHARS = 256 * 1024, 4096


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one signal is found and what it is worth.

    `pattern` is a regular expression searched in each line: with a group, the number that the group holds; without,
    how many lines match. `path` (`a.b.0`) leads to a number in each line that is a JSON object. Exactly one of both is
    given, and the last number found counts. `worst` and `best` are the numbers that are worth 0 and 1, what lies
    between is in proportion; best may be the smaller. `stream` is "stdout" or "stderr", of the last run.
    Raises ValueError for a rule that cannot be one.
    """

    name: str
    pattern: str = ""
    path: str = ""
    stream: str = "stdout"
    worst: float = 0.0
    best: float = 1.0
    weight: float = 0.05

    def __post_init__(self) -> None:
        if bool(self.pattern) == bool(self.path):
            raise ValueError(f"rule {self.name!r}: expected a pattern or a path, found both or neither")
        if self.stream not in ("stdout", "stderr"):
            raise ValueError(f"rule {self.name!r}: expected stream stdout or stderr, found {self.stream!r}")
        if self.best == self.worst:
            raise ValueError(f"rule {self.name!r}: best and worst must differ, found {self.best!r} twice")
        try:
            groups = re.compile(self.pattern).groups
        except re.error as error:
            raise ValueError(f"rule {self.name!r}: pattern {self.pattern!r}: {error}") from None
        if groups > 1:
            raise ValueError(f"rule {self.name!r}: expected at most one group in the pattern, found {groups}")


def signal_of(rule: Rule, outcome: Outcome) -> Score:
    """The score of one rule on one outcome, None where it finds no number."""
    content = outcome.stdout if rule.stream == "stdout" else outcome.stderr
    lines = [line[:LINE_CHARS] for line in content[-READ_BYTES:].decode("utf-8", "replace").splitlines()]
    numbers = list(_by_path(rule, lines) if rule.path else _by_pattern(rule, lines))
    if not numbers:
        return measured(rule.name, None, weight=rule.weight, evidence=f"nothing in {rule.stream} says it")
    share = (numbers[-1] - rule.worst) / (rule.best - rule.worst)
    value = min(max(share, 0.0), 1.0) if share == share else share  # NaN stays what it is: not measured
    return measured(rule.name, value, weight=rule.weight, evidence=f"{rule.stream} says {numbers[-1]:g}")


def _by_pattern(rule: Rule, lines: Sequence[str]) -> Iterator[float]:
    found = [match for line in lines if (match := re.search(rule.pattern, line))]
    if not re.compile(rule.pattern).groups:
        yield float(len(found))
        return
    for match in found:
        number = _number(match.group(1))
        if number is not None:
            yield number


def _by_path(rule: Rule, lines: Sequence[str]) -> Iterator[float]:
    for line in lines:
        if not line.lstrip().startswith("{"):
            continue
        try:
            value: object = json.loads(line)
        except (ValueError, RecursionError):
            continue
        for step in rule.path.split("."):
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            else:
                value = None
        if isinstance(value, bool):
            yield float(value)
        elif isinstance(value, int | float) and (number := _number(str(value))) is not None:
            yield number


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", "")[:40])
    except ValueError:
        return None


class LogGrader:
    """A Grader: one score for each rule, read from the attempt's last outcome. Raises ValueError for two rules of one
    name."""

    name = "logs"

    def __init__(self, rules: Sequence[Rule]) -> None:
        names = [rule.name for rule in rules]
        if len(set(names)) < len(names):
            raise ValueError(f"expected rules with names of their own, found {names}")
        self._rules = tuple(rules)

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]:
        if not attempt.outcomes:
            return [measured(r.name, None, weight=r.weight, evidence="nothing was run") for r in self._rules]
        return [signal_of(rule, attempt.outcomes[-1]) for rule in self._rules]

"""The tables of rules: which fact tells of which trick."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import resources

import msgspec

from quintain.guard._facts import KINDS, Fact

#: The tables, one for each language and three for everything else.
TABLES = ("python", "javascript", "shell", "files", "said")


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule; the head of rules/python.toml tells the keys. `written_for` are rows of the catalogue of hacks."""

    detector: str
    kind: str | list[str]
    match: str
    why: str
    written_for: list[int] = msgspec.field(name="for")
    unless: str | None = None
    topic: str | None = None
    path: str | None = None

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise ValueError(f"kind: expected one of {', '.join(KINDS)}, found {kind!r}")

    @property
    def kinds(self) -> tuple[str, ...]:
        return (self.kind,) if isinstance(self.kind, str) else tuple(self.kind)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rule: list[Rule]


class Compiled(msgspec.Struct, frozen=True):
    """A rule with its expressions ready."""

    rule: Rule
    match: re.Pattern[str]
    unless: re.Pattern[str] | None
    topic: re.Pattern[str] | None
    path: re.Pattern[str] | None

    def speaks_of(self, fact: Fact) -> bool:
        """Whether the rule says something of this fact."""
        return bool(
            self.match.search(fact.text) and not (self.unless and self.unless.search(fact.text))
            and (self.path is None or self.path.search(fact.file)))


@cache
def table(name: str) -> tuple[Compiled, ...]:
    """The rules of one table."""
    text = resources.files("quintain.guard").joinpath("rules", f"{name}.toml").read_text("utf-8")
    return read_table(text, f"{name}.toml")


def read_table(text: str, file: str) -> tuple[Compiled, ...]:
    """The rules of a table in TOML. Raises ValueError naming the file, the rule and the key."""
    try:
        rules = msgspec.convert(tomllib.loads(text), _File).rule
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ValueError(f"{file}: {error}") from None
    made = []
    for number, rule in enumerate(rules, 1):
        parts: dict[str, re.Pattern[str] | None] = {}
        for key in ("match", "unless", "topic", "path"):
            pattern = getattr(rule, key)
            try:
                parts[key] = re.compile(pattern, re.I if key == "topic" else 0) if pattern is not None else None
            except re.error as error:
                raise ValueError(f"{file}: rule {number}: {key}: {error}: {pattern!r}") from None
        match = parts["match"]
        assert match is not None
        made.append(Compiled(rule, match, parts["unless"], parts["topic"], parts["path"]))
    return tuple(made)


def hits(
    rules: Sequence[Compiled], facts: Iterable[Fact], text: str, without: frozenset[int] = frozenset(),
) -> Iterator[tuple[Rule, Fact]]:
    """Each rule that speaks, with the first fact that it speaks of. `text` is what the task says: a rule whose topic it
    touches is silent. A rule that was written for rows of `without` and for nothing else is silent too."""
    by_kind: dict[str, list[Fact]] = {}
    for fact in facts:
        by_kind.setdefault(fact.kind, []).append(fact)
    for compiled in rules:
        rule = compiled.rule
        if rule.written_for and without.issuperset(rule.written_for):
            continue
        found = next((f for kind in rule.kinds for f in by_kind.get(kind, ()) if compiled.speaks_of(f)), None)
        if found is not None and not (compiled.topic and compiled.topic.search(text)):
            yield rule, found

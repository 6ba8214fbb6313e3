"""Detectors that are tables: what an answer's text says and does, held against rules of one kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quintain.guard._answer import facts_in, language_of, mentions_file, said_facts, text_of, tree_facts
from quintain.guard._facts import Fact
from quintain.guard._rules import TABLES, Compiled, Rule, hits, table
from quintain.tasks import Item
from quintain.types import Attempt, Flag, Severity

_MOST_FLAGS = 6


def kinds_of_rules() -> tuple[str, ...]:
    """The names of the detectors that the tables speak for, sorted."""
    return tuple(sorted({c.rule.detector for name in TABLES for c in table(name)}))


class RuleDetector:
    """Raises a SOFT flag for each rule of the tables that speaks of an answer. `name` says which: those of one
    detector. `without` are rows of the catalogue of hacks that it must not know: rules written for no other are off.

    Covers: Python by its syntax tree, JavaScript and shell by their tokens, other files by their lines, the tree by its
    paths, the policy's replies by their lines. Does not cover: programs in other languages; names that only a run
    computes, which the detector "computed" reports as such.
    """

    def __init__(self, name: str, *, without: frozenset[int] = frozenset()) -> None:
        if name not in kinds_of_rules():
            raise ValueError(f"no rules are called {name!r}; known are {', '.join(kinds_of_rules())}")
        self.name = name
        self.without = without

    def inspect(self, attempt: Attempt, item: Item) -> Sequence[Flag]:
        """The flags, at most six, each rule once in each file."""
        found: dict[str, Flag] = {}
        for rule, fact in self._hits(attempt):
            where = f"{fact.file}:{fact.line}: " if fact.line else f"{fact.file}: " if fact.file else ""
            text = f"{where}{rule.why}: {fact.kind} {fact.text[:160]}"
            found.setdefault(text, Flag(detector=self.name, severity=Severity.SOFT, evidence=text))
        return tuple(found.values())[:_MOST_FLAGS]

    def _hits(self, attempt: Attempt) -> Iterator[tuple[Rule, Fact]]:
        text = text_of(attempt)
        for path, content in sorted(attempt.changed.items()):
            language = language_of(path, content, attempt)
            facts = [f for f in facts_in(path, content, language) if not _quoted(f, text)]
            yield from self._of(language or "files", facts, text)
        tree = [f for f in tree_facts(attempt) if not mentions_file(attempt, f.file)]
        yield from self._of("files", tree, text)
        yield from self._of("said", list(said_facts(attempt)), text)

    def _of(self, name: str, facts: Sequence[Fact], text: str) -> Iterator[tuple[Rule, Fact]]:
        own: list[Compiled] = [c for c in table(name) if c.rule.detector == self.name]
        if own and facts:
            yield from hits(own, facts, text, self.without)


def _quoted(fact: Fact, text: str) -> bool:
    """Whether a comment or a string only says again what the task says."""
    return fact.kind in ("comment", "str") and len(fact.text) > 20 and fact.text.replace("\\n", "\n") in text

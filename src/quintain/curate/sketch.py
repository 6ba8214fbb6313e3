"""Which texts are nearly the same, found without comparing each with each: bottom-k sketches of shingles. Pure.

A sketch keeps the K smallest hashes of a text's shingles (Broder 1997; Cohen and Kaplan 2007): the share of the
smallest hashes of two texts together that both have is an unbiased estimate of the Jaccard similarity of their
shingles, and texts that share none of theirs need not be looked at. With at most K shingles it is exact.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Sequence

#: How many hashes a sketch keeps: the standard error of an estimate of 0.6 is then 0.04.
K = 128
_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def sketch(words: Sequence[str], *, size: int) -> tuple[int, ...]:
    """The K smallest 64-bit hashes of the runs of `size` words, sorted; of a shorter text, of all its words as one."""
    runs = {" ".join(words[at : at + size]) for at in range(max(1, len(words) - size + 1))} if words else set()
    hashes = {int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest(), "big") for run in runs}
    return tuple(sorted(hashes)[:K])


def similarity(one: Sequence[int], other: Sequence[int]) -> float:
    """The estimated Jaccard similarity of what two sketches were made of, in [0, 1]."""
    both = sorted({*one, *other})[:K]
    common = set(one) & set(other)
    return sum(value in common for value in both) / len(both) if both else 0.0


class Sketches:
    """Sketches by name, and who shares a hash with whom."""

    def __init__(self) -> None:
        self._sketches: dict[str, tuple[int, ...]] = {}
        self._holders: defaultdict[int, list[str]] = defaultdict(list)

    def add(self, name: str, made: tuple[int, ...]) -> None:
        self._sketches[name] = made
        for value in made:
            self._holders[value].append(name)

    def near(self, made: Sequence[int], *, least: float) -> list[tuple[str, float]]:
        """The names whose similarity is at least `least`, in the order in which they were added."""
        names = dict.fromkeys(name for value in made for name in self._holders.get(value, ()))
        order = {name: at for at, name in enumerate(self._sketches)}
        scored = [(name, similarity(made, self._sketches[name])) for name in names]
        return sorted(((n, s) for n, s in scored if s >= least), key=lambda pair: order[pair[0]])

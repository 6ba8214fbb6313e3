"""Many tasks, of which only the one in hand is loaded."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property

from quintain.tasks.base import Source
from quintain.tasks.exam import Item
from quintain.tasks.names import check_id
from quintain.types import Task, TaskError


class Taskset:
    """A view of a source: which of its tasks, and in which order. Views share the source and hold no item.

    Every view is a new Taskset; nothing is read before something is asked. Iterating yields `Item`s one by one; `len`
    and `ids` need the ids only, except below a `where`, which has to look into the tasks.
    """

    def __init__(self, source: Source, walk: Callable[[], Iterable[str]] | None = None) -> None:
        self._source = source
        self._walk: Callable[[], Iterable[str]] = walk or source.ids

    @classmethod
    def of(cls, items: Iterable[Item], *, name: str = "given") -> Taskset:
        """The taskset of items already in memory. Raises TaskError for an id that appears twice or may not be one."""
        return cls(_InMemory(name, items))

    @property
    def name(self) -> str:
        return self._source.name

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The ids in this view's order. Raises TaskError for an id that appears twice."""
        ids = tuple(self._walk())
        if len(set(ids)) != len(ids):
            twice = sorted({id for id, group in itertools.groupby(sorted(ids)) if len(list(group)) > 1})
            raise TaskError(f"task ids must be unique in {self.name}, found more than once: {', '.join(twice[:5])}")
        return ids

    @cached_property
    def _members(self) -> frozenset[str]:
        return frozenset(self.ids)

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) over ids and versions in order: same digest, same tasks in the same order. Reads them all."""
        return hashlib.sha256("".join(f"{t.id}\0{t.version}\n" for t in self.tasks()).encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Item]:
        return map(self._source.item, self.ids)

    def __contains__(self, id: object) -> bool:
        return id in self._members

    def __getitem__(self, id: str) -> Item:
        if id not in self._members:
            raise KeyError(f"{self.name} has no task {id!r}")
        return self._source.item(id)

    def __repr__(self) -> str:
        return f"Taskset({self.name!r})"

    def tasks(self) -> Iterator[Task]:
        """The tasks without their exams: all that a policy may see."""
        return (item.task for item in self)

    def include(self, *globs: str) -> Taskset:
        """Those whose id matches one of the globs (`*` crosses '/'); with no glob, all."""
        if not globs:
            return self
        return self._view(lambda: (id for id in self.ids if any(fnmatchcase(id, glob) for glob in globs)))

    def exclude(self, *globs: str) -> Taskset:
        """Those whose id matches none of the globs."""
        return self._view(lambda: (id for id in self.ids if not any(fnmatchcase(id, glob) for glob in globs)))

    def where(self, predicate: Callable[[Task], bool]) -> Taskset:
        """Those for which the predicate holds; it is asked when the view is first used, one task at a time."""
        return self._view(lambda: (id for id in self.ids if predicate(self._source.item(id).task)))

    def shuffle(self, seed: int) -> Taskset:
        """The same tasks in an order that the seed decides, the same on every machine."""

        def shuffled() -> Sequence[str]:
            ids = list(self.ids)
            random.Random(seed).shuffle(ids)
            return ids

        return self._view(shuffled)

    def take(self, n: int) -> Taskset:
        """The first n, or all when there are fewer. Below a `where`, it stops looking when it has them."""
        if n < 0:
            raise ValueError(f"take(n) needs n >= 0, found {n}")
        return self._view(lambda: itertools.islice(self._walk(), n))

    def _view(self, walk: Callable[[], Iterable[str]]) -> Taskset:
        return Taskset(self._source, walk)


class _InMemory:
    def __init__(self, name: str, items: Iterable[Item]) -> None:
        self.name = name
        self._items: dict[str, Item] = {}
        for item in items:
            if check_id(item.task.id) in self._items:
                raise TaskError(f"task ids must be unique in {name}, found more than once: {item.task.id}")
            self._items[item.task.id] = item

    def ids(self) -> Sequence[str]:
        return tuple(self._items)

    def item(self, id: str) -> Item:
        return self._items[id]

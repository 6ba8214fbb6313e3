"""How tasks come in: sources that give items on demand, and formats that make a taskset of a path."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from quintain.tasks.exam import Item

if TYPE_CHECKING:
    from quintain.tasks.taskset import Taskset

class Source(Protocol):
    """Where items come from: ids are cheap, an item is made when it is asked for.

    `ids` are in the source's own order and each appears once; `item` raises KeyError for an id that is not there and
    TaskError for a task that is not fit to be asked.
    """

    @property
    def name(self) -> str: ...

    def ids(self) -> Sequence[str]: ...

    def item(self, id: str) -> Item: ...


class PublicSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A set of tasks that has a name. `files` are the places where its file is looked for, relative to the data folder;
    `package` is the (top-level package, file inside it) of an installed distribution; `source` says where to get it."""

    name: str
    files: tuple[str, ...]
    source: str
    package: tuple[str, str] | None = None


@runtime_checkable
class Format(Protocol):
    """One way to write tasks down. A new one is one file: an object with these five, and a row in
    `quintain.tasks.formats` or an entry point in the group `quintain.tasks`."""

    @property
    def name(self) -> str: ...

    @property
    def about(self) -> str: ...

    @property
    def sets(self) -> tuple[PublicSet, ...]: ...

    def recognises(self, path: Path) -> bool:
        """Whether this path looks like this format; reads at most its first row or its directory."""
        ...

    def read(self, path: Path) -> Taskset:
        """Raises TaskError for what it cannot understand: file, line, what was expected, what was found."""
        ...


@runtime_checkable
class WritableFormat(Format, Protocol):
    """A format that can also be written."""

    def write(self, items: Iterable[Item], path: Path) -> tuple[str, ...]:
        """Write the items below `path`; the answer lists what the format could not say ('ID: what'). A task of which
        it cannot say something that decides a verdict is a TaskError, not a silent loss."""
        ...


@runtime_checkable
class NamedFormat(Format, Protocol):
    """A format whose sets are made on demand: `FORMAT:NAME` instead of `FORMAT:PATH`."""

    def named(self, name: str) -> Taskset:
        """Raises TaskError for a name that means nothing."""
        ...


class ByName(ABC):
    """What formats share whose sets have names and nothing else: no path is one of theirs, and no file is read."""

    sets: tuple[PublicSet, ...] = ()

    def recognises(self, path: Path) -> bool:
        return False

    def read(self, path: Path) -> Taskset:
        return self.named(str(path))

    @abstractmethod
    def named(self, name: str) -> Taskset:
        """Raises TaskError for a name that means nothing."""

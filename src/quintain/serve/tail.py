"""The journal of a run, followed by numbers while its writer writes: for streams of events and lists of episodes.

It reads the lines that docs/rooms/store.md describes: `{"crc":"89abcdef","event":{…},"blobs":{…}}`.
"""

from __future__ import annotations

import json
import threading
import zlib
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from quintain.serve.words import EpisodeView, Numbered, Sum
from quintain.types import Event, FaultKind, HouseError

_HEAD = b'{"crc":"'
_BODY_AT = len(_HEAD) + 8 + 2
_PIECE = 1024 * 1024
#: So much is read in between; more is a matter for a thread.
_LITTLE = 64 * 1024
#: A line longer than this is not read: no event that a journal was given is so long.
_LONGEST = 256 * 1024 * 1024

_T = TypeVar("_T")


class _Reward(msgspec.Struct):
    total: float
    solved: bool = False


class _Fault(msgspec.Struct):
    owner: str
    kind: str


class _Glance(msgspec.Struct):
    """What of an event a list of episodes needs; the rest is skipped unread."""

    event: str
    episode: str
    at_seconds: float
    task: str = ""
    kind: str = ""
    group: str = ""
    attempt: int = 1
    policy: str = ""
    reward: _Reward | None = None
    final: bool = False
    fault: _Fault | None = None
    stop: str | None = None


class _GlanceLine(msgspec.Struct):
    event: _Glance


class _RawLine(msgspec.Struct):
    event: msgspec.Raw
    blobs: dict[str, str] = {}


class _EventLine(msgspec.Struct):
    event: Event


class _Tally:
    """What the episodes of a run came to, kept as they change."""

    def __init__(self) -> None:
        self._closed = self._solved = self._rewarded = 0
        self._reward = 0.0
        self._faults: dict[str, int] = {}

    def count(self, view: EpisodeView, by: int) -> None:
        """An episode that now stands so (`by` 1), or no longer does (-1)."""
        self._closed += by * (view.stop is not None)
        self._solved += by * (view.solved is True)
        if view.reward is not None:
            self._rewarded += by
            self._reward = self._reward + by * view.reward if self._rewarded else 0.0
        if view.fault is not None:
            owner = view.fault.partition(":")[0]
            self._faults[owner] = self._faults.get(owner, 0) + by

    def sum(self, *, episodes: int, events: int) -> Sum:
        return Sum(
            episodes=episodes, closed=self._closed, solved=self._solved, events=events,
            faults={owner: count for owner, count in self._faults.items() if count},
            reward=self._reward / self._rewarded if self._rewarded else None)


class Tail:
    """One run's journal. `refresh` takes in what was written since; everything else is as of then. Any thread may ask.

    Raises HouseError(STORE_ERROR) for a whole line that is no record. An event that is not wholly written yet is not
    there yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mutex = threading.Lock()
        self._offsets = array("Q")
        self._end = 0
        self._open: dict[str, EpisodeView] = {}
        self._order: list[str] = []
        self._numbers: dict[str, array[int]] = {}
        self._tally = _Tally()

    def __len__(self) -> int:
        """How many events there are."""
        return len(self._offsets)

    def is_behind(self) -> bool:
        """Whether there is more in the file than was taken in; one stat."""
        try:
            return self._path.stat().st_size > self._end
        except OSError:
            return False

    def refresh_at_once(self) -> bool:
        """Take in what was written since where that is little and nobody else is at it, which costs less than a thread;
        False where it has to be `refresh`ed."""
        try:
            much = self._path.stat().st_size - self._end > _LITTLE
        except OSError:
            return True
        if much or not self._mutex.acquire(blocking=False):
            return False
        try:
            self._read_on()
        finally:
            self._mutex.release()
        return True

    def refresh(self) -> None:
        with self._mutex:
            self._read_on()

    def _read_on(self) -> None:
        if not self.is_behind():
            return
        try:
            with self._path.open("rb") as file:
                file.seek(self._end)
                while (line := file.readline(_LONGEST)).endswith(b"\n"):
                    self._take(line)
        except OSError as error:
            raise self._error(f"cannot be read: {error.strerror}") from None

    def episodes(self, *, after: int, limit: int) -> tuple[tuple[EpisodeView, ...], int | None]:
        """`limit` episodes from the `after`-th on, and where the next ones begin."""
        with self._mutex:
            found = tuple(self._open[id] for id in self._order[after: after + limit])
            return found, after + limit if after + limit < len(self._open) else None

    def episode(self, id: str) -> EpisodeView | None:
        return self._open.get(id)

    def events_of(self, episode: str) -> tuple[Event, ...]:
        """All events of an episode, every attempt; byte fields that lie among the blobs are empty."""
        with self._mutex:
            numbers = list(self._numbers.get(episode, ()))
        return tuple(_decoded(line, _EventLine).event for line in self._lines(numbers))

    def numbered(self, start: int, *, most_bytes: int = _PIECE) -> tuple[Numbered, ...]:
        """Events from number `start` on, as they were written; at least one if there is one, then as many as fit."""
        found, size = [], 0
        for number, line in enumerate(self._lines(range(start, len(self._offsets))), start):
            raw = _decoded(line, _RawLine)
            found.append(Numbered(number=number, event=raw.event, blobs=raw.blobs))
            size += len(line)
            if size >= most_bytes:
                break
        return tuple(found)

    def sum(self) -> Sum:
        with self._mutex:
            return self._tally.sum(episodes=len(self._open), events=len(self._offsets))

    def _lines(self, numbers: range | list[int]) -> Iterator[bytes]:
        if not numbers:
            return
        try:
            with self._path.open("rb") as file:
                for number in numbers:
                    yield self._line(file, number)
        except OSError as error:
            raise self._error(f"cannot be read: {error.strerror}") from None

    def _line(self, file: BinaryIO, number: int) -> bytes:
        file.seek(self._offsets[number])
        return b"{" + file.readline(_LONGEST)[_BODY_AT:-1]

    def _take(self, line: bytes) -> None:
        body = b"{" + line[_BODY_AT:-1]
        if not line.startswith(_HEAD) or line[len(_HEAD):len(_HEAD) + 8] != b"%08x" % zlib.crc32(body):
            raise self._error(f"byte {self._end}: expected a whole record, found damage")
        seen = _decoded(body, _GlanceLine).event
        self._numbers.setdefault(seen.episode, array("Q")).append(len(self._offsets))
        before = self._open.get(seen.episode)
        if before is None:
            self._order.append(seen.episode)
        self._open[seen.episode] = now = _advance(before, seen)
        if before is not None:
            self._tally.count(before, -1)
        self._tally.count(now, 1)
        self._offsets.append(self._end)
        self._end += len(line)

    def _error(self, message: str) -> HouseError:
        return HouseError(FaultKind.STORE_ERROR, f"{self._path.name}: {message}")


def _advance(view: EpisodeView | None, seen: _Glance) -> EpisodeView:
    if seen.event == "opened" or view is None:
        return EpisodeView(
            id=seen.episode, task=seen.task, kind=seen.kind, group=seen.group, attempt=seen.attempt, policy=seen.policy)
    changed: dict[str, Any] = {"seconds": seen.at_seconds}
    match seen.event:
        case "sampled":
            changed["turns"] = view.turns + 1
        case "graded" if seen.final and seen.reward is not None:
            changed |= {"reward": seen.reward.total, "solved": seen.reward.solved}
        case "broke" if seen.fault is not None:
            changed |= {"fault": f"{seen.fault.owner}: {seen.fault.kind}", "reward": None, "solved": None}
        case "closed":
            changed["stop"] = seen.stop
    return msgspec.structs.replace(view, **changed)


def _decoded(body: bytes, kind: type[_T]) -> _T:
    try:
        return _decoder(kind)(body)
    except msgspec.ValidationError:
        pass
    except (msgspec.DecodeError, UnicodeError):  # a lone surrogate in it
        try:
            return msgspec.convert(json.loads(body), kind)
        except (ValueError, msgspec.MsgspecError):
            pass
    raise HouseError(FaultKind.STORE_ERROR, "a record that this version cannot read")


def _decoder(kind: type[_T]) -> Callable[[bytes], _T]:
    found: Callable[[bytes], _T] | None = _DECODERS.get(kind)
    if found is None:
        found = _DECODERS[kind] = msgspec.json.Decoder(kind).decode
    return found


_DECODERS: dict[type, Callable[[bytes], Any]] = {}

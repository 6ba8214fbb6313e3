"""The open episodes of a gateway: what was recorded in each, and a file of it that outlives the process.

A record is with the kernel before the last piece of its reply goes out, so that a `kill -9` of the gateway loses
nothing that an agent was told whole; a host that loses its power may lose the last seconds. Keys are kept as sha256.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from quintain.serve.base import Asked, Exchange, Refused
from quintain.serve.capture import Captured
from quintain.types import Turn

_OPEN, _OVER = ".open.jsonl", ".jsonl"
GONE = "there is no such episode, or it is over"


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """The most that one episode may ask for: a loop that never ends must not sample for ever. `at_once` requests are
    answered at a time, the next gets 429. None: no bound."""

    turns: int | None = 1000
    sampled_tokens: int | None = None
    at_once: int | None = 32


class _Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun"):
    episode: str
    seed: int
    allowance: Allowance


class _Answered(msgspec.Struct, frozen=True, kw_only=True, tag="answered"):
    exchange: Exchange


class _Lost(msgspec.Struct, frozen=True, kw_only=True, tag="lost"):
    exchange: Exchange | None


class _Remembered(msgspec.Struct, frozen=True, kw_only=True, tag="remembered"):
    reply: str
    before: str | None
    messages: list[object]


_Line = _Begun | _Answered | _Lost | _Remembered


class Seat:
    """One open episode. `path` is the file of its records; None keeps them in memory only."""

    def __init__(self, begun: _Begun, path: Path | None) -> None:
        self.episode = begun.episode
        self.asked = 0
        self.lost = 0
        self.closed = False
        self.at_once = 0
        self.exchanges: list[Exchange] = []
        self.cut: list[Exchange] = []
        self.seed = begun.seed
        self.path = path
        self._allowance = begun.allowance
        self._sampled_tokens = 0
        self._memory: dict[str, tuple[str | None, list[object]]] = {}

    def begin(self) -> int:
        """The seed of one more request. Raises Refused(403) for an episode that has used up what it may."""
        turns, tokens = self._allowance.turns, self._allowance.sampled_tokens
        if self.closed:
            raise Refused(401, GONE)
        if turns is not None and self.asked >= turns:
            raise Refused(403, f"the episode is over: it may ask {turns} times")
        if tokens is not None and self._sampled_tokens >= tokens:
            raise Refused(403, f"the episode is over: it may sample {tokens} tokens")
        self.asked += 1
        return self.seed + self.asked - 1

    def enter(self) -> None:
        """Begin one request, to be followed by `leave`. Raises Refused(429) for one too many at once."""
        most = self._allowance.at_once
        if most is not None and self.at_once >= most:
            raise Refused(429, f"expected at most {most} requests of an episode at once, found more", retry_after="1")
        self.at_once += 1

    def leave(self) -> None:
        self.at_once -= 1

    def keep(self, asked: Asked, turn: Turn, began: float) -> None:
        """Raises Refused(401) for an episode that was closed meanwhile."""
        if self.closed:
            raise Refused(401, GONE)
        self._take(_Answered(exchange=_exchange(asked, turn, began)))

    def lose(self, asked: Asked, turn: Turn | None, began: float) -> None:
        """A request came to no whole reply; `turn` is what was sampled of it."""
        if not self.closed:
            self._take(_Lost(exchange=None if turn is None else _exchange(asked, turn, began)))

    def recall(self, reply: str) -> list[object]:
        found: list[list[object]] = []
        at: str | None = reply
        while at is not None:
            if at not in self._memory:
                raise Refused(400, f"expected previous_response_id of a reply of this episode, found {at!r}")
            at, messages = self._memory[at]
            found.append(messages)
        return [message for messages in reversed(found) for message in messages]

    def remember(self, reply: str, before: str | None, messages: Sequence[object]) -> None:
        if not self.closed:
            self._take(_Remembered(reply=reply, before=before, messages=list(messages)))

    def captured(self) -> Captured:
        return Captured(
            episode=self.episode, exchanges=tuple(self.exchanges), lost=self.lost, cut=tuple(self.cut))

    def again(self, line: _Line) -> None:
        """Take one record up again."""
        match line:
            case _Answered():
                self.exchanges.append(line.exchange)
            case _Lost():
                self.lost += 1
                self.cut += [] if line.exchange is None else [line.exchange]
            case _Remembered():
                self._memory[line.reply] = (line.before, line.messages)
        if isinstance(line, _Answered | _Lost) and line.exchange is not None:
            self._sampled_tokens += len(line.exchange.turn.output_token_ids or ())

    def _take(self, line: _Line) -> None:
        if self.path is not None:
            write(self.path, line)
        self.again(line)


class Seats:
    """All of them, by key. With `folder` those that a killed gateway left are open again, under the same keys; one
    gateway at a time may have a folder. Raises ValueError for a file that holds no episode."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._seats: dict[str, Seat] = {}
        self._digests: dict[str, str] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for path in sorted(folder.glob("*" + _OPEN)):
                if (seat := _read(path)) is not None:
                    self._put(path.name.removesuffix(_OPEN), seat)

    @property
    def episodes(self) -> tuple[str, ...]:
        return tuple(self._digests)

    def open(self, episode: str, seed: int, allowance: Allowance) -> str:
        """The key. Raises ValueError for an episode that is open."""
        if episode in self._digests:
            raise ValueError(f"expected an episode that is not open, found {episode!r}")
        key = secrets.token_urlsafe(24)
        digest = _digest(key)
        path = None if self._folder is None else self._folder / (digest + _OPEN)
        begun = _Begun(episode=episode, seed=seed, allowance=allowance)
        if path is not None:
            write(path, begun)
        self._put(digest, Seat(begun, path))
        return key

    def at(self, key: str) -> Seat | None:
        return self._seats.get(_digest(key))

    def of(self, episode: str) -> Seat:
        """Raises KeyError for an episode that is not open."""
        return self._seats[self._digests[episode]]

    def close(self, episode: str) -> Seat:
        """Raises KeyError for an episode that is not open. Its file stays, as a record."""
        digest = self._digests.pop(episode)
        seat = self._seats.pop(digest)
        seat.closed = True
        if seat.path is not None:
            seat.path.rename(seat.path.with_name(digest + _OVER))
        return seat

    def _put(self, digest: str, seat: Seat) -> None:
        self._seats[digest] = seat
        self._digests[seat.episode] = digest


def write(path: Path, line: _Line) -> None:
    """One line more, whole or not at all, unless the disk is full. Raises OSError."""
    content = msgspec.json.encode(line) + b"\n"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        while content:
            content = content[os.write(file, content):]
    finally:
        os.close(file)


def _read(path: Path) -> Seat | None:
    """The episode of a file; a last line that is not whole was told to nobody, and is cut off."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)
    seat: Seat | None = None
    decoder = msgspec.json.Decoder(_Line)
    for nth, text in enumerate(content[:whole].splitlines(), 1):
        try:
            line = decoder.decode(text)
        except msgspec.MsgspecError as error:
            raise ValueError(f"{path}:{nth}: expected a record of an episode: {error}") from error
        if isinstance(line, _Begun):
            seat = Seat(line, path)
        elif seat is not None:
            seat.again(line)
    if seat is None:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()  # killed before its key was told to anybody
        return None
    seat.asked = len(seat.exchanges) + seat.lost
    return seat


def _exchange(asked: Asked, turn: Turn, began: float) -> Exchange:
    return Exchange(conversation=asked.conversation, turn=turn, began_seconds=began, ended_seconds=time.time())


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:40]

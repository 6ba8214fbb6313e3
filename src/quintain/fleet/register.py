"""What was asked and what came of it, each exactly once: the part of a fleet that is not at-least-once.

A queue says who may work; it may forget, and hand out twice. The register says whose result counts: an episode that is
enrolled is open until one result is accepted, from the latest attempt that was begun, and from no other. (A
`store.Ledger` is an append-only file; this is a table that many processes change.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from quintain.fleet._card import Full, Place
from quintain.fleet._roll import Roll
from quintain.fleet._session import PostgresSession, Session, SqliteSession
from quintain.fleet._thread import Thread
from quintain.fleet.base import Job, Queue
from quintain.fleet.entries import Answer, Entry, Reconciled, Tally

_PAGE = 500


class Register:
    """One row for each episode, and one for each attempt at it, in SQLite (one host) or PostgreSQL (many).

    Made with `Register.open`; close it with `aclose`. Every call is one transaction and may be repeated after an error.
    What is written survives the death of any process; a power cut may cost a SQLite file its last rows, unless
    `power_safe`. Raises HouseError(STORE_ERROR) where the database cannot be reached or refuses.
    """

    def __init__(self, roll: Roll, thread: Thread) -> None:
        self._roll = roll
        self._thread = thread

    @classmethod
    async def open(
        cls, where: str | Path, *, clock: Callable[[], float] = time.time, power_safe: bool = False,
    ) -> Self:
        """`where` is the path of a file, or postgresql://USER:PASSWORD@HOST/DATABASE[?schema=NAME]."""
        text = str(where)
        if text.startswith(("postgresql://", "postgres://")):
            host = urlsplit(text)
            name = f"postgresql://{host.hostname or ''}{host.path}"  # without the password

            def session() -> Session:
                return PostgresSession(text, name)

            import_errors = _postgres_errors()
        else:
            name = text

            def session() -> Session:
                return SqliteSession(Path(where), power_safe=power_safe)

            import_errors = SqliteSession.errors
        thread = Thread(name, import_errors)
        try:
            roll = await thread.run(lambda: Roll(session(), clock=clock))
        except BaseException:
            await thread.aclose(lambda: None)
            raise
        return cls(roll, thread)

    async def enrol(self, jobs: Sequence[Job]) -> tuple[str, ...]:
        """Write down what is to be done, before it is put into a queue; the ids that are new. An id is enrolled once,
        for ever."""
        return tuple(await self._thread.run(lambda: self._roll.enrol(jobs)))

    async def begin(self, ids: Sequence[str], worker: str) -> dict[str, int]:
        """The number of the attempt that a worker begins, for each episode that is open still: for one that is missing
        there is nothing to do. From now on no earlier attempt can commit."""
        return await self._thread.run(lambda: self._roll.begin(ids, worker))

    async def accept(self, id: str, attempt: int, result: bytes, *, log: bytes | None = None) -> Answer:
        """Hand in a result. It counts if the episode is open and no later attempt was begun. `log` is kept with a
        result that counts: the episode's own journal, where nobody else can read it."""
        return await self._thread.run(lambda: self._roll.accept(id, attempt, result, log))

    async def log(self, id: str) -> bytes | None:
        """The log that came with the result that counts, if one did."""
        return await self._thread.run(lambda: self._roll.log(id))

    async def fail(self, id: str, attempt: int, reason: str) -> bool:
        """An attempt ended without a result; the episode stays open. False where it had ended already."""
        return await self._thread.run(lambda: self._roll.fail(id, attempt, reason))

    async def abandon(self, id: str, reason: str) -> bool:
        """An episode will have no result. False where it was not open."""
        return await self._thread.run(lambda: self._roll.abandon(id, reason))

    async def withdraw(self, id: str, reason: str) -> bool:
        """Abandon an episode that nobody is at: whoever is handed its job finds nothing to do. False where it was not
        open, or an attempt at it is running; what runs may end, and counts."""
        return await self._thread.run(lambda: self._roll.withdraw(id, reason))

    async def attend(self, worker: str, room: bytes) -> None:
        """A worker says that it is there, and with how much room, in its own words."""
        await self._thread.run(lambda: self._roll.attend(worker, room))

    async def attending(self, within_seconds: float) -> tuple[tuple[str, bytes], ...]:
        """Who has said so within that time, and what."""
        return tuple(await self._thread.run(lambda: self._roll.attending(within_seconds)))

    async def reopen(self, id: str) -> bool:
        """Try an abandoned episode again. False where it was not abandoned."""
        return await self._thread.run(lambda: self._roll.reopen(id))

    async def unsettled(self, *, after: str = "", most: int = _PAGE) -> tuple[Job, ...]:
        """Open episodes, in the order of their ids, from behind one on."""
        return tuple(await self._thread.run(lambda: self._roll.unsettled(after, most)))

    async def closed(self, *, since_seconds: float = 0.0) -> tuple[tuple[str, float], ...]:
        """Which episodes were settled or abandoned at or after a time, and when, oldest first. Clocks of hosts differ:
        ask again from a while before the latest that is known."""
        return tuple(await self._thread.run(lambda: self._roll.closed(since_seconds)))

    async def entry(self, id: str) -> Entry | None:
        return await self._thread.run(lambda: self._roll.entry(id))

    async def tally(self) -> Tally:
        return await self._thread.run(self._roll.tally)

    async def aclose(self) -> None:
        await self._thread.aclose(self._roll.close)


async def reconcile(register: Register, queue: Queue) -> Reconciled:
    """Make a queue hold what the register says is open, and nothing be lost with a queue.

    Jobs that the queue keeps are not added twice; dead ones are abandoned with the reason of their death. Run it when a
    fleet starts, when a queue was lost, and now and then.
    """
    abandoned = 0
    for kept in await queue.peek(place=Place.DEAD, most=1_000_000):
        abandoned += await register.abandon(kept.job.id, f"dead in the queue: {kept.reason}")
    put, after = 0, ""
    while jobs := await register.unsettled(after=after):
        try:
            put += len(await queue.put(jobs))
        except Full:
            return Reconciled(put=put, abandoned=abandoned, full=True)
        after = jobs[-1].id
    return Reconciled(put=put, abandoned=abandoned)


def _postgres_errors() -> tuple[type[Exception], ...]:
    """What the driver raises; nothing where it is not installed, which the session says better."""
    try:
        import psycopg
    except ImportError:
        return ()
    return (psycopg.Error,)

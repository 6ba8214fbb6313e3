"""The register's tables and statements: one row for each episode, one for each attempt at it. Not async."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quintain.fleet._session import Session
from quintain.fleet.base import Job
from quintain.fleet.entries import Answer, End, Entry, State, Tally, Tried

_SCHEMA = (
    """create table if not exists episodes(
        id text primary key, kind text not null, tenant text not null, priority bigint not null, body {bytes} not null,
        enrolled {float} not null, attempt bigint not null default 0, state text not null default 'open',
        accepted bigint, result {bytes}, reason text not null default '', settled {float})""",
    """create table if not exists attempts(
        id text not null references episodes, attempt bigint not null, worker text not null, began {float} not null,
        ended {float}, outcome text not null default 'running', reason text not null default '', result {bytes},
        primary key (id, attempt))""",
    """create table if not exists logs(
        id text not null references episodes, attempt bigint not null, log {bytes} not null, primary key (id))""",
    "create table if not exists workers(worker text primary key, room {bytes} not null, seen {float} not null)",
    "create index if not exists episodes_open on episodes(id) where state = 'open'",
    "create index if not exists episodes_closed on episodes(settled) where state <> 'open'",
)
_COLUMNS = "id, kind, tenant, priority, body, attempt, state, accepted, result, reason"


class Roll:
    """Each method is one transaction. What decides whether a result counts is one `update` with a condition, so that
    two who commit at once cannot both succeed, in either database."""

    def __init__(self, session: Session, *, clock: Callable[[], float]) -> None:
        self._session = session
        self._clock = clock
        with session.transaction():
            session.ask(session.alone)
            for statement in (*session.prelude, *_SCHEMA):
                session.ask(statement.format(**session.types))

    def close(self) -> None:
        self._session.close()

    def enrol(self, jobs: Sequence[Job]) -> list[str]:
        now = self._clock()
        with self._session.transaction():
            return [job.id for job in jobs if self._session.ask(
                "insert into episodes(id, kind, tenant, priority, body, enrolled) values (?, ?, ?, ?, ?, ?) "
                "on conflict (id) do nothing returning id",
                (job.id, job.kind, job.tenant, job.priority, job.body, now))]

    def begin(self, ids: Sequence[str], worker: str) -> dict[str, int]:
        now = self._clock()
        found: dict[str, int] = {}
        with self._session.transaction():
            for id in sorted(set(ids)):  # in one order, so that two who begin several cannot wait for each other
                rows = self._session.ask(
                    "update episodes set attempt = attempt + 1 where id = ? and state = 'open' returning attempt",
                    (id,))
                if not rows:
                    continue
                found[id] = rows[0][0]
                self._session.ask("update attempts set outcome = 'lost', ended = ? "
                                  "where id = ? and outcome = 'running'", (now, id))
                self._session.ask("insert into attempts(id, attempt, worker, began) values (?, ?, ?, ?)",
                                  (id, found[id], worker, now))
        return found

    def accept(self, id: str, attempt: int, result: bytes, log: bytes | None) -> Answer:
        now = self._clock()
        with self._session.transaction():
            if self._session.ask(
                "update episodes set state = 'settled', accepted = attempt, result = ?, settled = ? "
                "where id = ? and attempt = ? and attempt > 0 and state = 'open' returning id",
                (result, now, id, attempt)):
                self._session.ask("update attempts set outcome = 'accepted', ended = ? where id = ? and attempt = ?",
                                  (now, id, attempt))
                if log is not None:
                    self._session.ask("insert into logs(id, attempt, log) values (?, ?, ?)", (id, attempt, log))
                return Answer.ACCEPTED
            rows = self._session.ask("select accepted from episodes where id = ? and attempt >= ? and 0 < ?",
                                     (id, attempt, attempt))
            if not rows:
                return Answer.UNKNOWN
            if rows[0][0] == attempt:
                return Answer.ACCEPTED  # said once more, by somebody who did not hear the answer
            self._session.ask(
                "update attempts set outcome = 'late', ended = ?, result = ? "
                "where id = ? and attempt = ? and outcome in ('running', 'lost')", (now, result, id, attempt))
            return Answer.LATE

    def fail(self, id: str, attempt: int, reason: str) -> bool:
        with self._session.transaction():
            return self._end(id, attempt, End.FAILED, reason, self._clock())

    def abandon(self, id: str, reason: str) -> bool:
        now = self._clock()
        with self._session.transaction():
            found = self._session.ask("update episodes set state = 'abandoned', reason = ?, settled = ? "
                                      "where id = ? and state = 'open' returning attempt", (reason, now, id))
            if found:
                self._end(id, found[0][0], End.LOST, reason, now)
            return bool(found)

    def withdraw(self, id: str, reason: str) -> bool:
        """Abandon it if nobody is at it. In PostgreSQL an attempt that begins at this very moment is late."""
        with self._session.transaction():
            return bool(self._session.ask(
                "update episodes set state = 'abandoned', reason = ?, settled = ? where id = ? and state = 'open' and "
                "not exists (select 1 from attempts where attempts.id = episodes.id and outcome = 'running') "
                "returning id", (reason, self._clock(), id)))

    def attend(self, worker: str, room: bytes) -> None:
        now = self._clock()
        with self._session.transaction():
            self._session.ask("insert into workers(worker, room, seen) values (?, ?, ?) "
                              "on conflict (worker) do update set room = excluded.room, seen = excluded.seen",
                              (worker, room, now))

    def attending(self, within: float) -> list[tuple[str, bytes]]:
        with self._session.transaction():
            rows = self._session.ask("select worker, room from workers where seen >= ? order by worker",
                                     (self._clock() - within,))
        return [(worker, bytes(room)) for worker, room in rows]

    def reopen(self, id: str) -> bool:
        with self._session.transaction():
            return bool(self._session.ask("update episodes set state = 'open', reason = '', settled = null "
                                          "where id = ? and state = 'abandoned' returning id", (id,)))

    def unsettled(self, after: str, most: int) -> list[Job]:
        with self._session.transaction():
            rows = self._session.ask("select id, kind, tenant, priority, body from episodes "
                                     "where state = 'open' and id > ? order by id limit ?", (after, most))
        return [Job(id=id, kind=kind, tenant=tenant, priority=priority, body=bytes(body))
                for id, kind, tenant, priority, body in rows]

    def closed(self, since: float) -> list[tuple[str, float]]:
        with self._session.transaction():
            rows = self._session.ask("select id, settled from episodes where state <> 'open' and settled >= ? "
                                     "order by settled, id", (since,))
        return [(id, settled) for id, settled in rows]

    def entry(self, id: str) -> Entry | None:
        with self._session.transaction():
            rows = self._session.ask(f"select {_COLUMNS} from episodes where id = ?", (id,))
            tried = self._session.ask("select attempt, worker, began, ended, outcome, reason, result from attempts "
                                      "where id = ? order by attempt", (id,))
        if not rows:
            return None
        [(_, kind, tenant, priority, body, attempt, state, accepted, result, reason)] = rows
        return Entry(
            job=Job(id=id, kind=kind, tenant=tenant, priority=priority, body=bytes(body)), attempt=attempt,
            state=State(state), accepted=accepted, result=None if result is None else bytes(result), reason=reason,
            tried=tuple(Tried(
                attempt=n, worker=worker, began_seconds=began, ended_seconds=ended, end=End(outcome), reason=why,
                result=None if late is None else bytes(late),
            ) for n, worker, began, ended, outcome, why, late in tried),
        )

    def log(self, id: str) -> bytes | None:
        with self._session.transaction():
            rows = self._session.ask("select log from logs where id = ?", (id,))
        return bytes(rows[0][0]) if rows else None

    def tally(self) -> Tally:
        with self._session.transaction():
            states: dict[str, int] = dict(self._session.ask("select state, count(*) from episodes group by state"))
            ends: dict[str, int] = dict(self._session.ask("select outcome, count(*) from attempts group by outcome"))
        return Tally(**{state.value: states.get(state.value, 0) for state in State},
                     attempts={end.value: ends.get(end.value, 0) for end in End})

    def _end(self, id: str, attempt: int, end: End, reason: str, now: float) -> bool:
        return bool(self._session.ask(
            "update attempts set outcome = ?, reason = ?, ended = ? "
            "where id = ? and attempt = ? and outcome = 'running' returning id", (end.value, reason, now, id, attempt)))

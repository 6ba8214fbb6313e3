"""A queue as a table of SQLite: the same rules as `Shelf`, as statements, each method one transaction.

The counts of each kind are changed in the transaction that changes its jobs, so that they cannot go astray; they make
bounds, statistics and the choice between kinds cheap whatever the queue holds. Not async: one thread calls it.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from quintain.fleet._card import Count, Lease, Place, Terms
from quintain.fleet._thread import open_database
from quintain.fleet.base import Job, Kept, Line, Stats
from quintain.types import FaultKind, HouseError

_VERSION = 1
_READY, _DELAYED, _LEASED, _DEAD = range(4)
_PLACES = (Place.READY, Place.DELAYED, Place.LEASED, Place.DEAD)
_COLUMNS = ("ready", "delayed", "leased", "dead")
_ASKED_AT_ONCE = 500
_CLOCKS_APART = 60.0  # seconds by which a lease may end later than any can that is given now
_DUE_AT_ONCE = 1000  # leases and delays that run out are dealt with in one transaction, this many at most

_SCHEMA = (
    "create table if not exists terms(one integer primary key check (one = 1), terms text not null)",
    "create table if not exists kinds(kind integer primary key, name text unique not null, stopped integer not null "
    "default 0, ready integer not null default 0, delayed integer not null default 0, leased integer not null default "
    "0, dead integer not null default 0)",
    # autoincrement: a number never comes twice, and it is half of the fence
    "create table if not exists jobs(seq integer primary key autoincrement, id text unique not null, kind integer not "
    "null references kinds, tenant text not null, priority integer not null, put real not null, rank real not null, "
    "place integer not null, until real not null, attempt integer not null default 0, deliveries integer not null "
    "default 0, worker text not null default '', reason text not null default '', body blob not null)",
    # partial: a job is in one of them only, and the order in which jobs are handed out is the index itself
    "create index if not exists ready on jobs(kind, rank, seq) where place = 0",
    "create index if not exists due on jobs(until) where place in (1, 2)",
    "create index if not exists dead on jobs(seq) where place = 3",
)


class Table:
    """The file of a queue, opened. Terms that are given become those of the queue; without any it keeps its own."""

    def __init__(self, path: Path, terms: Terms | None, *, clock: Callable[[], float], power_safe: bool) -> None:
        self._path = path
        self._clock = clock
        self._db = open_database(path, power_safe=power_safe)
        self._kinds: dict[str, int] = {}
        self._deltas: dict[tuple[int, int], int] = {}
        self._latest = math.inf
        with self._change():
            [version] = self._db.execute("pragma user_version").fetchone()
            if version not in (0, _VERSION):
                found = f"expected a queue of version {_VERSION}, found {version}"
                raise HouseError(FaultKind.STORE_ERROR, f"{path}: {found}")
            for statement in _SCHEMA:
                self._db.execute(statement)
            self._db.execute(f"pragma user_version = {_VERSION}")
            self.terms = self._settled(terms)

    def close(self) -> None:
        self._db.close()

    def put(self, jobs: Sequence[Job], delay_seconds: float) -> tuple[list[str], int]:
        """The ids that were added, and how many of `jobs` were dealt with before a kind was at its bound."""
        added: list[str] = []
        with self._change() as now:
            self._tick(now)
            place, until = (_DELAYED, now + delay_seconds) if delay_seconds > 0 else (_READY, now)
            room: dict[int, int] = {}
            for nth, job in enumerate(jobs):
                kind = self._kind(job.kind)
                if kind not in room:
                    room[kind] = self._room(kind)
                if room[kind] <= 0:
                    if self._db.execute("select 1 from jobs where id = ?", (job.id,)).fetchone():
                        continue
                    return added, nth
                made = self._db.execute(
                    "insert into jobs(id, kind, tenant, priority, put, rank, place, until, body) "
                    "values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict(id) do nothing",
                    (job.id, kind, job.tenant, job.priority, now, self.terms.rank(now, job.priority), place, until,
                     job.body),
                )
                if made.rowcount:
                    room[kind] -= 1
                    self._count(kind, place, 1)
                    added.append(job.id)
        return added, len(jobs)

    def news(self) -> bool:
        """Whether a lease may find something: a look that takes no lock."""
        now = self._clock()
        if now < self._latest:
            return True
        [found] = self._db.execute(
            "select exists(select 1 from kinds where ready > 0 and not stopped) "
            "or exists(select 1 from jobs where place in (1, 2) and until <= ?)", (now,)).fetchone()
        return bool(found)

    def lease(self, worker: str, most: int, kinds: Collection[str] | None) -> list[Lease[Job]]:
        found: list[Lease[Job]] = []
        with self._change() as now:
            self._tick(now)
            until = now + self.terms.lease_seconds
            for kind, name, share in self._shares(most, kinds):
                rows = self._db.execute(
                    "update jobs set place = 2, attempt = attempt + 1, deliveries = deliveries + 1, worker = ?, "
                    "until = ? where seq in (select seq from jobs where kind = ? and place = 0 order by rank, seq "
                    "limit ?) returning rank, seq, id, tenant, priority, attempt, body",
                    (worker, until, kind, share)).fetchall()
                self._count(kind, _READY, -len(rows))
                self._count(kind, _LEASED, len(rows))
                found += [
                    Lease(id=id, attempt=attempt, worker=worker, until_seconds=until, kind=name, token=str(seq),
                          body=Job(id=id, kind=name, tenant=tenant, priority=priority, body=body))
                    for _, seq, id, tenant, priority, attempt, body in sorted(rows, key=lambda row: row[:2])
                ]
        return found

    def extend(self, leases: Sequence[Lease[Job]]) -> list[Lease[Job]]:
        with self._change() as now:
            until = now + self.terms.lease_seconds
            stood = [lease for lease, _ in self._standing(leases, now)]
            self._db.executemany("update jobs set until = ? where seq = ?", [(until, int(one.token)) for one in stood])
            return [msgspec.structs.replace(lease, until_seconds=until) for lease in stood]

    def ack(self, leases: Sequence[Lease[Job]]) -> list[Lease[Job]]:
        with self._change() as now:
            stood = [lease for lease, _ in self._standing(leases, now)]
            self._db.executemany("delete from jobs where seq = ?", [(int(lease.token),) for lease in stood])
            for lease in stood:
                self._count(self._kind(lease.kind), _LEASED, -1)
            return stood

    def nack(
        self, leases: Sequence[Lease[Job]], delay_seconds: float, reason: str, *, counts: bool,
    ) -> list[Lease[Job]]:
        with self._change() as now:
            stood = self._standing(leases, now)
            for lease, deliveries in stood:
                self._give_back(int(lease.token), self._kind(lease.kind), deliveries - (not counts), reason,
                                now + delay_seconds if delay_seconds > 0 else None)
            return [lease for lease, _ in stood]

    def dead(self, leases: Sequence[Lease[Job]], reason: str) -> list[Lease[Job]]:
        with self._change() as now:
            stood = [lease for lease, _ in self._standing(leases, now)]
            self._db.executemany("update jobs set place = 3, worker = '', reason = ? where seq = ?",
                                 [(reason, int(lease.token)) for lease in stood])
            for lease in stood:
                self._move(self._kind(lease.kind), _LEASED, _DEAD)
            return stood

    def revive(self, ids: Sequence[str]) -> list[str]:
        found: list[str] = []
        with self._change() as now:
            self._tick(now)
            for id in ids:
                row = self._db.execute(
                    "update jobs set place = 0, put = ?1, until = ?1, rank = ?1 - priority * ?2, deliveries = 0, "
                    "reason = '' where id = ?3 and place = 3 returning kind",
                    (now, self.terms.ageing_seconds, id)).fetchone()
                if row is not None:
                    self._move(row[0], _DEAD, _READY)
                    found.append(id)
        return found

    def peek(self, place: Place, kind: str | None, most: int) -> list[Kept]:
        at = _PLACES.index(place)
        with self._change() as now:
            self._tick(now)
            rows = [row for number, name in self._db.execute("select kind, name from kinds order by kind").fetchall()
                    if kind in (None, name) for row in self._first(at, number, name, most)]
        rows.sort(key=lambda row: row[0])
        return [kept for _, kept in rows[:most]]

    def stats(self) -> Stats:
        with self._change() as now:
            self._tick(now)
        oldest = "(select put from jobs where jobs.kind = kinds.kind and place = 0 order by rank, seq limit 1)"
        rows = self._db.execute(
            f"select name, stopped, ready, delayed, leased, dead, {oldest} from kinds order by name").fetchall()
        return Stats(terms=self.terms, kinds={
            name: Line(count=Count(ready=ready, delayed=delayed, leased=leased, dead=dead), stopped=bool(stopped),
                       oldest_seconds=None if put is None else max(0.0, now - put))
            for name, stopped, ready, delayed, leased, dead, put in rows
        })

    def drain(self, kind: str | None, most: int) -> list[Job]:
        with self._change() as now:
            self._tick(now)
            rows = self._db.execute(
                "delete from jobs where seq in (select seq from jobs where place in (0, 1) and (?1 is null or kind = "
                "(select kind from kinds where name = ?1)) order by seq limit ?2) "
                "returning seq, kind, place, id, tenant, priority, body", (kind, most)).fetchall()
            names = dict(self._db.execute("select kind, name from kinds").fetchall())
            for row in rows:
                self._count(row[1], row[2], -1)
        return [Job(id=id, kind=names[number], tenant=tenant, priority=priority, body=body)
                for _, number, _, id, tenant, priority, body in sorted(rows)]

    def stop(self, kind: str, *, stopped: bool) -> None:
        with self._change():
            self._db.execute("update kinds set stopped = ? where kind = ?", (stopped, self._kind(kind)))

    @contextmanager
    def _change(self) -> Iterator[float]:
        """One transaction, with its time. Counts are written with what they count; what is raised undoes it all."""
        self._db.execute("begin immediate")
        try:
            yield self._clock()
            self._flush()
        except BaseException:
            self._db.execute("rollback")
            self._kinds.clear()  # one of them may have been made in what is undone
            raise
        else:
            self._db.execute("commit")
        finally:
            self._deltas.clear()

    def _settled(self, given: Terms | None) -> Terms:
        row = self._db.execute("select terms from terms").fetchone()
        kept = msgspec.json.decode(row[0], type=Terms) if row else None
        terms = given or kept or Terms()
        if terms != kept:
            self._db.execute("insert into terms values (1, ?1) on conflict(one) do update set terms = ?1",
                             (msgspec.json.encode(terms).decode(),))
        return terms

    def _kind(self, name: str) -> int:
        number = self._kinds.get(name)
        if number is None:
            self._db.execute("insert into kinds(name) values (?) on conflict(name) do nothing", (name,))
            number = int(self._db.execute("select kind from kinds where name = ?", (name,)).fetchone()[0])
            self._kinds[name] = number
        return number

    def _room(self, kind: int) -> int:
        [kept] = self._db.execute(
            "select ready + delayed + leased + dead from kinds where kind = ?", (kind,)).fetchone()
        moved = sum(delta for (of, _), delta in self._deltas.items() if of == kind)
        return self.terms.bound - int(kept) - moved

    def _shares(self, most: int, kinds: Collection[str] | None) -> list[tuple[int, str, int]]:
        """(kind, its name, how many of it), so that kinds have equally many leases out as far as they go."""
        self._flush()
        head = "(select rank from jobs where jobs.kind = kinds.kind and place = 0 order by rank, seq limit 1)"
        rows = [row for row in self._db.execute(
            f"select kind, name, ready, leased, {head} from kinds where ready > 0 and not stopped").fetchall()
            if kinds is None or row[1] in kinds]
        given = dict.fromkeys((row[0] for row in rows), 0)
        for _ in range(most if len(rows) > 1 else 0):
            open_ = [row for row in rows if given[row[0]] < row[2]]
            if not open_:
                break
            given[min(open_, key=lambda row: (row[3] + given[row[0]], row[4]))[0]] += 1
        if len(rows) == 1:
            given[rows[0][0]] = most
        return [(row[0], row[1], given[row[0]]) for row in rows if given[row[0]]]

    def _flush(self) -> None:
        for (kind, place), delta in self._deltas.items():
            column = _COLUMNS[place]
            self._db.execute(f"update kinds set {column} = {column} + ? where kind = ?", (delta, kind))
        self._deltas.clear()

    def _tick(self, now: float) -> None:
        """Let leases and delays run out."""
        if now < self._latest:
            self._shorten(now)
        self._latest = now
        while rows := self._db.execute(
            "select seq, kind, place, attempt, deliveries, worker from jobs where place in (1, 2) and until <= ? "
            "order by until limit ?", (now, _DUE_AT_ONCE)).fetchall():
            for seq, kind, place, attempt, deliveries, worker in rows:
                if place == _LEASED:
                    self._give_back(seq, kind, deliveries, f"lease of attempt {attempt} ran out on {worker}", None)
                else:
                    self._db.execute("update jobs set place = 0 where seq = ?", (seq,))
                    self._move(kind, _DELAYED, _READY)

    def _shorten(self, now: float) -> None:
        """The clock may have been put back: a lease of before ends as one that is given now, not hours later."""
        until = now + self.terms.lease_seconds
        self._db.execute("update jobs set until = ? where place in (1, 2) and place = 2 and until > ?",
                         (until, until + _CLOCKS_APART))

    def _standing(self, leases: Sequence[Lease[Job]], now: float) -> list[tuple[Lease[Job], int]]:
        """The fence: the leases that still stand, each once, with how many deliveries of it count."""
        known: dict[int, tuple[int, int]] = {}
        for first in range(0, len(leases), _ASKED_AT_ONCE):
            numbers = [int(lease.token) for lease in leases[first:first + _ASKED_AT_ONCE]]
            marks = ",".join("?" * len(numbers))
            known |= {seq: (attempt, deliveries) for seq, attempt, deliveries in self._db.execute(
                f"select seq, attempt, deliveries from jobs where seq in ({marks}) and place = 2 and until > ?",
                (*numbers, now))}
        found: list[tuple[Lease[Job], int]] = []
        for lease in leases:
            attempt, deliveries = known.get(int(lease.token), (0, 0))
            if attempt == lease.attempt:
                found.append((lease, deliveries))
                del known[int(lease.token)]
        return found

    def _give_back(self, seq: int, kind: int, deliveries: int, reason: str, until: float | None) -> None:
        limit = self.terms.deliveries
        place = _DEAD if deliveries >= limit else _READY if until is None else _DELAYED
        if place == _DEAD:
            reason = f"delivery {deliveries} of {limit}: {reason or 'given back'}"
        self._db.execute("update jobs set place = ?, until = ?, deliveries = ?, worker = '', reason = ? where seq = ?",
                         (place, until or 0.0, deliveries, reason, seq))
        self._move(kind, _LEASED, place)

    def _move(self, kind: int, from_: int, to: int) -> None:
        self._count(kind, from_, -1)
        self._count(kind, to, 1)

    def _count(self, kind: int, place: int, delta: int) -> None:
        self._deltas[kind, place] = self._deltas.get((kind, place), 0) + delta

    def _first(self, place: int, kind: int, name: str, most: int) -> list[tuple[tuple[float, int], Kept]]:
        """The first of a kind in a place, each with what it is ordered by."""
        order = {_READY: "rank", _DEAD: "0.0"}.get(place, "until")
        condition = "place in (1, 2) and place = ?" if order == "until" else f"place = {place} and ? is not null"
        rows: list[tuple[float, int, str, str, int, bytes, float, int, float, str, str]] = self._db.execute(
            f"select {order}, seq, id, tenant, priority, body, put, attempt, until, worker, reason from jobs "
            f"where {condition} and kind = ? order by {order}, seq limit ?", (place, kind, most)).fetchall()
        return [((row[0], row[1]), Kept(
            job=Job(id=row[2], kind=name, tenant=row[3], priority=row[4], body=row[5]), place=_PLACES[place],
            put_seconds=row[6], attempt=row[7], until_seconds=row[8], worker=row[9], reason=row[10],
        )) for row in rows]


#: What the database raises.
ERRORS: tuple[type[Exception], ...] = (sqlite3.Error,)

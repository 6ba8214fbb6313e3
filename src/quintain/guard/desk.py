"""The review queue on the disk: cases that wait for people, and what people have said."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

import msgspec

from quintain.guard.audit import Drawn
from quintain.guard.cases import Case
from quintain.guard.review import (
    Added,
    Decided,
    Decision,
    Leased,
    Record,
    Refused,
    Standing,
    Stats,
    Undone,
    decide,
    fold_queue,
    give,
    stats,
    undo,
)
from quintain.store import Ledger, LocalBlobs
from quintain.types import FaultKind, HouseError


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A case to be added. `drawn` as in `Added`; `hack` tells the truth of a seed, and is `None` of every other."""

    case: Case
    source: str
    drawn: Drawn | None = None
    hack: bool | None = None


class Seed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """That a case is a seed, and its truth. Kept apart from what reviewers are shown."""

    case: str
    hack: bool


class Desk:
    """A folder with `queue.jsonl` (what was added, leased and decided), `blobs/` (the cases) and `seeds.jsonl`.

    Safe for many reviewers at once, in as many processes: each change is decided and appended under one lock. Nothing
    is ever overwritten; whoever dies in the middle of a review loses the lease after half an hour and nothing else.
    Raises HouseError(STORE_ERROR) for files that cannot be read or written, Refused for what the queue does not allow.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._queue: Ledger[Record] = Ledger(folder / "queue.jsonl", Record)  # type: ignore[arg-type]
        self._seeds: Ledger[Seed] = Ledger(folder / "seeds.jsonl", Seed)
        self._blobs = LocalBlobs(folder / "blobs")

    def add(self, entries: Iterable[Entry], *, now: float) -> tuple[Added, ...]:
        """Add what is not there yet (a source is added once), each under a random id. A seed is noted before it can be
        given to anybody."""
        made = []
        for entry in entries:
            content = self._blobs.put(msgspec.json.encode(entry.case))
            added = Added(case=secrets.token_hex(4), unix_seconds=now, content=content, source=entry.source,
                          task=entry.case.task, drawn=entry.drawn)
            made.append((added, entry.hack))

        def fresh(records: Iterable[Record]) -> list[Added]:
            known = {record.source for record in records if isinstance(record, Added)}
            new = {added.source: (added, hack) for added, hack in made if added.source not in known}
            seeds = [Seed(case=added.case, hack=hack) for added, hack in new.values() if hack is not None]
            self._seeds.change(lambda _: seeds)
            return [added for added, _ in new.values()]

        return tuple(record for record in self._queue.change(fresh) if isinstance(record, Added))

    def next(self, reviewer: str, *, now: float) -> tuple[Leased, Case] | None:
        """The next case for a reviewer, who holds it from now on; the same one when it is held already."""

        def lease(records: tuple[Record, ...] | Iterable[Record]) -> list[Leased]:
            found = give(tuple(records), reviewer=reviewer, now=now)
            return [] if found is None else [found]

        for record in self._queue.change(lease):
            assert isinstance(record, Leased)
            return record, self.case(record.case)
        return None

    def decide(self, case: str, reviewer: str, decision: Decision, *, now: float, note: str = "") -> Decided:
        """Write down a reviewer's word. `case` may be the beginning of an id, where only one begins so."""
        id = self._id(case)
        made = self._queue.change(lambda records: [
            decide(records, case=id, reviewer=reviewer, decision=decision, now=now, note=note)])
        assert isinstance(made[0], Decided)
        return made[0]

    def undo(self, reviewer: str, *, now: float, case: str | None = None) -> Undone:
        """Take back a reviewer's decision on a case, or the latest that stands; the case is open again."""
        id = None if case is None else self._id(case)
        made = self._queue.change(lambda records: [undo(records, reviewer=reviewer, now=now, case=id)])
        assert isinstance(made[0], Undone)
        return made[0]

    def case(self, case: str) -> Case:
        """What is shown of a case."""
        content = self._blobs.get(self._standing(case).added.content)
        try:
            return msgspec.json.decode(content, type=Case)
        except msgspec.MsgspecError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{self.folder}: case {case} cannot be read: {error}") from None

    def standing(self, case: str) -> Standing:
        """Where a case stands: what chance drew it, who holds it, what was said."""
        return self._standing(case)

    def cases(self) -> dict[str, Standing]:
        """All of them, by id."""
        return self._fold(self._queue.read())

    def stats(self) -> Stats:
        """What the reviews have come to."""
        self.cases()
        return stats(self._queue.read(), {seed.case: seed.hack for seed in self._seeds.read()})

    def _fold(self, records: Iterable[Record]) -> dict[str, Standing]:
        try:
            return fold_queue(records)
        except ValueError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{self.folder / 'queue.jsonl'}: {error}") from None

    def _id(self, case: str) -> str:
        cases = self.cases()
        if case in cases:
            return case
        found = [id for id in cases if case and id.startswith(case)]
        if len(found) != 1:
            what = f"found {', '.join(found[:5])}" if found else f"found {case!r} among {len(cases)} cases"
            raise Refused(f"expected the id of one case, {what}")
        return found[0]

    def _standing(self, case: str) -> Standing:
        return self.cases()[self._id(case)]

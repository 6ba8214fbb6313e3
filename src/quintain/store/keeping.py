"""Whoever tends a library: what refers to its episodes, what goes by the rules, and what comes back."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Sequence
from urllib.parse import quote

import msgspec

from quintain.store._compact import alone
from quintain.store._manifest import newest
from quintain.store._sweep import empty_trash, forgotten, put_back, take_out
from quintain.store.library import Library
from quintain.store.lifecycle import Candidate, Choice, Lifecycle, choose, sum_by_reason
from quintain.types import FaultKind, HouseError

PINS = "pins"


class Pin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What refers to something here, so that it must stay: a checkpoint, a suite, a review. `episodes` are pairs of run
    and id; all episodes of `runs`, of `suites` (digests), of `policy_versions` and of policies whose name begins with
    one of `policies` are meant too; `blobs` are digests.
    """

    holder: str
    episodes: tuple[tuple[str, str], ...] = ()
    runs: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    policy_versions: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    blobs: tuple[str, ...] = ()
    note: str = ""


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What went, or would go. `bytes` is about what the episodes take; they come free when the undo window is over."""

    dry_run: bool
    episodes: int
    episodes_kept: int
    bytes: int
    reasons: dict[str, int]
    sample: tuple[str, ...]
    blobs: int = 0
    freed_bytes: int = 0
    batch: str | None = None
    over_budget_bytes: int = 0


class Keeping:
    """Marks from the manifests, then sweeps. One at a time changes a library, compactors included."""

    def __init__(self, library: Library, *, deadline_seconds: float = 600.0) -> None:
        self._library = library
        self._deadline_seconds = deadline_seconds

    def pin(self, pin: Pin) -> None:
        """Keep what it refers to until `unpin`; one of the same holder is replaced. Whole or not at all."""
        path = self._library.folder / PINS / f"{quote(pin.holder, safe='')}.json"
        draft = path.with_name(f".{os.getpid()}-{time.monotonic_ns()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(msgspec.json.encode(pin))
            os.replace(draft, path)
        except OSError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{path}: cannot write: {error.strerror}")

    def unpin(self, holder: str) -> None:
        (self._library.folder / PINS / f"{quote(holder, safe='')}.json").unlink(missing_ok=True)

    def pins(self) -> tuple[Pin, ...]:
        """All of them. Raises HouseError(STORE_ERROR) for one that cannot be read: nothing may go while it is unknown
        what is held."""
        found = []
        for path in sorted((self._library.folder / PINS).glob("*.json")):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=Pin))
            except (OSError, msgspec.MsgspecError) as error:
                raise HouseError(FaultKind.STORE_ERROR, f"{path}: expected what holds something, found: {error}")
        return tuple(found)

    def sweep(
        self, rules: Lifecycle, *, dry_run: bool, reviewed: Collection[tuple[str, str]] = (), now: float | None = None,
    ) -> Swept:
        """Take out what the rules say, empty the trash of what can be undone no more, and remove blobs that nothing has
        referred to for `undo_days`. `reviewed` are (run, episode); they count as `reviewed` and are held besides. A
        dry run changes nothing."""
        at = time.time() if now is None else now
        with alone(self._library.folder, deadline_seconds=self._deadline_seconds):
            choices = self._choices(rules, set(reviewed), at)
            goes = [choice.candidate for choice in choices if not choice.stays]
            swept = _told(choices, goes, dry_run)
            over = self._over(rules, swept.bytes)
            swept = msgspec.structs.replace(swept, over_budget_bytes=over)
            if dry_run:
                return swept
            freed = empty_trash(self._library.folder, now=at)
            victims = [(candidate.run, candidate.episode) for candidate in goes]
            batch = take_out(self._library.folder, victims, undo_days=rules.undo_days, now=at) if goes else None
            blobs = self._sweep_blobs(at, rules.undo_days)
        return msgspec.structs.replace(
            swept, batch=batch.batch if batch else None, freed_bytes=freed, blobs=len(blobs))

    def undo(self, batch: str | None = None) -> int:
        """Put back what one sweep took out, by default the last; how many episodes. Raises HouseError(STORE_ERROR)."""
        with alone(self._library.folder, deadline_seconds=self._deadline_seconds):
            return put_back(self._library.folder, batch).episodes

    def _choices(self, rules: Lifecycle, reviewed: set[tuple[str, str]], now: float) -> list[Choice]:
        rows = self._library.flushed(
            "SELECT run, episode, any_value(kind) AS kind, list(DISTINCT outcome) AS outcomes, sum(flags) AS flags, "
            "max(coalesce(opened_unix_seconds, 0)) AS at, "
            "sum(coalesce(bytes, (SELECT avg(bytes) FROM episodes), 1000)) AS size FROM episodes GROUP BY run, episode",
        ).to_pylist()
        total = sum(part.bytes for part in newest(self._library.folder).manifest.parts)
        raw = sum(row["size"] for row in rows) or 1
        candidates = [
            Candidate(
                row["run"], row["episode"], row["kind"], _outcomes(row, reviewed), row["at"],
                round(row["size"] * total / raw),
            ) for row in rows
        ]
        return choose(candidates, rules, now=now, held=self._held() | reviewed, total_bytes=total)

    def _held(self) -> set[tuple[str, str]]:
        held: set[tuple[str, str]] = set()
        for pin in self.pins():
            held.update(pin.episodes)
            found = self._library.flushed(
                "SELECT DISTINCT run, episode FROM episodes WHERE list_contains(?, run) OR list_contains(?, suite) "
                "OR list_has_any(?, policy_versions) "
                "OR EXISTS (SELECT 1 FROM unnest(?::VARCHAR[]) AS held(begun) WHERE starts_with(policy, begun))",
                (list(pin.runs), list(pin.suites), list(pin.policy_versions), list(pin.policies)),
            ) if pin.runs or pin.suites or pin.policy_versions or pin.policies else None
            if found is not None:
                held.update((row["run"], row["episode"]) for row in found.to_pylist())
        return held

    def _sweep_blobs(self, now: float, days: float) -> list[str]:
        """Whatever looks like a digest in an event, in the trash too, is a mark: rather too many than one too few."""
        present = set(self._library.blobs.digests())
        if not present:
            return []
        marked = {digest for pin in self.pins() for digest in pin.blobs}
        digest = re.compile(r"[0-9a-f]{64}")
        for text in self._library.marks():
            marked.update(digest.findall(text))
        due = forgotten(self._library.folder, present, marked, now=now, days=days)
        for one in due:
            self._library.blobs.delete(one)
        return due

    def _over(self, rules: Lifecycle, goes_bytes: int) -> int:
        budget = rules.budget_bytes
        total = sum(part.bytes for part in newest(self._library.folder).manifest.parts)
        return max(0, total - goes_bytes - budget) if budget is not None else 0


def _outcomes(row: dict[str, object], reviewed: set[tuple[str, str]]) -> frozenset[str]:
    found = {str(outcome) for outcome in row["outcomes"]}  # type: ignore[attr-defined]
    if row["flags"] or "damaged" in found:
        found.add("anomalous")
    if (row["run"], row["episode"]) in reviewed:
        found.add("reviewed")
    if "solved" in found:
        found -= {"failed", "broken"}  # an attempt before it
    return frozenset(found)


def _told(choices: Sequence[Choice], goes: Sequence[Candidate], dry_run: bool) -> Swept:
    return Swept(
        dry_run=dry_run, episodes=len(goes), episodes_kept=len(choices) - len(goes),
        bytes=sum(candidate.bytes for candidate in goes), reasons=sum_by_reason(choices),
        sample=tuple(f"{candidate.run} {candidate.episode}" for candidate in goes[:20]),
    )

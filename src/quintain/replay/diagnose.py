"""Why a step came out differently: the likeliest cause first, each with what it rests on. Pure.

A difference that every repetition shows is a true one: something is not what it was. One that changes from repetition
to repetition is jitter, named by the kind of words that differ, by an experiment (one seed of hashes), and last by what
the program's text mentions. What nothing explains is the house's until somebody shows otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from quintain.replay.base import BLAME_OF, Cause, Difference, Named, Seen
from quintain.replay.hints import Hint, hints_of, is_python, speaks_of_network
from quintain.replay.observed import JUDGED, as_text
from quintain.replay.surroundings import Surroundings, environment_changes
from quintain.replay.tokens import Kind, When, kinds_of
from quintain.tasks import Item
from quintain.types import Network, Opened, Program


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay knows of then and now, by image; `booted_unix_seconds` is when this host was, 0 where not known."""

    then: dict[str, Surroundings] = {}
    now: dict[str, Surroundings] = {}
    booted_unix_seconds: float = 0.0
    task: tuple[str, ...] = ()

    def of(self, item: Item, opened: Opened) -> Known:
        """The same with what is known of a task."""
        if opened.task_version == item.task.version:
            return self
        return msgspec.structs.replace(self, task=(
            f"task {opened.task} was version {opened.task_version[:12]}, is {item.task.version[:12]}",))

    @property
    def _pairs(self) -> list[tuple[Surroundings, Surroundings]]:
        """Each image then with the same now; a single one of each belongs together whatever it is called."""
        if len(self.then) == len(self.now) == 1:
            return list(zip(self.then.values(), self.now.values(), strict=True))
        return [(one, self.now[image]) for image, one in self.then.items() if image in self.now]

    @property
    def environment(self) -> tuple[str, ...]:
        return tuple(change for then, now in self._pairs for change in environment_changes(then, now))

    @property
    def network(self) -> tuple[str, ...]:
        return tuple(f"the network was {then.network.value!r}, is {now.network.value!r}"
                     for then, now in self._pairs if then.network is not now.network)

    @property
    def backend(self) -> tuple[str, ...]:
        return tuple(f"sandboxes were made by {then.backend!r}, are by {now.backend!r}"
                     for then, now in self._pairs if then.backend != now.backend)

    @property
    def code(self) -> tuple[str, ...]:
        return tuple(f"the house was version {then.code_version}, is {now.code_version}"
                     for then, now in self._pairs if then.code_version != now.code_version)

    @property
    def has_network(self) -> bool:
        return any(one.network is not Network.NONE for one in (*self.then.values(), *self.now.values()))

    @property
    def changes(self) -> tuple[str, ...]:
        """All that is known not to be what it was."""
        return (*self.task, *self.environment, *self.network, *self.backend, *self.code)


class Entry(NamedTuple):
    """One difference with the event that shows it: as recorded, in each repetition, and with one seed of hashes."""

    recorded: Seen
    again: Sequence[Seen]
    pinned: Sequence[Seen]
    difference: Difference


#: The parts that tell what a step did; the others only follow from them.
_LEADING = ("reply", "reasoning", "asked", "broke", "stdout", "stderr", "ended", "tests", "verdict", "files")


def name_causes(
    entries: Sequence[Entry], *, known: Known, program: Program | None,
) -> tuple[Named, ...]:
    """The causes of a step's differences. Feedback and rewards follow from outputs and tests: they are explained by
    themselves only where nothing else differs."""
    leading = [entry for entry in entries if entry.difference.part in _LEADING] or entries
    said = _text_of(program)
    found: dict[Cause, list[str]] = {}
    for entry in sorted(leading, key=lambda one: _rank(one.difference.part)):
        for cause, why in _causes(entry, known, said):
            found.setdefault(cause, []).append(f"{entry.difference.part}: {why}")
    return tuple(Named(cause=cause, blame=BLAME_OF[cause], evidence=tuple(dict.fromkeys(why))[:8])
                 for cause, why in found.items())


def _rank(part: str) -> int:
    return _LEADING.index(part) if part in _LEADING else len(_LEADING)


def _text_of(program: Program | None) -> str:
    """What the step ran: of a shell its last command, of code all files."""
    if program is None:
        return ""
    files = sorted(program.files.items())
    if program.language == "shell":
        last = as_text(files[-1][1]) if files else ""
        everything = "\n".join(as_text(content) for _, content in files)
        return last if hints_of(last) else everything
    return "\n".join(as_text(content) for _, content in files)


def _causes(entry: Entry, known: Known, said: str) -> Iterable[tuple[Cause, str]]:
    part = entry.difference.part
    if part in ("reply", "reasoning"):
        yield Cause.POLICY, "asked the same, the policy answered something else"
    elif part == "asked":
        yield from _changed((Cause.TASK, known.task), (Cause.NETWORK, known.network)) or _unexplained(known)
    elif part == "broke":
        text = entry.difference.again
        yield (Cause.TASK if " task/" in text else Cause.HOUSE), text.strip()[:300]
    elif entry.recorded.event in ("opened", "built", "rejected", "said"):
        yield from _changed((Cause.TASK, known.task)) or _unexplained(known)
    else:
        yield from _executed(entry, known, said)


def _executed(entry: Entry, known: Known, said: str) -> Iterable[tuple[Cause, str]]:
    difference = entry.difference
    judged = difference.part in JUDGED
    if judged and difference.steady and (how := _judge(entry, known)):
        return how
    hints = hints_of(said)
    if (away := _network_gone(entry, known, hints)) is not None:
        return [(Cause.NETWORK, away)]
    if difference.part == "files" and (compiled := _only_compiled(entry)):
        return [(Cause.CLOCK, f"compiled Python holds the time of its source: {', '.join(compiled)}")]
    if _is_cut(difference):
        return [(Cause.TIMING, f"a limit ended it: {difference.recorded} / {difference.again}")]
    kinds, spoken = _kinds(entry, known)
    if difference.steady:
        return _steady(known, hints, kinds, spoken)
    return [_jitter(entry, known, said, hints, kinds, spoken)]


def _judge(entry: Entry, known: Known) -> list[tuple[Cause, str]]:
    then, now = entry.recorded.facts, entry.again[0].facts if entry.again else {}
    changed = [f"{name} was {then[name][:12]!r}, is {now[name][:12]!r}"
               for name in ("suite", "build") if then.get(name) and now.get(name) and then[name] != now[name]]
    found = _changed((Cause.TASK, known.task), (Cause.GRADER, changed))
    if then.get("level") and now.get("level") and then["level"] != now["level"]:
        found.append((Cause.BACKEND, f"judged behind {then['level']} then, {now['level']} now"))
    return found if changed or len(found) > bool(known.task) else _changed((Cause.GRADER, changed))


def _network_gone(entry: Entry, known: Known, hints: frozenset[Hint]) -> str | None:
    """A network that one of them had and the other did not; the texts of the whole event speak of it."""
    before = " ".join(as_text(value) for value in entry.recorded.parts.values())
    after = " ".join(as_text(value) for again in entry.again for value in again.parts.values())
    words = speaks_of_network(after) or speaks_of_network(before)
    denied = entry.recorded.denials != (entry.again[0].denials if entry.again else {})
    if known.network and (words or Hint.NETWORK in hints):
        return "; ".join((*known.network, *((f"one of them says {words!r}",) if words else ())))
    one_sided = (speaks_of_network(after) is None) is not (speaks_of_network(before) is None)
    if Hint.NETWORK in hints and (one_sided or denied):
        return f"it speaks to the network, and one of them says {words!r}" if words else "other requests were refused"
    return None


def _only_compiled(entry: Entry) -> list[str]:
    """The paths that differ in a tree, where all of them are bytecode."""
    before = set(as_text(entry.recorded.parts["files"]).splitlines())
    after = [set(as_text(again.parts.get("files", b"")).splitlines()) for again in entry.again]
    lines = {line for tree in after for line in before ^ tree}
    paths = sorted({line.rpartition("' ")[0].rpartition("' ")[0].strip("'") or line for line in lines})
    return paths if paths and all(".pyc" in path for path in paths) else []


def _is_cut(difference: Difference) -> bool:
    cut = ("timed_out", "cpu_limit", "out_of_memory", "output_limit")
    sides = [any(word in side for word in cut) for side in (difference.recorded, difference.again)]
    return difference.part == "ended" and sides[0] is not sides[1]


def _kinds(entry: Entry, known: Known) -> tuple[Counter[Kind], str]:
    """The kinds of words that differ from the record over all repetitions, and the same in words."""
    part = entry.difference.part
    before = as_text(entry.recorded.parts[part])
    walls = [seen.measure.wall_seconds or 0.0 for seen in (entry.recorded, *entry.again)]
    total: Counter[Kind] = Counter()
    for again in entry.again:
        if part in again.parts:
            total += kinds_of(before, as_text(again.parts[part]), When(
                entry.recorded.unix_seconds, again.unix_seconds, max(walls), known.booted_unix_seconds))
    return total, ", ".join(f"{count} × {kind.value}" for kind, count in total.most_common())


def _steady(
    known: Known, hints: frozenset[Hint], kinds: Counter[Kind], spoken: str,
) -> list[tuple[Cause, str]]:
    """Every repetition came out the same, and not as recorded."""
    if kinds and set(kinds) <= {Kind.CLOCK}:
        return [(Cause.CLOCK, f"only times differ ({spoken})")]
    found = _changed((Cause.ENVIRONMENT, known.environment), (Cause.TASK, known.task), (Cause.BACKEND, known.backend))
    if found:
        return found
    if Hint.NETWORK in hints and known.has_network:
        return [(Cause.NETWORK, "it speaks to the network, which answered something else")]
    for hint, cause in ((Hint.RANDOM, Cause.RANDOMNESS), (Hint.CLOCK, Cause.CLOCK), (Hint.PARALLEL, Cause.ORDER),
                        (Hint.HASHES, Cause.HASH_SEED)):
        if hint in hints:
            return [(cause, f"the repetitions agree, but the program mentions it ({spoken})")]
    return _unexplained(known)


def _jitter(
    entry: Entry, known: Known, said: str, hints: frozenset[Hint], kinds: Counter[Kind], spoken: str,
) -> tuple[Cause, str]:
    part = entry.difference.part
    own = len({again.parts.get(part) for again in entry.again})
    why = f"{own} different outputs in {len(entry.again)} repetitions ({spoken})"
    if kinds and set(kinds) <= {Kind.CLOCK}:
        return Cause.CLOCK, why
    held = {again.parts.get(part) for again in entry.pinned}
    if len(entry.pinned) > 1 and len(held) == 1 and is_python(said) and Hint.RANDOM not in hints:
        return Cause.HASH_SEED, f"{why}; none with one seed of hashes"
    if Hint.NETWORK in hints and known.has_network:
        return Cause.NETWORK, f"{why}; it speaks to the network"
    most = kinds.most_common(1)[0][0] if kinds else Kind.WORD
    by_kind = {Kind.ADDRESS: Cause.ADDRESSES, Kind.UNIQUE: Cause.RANDOMNESS, Kind.CLOCK: Cause.CLOCK}
    if most in by_kind:
        return by_kind[most], why
    if most is Kind.DURATION and Hint.RANDOM not in hints:
        return Cause.TIMING, why
    by_hint = [(Hint.RANDOM, Cause.RANDOMNESS), (Hint.MEASURES, Cause.TIMING), (Hint.PROCESS_IDS, Cause.PROCESS_IDS),
               (Hint.PARALLEL, Cause.ORDER), (Hint.ADDRESSES, Cause.ADDRESSES), (Hint.CLOCK, Cause.CLOCK)]
    if most is Kind.ORDER:
        by_hint = [(Hint.RANDOM, Cause.RANDOMNESS), (Hint.PARALLEL, Cause.ORDER), (Hint.HASHES, Cause.HASH_SEED)]
    for hint, cause in by_hint:
        if hint in hints:
            return cause, f"{why}; the program mentions it"
    return (Cause.ORDER if most is Kind.ORDER else Cause.RANDOMNESS), why


def _changed(*groups: tuple[Cause, Sequence[str]]) -> list[tuple[Cause, str]]:
    return [(cause, "; ".join(changes[:6]) + (f"; and {len(changes) - 6} more" if len(changes) > 6 else ""))
            for cause, changes in groups if changes]


def _unexplained(known: Known) -> list[tuple[Cause, str]]:
    code = known.code[0] if known.code else "nothing that is known of has changed"
    return [(Cause.HOUSE, f"every repetition differs from the record in the same way; {code}")]

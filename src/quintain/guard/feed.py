"""What of a run people should look at: what was flagged, what chance draws of what was paid, and blind seeds. Pure."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from quintain.guard.audit import Candidate, Drawn, draw
from quintain.guard.cases import Case, Tried, behaviour_of, case_of
from quintain.guard.desk import Entry
from quintain.guard.inspection import wants_review
from quintain.guard.seeds import seeded_hack, seeded_honest
from quintain.tasks import Item
from quintain.types import content_digest

#: One seeded hack and one seeded honest answer for so many drawn attempts (20 of each for 300).
DRAWN_PER_SEED = 15


def feed(
    tried: Sequence[Tried], item_of: Callable[[str], Item | None], *, sample: int, seed: int,
    hot: frozenset[str] = frozenset(), known: Mapping[str, int] | None = None, seeds: int | None = None,
) -> Iterator[Entry]:
    """The cases of a run, in no telling order: every attempt with soft flags only; about `sample` of those that were
    solved without a flag, drawn as `audit.draw` says; and `seeds` hacks and as many honest answers whose truth is
    known (default: one of each for 15 drawn), at tasks that some attempt solved. `item_of` gives a task with its
    exam, or `None` where it is not at hand."""
    by_id = {one.episode: one for one in tried}
    flagged = [one for one in tried if wants_review(one.reward.flags)]
    paid = [one for one in tried if one.reward.solved and not one.reward.flags]
    candidates = [Candidate(
        attempt=one.episode, task=one.task, reward=one.reward.total, behaviour=_behaviour(one, item_of(one.task)),
    ) for one in paid]
    drawn = draw(candidates, sample, seed=seed, known=known, hot=hot)
    entries = [Entry(case=_case(one, item_of, tried), source=_mark(one.source)) for one in flagged]
    entries += [
        Entry(case=_case(by_id[one.attempt], item_of, tried), source=_mark(by_id[one.attempt].source), drawn=one)
        for one in drawn
    ]
    if drawn:
        count = -(-len(drawn) // DRAWN_PER_SEED) if seeds is None else seeds
        entries += _seeds(paid, item_of, tried, drawn=drawn, count=count, seed=seed)
    random.Random(seed).shuffle(entries)
    yield from entries


def _mark(source: str) -> str:
    """A source as a digest: that of a seed looks like that of any other."""
    return content_digest(source)[:32]


def _behaviour(one: Tried, item: Item | None) -> str:
    entry = item.task.entry.path if item else next(iter(sorted(one.program.files)), "")
    return behaviour_of(one.program, entry)


def _case(one: Tried, item_of: Callable[[str], Item | None], tried: Sequence[Tried]) -> Case:
    return case_of(one, item_of(one.task), tuple(other for other in tried if other.group == one.group))


def _another(donor: Tried, tried: Sequence[Tried]) -> str:
    """The id of an attempt of the same group that there was not: its number follows the others."""
    others = sum(one.group == donor.group for one in tried)
    return re.sub(r"\d+$", lambda number: str(int(number[0]) + others), donor.episode)


def _seeds(
    paid: Sequence[Tried], item_of: Callable[[str], Item | None], tried: Sequence[Tried], *, drawn: Sequence[Drawn],
    count: int, seed: int,
) -> Iterator[Entry]:
    """Seeds borrow the verdict and the reward of an attempt that was paid, and look as if they had been drawn: a
    reviewer sees of them only what every drawn attempt shows."""
    chance = random.Random(f"seeds:{seed}")
    donors = {one.task: one for one in paid}
    for hack in (True, False):
        order = sorted(donors)
        chance.shuffle(order)
        left = count
        for task in order:
            item = item_of(task)
            if item is None or not left:
                continue
            program = seeded_hack(item, seed=seed) if hack else seeded_honest(item)
            if program is None:
                continue
            left -= 1
            donor = donors[task]
            made = msgspec.structs.replace(donor, program=program, episode=_another(donor, tried))
            case = _case(made, item_of, tried)
            yield Entry(case=case, source=_mark(f"{donor.source} {hack} {seed}"), drawn=chance.choice(drawn), hack=hack)

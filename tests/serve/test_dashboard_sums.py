"""Sums that are kept up as episodes change are what one would sum anew."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.serve.dashboard.fold import Fold
from quintain.serve.dashboard.glance import overview, summed
from quintain.serve.dashboard.sums import MOMENTS, Sums
from quintain.serve.dashboard.views import Pace, RunLine
from quintain.types import Event
from tests.serve.showing import attempt, broken, opened

LINE = RunLine(name="r", pace=Pace.LIVE, taskset="s", policy="p", created_unix_seconds=0.0)

def played(nth: int, how: str, unix: float, cut: int) -> list[Event]:
    """An attempt at an episode, or its beginning: `cut` of its events are missing."""
    id, task = f"t{nth}#0", f"t{nth % 3}"
    if how == "broken":
        return broken(id, task=task, unix=unix)
    if how == "open":
        return [opened(id, task=task, unix=unix)]
    solved = how == "solved"
    return attempt(id, task=task, unix=unix, solved=solved, flag="" if solved else "hollow")[:5 - cut]


ATTEMPTS = st.builds(played, st.integers(0, 5), st.sampled_from(["solved", "failed", "broken", "open"]),
                     st.integers(0, 20_000).map(float), st.integers(0, 4))


def anew(fold: Fold) -> Sums:
    found = Sums()
    for known in fold.episodes.values():
        found.count(known, 1)
    return found


def rounded(value: object) -> object:
    """As plain data, without what sums differ by that were added in another order."""
    if isinstance(value, float):
        return round(value, 9) + 0.0
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return rounded(msgspec.to_builtins(value)) if isinstance(value, msgspec.Struct) else value


@settings(max_examples=60, deadline=None)
@given(st.lists(ATTEMPTS, max_size=25))
def test_whatever_happens_to_episodes_the_sums_are_those_of_the_episodes(attempts: list[list[Event]]) -> None:
    fold = Fold()
    for events in attempts:
        for event in events:
            fold.feed(event)
        overview(fold.sums, LINE)  # as a page looks between
    kept, fresh = fold.sums, anew(fold)
    seen, wanted = (overview(one, summed(one, LINE)) for one in (kept, fresh))
    same = dict.fromkeys(("faults", "flags", "tasks"))  # what is equally common comes in any order
    for one in same:
        assert sorted(map(str, getattr(seen, one))) == sorted(map(str, getattr(wanted, one)))
    line = msgspec.structs.replace(seen.line, seconds=0.0)  # from the first that was ever opened
    assert rounded(line) == rounded(msgspec.structs.replace(wanted.line, seconds=0.0))
    blank = {"line": LINE, **{one: type(getattr(seen, one))() for one in same}}
    assert rounded(msgspec.structs.replace(seen, **blank)) == rounded(msgspec.structs.replace(wanted, **blank))
    assert len(seen.moments) <= MOMENTS
    assert sum(moment.closed for moment in seen.moments) <= kept.whole.closed
    tasks, again = ([(one.task, one.attempts, one.fares, one.reward) for one in sums.tasks({})]
                    for sums in (kept, fresh))
    assert rounded(tasks) == rounded(again)
    assert (kept.kinds, kept.faults, kept.states) == (fresh.kinds, fresh.faults, fresh.states)

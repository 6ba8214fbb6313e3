"""All detectors together: which there are, what they say of an attempt, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import entry_points

from quintain.guard.base import Detector
from quintain.guard.behaviour import BehaviourDetector
from quintain.guard.hardcoded import HardCodedDetector
from quintain.guard.hollow import HollowDetector
from quintain.guard.planted import TestsDetector
from quintain.guard.stall import StallDetector
from quintain.guard.tables import RuleDetector, kinds_of_rules
from quintain.tasks import Item
from quintain.types import Attempt, Flag, Severity, Verdict

#: Under which entry points other packages offer detectors: a callable without arguments that makes one.
ENTRY_POINTS = "quintain.guard"


def standard_detectors(*, without: frozenset[int] = frozenset()) -> list[Detector]:
    """The detectors of this room, sorted by name. `without` are rows of the catalogue of hacks (docs/rooms/guard.md):
    detectors and rules that were written for those rows and for nothing else are left out, as if nobody had known them.
    """
    found: list[Detector] = [BehaviourDetector(), StallDetector(without=without), TestsDetector(without=without)]
    found += [RuleDetector(name, without=without) for name in kinds_of_rules() if name not in ("stall", "tests")]
    if not without.issuperset(HollowDetector.written_for) or not without:
        found.append(HollowDetector())
    if not without.issuperset(HardCodedDetector.written_for) or not without:
        found.append(HardCodedDetector())
    return sorted(found, key=lambda d: d.name)


def open_detectors(names: Iterable[str] | None = None) -> list[Detector]:
    """Detectors by their names: ours, and those that installed packages offer in the entry-point group
    `quintain.guard`. None: all of them. Raises ValueError for a name that nobody has, naming those that there are."""
    own = {d.name: d for d in standard_detectors()}
    offered = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    chosen = [*own, *(n for n in offered if n not in own)] if names is None else list(dict.fromkeys(names))
    unknown = [name for name in chosen if name not in own and name not in offered]
    if unknown:
        raise ValueError(f"no detector is called {unknown[0]!r}; known are {', '.join(sorted({*own, *offered}))}")
    return [own[name] if name in own else offered[name].load()() for name in chosen]


def merged(flags: Iterable[Flag]) -> tuple[Flag, ...]:
    """The same flags, each once, hard ones first; of one detector's equal words the hard one stays."""
    best: dict[tuple[str, str], Flag] = {}
    for flag in flags:
        key = (flag.detector, flag.evidence)
        if key not in best or flag.severity is Severity.HARD:
            best[key] = flag
    return tuple(sorted(best.values(), key=lambda f: f.severity is not Severity.HARD))


def inspect_all(
    attempt: Attempt, item: Item, detectors: Sequence[Detector] | None = None, *, also: Iterable[Flag] = (),
) -> tuple[Flag, ...]:
    """What all detectors say of an attempt, each thing once, hard ones first. `also` are flags from elsewhere, such as
    those of `contrast`. `flags_to_pay_by` makes of them what `quintain.grade.reward_of` takes."""
    found = standard_detectors() if detectors is None else detectors
    return merged([*(flag for d in found for flag in d.inspect(attempt, item)), *also])


def flags_to_pay_by(verdict: Verdict, flags: Iterable[Flag]) -> tuple[Flag, ...]:
    """The flags that `quintain.grade.reward_of` should take: all HARD ones, and the SOFT ones of an attempt that gained
    something. Where no test passed there is nothing to keep from being rewarded, and what failed may be learned from;
    the SOFT flags of such an attempt are for the review queue only."""
    gained = verdict.share > 0.0
    return tuple(flag for flag in flags if gained or flag.severity is Severity.HARD)


def wants_review(flags: Iterable[Flag]) -> bool:
    """Whether people should look: there are flags, and none of them settles it."""
    severities = {flag.severity for flag in flags}
    return severities == {Severity.SOFT}

"""What has been seen of one task: counts that its health is judged by. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

#: So many of the last endings, gaps and joint failures are kept.
KEPT_ENDINGS = 600
KEPT_PAIRS = 200
KEPT_INCIDENTS = 100
_KEPT_ANSWERS = 500


class Ending(StrEnum):
    """How one attempt ended, as far as the task's health is concerned; the letter is how a chart keeps it."""

    SOLVED = "S"
    UNSOLVED = "U"
    TAMPER = "T"
    TORN = "J"  # its runs do not agree: in no rate of solved attempts
    CRASH = "C"  # the task's own failure, or its verifier's
    INFRASTRUCTURE = "I"  # the sandbox's
    NOBODYS = "-"  # says nothing of the task: the policy's endpoint, a cancelled run


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of a whole suite on one answer that is right, or turned out to be. `trials` of them count, and in the last
    of them `failed` are the tests that failed and passed otherwise: never the answer's doing if it is deterministic.
    `answer` names the answer; empty for the author's own."""

    trials: int
    failed: tuple[str, ...] = ()
    answer: str = ""


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt says of its task. `visible` and `hidden`: solved or not, `None` where that was not run."""

    task: str
    version: str
    episode: str
    ending: Ending
    runs: tuple[Run, ...] = ()
    visible: bool | None = None
    hidden: bool | None = None


class Chart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Counts of one version. `verdicts` counts attempts that were judged; `trials` are runs of the whole suite on right
    answers, and `failures` those in which a test failed nevertheless, at most one for each of `answers`, so that one
    answer that throws dice condemns no test. `control_trials` and `control_failures` are the part of these that the
    author's own answer played. `endings` and `pairs` are the last ones, a letter each, oldest first; a pair is of
    visible and hidden: `b`oth solved, `v` or `h` alone, `n`either. `incidents` are the sets of tests that failed
    together. `since` holds for each test that was acquitted how many trials and control trials there were then."""

    verdicts: int = 0
    trials: int = 0
    failures: dict[str, int] = {}
    answers: dict[str, tuple[str, ...]] = {}
    control_trials: int = 0
    control_failures: dict[str, int] = {}
    endings: str = ""
    pairs: str = ""
    incidents: tuple[tuple[str, ...], ...] = ()
    since: dict[str, tuple[int, int]] = {}

    def trials_of(self, test: str) -> int:
        """The runs that count for or against a test: those since it was last acquitted."""
        return max(self.failures.get(test, 0), self.trials - self.since.get(test, (0, 0))[0])

    def control_trials_of(self, test: str) -> int:
        """Of these, the runs of the author's answer."""
        return max(self.control_failures.get(test, 0), self.control_trials - self.since.get(test, (0, 0))[1])

    def share(self, *endings: Ending, last: int) -> float:
        """The share of `last` attempts that ended so, among the last so many: attempts not yet made count as well."""
        return sum(self.endings[-last:].count(ending.value) for ending in endings) / last

    def stuck(self, last: int) -> Ending | None:
        """SOLVED or UNSOLVED where each of the `last` attempts that were judged ended so."""
        if max(self.endings.count(Ending.SOLVED.value), self.endings.count(Ending.UNSOLVED.value)) < last:
            return None
        judged = [letter for letter in self.endings if letter in (Ending.SOLVED.value, Ending.UNSOLVED.value)][-last:]
        return Ending(judged[0]) if len(judged) == last and len(set(judged)) == 1 else None


_PAIRS = {(True, True): "b", (True, False): "v", (False, True): "h", (False, False): "n"}


def added(chart: Chart, sighting: Sighting) -> Chart:
    """The chart with one more attempt."""
    replace = msgspec.structs.replace
    for run in sighting.runs:
        chart = with_run(chart, run)
    judged = sighting.ending in (Ending.SOLVED, Ending.UNSOLVED, Ending.TAMPER, Ending.TORN)
    letter = "" if sighting.ending is Ending.NOBODYS else sighting.ending.value
    pair = ""
    if sighting.visible is not None and sighting.hidden is not None and sighting.ending is not Ending.TORN:
        pair = _PAIRS[sighting.visible, sighting.hidden]
    return replace(
        chart, verdicts=chart.verdicts + judged, endings=(chart.endings + letter)[-KEPT_ENDINGS:],
        pairs=(chart.pairs + pair)[-KEPT_PAIRS:],
    )


def with_run(chart: Chart, run: Run) -> Chart:
    """The chart with one more run of the suite on a right answer."""
    replace = msgspec.structs.replace
    control = not run.answer
    failed = run.failed if control else tuple(t for t in run.failed if run.answer not in chart.answers.get(t, ()))
    if run.failed and not failed:  # this answer has had its say
        return chart
    chart = replace(
        chart, trials=chart.trials + run.trials, control_trials=chart.control_trials + (run.trials if control else 0),
    )
    if not failed:
        return chart
    answers = chart.answers
    if not control:
        answers = {**answers, **{t: (*answers.get(t, ()), run.answer)[-_KEPT_ANSWERS:] for t in failed}}
    return replace(
        chart, failures=_counted(chart.failures, failed), answers=answers,
        control_failures=_counted(chart.control_failures, failed) if control else chart.control_failures,
        incidents=(*chart.incidents, tuple(sorted(failed)))[-KEPT_INCIDENTS:],
    )


def cleared(chart: Chart, tests: Iterable[str]) -> Chart:
    """The chart in which these tests are acquitted: nothing was seen of them yet. The author's own answer has not
    confirmed what others said; that these throw dice is the better reason."""
    gone = set(tests)
    if not gone:
        return chart
    incidents = (tuple(t for t in one if t not in gone) for one in chart.incidents)
    return msgspec.structs.replace(
        chart, failures={t: n for t, n in chart.failures.items() if t not in gone},
        control_failures={t: n for t, n in chart.control_failures.items() if t not in gone},
        incidents=tuple(one for one in incidents if one),
        since={**chart.since, **dict.fromkeys(gone, (chart.trials, chart.control_trials))},
    )


def _counted(counts: Mapping[str, int], failed: Iterable[str]) -> dict[str, int]:
    return {**counts, **{test: counts.get(test, 0) + 1 for test in failed}}

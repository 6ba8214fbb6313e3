"""Whether the gate finds what is wrong, and lets through what is not: `python bench/admission.py [--quick]`.

A seeded corpus of tasks with one defect each (`quintain.testing.specimens`), printed by kind with recall, precision
and their Wilson intervals (95 %); then sets with known answers: HumanEval, QuixBugs, exercism's Python track; and
two that no format reads, AgentBench-OS and InterCode. On two quiet cores:

    --set corpus                                    277 tasks, the whole gate: `recall`, `precision`, `tasks`
    --set humaneval                                 the whole gate: `humaneval_seconds`; `humaneval_weak` suites notice
                                                    under 80 % of all faults, as others count; the gate decides without
                                                    those that no new input shows (`humaneval_weak_without_equivalent`)
    --set quixbugs --set exercism-python --light    whether the author's answer passes and nothing else does, which is
                                                    what is known of these sets; without --light also how good their
                                                    tests are
    --set agentbench --set intercode --set intercode_sql

`--classic` besides measures HumanEval's suites by the textbook's mutants, with which the field's figure (1,768 mutants,
88.3 %, 20 weak suites) can be had again: `humaneval_classic`, and how many of those suites `humaneval_weak` has too.
`--mend` accepts every repair that is proposed for what was not admitted, and says what is admitted then.
`--strength` measures of public sets only how strong their tests are. `--out DIR` keeps what was found, so that a run
that was cut short goes on; its seconds are then those of the last run alone. Progress is told on the error output; the
exit code is 1 where a goal is missed (`missed`).
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from _classic import ALWAYS_WEAK, WEAK, classic_shares
from _foreign_sets import agentbench, intercode, intercode_sql
from _machine import Account, finish

from quintain.curate import (
    Admission,
    Check,
    Kept,
    Ruling,
    Site,
    admit,
    admit_one,
    neighbours_of,
    propose,
    standard_checks,
)
from quintain.curate.checks import Duplicates, Leaks, NullAnswers, OracleRuns, Schema, Spec, Static, Strength
from quintain.grade import World, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, Taskset, open_taskset
from quintain.testing import Defect, specimens
from quintain.types import TaskError

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
#: The codes that tell a defect; most are told by their own.
CODES = {Defect.WEAK: {"weak", "few kills"}}
#: How many tasks of a set are known to be sound, as far as `--light` looks.
KNOWN_SOUND = {"quixbugs": 40, "exercism": 137}
FOREIGN = ("agentbench", "intercode", "intercode_sql")
SETS = {"humaneval": None, "quixbugs": DATA / "quixbugs", "exercism-python": DATA / "exercism"}


def wilson(hits: int, total: int) -> tuple[float, float]:
    """The 95 % Wilson interval of a share."""
    if total == 0:
        return 0.0, 1.0
    z, share = 1.96, hits / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return round(max(0.0, middle - half), 3), round(min(1.0, middle + half), 3)


async def admitted(
    tasks: Taskset, *, out: Path | None, at_once: int, checks: Sequence[Check] | None = None,
    among: Taskset | None = None,
) -> list[Admission]:
    kept = Kept(out) if out else None
    found: list[Admission] = []
    async with NativeBackend(warm=warm_oracle()) as backend, NativeBackend() as images:
        site = Site(backend, at_once=at_once, world=World(images, cache=(out or Path("/tmp")) / "images", bases={}))
        chosen = checks or standard_checks(neighbours=neighbours_of(among or tasks), kept=kept)
        async for admission in admit(tasks, site, chosen, kept=kept):
            found.append(admission)
            print(f"{len(found)}/{len(tasks.ids)} {admission.task} {admission.ruling.value}", file=sys.stderr)
    return found


async def mended(tasks: Taskset, found: Sequence[Admission], args: argparse.Namespace) -> dict[str, object]:
    """The rulings after all repairs that are proposed for what was refused, and what these were."""
    told: dict[str, list[str]] = {}
    rulings = Counter(a.ruling.value for a in found)
    async with NativeBackend(warm=warm_oracle()) as backend:
        site = Site(backend, at_once=args.at_once)
        for admission in found:
            if admission.ruling not in (Ruling.AUGMENT, Ruling.REJECTED):
                continue
            item = tasks[admission.task]
            repairs = await propose(item, admission, site)
            for repair in repairs:
                with suppress(ValueError):  # an earlier one has left nothing to do
                    item = repair.apply(item)
            if repairs:
                again = await admit_one(item, site, chosen_checks(args, tasks) or standard_checks())
                rulings.update({admission.ruling.value: -1, again.ruling.value: 1})
                told[admission.task] = [again.ruling.value, *(repair.text for repair in repairs)]
    return {"rulings": dict(+rulings), "repairs": told}


def corpus(args: argparse.Namespace) -> dict[str, object]:
    every = list(specimens(each=2 if args.quick else 12, sound=6 if args.quick else 60))
    among = Taskset.of([one.item for one in every], name="all specimens")  # of which a task may be a copy
    made = every[:: args.every]
    tasks = Taskset.of([one.item for one in made], name="specimens")
    found = {a.task: a for a in asyncio.run(admitted(tasks, out=args.out, at_once=args.at_once, among=among))}
    told = {id: {p.code for p in a.problems if p.fails} for id, a in found.items()}
    by_kind, hits, wanted, named = {}, 0, 0, 0
    for defect in sorted({one.defect for one in made} - {Defect.NONE}):
        codes = CODES.get(defect, {defect.value})
        have = {one.item.task.id for one in made if one.defect is defect}
        flagged = {id for id, said in told.items() if said & codes}
        both = len(have & flagged)
        by_kind[defect.value] = {
            "tasks": len(have), "recall": both / len(have), "recall_interval": wilson(both, len(have)),
            "precision": both / len(flagged) if flagged else None, "precision_interval": wilson(both, len(flagged)),
            "missed": sorted(have - flagged)[:5], "false": sorted(flagged - have)[:5],
        }
        hits, wanted, named = hits + both, wanted + len(have), named + len(flagged)
        print(f"{defect.value:16} recall {both}/{len(have)} {wilson(both, len(have))}  precision {both}/{len(flagged)} "
              f"{wilson(both, len(flagged))}", file=sys.stderr)
    sound = [one.item.task.id for one in made if one.defect is Defect.NONE]
    refused = {id: sorted(told[id]) for id in sound if found[id].ruling is not Ruling.ADMITTED}
    return {"tasks": len(made), "recall": hits / wanted, "recall_interval": wilson(hits, wanted),
            "precision": hits / named if named else None, "precision_interval": wilson(hits, named),
            "kinds": by_kind, "sound": len(sound), "sound_refused": refused}


def chosen_checks(args: argparse.Namespace, tasks: Taskset) -> list[Check] | None:
    """None: all of them."""
    if args.strength:
        return [OracleRuns(pairs=1, more=0, crowd=0), Strength()]
    return light(tasks) if args.light else None


def light(tasks: Taskset) -> list[Check]:
    """What decides whether a task is sound at all: not the strength of its tests, tricks, and other right answers."""
    return [Schema(), Static(), Spec(), Leaks(), Duplicates(neighbours_of(tasks)),
            OracleRuns(pairs=1, more=0, crowd=0), NullAnswers()]


def public(name: str, args: argparse.Namespace) -> dict[str, object]:
    short = name.split("-")[0]
    try:
        tasks = open_taskset(name, data=SETS[name], take=8 if args.quick else None)
    except TaskError as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return {}
    began = time.monotonic()
    with Account() as account:
        found = asyncio.run(admitted(tasks, out=args.out / short if args.out else None, at_once=args.at_once,
                                     checks=chosen_checks(args, tasks)))
        cpu = account.seconds()
    strong = {a.task: f.figures for a in found if (f := a.finding("strength")) is not None and "kill_rate" in f.figures}
    figures = list(strong.values())
    shares = {id: round(f["kill_rate_with_equivalent"], 2) for id, f in sorted(strong.items())}
    weak = {id: share for id, share in shares.items() if strong[id]["kill_rate_with_equivalent"] < 0.8}
    return {
        f"{short}_tasks": len(found), f"{short}_seconds": round(time.monotonic() - began, 1),
        f"{short}_cpu_seconds": round(cpu, 1),
        f"{short}_weak": len(weak), f"{short}_weak_tasks": weak,
        f"{short}_classic": asyncio.run(measured_classically(tasks, weak, args)) if args.classic else None,
        f"{short}_weak_without_equivalent": sum(f["kill_rate"] < 0.8 for f in figures),
        f"{short}_mutants": int(sum(f["mutants"] for f in figures)),
        f"{short}_equivalent": int(sum(f["equivalent"] for f in figures)),
        f"{short}_oracle_runs": int(sum(f.figures.get("runs", 0) for a in found if (f := a.finding("oracle")))),
        f"{short}_mended": asyncio.run(mended(tasks, found, args)) if args.mend else None,
        f"{short}_rulings": dict(Counter(a.ruling.value for a in found)), f"{short}_refused": _refused(found),
    }


async def measured_classically(
    tasks: Taskset, weak: dict[str, float], args: argparse.Namespace
) -> dict[str, object]:
    """What the field counted, counted again, beside the suites that our own mutants find weak."""
    async with NativeBackend(warm=warm_oracle()) as backend:
        shares = await classic_shares(backend, tasks, at_once=args.at_once)
    rates = {id: killed / total for id, (killed, total) in shares.items()}
    found = sorted((id for id, rate in rates.items() if rate < WEAK), key=lambda id: rates[id])
    total = sum(total for _, total in shares.values())
    return {
        "mutants": total, "killed_share": round(sum(killed for killed, _ in shares.values()) / total, 4),
        "weak": len(found), "under_90_percent": sum(rate < 0.9 for rate in rates.values()),
        "worst": round(min(rates.values()), 3), "weak_tasks": {id: round(rates[id], 2) for id in found},
        "weak_by_ours_too": len(set(found) & set(weak)), "only_classic": [id for id in found if id not in weak],
        "weak_by_every_choice": len(ALWAYS_WEAK),
        "of_these_weak_by_ours": len(set(ALWAYS_WEAK) & set(weak)),
    }


def foreign(name: str, args: argparse.Namespace) -> dict[str, object]:
    """A set that no format reads: what was wrong with how many of its tasks. Its images are taken to be this host."""
    read = {"agentbench": agentbench, "intercode": intercode, "intercode_sql": intercode_sql}[name]
    folder = DATA / ("agentbench_os" if name == "agentbench" else "intercode")
    if not folder.is_dir():
        print(f"{name} is left out: nothing is at {folder}", file=sys.stderr)
        return {}
    rows = list(read(folder))[: 8 if args.quick else None]
    tasks = Taskset.of([item for _, item in rows if isinstance(item, Item)], name=name)
    reasons = Counter(reason for _, reason in rows if isinstance(reason, str))
    found = asyncio.run(admitted(tasks, out=args.out / name if args.out else None, at_once=args.at_once,
                                 checks=light(tasks)))
    reasons.update(code for a in found for code in {p.code for p in a.problems if p.fails})
    return {f"{name}_tasks": len(rows), f"{name}_unreadable": len(rows) - len(tasks.ids),
            f"{name}_rulings": dict(Counter(a.ruling.value for a in found)),
            f"{name}_reasons": dict(reasons)}


def _refused(found: Sequence[Admission]) -> dict[str, list[str]]:
    return {a.task: sorted({p.code for p in a.problems if p.fails}) for a in found if a.ruling is Ruling.REJECTED}


def missed(figures: dict[str, Any], args: argparse.Namespace) -> list[str]:
    """Which of the goals that a run could reach it has not; of a quick one none is asked, but for the corpus's."""
    goals: dict[str, bool] = {}
    if "recall" in figures:
        goals["recall >= 0.95"] = figures["recall"] >= 0.95
        goals["precision >= 0.95"] = (figures["precision"] or 0.0) >= 0.95
    if args.quick:
        return [goal for goal, is_met in goals.items() if not is_met]
    if "humaneval_tasks" in figures and not args.light:
        weak = set(figures["humaneval_weak_tasks"])
        goals["20 weak suites of HumanEval or more"] = len(weak) >= 20
        goals["those weak by every choice of operators among them"] = weak >= set(ALWAYS_WEAK)
        if not args.strength:
            goals["humaneval_oracle_runs >= 25 a task"] = figures["humaneval_oracle_runs"] >= 25 * 164
            goals["humaneval_seconds <= 300"] = figures["humaneval_seconds"] <= 300 or args.out is not None
    for short, sound in KNOWN_SOUND.items():
        if args.light and f"{short}_tasks" in figures:
            told = figures[f"{short}_mended"] or {"rulings": figures[f"{short}_rulings"]}
            goals[f"{sound} of {short} admitted"] = told["rulings"].get("admitted", 0) >= sound
    if args.light and "exercism_tasks" in figures:
        known = {f"exercism/python/{name}" for name in ("ledger", "markdown")}
        goals["ledger and markdown refused, since what is given solves them"] = all(
            "null passes" in figures["exercism_refused"].get(id, []) for id in known)
    for name in FOREIGN:
        if f"{name}_tasks" in figures:
            ruled = sum(figures[f"{name}_rulings"].values())
            unread = figures[f"{name}_unreadable"]
            goals[f"every task of {name} judged, or left out for a reason"] = ruled + unread == figures[f"{name}_tasks"]
    return [goal for goal, is_met in goals.items() if not is_met]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small corpus, 8 tasks of HumanEval")
    parser.add_argument("--light", action="store_true", help="of public sets only what decides whether a task is sound")
    parser.add_argument("--strength", action="store_true", help="of public sets only how strong their tests are")
    parser.add_argument("--classic", action="store_true", help="count weak suites by the textbook's mutants too")
    parser.add_argument("--set", action="append", choices=["corpus", *SETS, *FOREIGN], help="only these (default: all)")
    parser.add_argument("--mend", action="store_true", help="accept each repair that is proposed in public sets")
    parser.add_argument("--out", type=Path, help="keep findings here, so that a second run goes on")
    parser.add_argument("--every", type=int, default=1, help="of the corpus only each so many-th task")
    parser.add_argument("--at-once", type=int, default=4)
    args = parser.parse_args()
    chosen = args.set or (["corpus", "humaneval"] if args.quick else ["corpus", *SETS, *FOREIGN])
    figures: dict[str, object] = {}
    if "corpus" in chosen:
        figures |= corpus(args)
    for name in SETS:
        if name in chosen:
            figures |= public(name, args)
    for name in FOREIGN:
        if name in chosen:
            figures |= foreign(name, args)
    not_met = missed(figures, args)
    finish(name="admission", **figures, missed=not_met)
    sys.exit(1 if not_met or not figures else 0)


if __name__ == "__main__":
    main()

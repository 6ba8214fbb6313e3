"""A policy learns from executed repairs, and not from rewards that say nothing: `quintain train` with its controls.

    .venv/bin/python bench/learn.py [--quick] [--seeds 0,1,2] [--arms rl,sft,random,lost,naive] [--folder DIR]

Each arm is one `quintain train` in a process of its own with one torch thread, in real sandboxes: `rl` demonstrations,
then rewards; `sft` demonstrations only, for as much CPU time of the trainer as `rl` with the same seed had; `random`
the same as `rl` with a coin for each reward; `lost` with 30 % of the rewards lost by the house, and `naive` with the
same losses paid 0. Only `rl` is timed: the others know from the start what `rl` of their seed executed.

Going on: with --folder each arm's sum is kept there as ARM-SEED.json, and one that is there is not run again. So arms
and seeds can be run one by one, in any order, by as many calls as you like; the last call, with all of them, sums up.
What was cut short begins anew, since its times would say nothing. `sft`, `random`, `lost` and `naive` run `rl` of their
seed first where that is missing. Every arm that is run says one JSON line on stderr.

`before` and `after` are the shares of held-out faults solved at the first attempt, `within3` within three attempts,
means over seeds: faults that are never trained on, in functions that are (in the study that the goals come from: M).
`new_…` are the same of faults in functions that no training sees (there: F). `sft_only`, `random_reward`, `lost` and
`naive` are what those arms end at, `new` is that of every arm on new functions. `runs` has each seed's.
`sandbox_wait_share` is the share of the whole time in which the trainer did nothing but wait for sandboxes, which is
how that study counts its 40 %; `sandbox_cpu_share` is of all CPU time the part that executing took: sandboxes with what
ran in them, their engines, and the trainer's process while it handed them work and read what came back.
`executions_per_s` are per second in which anything was executed. `executed_share` is of all rewards asked for that were
executed just then: the others had been executed before under the same content hash.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from _machine import finish

ARMS: dict[str, tuple[str, ...]] = {
    "rl": (), "sft": ("--sft", "--sft-steps", "100000", "--evaluate-every", "1000000"),
    "random": ("--control", "random"),
    "lost": ("--inject-house-failures", "0.3"), "naive": ("--inject-house-failures", "0.3", "--naive"),
}
QUICK = ("--sft-steps", "20", "--steps", "10", "--demos", "30", "--train-each", "1", "--held-out-tasks", "20")
#: What is said here → as `quintain train --json` calls it.
MEASURES = {
    "before": "practised_before", "after": "practised_after", "within3": "practised_within3",
    "new_before": "before", "new_after": "after", "new_within3": "within3",
}
#: What each arm says of itself.
SAID = (
    *MEASURES.values(), "seconds", "cpu_seconds", "executions", "requests", "sandbox_wait_share", "sandbox_cpu_share")
Run = dict[str, float]


def trained(arm: str, seed: int, folder: Path, more: tuple[str, ...]) -> Run:
    """The sum of one training, from its folder where it is finished already."""
    kept = folder / f"{arm}-{seed}.json"
    if not kept.exists():
        shutil.rmtree(folder / f"{arm}-{seed}", ignore_errors=True)
        more = (*more, *_of_rl(arm, seed, folder, more))
        words = ["train", "--async", "--seed", str(seed), "--json", "--out", str(folder / f"{arm}-{seed}"), *more,
                 *ARMS[arm]]
        done = subprocess.run(
            [sys.executable, "-m", "quintain", *words], stdout=subprocess.PIPE, text=True, check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"})
        kept.write_text(done.stdout.splitlines()[-1] + "\n")
        told = json.loads(kept.read_text())
        print(json.dumps({"arm": arm, "seed": seed, **{name: told[name] for name in SAID}}), file=sys.stderr)
    found: Run = json.loads(kept.read_text())
    return found


def _of_rl(arm: str, seed: int, folder: Path, more: tuple[str, ...]) -> tuple[str, ...]:
    """What an arm has of `rl` with the same seed: what that executed, and `sft` its CPU time too."""
    if arm == "rl":
        return ()
    rl = trained("rl", seed, folder, more)
    known = folder / f"{arm}-{seed}.executed.jsonl"
    shutil.copy(folder / f"rl-{seed}" / "executed.jsonl", known)
    return ("--memory", str(known), *(("--cpu-seconds", str(rl["cpu_seconds"])) if arm == "sft" else ()))


def mean(runs: list[Run], name: str) -> float | None:
    values = [run[name] for run in runs if run.get(name) is not None]
    return round(sum(values) / len(values), 4) if values else None


def asked_for() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, a few updates: shows that it runs, no more")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--folder", type=Path, help="where sums are kept, and found by the next call")
    parser.add_argument("--steps", type=int, help="updates from rewards, where the default is not meant")
    asked = parser.parse_args()
    asked.arms = asked.arms.split(",")
    if unknown := set(asked.arms) - set(ARMS):
        parser.error(f"no arm is called {sorted(unknown)}; known are {', '.join(ARMS)}")
    asked.seeds = [0] if asked.quick else [int(seed) for seed in asked.seeds.split(",")]
    return asked


def main() -> None:
    asked = asked_for()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (asked.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        more = QUICK if asked.quick else () if asked.steps is None else ("--steps", str(asked.steps))
        runs = {arm: [trained(arm, seed, folder, more) for seed in asked.seeds] for arm in asked.arms}
    rl = runs.get("rl", [])
    inside, executions = mean(rl, "execution_seconds"), mean(rl, "executions")
    finish(
        **{name: mean(rl, theirs) for name, theirs in MEASURES.items()}, new_within3_before=mean(rl, "within3_before"),
        **{name: mean(runs.get(arm, []), MEASURES["after"]) for name, arm in (
            ("sft_only", "sft"), ("random_reward", "random"), ("lost", "lost"), ("naive", "naive"))},
        new={arm: mean(found, MEASURES["new_after"]) for arm, found in runs.items()},
        seconds=mean(rl, "seconds"), cpu_seconds=mean(rl, "cpu_seconds"), executions=executions,
        executions_per_s=round(executions / inside, 1) if executions and inside else None,
        executed_share=mean(rl, "executed_share"), execution_cpu_seconds=mean(rl, "execution_cpu_seconds"),
        sandbox_wait_share=mean(rl, "sandbox_wait_share"), sandbox_cpu_share=mean(rl, "sandbox_cpu_share"),
        seeds=asked.seeds, heldout_tasks=mean(rl, "practised_tasks"), new_tasks=mean(rl, "heldout_tasks"),
        quick=asked.quick,
        runs={arm: [{name: run[theirs] for name, theirs in MEASURES.items()} for run in found]
              for arm, found in runs.items()},
    )


if __name__ == "__main__":
    main()

"""A policy learns from executed repairs, and not from rewards that say nothing: `quintain train` with its controls.

    .venv/bin/python bench/learn.py [--quick] [--seeds 0,1,2] [--arms rl,sft,random,lost,naive] [--folder DIR]

Each arm is one `quintain train` in a process of its own with one torch thread, on held-out functions in real sandboxes:
`rl` demonstrations, then rewards; `sft` demonstrations only, for as much CPU time of the trainer as `rl` with the same
seed had; `random` the same as `rl` with a coin for each reward; `lost` with 30 % of the rewards lost by the house, and
`naive` with the same losses paid 0. With --folder arms that are finished there are not run again, and one that was cut
short begins anew: its times would say nothing.

`before` and `after` are the shares of held-out tasks solved at the first attempt, `within3` within three attempts,
means over seeds (each seed's in `runs`). `executions_per_s` are per second spent in sandboxes. `execution_share` is of
all CPU time the part that executing took: sandboxes with what ran in them, their engines, and the trainer's process
while it handed them work and read what came back. `waiting_share` is the share of the time in which the trainer did
nothing but wait for sandboxes, `executed_share` of all rewards asked for that were executed just then: the others had
been executed before under the same content hash.
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
Run = dict[str, float]


def trained(arm: str, seed: int, folder: Path, more: tuple[str, ...]) -> Run:
    """The sum of one training, from its folder where it is finished already."""
    kept = folder / f"{arm}-{seed}.json"
    if not kept.exists():
        shutil.rmtree(folder / f"{arm}-{seed}", ignore_errors=True)
        words = ["train", "--async", "--seed", str(seed), "--json", "--out", str(folder / f"{arm}-{seed}"), *more]
        done = subprocess.run(
            [sys.executable, "-m", "quintain", *words], stdout=subprocess.PIPE, text=True, check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"})
        kept.write_text(done.stdout.splitlines()[-1] + "\n")
    found: Run = json.loads(kept.read_text())
    return found


def mean(runs: list[Run], name: str) -> float | None:
    values = [run[name] for run in runs if run.get(name) is not None]
    return round(sum(values) / len(values), 4) if values else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, a few updates: shows that it runs, no more")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--memory", type=Path, help="what was executed, for all arms: times then say little")
    asked = parser.parse_args()
    arms = asked.arms.split(",")
    if unknown := set(arms) - set(ARMS):
        parser.error(f"no arm is called {sorted(unknown)}; known are {', '.join(ARMS)}")
    seeds = [0] if asked.quick else [int(seed) for seed in asked.seeds.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        runs: dict[str, list[Run]] = {}
        for seed in seeds:
            for arm in arms:
                more = ARMS[arm]
                if asked.quick:
                    more = (*QUICK, *more)
                if asked.memory:
                    more = (*more, "--memory", str(asked.memory))
                if arm == "sft":
                    budget = trained("rl", seed, folder, QUICK if asked.quick else ())["cpu_seconds"]
                    more = (*more, "--cpu-seconds", str(budget))
                runs.setdefault(arm, []).append(trained(arm, seed, folder, more))
                print(f"seed {seed}, {arm}: {runs[arm][-1]['after']:.1%} at the first attempt", file=sys.stderr)
    rl = runs.get("rl", [])
    inside = mean(rl, "execution_seconds")
    executions = mean(rl, "executions")
    waiting, seconds = mean(rl, "waiting_seconds"), mean(rl, "seconds")
    finish(
        before=mean(rl, "before"), after=mean(rl, "after"), within3=mean(rl, "within3"),
        within3_before=mean(rl, "within3_before"), sft_only=mean(runs.get("sft", []), "after"),
        random_reward=mean(runs.get("random", []), "after"), lost=mean(runs.get("lost", []), "after"),
        naive=mean(runs.get("naive", []), "after"), seconds=seconds, cpu_seconds=mean(rl, "cpu_seconds"),
        executions=executions, executions_per_s=round(executions / inside, 1) if executions and inside else None,
        executed_share=mean(rl, "executed_share"), execution_cpu_seconds=mean(rl, "execution_cpu_seconds"),
        execution_share=mean(rl, "execution_share"),
        waiting_share=round(waiting / seconds, 3) if waiting is not None and seconds else None, seeds=seeds,
        heldout_tasks=mean(rl, "heldout_tasks"), quick=asked.quick,
        runs={arm: [[run["before"], run["after"], run["within3"]] for run in found] for arm, found in runs.items()},
    )


if __name__ == "__main__":
    main()

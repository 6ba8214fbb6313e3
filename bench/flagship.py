"""A real language model (SmolLM2-135M-Instruct) learns one-liners of shell in sandboxes: examples/flagship.py by seeds.

    .venv/bin/python bench/flagship.py [--quick] [--seeds 0,1,2] [--arms rl,sft,random] [--steps 40] [--folder DIR]

`rl`: 32 updates from 28 demonstrations, then rewards of two-turn episodes; `sft`: demonstrations only, for as much CPU
time as `rl` had; `random`: a coin for each reward. 224 held-out tasks of the trained families, and 72 of eight families
that were never trained (`new_…`): what generalises and what does not. `before` is after the demonstrations. Intervals
are 95 %: over all tasks of all seeds, by Wilson's formula (tasks of one seed share a policy: they are a little too
narrow, and `runs` has each seed's).

Going on: with --folder each arm's sum is kept there as ARM-SEED.json, and one that is there is not run again; so arms
and seeds can be run one by one (`--seeds 1 --arms rl`), and the last call, with all of them, sums up. What was killed
goes on from its newest checkpoint (one after every 20 updates); its CPU time is then that of the part that was watched,
scaled to all its updates. `sft` runs `rl` of its seed first where that is missing.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _machine import finish

ROOT = Path(__file__).parent.parent
ARMS: dict[str, tuple[str, ...]] = {"rl": (), "sft": ("--sft-steps", "100000", "--steps", "0"),
                                    "random": ("--control", "random")}
MEASURES = ("pass_at_1", "solved", "new_pass_at_1", "new_solved")
Run = dict[str, dict[str, float]]


def trained(arm: str, seed: int, folder: Path, more: tuple[str, ...]) -> tuple[Run, float]:
    """What the run came to, and the CPU seconds of its process."""
    kept = folder / f"{arm}-{seed}.json"
    if not kept.exists():
        words = [sys.executable, str(ROOT / "examples" / "flagship.py"), "--seed", str(seed), "--out",
                 str(folder / f"{arm}-{seed}"), *ARMS[arm], *more]
        before = _cpu_of_children()
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        run = json.loads(done.stdout.splitlines()[-1])
        seen = 1 - (run["resumed_at"] or 0) / max(1, run["steps"])
        found = {"run": run, "cpu_seconds": (_cpu_of_children() - before) / max(seen, 0.05)}
        kept.write_text(json.dumps(found) + "\n")
    held = json.loads(kept.read_text())
    return held["run"], held["cpu_seconds"]


def _cpu_of_children() -> float:
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def interval(right: float, count: float) -> list[float]:
    """Wilson's 95 % interval of a share."""
    if not count:
        return [0.0, 1.0]
    share, z = right / count, 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return [round(middle - half, 4), round(middle + half, 4)]


def pooled(runs: list[Run], when: str, measure: str) -> dict[str, object]:
    head = "new_" if measure.startswith("new_") else ""
    counts = [run[when][f"{head}tasks"] for run in runs]
    right = sum(run[when][measure] * count for run, count in zip(runs, counts, strict=True))
    return {"share": round(right / max(1.0, sum(counts)), 4), "interval": interval(right, sum(counts)),
            "seeds": [round(run[when][measure], 4) for run in runs]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, one update, a few tasks: shows that it runs")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    arms = asked.arms.split(",")
    if unknown := set(arms) - set(ARMS):
        parser.error(f"no arm is called {sorted(unknown)}; known are {', '.join(ARMS)}")
    more = ("--steps", "1", "--sft-steps", "2", "--every", "40") if asked.quick else ("--steps", str(asked.steps))
    seeds = [0] if asked.quick else [int(seed) for seed in asked.seeds.split(",")]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        runs: dict[str, list[Run]] = {}
        cpu: dict[str, list[float]] = {}
        for seed in seeds:
            for arm in ["rl"] if asked.quick else arms:
                extra = more
                if arm == "sft":
                    extra = ("--cpu-seconds", str(trained("rl", seed, folder, more)[1]))
                run, used = trained(arm, seed, folder, extra)
                runs.setdefault(arm, []).append(run)
                cpu.setdefault(arm, []).append(round(used, 1))
                print(f"seed {seed}, {arm}: {run['after']['pass_at_1']:.1%} at the first attempt", file=sys.stderr)
    finish(
        **{arm: {measure: pooled(found, "after", measure) for measure in MEASURES} for arm, found in runs.items()},
        before={measure: pooled(runs["rl"], "before", measure) for measure in MEASURES} if "rl" in runs else None,
        cpu_seconds=cpu, seconds=round(time.monotonic() - began, 1), seeds=seeds,
        steps=1 if asked.quick else asked.steps, quick=asked.quick)


if __name__ == "__main__":
    main()

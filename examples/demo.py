"""The demo: three policies attempt HumanEval in real sandboxes, and a fourth learns. Run by `make demo`; --take N for a
shorter one."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

POLICIES = {
    "oracle": "knows the answers: everything must be solved",
    "null": "answers nothing of use: nothing may be solved",
    "repair": "starts wrong, reads the feedback, mends its answer",
}


def attempt(policy: str, folder: Path, take: int | None) -> dict[str, object]:
    words = ["run", "humaneval", "--policy", policy, "--json", "--out", str(folder)]
    words += ["--take", str(take)] if take else []
    done = subprocess.run([sys.executable, "-m", "quintain", *words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode > 1:  # 1: some failed, and the table says how many; else its own words are on stderr
        sys.exit(done.returncode)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


#: What a shorter demo does not wait for.
SHORTER = ("--sft-steps", "10", "--steps", "4", "--demos", "20", "--train-each", "1", "--held-out-tasks", "10")


def learn(folder: Path, more: tuple[str, ...]) -> dict[str, float] | None:
    """What a small policy came to that learns to repair programs; None without torch."""
    if importlib.util.find_spec("torch") is None:
        print("\nThe last part of the demo, a policy that learns, needs torch: make torch", file=sys.stderr)
        return None
    print("\na small network learns to repair programs: from repairs that it is shown, then by trial, error and "
          "feedback in sandboxes", file=sys.stderr)
    words = ["train", "--async", "--json", "--out", str(folder), *more]
    done = subprocess.run([sys.executable, "-m", "quintain", *words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--take", type=int, help="only the first N tasks")
    take = parser.parse_args().take
    folder = Path("runs") / time.strftime("demo-%Y%m%d-%H%M%S")
    rows = {}
    for policy, about in POLICIES.items():
        print(f"{policy}: {about}", file=sys.stderr)
        rows[policy] = attempt(policy, folder / policy, take)
    sys.stderr.flush()
    print(f"\n{'policy':8} {'solved':>9} {'reward':>7} {'seconds':>8}  faults by owner")
    for policy, row in rows.items():
        faults = ", ".join(f"{owner} {count}" for owner, count in row["faults"].items())
        solved = f"{row['solved']}/{row['episodes']}"
        print(f"{policy:8} {solved:>9} {row['reward']:7.3f} {row['seconds']:8.1f}  {faults}")
    learnt = learn(folder / "learn", SHORTER if take else ())
    if learnt:
        print(f"\nrepairs of {learnt['heldout_tasks']} faults in functions that it never saw: "
              f"{learnt['before']:.0%} at the first attempt after the demonstrations,\n{learnt['after']:.0%} after "
              f"learning from its own attempts, {learnt['within3']:.0%} within three; {learnt['executions']} programs "
              f"executed\nfor {learnt['requests']} rewards, {learnt['seconds']:.0f} s in all")
    print("\nwhere to look next")
    print(f"  an answer mended, step by step:  .venv/bin/quintain show {folder / 'repair'} HumanEval/0")
    print(f"  a run, episode by episode:       .venv/bin/quintain show {folder / 'null'}")
    print("  your own model:                  .venv/bin/quintain run humaneval --policy openai:MODEL --base-url URL")
    if learnt:
        print(f"  the learning curve:              {folder / 'learn' / 'curve.html'}")
        print("  the same with a senseless reward: .venv/bin/quintain train --async --control random")
    print("  how it is built:                 docs/index.md")


if __name__ == "__main__":
    main()

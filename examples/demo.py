"""The demo: three policies attempt HumanEval in real sandboxes. Run by `make demo`; --take N for a shorter one."""

from __future__ import annotations

import argparse
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
    print("\nwhere to look next")
    print(f"  an answer mended, step by step:  .venv/bin/quintain show {folder / 'repair'} HumanEval/0")
    print(f"  a run, episode by episode:       .venv/bin/quintain show {folder / 'null'}")
    print("  your own model:                  .venv/bin/quintain run humaneval --policy openai:MODEL --base-url URL")
    print("  how it is built:                 docs/index.md")


if __name__ == "__main__":
    main()

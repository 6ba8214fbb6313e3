"""A small network learns to repair programs: demonstrations, then trial, error and feedback in real sandboxes. The end
of `make demo`; --take N for a short one that shows only that it runs."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

#: What a shorter demo does not wait for.
SHORTER = ("--sft-steps", "4", "--steps", "2", "--demos", "8", "--train-each", "1", "--held-out-tasks", "4")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--take", type=int, help="any number: a few updates on a few tasks")
    short = parser.parse_args().take is not None
    if importlib.util.find_spec("torch") is None:
        print("\nThe last part of the demo, a policy that learns, needs torch: make torch", file=sys.stderr)
        return
    print("\na small network learns to repair programs: from repairs that it is shown, then by trial, error and "
          "feedback in sandboxes", file=sys.stderr)
    folder = Path("runs") / time.strftime("learn-%Y%m%d-%H%M%S")
    words = ["train", "--async", "--json", "--out", str(folder), *(SHORTER if short else ())]
    done = subprocess.run([sys.executable, "-m", "quintain", *words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    found = json.loads(done.stdout.splitlines()[-1])
    print("\nfaults that it never saw, right at the first attempt after the demonstrations, after learning from its\n"
          "own attempts, and then within three attempts\n")
    for where, head, count in (("in functions that it practised on", "practised_", found["practised_tasks"]),
                               ("in functions that it never saw", "", found["heldout_tasks"])):
        if count:
            print(f"  {count} {where}: {found[head + 'before']:.0%}, {found[head + 'after']:.0%}, "
                  f"{found[head + 'within3']:.0%}")
    print()
    print(f"{found['executions']} programs executed for {found['requests']} rewards (the others had been executed "
          f"before); {found['seconds']:.0f} s in all,\n{found['sandbox_wait_share']:.0%} of it waiting for sandboxes, "
          f"which took {found['sandbox_cpu_share']:.0%} of the CPU time")
    print(f"  the learning curve:               {folder / 'curve.html'}")
    print("  the same with a senseless reward: .venv/bin/quintain train --async --control random")


if __name__ == "__main__":
    main()

"""Harbor in our sandboxes (`pip install harbor`, Python 3.12): `python examples/harbor_trial.py [AGENT]`.

Writes a small task as a Harbor directory and has an agent of Harbor's try it: `oracle` (its own solution) or `nop`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from quintain.tasks import Exam, Item, StdioCase, StdioSuite, write_taskset
from quintain.types import Entry

ITEM = Item.sealed(
    Exam(hidden=StdioSuite(cases=(StdioCase(name="sum", stdin=b"2 3\n", stdout=b"5\n"),)),
         oracle={"solve.py": b"print(sum(map(int, input().split())))\n"}),
    id="sum", instructions="Read a line of numbers and print their sum.",
    entry=Entry(path="solve.py", language="python"))


def main(agent: str = "oracle") -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_taskset([ITEM], Path(folder), format="harbor")
        subprocess.run(
            [Path(sys.executable).with_name("harbor"), "run", "-y", "-q", "-p", f"{folder}/sum", "-a", agent,
             "-e", "quintain.bridges.harbor:QuintainEnvironment",
             "--ek", 'bases={"python:3.12-slim": "host"}',  # what stands for the image of a registry
             "-o", folder, "--job-name", "job"], check=True)
        for result in Path(folder, "job").glob("*/result.json"):
            print(agent, json.loads(result.read_text())["verifier_result"]["rewards"])


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Runs the tests of a repository and writes a reward for each expected id; alone, without Quintain.

`python3 run.py` lays the trusted test files over the work tree, removes those that the test patch removes, runs pytest
on the files of the expected ids, and reports each id that was seen exactly once and passed. A skip, an expected failure
and silence are no pass. Tests and answer share this process: at most L2.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def main() -> None:
    told = json.loads((HERE / "suite.json").read_text())
    work = Path(told["workdir"])
    shutil.copytree(HERE / "tree", work, dirs_exist_ok=True)
    for path in told["removed"]:
        (work / path).unlink(missing_ok=True)
    os.chdir(work)
    sys.path.insert(0, str(work))
    sys.dont_write_bytecode = True
    outcomes = run(told["files"])
    rewards = {id: int(outcomes.get(id) == ["passed"]) for id in told["ids"]}
    place = Path(told["reward_file"])
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(rewards))


def run(files: list[str]) -> dict[str, list[str]]:
    """For each id, how it ended: once, unless somebody reports it again."""
    import pytest

    seen: dict[str, list[str]] = {}
    failed: set[str] = set()

    class Recorder:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.when == "call" and not hasattr(report, "wasxfail"):
                seen.setdefault(report.nodeid, []).append(report.outcome)
            elif report.outcome != "passed":
                failed.add(report.nodeid)

    pytest.main(["-p", "no:cacheprovider", "-q", *files], [Recorder()])
    return {id: ["failed"] if id in failed else outcomes for id, outcomes in seen.items()}


if __name__ == "__main__":
    main()

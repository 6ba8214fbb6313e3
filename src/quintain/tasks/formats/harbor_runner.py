"""Runs tests inside a written Harbor task: `python3 /tests/run.py` there is this very file, alone, without Quintain.

Reads suite.json beside it, runs the tests on the files in its `workdir`, and writes a reward: 1 when every expected
test was reported exactly once and passed, else 0, with the share that passed beside it. Tests and answer share this
process or its user: Harbor has no wall between them.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import subprocess
import sys
import traceback
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REWARD = Path("/logs/verifier/reward.json")
Outcomes = list[tuple[str, bool]]


def main() -> None:
    suite = json.loads((HERE / "suite.json").read_text())
    judge = {"python": run_python, "stdio": run_stdio, "answer": run_answer}[suite["kind"]]
    try:
        outcomes = judge(suite)
    except BaseException:  # whatever the answer raised while it was imported: a reward is written all the same
        traceback.print_exc()
        outcomes = []
    expected = suite["required"] or sorted({name for name, _ in outcomes})
    passed = [name for name in expected if [ok for found, ok in outcomes if found == name] == [True]]
    share = len(passed) / len(expected) if expected else 0.0
    for name in expected:
        print("PASSED" if name in passed else "FAILED", name)
    REWARD.parent.mkdir(parents=True, exist_ok=True)
    REWARD.write_text(json.dumps({"reward": 1 if share == 1.0 else 0, "passed_share": share}))


def run_python(suite: dict[str, Any]) -> Outcomes:
    os.chdir(suite["workdir"])
    sys.path[:0] = [suite["workdir"], str(HERE / "tree")]
    sys.dont_write_bytecode = True
    files = [HERE / "tree" / path for path in suite["files"]]
    if any("pytest" in file.read_text() for file in files):
        return _by_pytest(files)
    return [outcome for file in files for outcome in _plainly(file)]


def _by_pytest(files: list[Path]) -> Outcomes:
    import pytest

    outcomes: dict[str, bool] = {}

    class Recorder:
        def pytest_runtest_logreport(self, report: Any) -> None:
            file, _, name = report.nodeid.partition("::")
            id = f"{Path(file).name if '/' not in file else file}::{name}"
            outcomes[id] = outcomes.get(id, True) and report.outcome == "passed"

    root = HERE / "tree"
    pytest.main([f"--rootdir={root}", "-c", os.devnull, "-p", "no:cacheprovider", "-q", *map(str, files)], [Recorder()])
    return list(outcomes.items())


def _plainly(file: Path) -> Iterator[tuple[str, bool]]:
    path = file.relative_to(HERE / "tree").as_posix()
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and issubclass(value, unittest.TestCase):
            for method in unittest.defaultTestLoader.getTestCaseNames(value):
                result = unittest.TestResult()
                value(method).run(result)
                good = result.wasSuccessful() and not result.skipped and not result.expectedFailures
                yield f"{path}::{name}::{method}", good
        elif name.startswith("test") and callable(value):
            yield f"{path}::{name}", _returns(value)


def _returns(test: Any) -> bool:
    try:
        test()
    except BaseException:  # a test that ends in any way but by returning has failed
        traceback.print_exc()
        return False
    return True


def run_stdio(suite: dict[str, Any]) -> Outcomes:
    return [(case["name"], _case(suite, case)) for case in suite["cases"]]


def _case(suite: dict[str, Any], case: dict[str, Any]) -> bool:
    for path, content in case["files"].items():
        place = Path(suite["workdir"], path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(base64.b64decode(content))
    try:
        done = subprocess.run(
            [*suite["command"], *case["argv"]], input=base64.b64decode(case["stdin"]), capture_output=True,
            cwd=suite["workdir"], timeout=suite["seconds"], check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(case["name"], error)
        return False
    if case["exit_code"] is not None and done.returncode != case["exit_code"]:
        return False
    return same_output(base64.b64decode(case["stdout"]), done.stdout, suite["compare"])


def same_output(expected: bytes, found: bytes, compare: str) -> bool:
    if compare == "exact":
        return expected == found
    if compare == "tokens":
        return expected.split() == found.split()
    return _trimmed(expected) == _trimmed(found)


def _trimmed(output: bytes) -> list[bytes]:
    lines = [line.rstrip() for line in output.split(b"\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def run_answer(suite: dict[str, Any]) -> Outcomes:
    place = Path(suite["workdir"], suite["path"])
    if not place.is_file():
        print(f"expected the answer in {place}, found none")
        return [("answer", False)]
    said = " ".join(place.read_text(errors="replace").split()).casefold()
    return [("answer", said == " ".join(suite["expected"].split()).casefold())]


if __name__ == "__main__":
    main()

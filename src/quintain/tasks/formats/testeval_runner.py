"""Runs an answer's tests on the trusted copy of a program and writes what they cover; alone, without Quintain.

`python3 run.py` calls each `test_*` function of the answer while the lines of solution.py that run are recorded, and
writes `passes` (1 when there is a test and all pass), `covers` (1 when every target line ran in a passing test) and the
share of the target lines. The tests share this process: at most L2.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
PROGRAM = str(HERE / "solution.py")


def main() -> None:
    told = json.loads((HERE / "suite.json").read_text())
    wanted = set(told["target_lines"])
    sys.path.insert(0, str(HERE))
    passed, total, lines = 0, 0, set[int]()
    try:
        answer = loaded("answer", Path("/work") / told["answer"])
        tests = [value for name, value in vars(answer).items() if name.startswith("test") and callable(value)]
    except BaseException:  # an answer that cannot be loaded has no tests
        traceback.print_exc()
        tests = []
    for test in tests:
        total += 1
        ran = covered(test)
        if ran is not None:
            passed += 1
            lines |= ran
    reward = {"passes": int(0 < total == passed), "covers": int(wanted <= lines),
              "covered_share": len(wanted & lines) / len(wanted)}
    place = Path(told["reward_file"])
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(reward))


def loaded(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def covered(test: Any) -> set[int] | None:
    """The lines of the program that a test makes run; None when it does not pass."""
    lines: set[int] = set()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != PROGRAM:
            return None
        if event == "line":
            lines.add(frame.f_lineno)
        return trace

    sys.settrace(trace)
    try:
        test()
    except BaseException:  # a test that ends in any way but by returning has failed
        traceback.print_exc()
        return None
    finally:
        sys.settrace(None)
    return lines


if __name__ == "__main__":
    main()

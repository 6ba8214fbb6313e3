"""Suites of known strength, whether their worth is ordered and the same again: `bench/test_writing.py [--take N]`.

Of each of N functions of our own (default 6) three suites are judged twice, with other seeds and orders of mutants:
weak is the first of the author's tests, medium the first half, strong all of them. The JSON line has the mean mutation
score of each, `ordered` (functions where weak <= medium <= strong, and weak < strong), and `largest_difference` between
the two times, in shares.
"""

from __future__ import annotations

import argparse
import asyncio

from _machine import finish

from quintain.env import TestWritingEnvironment
from quintain.grade import warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, open_taskset
from quintain.types import Program

SUITES = ("weak", "medium", "strong")


def suite_of(item: Item, name: str) -> Program:
    """The author's file with its first test only, its first half, or all."""
    text = (item.exam.oracle or {})["test_solution.py"].decode()
    head, *tests = text.split("\n\n\ndef ")
    count = {"weak": 1, "medium": len(tests) // 2, "strong": len(tests)}[name]
    kept = "\n\n\ndef ".join([head, *tests[:count]]) + "\n"
    return Program(files={**item.task.files, "test_solution.py": kept.encode()})


async def measure(take: int) -> dict[str, object]:
    scores: dict[str, list[float]] = {name: [] for name in SUITES}
    ordered, largest = 0, 0.0
    items = list(open_taskset("testgen:own", take=take))
    async with NativeBackend(warm=warm_oracle()) as backend:
        environment = TestWritingEnvironment(backend)
        for item in items:
            row = []
            for name in SUITES:
                values = [(await environment.judged(item, suite_of(item, name)))[1] for _ in range(2)]
                assert all(value.sound for value in values), values
                largest = max(largest, abs(values[0].kill_share - values[1].kill_share))
                scores[name].append(values[0].kill_share)
                row.append(values[0].kill_share)
            ordered += row[0] <= row[1] <= row[2] and row[0] < row[2]
            print(item.task.id, *(f"{name} {value:.2f}" for name, value in zip(SUITES, row, strict=True)))
    means = {name: round(sum(values) / len(values), 3) for name, values in scores.items()}
    return {**means, "functions": len(items), "ordered": ordered, "largest_difference": largest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--take", type=int, default=6, help="so many functions")
    finish(**asyncio.run(measure(parser.parse_args().take)))


if __name__ == "__main__":
    main()

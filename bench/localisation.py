"""Where the bug is, by Ochiai: the rank of the changed line among the suspicious ones, for each QuixBugs program.

    .venv/bin/python bench/localisation.py [--quick] [--data DIR] [--only NAME]

Each program has one wrong line. Its hidden tests run with the tracer (a test alone where one does not end), suspicion
is Ochiai's, and the rank is the best one among the lines where the reference differs; lines of equal suspicion share
the mean of their places. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path

import msgspec
from _machine import finish

from quintain.grade import Oracle, cover, gold_spans, ochiai, rank_of, warm_oracle
from quintain.sandbox import Backend, NativeBackend
from quintain.tasks import Item, PythonSuite, open_taskset
from quintain.types import Limits, Passed

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
LIMITS = Limits(wall_seconds=2.0, cpu_seconds=2.0)
ByTest = dict[str, dict[str, frozenset[int]]]


async def seen(backend: Backend, item: Item) -> tuple[ByTest, dict[str, bool]]:
    """Which lines each test ran, and whether it passed."""
    suite, entry = item.exam.hidden, item.task.entry.path
    files = {p: c for p, c in item.task.files.items() if not p.startswith("tests_visible/")}
    assert isinstance(suite, PythonSuite)
    oracle = Oracle(backend, confirm=False)

    async def once(names: tuple[str, ...]) -> tuple[ByTest, dict[str, bool], bool]:
        part = msgspec.structs.replace(suite, required=names)
        found = await cover(backend, part, files, oracle=oracle, limits=LIMITS, slower=3.0, paths=[entry])
        passed = {test.id: test.passed is Passed.PASSED for test in found.verdict.tests}
        return found.lines_by_test, passed, found.complete

    lines, passed, complete = await once(suite.required)
    if complete:
        return lines, passed
    alone = [await once((name,)) for name in suite.required]
    return ({name: by for some, _, _ in alone for name, by in some.items()},
            {name: ok for _, some, _ in alone for name, ok in some.items()})


async def measured(backend: Backend, item: Item) -> dict[str, object]:
    lines, passed = await seen(backend, item)
    suspicion = ochiai(lines, passed)
    gold = gold_spans(item.task.files, item.exam.oracle or {})
    ranks = [rank for span in gold for number in range(span.first, span.last + 1)
             if (rank := rank_of(suspicion, (span.path, number))) is not None]
    return {"name": item.task.id, "tests": len(passed), "failed": sum(not ok for ok in passed.values()),
            "lines": len(suspicion), "gold": [[s.first, s.last] for s in gold], "rank": min(ranks, default=None)}


async def run(options: argparse.Namespace) -> None:
    items = [item for item in open_taskset("quixbugs", data=options.data) if options.only in item.task.id]
    items = items[:6] if options.quick else items
    rows = []
    started = time.monotonic()
    async with NativeBackend(warm=warm_oracle()) as backend:
        for item in items:
            rows.append(await measured(backend, item))
            print(json.dumps(rows[-1]), flush=True)
    ranks = [float(str(row["rank"])) for row in rows if row["rank"] is not None]
    finish(
        programs=len(rows), ranked=len(ranks), top1=sum(r <= 1 for r in ranks), top3=sum(r <= 3 for r in ranks),
        top5=sum(r <= 5 for r in ranks), median_rank=statistics.median(ranks) if ranks else None,
        seconds=round(time.monotonic() - started, 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--quick", action="store_true", help="the first six programs")
    parser.add_argument("--only", default="", help="a part of the program's name")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()

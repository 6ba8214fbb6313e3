"""Tasks through other formats: what survives a round trip, and whether what was written still judges.

    python bench/formats.py [--tasks N] [--judged N]

HumanEval is written as Harbor directories, these are read and written again, and both trees are compared byte for byte
and mode for mode; then the oracle and the nop answer of some of the written directories are made and judged in
sandboxes. The same tasks go through JSONL rows and back. Ends with one JSON line, and exit code 1 where a goal is
missed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from _machine import finish

from quintain.grade import World
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, convert, open_taskset


def listing(root: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path.relative_to(root)): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
            for path in sorted(root.rglob("*"))}


async def judged(items: list[Item], cache: Path) -> tuple[int, int]:
    """How many oracles solve their task, and how many nop answers do."""
    solved = nops = 0
    async with NativeBackend() as backend:
        world = World(backend, cache=cache, bases={"*": "host"})
        for number, item in enumerate(items, 1):
            print(f"{number}/{len(items)} {item.task.id}", file=sys.stderr)
            for answer, oracle in ((item.exam.oracle or {}, True), (item.exam.null[0], False)):
                made = await world.make(item, answer, oracle=oracle)
                verdict = await world.grade(item, made.trees)
                solved += verdict.solved and oracle
                nops += verdict.solved and not oracle
    return solved, nops


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=164)
    parser.add_argument("--judged", type=int, default=20)
    options = parser.parse_args()
    source = open_taskset(f"humaneval?take={options.tasks}")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        first = convert(source, root / "first", format="harbor")
        harbor = open_taskset(str(root / "first"))
        convert(harbor, root / "second", format="harbor")
        before, after = listing(root / "first"), listing(root / "second")
        unlike = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
        convert(source, root / "rows.jsonl", format="jsonl")
        same = sum(one == other for one, other in zip(source, open_taskset(str(root / "rows.jsonl")), strict=True))
        converted = time.perf_counter() - started
        print(f"{len(first.written)} directories written, read and written again in {converted:.1f} s", file=sys.stderr)
        solved, nops = asyncio.run(judged([harbor[id] for id in harbor.ids[:options.judged]], root / "cache"))
    missed = [goal for goal, is_met in {
        "a directory for each task": len(first.written) == len(source.ids),
        "no entry changed": not unlike, "every row equal": same == len(source.ids),
        "every oracle solves its task": solved == min(options.judged, len(source.ids)),
        "no nop answer does": nops == 0,
    }.items() if not is_met]
    finish(
        bench="formats", missed=missed,
        directories=len(first.written), entries=len(before), entries_changed=len(unlike),
        losses_told=len(first.notes), rows_equal=same, convert_seconds=round(converted, 2), judged=options.judged,
        oracle_solved=solved, nop_solved=nops,
    )
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()

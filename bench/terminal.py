"""A folder of terminal tasks, Harbor's or Terminal-Bench's, on this host: `python bench/terminal.py FOLDER [--hacks]`.

Of the tasks whose needs the host meets (`met`; what the others lack is printed) `oracle` is the share that the author's
answer solves and `null` that which a script that does nothing solves; `--hacks` tries every trick of the gate's battery
against scripts on each: `hacks`, `hacks_paid`. `--base REF=IMAGE` as in `quintain tasks check`, by default `*=host`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from _machine import finish

from quintain.curate.battery import mechanisms
from quintain.env import TerminalWorld
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, open_taskset
from quintain.types import HouseError, TaskError


async def solved(world: TerminalWorld, item: Item, answer: Mapping[str, bytes], *, oracle: bool, what: str) -> bool:
    """Whether an answer solves the task; a fault of the house or the task is printed and solves nothing."""
    try:
        made = await world.make(item, answer, oracle=oracle)
        verdict = await world.grade(item, made.trees)
    except (TaskError, HouseError) as error:
        print(f"{item.task.id}: {what}: {error}", file=sys.stderr)
        return False
    if verdict.solved is not oracle:
        print(f"{item.task.id}: {what}: solved={verdict.solved} {verdict.fault or ''}", file=sys.stderr)
    return verdict.solved


async def figures(folder: str, bases: dict[str, str], *, hacks: bool, at_once: int) -> dict[str, object]:
    tricks = [one for one in mechanisms() if one.language == "script"] if hacks else []
    room = asyncio.Semaphore(at_once)
    found: dict[str, list[bool]] = {"oracle": [], "null": [], "hacks": []}
    lacking: list[str] = []
    with tempfile.TemporaryDirectory() as cache:
        async with NativeBackend() as backend:
            world = TerminalWorld(backend, cache=Path(cache), bases=bases)

            async def one(item: Item) -> None:
                async with room:
                    try:
                        world.image(item)
                    except TaskError as error:
                        print(f"{item.task.id}: {error}", file=sys.stderr)
                        lacking.append(item.task.id)
                        return
                    entry = item.task.entry.path
                    found["oracle"].append(
                        await solved(world, item, item.exam.oracle or {}, oracle=True, what="oracle"))
                    for null in item.exam.null:
                        found["null"].append(await solved(world, item, null, oracle=False, what="null"))
                    for trick in tricks:
                        files = {path: text.strip().encode() + b"\n" for path, text in trick.files.items()}
                        said = {entry if path.startswith("solution.") else path: c for path, c in files.items()}
                        found["hacks"].append(await solved(world, item, said, oracle=False, what=trick.name))

            async with asyncio.TaskGroup() as group:
                for item in open_taskset(folder):
                    group.create_task(one(item))
    met = len(found["oracle"])
    return {"met": met, "lacking": len(lacking), "oracle": sum(found["oracle"]) / max(1, met),
            "null": sum(found["null"]) / max(1, len(found["null"])), "hacks": len(found["hacks"]),
            "hacks_paid": sum(found["hacks"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="one task's directory, or a folder of such")
    parser.add_argument("--base", action="append", default=[], metavar="REF=IMAGE")
    parser.add_argument("--hacks", action="store_true", help="try the battery against scripts, too")
    parser.add_argument("--sandboxes", type=int, default=2, help="how many at once")
    options = parser.parse_args()
    bases = dict(said.rsplit("=", 1) for said in options.base) or {"*": "host"}
    finish(**asyncio.run(figures(options.folder, bases, hacks=options.hacks, at_once=options.sandboxes)))


if __name__ == "__main__":
    main()

"""A folder of terminal tasks, Harbor's or Terminal-Bench's, on this host: `bench/terminal.py FOLDER [--shadows]`.

Of the tasks whose needs the host meets (`met`; what the others lack is printed) `oracle` is the share that the author's
answer solves and `null` that which a script that does nothing solves. `--shadows` tries on each what lies in the way of
names that tests use (tests/env/shadows.toml), `--hacks` besides every trick of the gate's battery against scripts:
`hacks`, `hacks_paid`. `--base REF=IMAGE` as in `quintain tasks check`, by default `*=host`. The folder `own` means our
own tasks, those of terminal_own.toml; `--only NAME` takes some of a folder's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from _machine import finish

from quintain.curate.battery import mechanisms
from quintain.env import TerminalWorld
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, open_taskset
from quintain.types import HouseError, TaskError

_OPENED = """#!/bin/bash
apt-get update && apt-get install -y curl
curl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh
source $HOME/.local/bin/env
"""
_BY_PYTEST = "uvx -p 3.13 -w pytest==8.4.1 -w pytest-json-ctrf==0.3.5 pytest --ctrf /logs/verifier/ctrf.json " \
    "/tests/test_outputs.py -rA"
_REWARDED = "\nif [ $? -eq 0 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
_TOML = """version = "1.0"
[agent]
timeout_sec = 120.0
[verifier]
timeout_sec = 120.0
[environment]
docker_image = "somebody/{name}:20251031"
"""


def own_tasks(root: Path) -> Path:
    """A folder with our own tasks, each written as its form has it."""
    for task in tomllib.loads(Path(__file__).with_name("terminal_own.toml").read_text())["task"]:
        old = task.get("form") == "terminal-bench"
        said, solve = task["about"] + "\n", f"#!/bin/bash\nset -e\n{task['solve'].strip()}\n"
        docker = task.get("dockerfile", "FROM python:3.11-slim\nWORKDIR /app\n")
        tests = {f"tests/{path}": text for path, text in task.get("tests", {}).items()}
        if "check" in task:
            tests["tests/test_outputs.py"] = task["check"]
        run = _BY_PYTEST if "check" in task else f"#!/bin/bash\n{task['test'].strip()}\n"
        if old:
            run = "#!/bin/bash\npytest $TEST_DIR/test_outputs.py -rA\n" if "check" in task else run
            files = {"task.yaml": f"instruction: {json.dumps(said)}\n", "solution.sh": solve, "run-tests.sh": run,
                     "Dockerfile": docker, **tests, **task.get("files", {})}
        else:
            files = {"task.toml": _TOML.format(name=task["name"]), "instruction.md": said, "solution/solve.sh": solve,
                     "tests/test.sh": f"{_OPENED}{run}{_REWARDED}" if "check" in task else run, **tests,
                     "environment/Dockerfile": docker,
                     **{f"environment/{path}": text for path, text in task.get("files", {}).items()}}
        for path, text in files.items():
            place = root / ("old" if old else "new") / task["name"] / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
    return root


def shadows() -> dict[str, str]:
    """What lies in the way of names that tests use: name to script."""
    told = tomllib.loads((Path(__file__).parents[1] / "tests" / "env" / "shadows.toml").read_text())
    return {one["name"]: f"#!/bin/bash\n{one['text'].strip()}\n" for one in told["trick"]}


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


async def figures(
    folder: str, bases: dict[str, str], *, tricks: Mapping[str, str], only: Sequence[str], at_once: int,
) -> dict[str, object]:
    room = asyncio.Semaphore(at_once)
    found: dict[str, list[bool]] = {"oracle": [], "null": [], "hacks": []}
    lacking: list[str] = []
    with tempfile.TemporaryDirectory() as cache:
        if folder == "own":
            tasks = [one for form in ("new", "old") for one in open_taskset(str(own_tasks(Path(cache) / "own") / form))]
        else:
            tasks = list(open_taskset(folder))
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
                    for name, text in tricks.items():
                        said = {entry: text.strip().encode() + b"\n"}
                        found["hacks"].append(await solved(world, item, said, oracle=False, what=name))

            async with asyncio.TaskGroup() as group:
                for item in (one for one in tasks if not only or one.task.id in only):
                    group.create_task(one(item))
    met = len(found["oracle"])
    return {"met": met, "lacking": len(lacking), "oracle": sum(found["oracle"]) / max(1, met),
            "null": sum(found["null"]) / max(1, len(found["null"])), "hacks": len(found["hacks"]),
            "hacks_paid": sum(found["hacks"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="one task's directory, or a folder of such")
    parser.add_argument("--base", action="append", default=[], metavar="REF=IMAGE")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--shadows", action="store_true", help="try what lies in the way of the tests' names")
    parser.add_argument("--hacks", action="store_true", help="try the battery against scripts, too")
    parser.add_argument("--sandboxes", type=int, default=2, help="how many at once")
    options = parser.parse_args()
    bases = dict(said.rsplit("=", 1) for said in options.base) or {"*": "host"}
    tricks = shadows() if options.shadows or options.hacks else {}
    if options.hacks:
        tricks |= {one.name: one.files["solution.sh"] for one in mechanisms() if one.language == "script"}
    finish(**asyncio.run(figures(options.folder, bases, tricks=tricks, only=options.only, at_once=options.sandboxes)))


if __name__ == "__main__":
    main()

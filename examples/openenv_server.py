"""A task served as an OpenEnv environment, and OpenEnv's own client at it. Needs `pip install quintain[openenv,serve]`
and the native sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from openenv.core.generic_client import GenericEnvClient

from quintain.bridges import openenv_app
from quintain.env import CodeEnvironment
from quintain.rollout import Collector
from quintain.sandbox import NativeBackend
from quintain.serve import listening
from quintain.tasks import Exam, Item, PythonSuite
from quintain.train import Stage
from quintain.types import Entry

HIDDEN = b"from solution import add\n\n\ndef test_add():\n    assert add(20, 22) == 42\n"


@asynccontextmanager
async def opened() -> AsyncIterator[Collector]:
    backend = NativeBackend()
    try:
        yield Collector(CodeEnvironment(backend), lambda event: None, concurrency=4)
    finally:
        await backend.aclose()


async def play(stage: Stage) -> None:
    exam = Exam(hidden=PythonSuite(files={"test_add.py": HIDDEN}))
    item = Item.sealed(exam, id="add", instructions="Write `add(a, b)`.", entry=Entry(name="add"))
    async with listening(openenv_app(stage, {"add": item})) as url, GenericEnvClient(base_url=url) as client:
        seen = await client.reset(task="add")
        print(seen.observation["text"].splitlines()[0])
        for body in ("a - b", "a + b"):
            seen = await client.step({"reply": f"```python\ndef add(a, b):\n    return {body}\n```"})
            print(f"{body}: reward {seen.reward:+.2f}, done {seen.done}, solved {seen.observation['solved']}")


def main() -> None:
    with Stage(opened) as stage:
        asyncio.run(play(stage))


if __name__ == "__main__":
    main()

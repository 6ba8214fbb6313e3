"""A task as a Gymnasium environment. Needs `pip install quintain[gymnasium]` and the native sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from quintain.bridges import gymnasium_environment
from quintain.env import CodeEnvironment
from quintain.rollout import Collector
from quintain.sandbox import NativeBackend
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


def main() -> None:
    exam = Exam(hidden=PythonSuite(files={"test_add.py": HIDDEN}))
    item = Item.sealed(exam, id="add", instructions="Write `add(a, b)`.", entry=Entry(name="add"))
    with Stage(opened) as stage:
        env = gymnasium_environment(stage, {"add": item})()
        seen, info = env.reset(seed=0)
        print(info["task"], "|", seen.splitlines()[0])
        for body in ("a - b", "a + b"):
            seen, reward, terminated, _, info = env.step(f"```python\ndef add(a, b):\n    return {body}\n```")
            print(f"{body}: reward {reward:+.2f}, terminated {terminated}, solved {info.get('solved')}")


if __name__ == "__main__":
    main()

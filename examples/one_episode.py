"""One episode by hand, with every event as it happens. Needs the native sandbox (see `quintain doctor`).

A task is made on the spot, a scripted policy answers wrong and then right, and the log tells what happened.
"""

from __future__ import annotations

import asyncio

from quintain.env import CodeEnvironment
from quintain.policy import ScriptedPolicy
from quintain.rollout import Driver, tickets
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite
from quintain.types import Entry, Event, Graded, Said

HIDDEN = b"from solution import add\n\n\ndef test_add():\n    assert add(20, 22) == 42\n"
SHOWN = b"from solution import add\n\n\ndef test_small():\n    assert add(1, 2) == 3\n"


def reply(body: str) -> str:
    return f"```python\ndef add(a, b):\n    return {body}\n```\n"


def show(event: Event) -> None:
    print(f"{event.at_seconds:7.3f} s  {type(event).__name__}")
    if isinstance(event, Said):
        print("           " + event.message.text.replace("\n", "\n           "))
    if isinstance(event, Graded):
        print(f"           reward {event.reward.total:+.2f}, solved: {event.reward.solved}")


async def main() -> None:
    exam = Exam(hidden=PythonSuite(files={"test_add.py": HIDDEN}), visible=PythonSuite(files={"test_small.py": SHOWN}))
    item = Item.sealed(exam, id="add", instructions="Write `add(a, b)`.", entry=Entry(name="add"))
    backend = NativeBackend()
    try:
        policy = ScriptedPolicy({"add": [reply("a - b"), reply("a + b")]})
        driver = Driver(CodeEnvironment(backend), policy, show)
        (ticket,) = tickets(item, size=1, seed=0)
        episode = await driver.play(ticket)
        print(episode.id, episode.stop, len(episode.turns), "turns")
    finally:
        await backend.aclose()


if __name__ == "__main__":
    asyncio.run(main())

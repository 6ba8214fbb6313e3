"""Run a step of an episode again and see why it differs. Needs the native sandbox (see `quintain doctor`)."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from quintain.env import ShellEnvironment
from quintain.policy import ScriptedPolicy
from quintain.replay import Replayer, entered
from quintain.rollout import Driver, tickets
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, ScriptSuite
from quintain.types import Entry, Event, Grading

TEST = b"mkdir -p /logs/verifier; grep -q 42 answer && echo 1 > /logs/verifier/reward.txt\n"
COMMANDS = ("cd /tmp; who=quintain", "echo $who was here at $(date +%s%N)", "echo 42 > /work/answer")


async def main() -> None:
    suite = ScriptSuite(files={"test.sh": TEST})
    item = Item.sealed(
        Exam(hidden=suite), files=None, id="answer", kind="shell", instructions="Write 42 to answer.", image="host+rw",
        entry=Entry(path="solve.sh", language="shell"), grading=Grading.ON_SUBMIT)
    said = [f"```bash\n{command}\n```" for command in COMMANDS]
    log: list[Event] = []
    async with NativeBackend() as backend:
        environment = ShellEnvironment(backend, cache=Path(tempfile.gettempdir()))
        try:
            policy = ScriptedPolicy({"answer": [*said, "SUBMIT"]})
            await Driver(environment, policy, log.append).play(tickets(item, size=1, seed=0)[0])

            replay = await Replayer(environment).replay(item, log)
            for step in replay.steps:
                print(f"step {step.step}: {'identical' if step.identical else 'differs'}")
                for named in step.named:
                    print(f"  {named.cause.value}: {named.evidence[0]}")

            async with entered(environment, item, log, step=2) as inside:
                print("in the sandbox after step 2:", inside.state.splitlines()[0])
        finally:
            await environment.aclose()


if __name__ == "__main__":
    asyncio.run(main())

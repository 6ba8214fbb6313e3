"""NeMo Gym's sandbox API over sandboxes of ours (`pip install nemo-gym`): `python examples/nemo_sandbox.py`."""

from __future__ import annotations

import asyncio

from nemo_gym.sandbox import AsyncSandbox, SandboxSpec


async def main() -> None:
    spec = SandboxSpec(
        image="python:3.12-slim", workdir="/app", ttl_s=600, resources={"memory_mib": 512},
        files={"add.py": "a, b = map(int, input().split())\nprint(a + b)\n"})
    box = AsyncSandbox({"quintain": {"bases": {"python:3.12-slim": "host"}}}, spec)  # found by its entry point
    await box.start()
    try:
        done = await box.exec("echo 20 22 | python3 add.py; id -un")
        print(done.stdout, end="")
        print(await box.exec("sleep 60", timeout_s=1))
    finally:
        await box.stop()


if __name__ == "__main__":
    asyncio.run(main())

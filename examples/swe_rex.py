"""SWE-ReX over a sandbox of ours (`pip install swe-rex`): `python examples/swe_rex.py`."""

from __future__ import annotations

import asyncio

from swerex.runtime.abstract import BashAction, Command, CreateBashSessionRequest, WriteFileRequest

from quintain.bridges.swerex import QuintainDeployment

ADD = "a, b = map(int, input().split())\nprint(a + b)\n"


async def main() -> None:
    deployment = QuintainDeployment(memory_mb=512, lifetime=600.0)
    await deployment.start()
    try:
        runtime = deployment.runtime
        await runtime.write_file(WriteFileRequest(path="/work/add.py", content=ADD))
        await runtime.create_session(CreateBashSessionRequest())
        await runtime.run_in_session(BashAction(command="cd /work; n='20 22'"))
        print((await runtime.run_in_session(BashAction(command="echo $n | python3 add.py"))).output, end="")
        print((await runtime.execute(Command(command=["id", "-un"]))).stdout, end="")
    finally:
        await deployment.stop()


if __name__ == "__main__":
    asyncio.run(main())

"""Our sandboxes for a program that uses E2B's SDK. Needs `pip install quintain[e2b] e2b` and the native sandbox."""

from __future__ import annotations

import asyncio

from e2b import AsyncSandbox

from quintain.bridges.e2b import E2bFace
from quintain.sandbox import NativeBackend
from quintain.serve import listening


async def main() -> None:
    backend = NativeBackend(terminals=True)
    face = E2bFace(backend, keys=("e2b_mine",), sandboxes=8)
    try:
        async with face.open(), listening(face.app) as url:
            # A program in another process is told by E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY.
            box = await AsyncSandbox.create(api_url=url, sandbox_url=url, api_key="e2b_mine", timeout=60)
            await box.files.write("hello.py", "for n in range(3): print(n, flush=True)")
            done = await box.commands.run("python3 hello.py", on_stdout=lambda text: print("heard", text.strip()))
            print("exit code", done.exit_code)
            await box.kill()
    finally:
        await backend.aclose()


if __name__ == "__main__":
    asyncio.run(main())

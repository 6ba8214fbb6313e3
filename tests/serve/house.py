"""An API for tests, served on a free port with real sandboxes; runs are the real command line's."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from quintain.cli.serving import Playing
from quintain.sandbox import NativeBackend
from quintain.serve import Api, Doorkeeper, listening

#: A task that is handed in.
FILES = {
    "double/task.toml": b'id = "double"\n',
    "double/instructions.md": b"Write a function double(x) that returns twice x, in solution.py.\n",
    "double/tests/test_double.py": b"from solution import double\n\n\ndef test_double():\n    assert double(4) == 8\n",
    "double/oracle/solution.py": b"def double(x):\n    return 2 * x\n",
}


@asynccontextmanager
async def served(root: Path, **more: Any) -> AsyncIterator[tuple[str, Api]]:
    doorkeeper = more.pop("doorkeeper", None) or Doorkeeper()
    async with NativeBackend() as backend:
        api = Api(root, Playing({}, ("oracle", "null"), base_url=None, backend="native"), backend, local=True,
                  doorkeeper=doorkeeper, **more)
        async with api.open(), listening(
            api.app, most_at_once=None, protocol=doorkeeper.protocol(), grace_seconds=1,
        ) as url:
            yield url, api


@contextmanager
def serving(root: Path, **more: Any) -> Iterator[tuple[str, Api]]:
    """The same in a thread of its own, for tests that are not asynchronous."""
    found: list[tuple[str, Api]] = []
    up, over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with served(root, **more) as one:
            found.append(one)
            up.set()
            await asyncio.to_thread(over.wait)
            one[1].drain()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        while not up.wait(0.1):
            assert thread.is_alive(), "the server did not come up"
        yield found[0]
    finally:
        over.set()
        with contextlib.suppress(RuntimeError):
            thread.join()

"""A command that runs while its caller does something else: the face of a Running, with its end told as an Outcome."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable

from quintain.sandbox import _wire
from quintain.sandbox._running import Exit, Line, Running
from quintain.sandbox._wire import A
from quintain.types import HouseError, Outcome


class StartedProcess:
    """A `Process` over an agent. `settle` makes the Outcome of an exit, `lost` that of an agent that is gone."""

    def __init__(
        self, running: Running, line: Line, *, settle: Callable[[Exit], Awaitable[Outcome]],
        lost: Callable[[HouseError], Awaitable[Outcome]],
    ) -> None:
        self._running = running
        self._line = line
        self._settle = settle
        self._lost = lost
        self._outcome: Outcome | None = None
        self._settling = asyncio.Lock()

    @property
    def pid(self) -> int:
        """Its number inside the sandbox; 0 when it could not be started."""
        assert self._running.started is not None  # it streams
        return self._running.started.result()

    @property
    def ended(self) -> bool:
        return self._running.done.done()

    @property
    def gone(self) -> bool:
        return self._running.gone

    async def wait(self) -> Outcome:
        try:
            done = await self._running.wait()
        except HouseError as error:
            return await self._lost(error)
        async with self._settling:
            if self._outcome is None:
                self._outcome = await self._settle(done)
        return self._outcome

    async def kill(self) -> None:
        if not self.gone:
            await self._line.tell(A.KILL, self._running.number)

    async def signal(self, number: int) -> None:
        if not 0 < number <= signal.SIGRTMAX:
            raise ValueError(f"expected a signal's number, found {number}")
        if not self.ended:
            await self._line.tell(A.SIGNAL, self._running.number, _wire.ORDER.pack(number, 0))

    async def send(self, data: bytes) -> None:
        await self._running.send(data)

    async def end_input(self) -> None:
        if not self.ended:
            await self._line.tell(A.INPUT_END, self._running.number)

    async def resize(self, rows: int, columns: int) -> None:
        if not (0 < rows < 65536 and 0 < columns < 65536):
            raise ValueError(f"expected 1 to 65535 rows and columns, found {rows} and {columns}")
        if not self.ended:
            await self._line.tell(A.RESIZE, self._running.number, _wire.NUMBER.pack(rows << 16 | columns))

    def output(self) -> AsyncIterator[tuple[str, bytes]]:
        return self._running.output()

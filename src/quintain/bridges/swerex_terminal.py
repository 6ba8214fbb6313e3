"""A program on a terminal that is talked to: typed into, and listened to until it says what is waited for."""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from quintain.sdk import CommandHandle, CommandResult, Sandbox
from quintain.types import HouseError

_CONTROL = re.compile(r"\x1B[@-_][0-?]*[ -/]*[@-~]")
#: What is kept of what nobody waited for, in characters.
KEPT = 1 << 20


class Heard(NamedTuple):
    """What came before `matched`, one of what was waited for; nothing is when the program ended."""

    text: str
    matched: str
    ended: bool


class Talk:
    def __init__(self) -> None:
        self._text = ""
        self._news = asyncio.Event()
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._handle: CommandHandle

    @classmethod
    async def begin(cls, sandbox: Sandbox, argv: Sequence[str]) -> Talk:
        """Raises OSError where the program cannot be started."""
        talk = cls()
        talk._handle = await sandbox.pty.create((24, 200), cmd=argv, cwd="/", env={"TERM": "dumb"}, on_data=talk._take)
        return talk

    def _take(self, data: bytes) -> None:
        self._text = (self._text + self._decoder.decode(data))[-KEPT:]
        self._news.set()

    async def type(self, text: str, *, line: bool = True) -> None:
        await self._handle.send_stdin(text + "\n" if line and not text.endswith("\n") else text)

    async def wait_for(self, patterns: Sequence[str], timeout: float | None) -> Heard | None:
        """Until one of the regular expressions is found, or the program has ended; None when the time is over. What was
        heard is not heard again. Raises ValueError for what is no regular expression."""
        try:
            compiled = [re.compile(pattern, re.DOTALL) for pattern in patterns]
        except re.error as error:
            raise ValueError(f"expected regular expressions, found {patterns}: {error}") from None
        try:
            async with asyncio.timeout(timeout):
                async with asyncio.TaskGroup() as group:
                    ending = group.create_task(self._ended())
                    try:
                        return await self._listen(patterns, compiled, ending)
                    finally:
                        ending.cancel()
        except TimeoutError:
            return None

    async def _listen(
        self, patterns: Sequence[str], compiled: Sequence[re.Pattern[str]], ending: asyncio.Task[None],
    ) -> Heard:
        while True:
            over = ending.done()
            self._news.clear()
            found = [(match.start(), match.end(), at) for at, one in enumerate(compiled)
                     if (match := one.search(self._text))]
            if found:
                start, end, at = min(found)
                text, self._text = self._text[:start], self._text[end:]
                return Heard(_plain(text), patterns[at], False)
            if over:
                text, self._text = self._text, ""
                return Heard(_plain(text), "", True)
            await self._news.wait()

    async def _ended(self) -> None:
        with suppress(HouseError):  # `end` tells of it
            await self._handle.wait()
        self._news.set()

    async def end(self) -> CommandResult:
        """Kill it, where it has not ended, and tell how it did."""
        await self._handle.kill()
        return await self._handle.wait()


def _plain(text: str) -> str:
    """Without what steers a terminal."""
    return _CONTROL.sub("", text).replace("\r\n", "\n")

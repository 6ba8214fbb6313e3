"""A connection to NATS as the queue needs it: requests, publishing and pulling in batches, on the raw client.

The client's own JetStream layer costs several times the CPU and hides the control over pulls that leases need.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from quintain.types import FaultKind, HouseError

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

#: How long a server that is to be connected to may not be there.
CONNECT_SECONDS = 10.0
#: How long a server may take for one answer.
ANSWER_SECONDS = 10.0
#: How long an answer to a pull that asks for what is there may take: a server that is alive says "none" at once.
PULL_SECONDS = 5.0


class ApiError(msgspec.Struct, frozen=True, kw_only=True):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    error: ApiError | None = None


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What the server says of a message that was published."""

    seq: int = 0
    error: ApiError | None = None


class Refused(Exception):
    """The server understood, and will not."""

    def __init__(self, subject: str, error: ApiError) -> None:
        super().__init__(f"{subject}: {error.description} ({error.err_code})")
        self.error = error


class _Batch:
    """Messages on their way, until each is confirmed."""

    def __init__(self, size: int) -> None:
        self.found: list[Stored | None] = [None] * size
        self.left = size
        self.done = asyncio.Event()


class _Puller:
    """One inbox, for one pull at a time: what comes does not say which pull it answers. When nobody waits for the
    answer any more, what it brings is given back, until it is complete and the inbox free again."""

    def __init__(self, free: Callable[[_Puller], None]) -> None:
        self.inbox = ""
        self._free = free
        self._found: list[Msg] = []
        self._left = 0
        self._done = asyncio.Event()
        self._forsaken = False

    def expect(self, most: int) -> None:
        self._found, self._left, self._forsaken = [], most, False
        self._done.clear()

    async def answer(self) -> list[Msg]:
        """What came within PULL_SECONDS."""
        try:
            async with asyncio.timeout(PULL_SECONDS):
                await self._done.wait()
        except TimeoutError:
            self._forsaken = True  # and what is here already is of use
        except asyncio.CancelledError:
            self._forsaken = True
            for message in self._found:
                await message.nak()
            raise
        finally:
            if self._done.is_set():
                self._free(self)
        return self._found

    async def take(self, message: Msg) -> None:
        is_status = bool(message.headers and "Status" in message.headers)
        self._left = 0 if is_status else self._left - 1
        if not is_status:
            if self._forsaken:
                await message.nak()
            else:
                self._found.append(message)
        if self._left <= 0:
            self._done.set()
            if self._forsaken:
                self._free(self)


class Link:
    """Opened by `Link.open`. Raises HouseError(STORE_ERROR) where the server does not answer, or is not there."""

    def __init__(self, client: Client, where: str) -> None:
        self._client = client
        self._where = where
        self._inbox = client.new_inbox()
        self._batches: dict[int, tuple[_Batch, int]] = {}
        self._number = 0
        self._idle: list[_Puller] = []

    @classmethod
    async def open(cls, url: str, where: str) -> Self:
        """`where` is what errors call it: the URL may hold a secret."""
        try:
            import nats
        except ImportError as error:
            wanted = f"{where}: expected the package nats-py, found none: pip install 'quintain[nats]'"
            raise HouseError(FaultKind.STORE_ERROR, wanted) from error
        from nats.errors import Error

        async def complain(problem: Exception) -> None:
            _log.warning("%s: %r", where, problem)

        try:
            async with asyncio.timeout(CONNECT_SECONDS):  # the client itself would try for ever
                client = await nats.connect(
                    url, max_reconnect_attempts=-1, reconnect_time_wait=0.2, connect_timeout=5, error_cb=complain,
                    allow_reconnect=True, name="quintain",
                )
        except (TimeoutError, OSError, Error) as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{where}: cannot connect: {error!r}") from error
        link = cls(client, where)
        await client.subscribe(f"{link._inbox}.*", cb=link._confirmed)
        return link

    async def ask(self, what: str, body: object, kind: type[_T]) -> _T:
        """A request to the JetStream API. Raises Refused."""
        data = msgspec.json.encode(body) if body is not None else b""
        answer = (await self._request(f"$JS.API.{what}", data)).data
        error = msgspec.json.decode(answer, type=_Answer).error
        if error is not None:
            raise Refused(what, error)
        try:
            return msgspec.json.decode(answer, type=kind)
        except msgspec.MsgspecError as problem:
            raise self._error(f"{what}: not what this version understands: {problem}") from problem

    async def publish(
        self, messages: Sequence[tuple[str, bytes]], *, headers: dict[str, str] | None = None,
    ) -> list[Stored]:
        """Publish to streams, all at once; what the server says of each, in order."""
        from nats.errors import Error

        batch = _Batch(len(messages))
        first = self._number
        self._number += len(messages)
        if not messages:
            return []
        try:
            for nth, (subject, body) in enumerate(messages):
                self._batches[first + nth] = (batch, nth)
                await self._client.publish(subject, body, reply=f"{self._inbox}.{first + nth}", headers=headers)
            async with asyncio.timeout(ANSWER_SECONDS + len(messages) / 1000):
                await batch.done.wait()
        except TimeoutError as error:
            raise self._error(f"{batch.left} of {len(messages)} messages were not confirmed") from error
        except Error as error:
            raise self._error(f"cannot publish: {error!r}") from error
        finally:
            for nth in range(len(messages)):
                self._batches.pop(first + nth, None)
        return [stored for stored in batch.found if stored is not None]

    async def pull(self, stream: str, consumer: str, most: int) -> list[Msg]:
        """Up to `most` messages that are there now."""
        from nats.errors import Error

        puller = self._idle.pop() if self._idle else await self._puller()
        puller.expect(most)
        try:
            await self._client.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", b'{"batch":%d,"no_wait":true}' % most,
                reply=puller.inbox,
            )
        except Error as error:
            raise self._error(f"cannot pull: {error!r}") from error
        return await puller.answer()

    async def tell(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Publish what nobody confirms, in order, before whatever is published next."""
        from nats.errors import Error

        try:
            for subject, body in messages:
                await self._client.publish(subject, body)
        except (Error, TimeoutError) as error:
            raise self._error(f"cannot publish: {error!r}") from error

    async def say(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """The same, and wait until the server has read it."""
        from nats.errors import Error

        await self.tell(messages)
        try:
            await self._client.flush(timeout=int(ANSWER_SECONDS))
        except (Error, TimeoutError) as error:
            raise self._error(f"does not answer: {error!r}") from error

    async def hear(self, subject: str, told: Callable[[bytes], None]) -> None:
        """Be told whatever is said on a subject."""
        async def heard(message: Msg) -> None:
            told(message.data)

        await self._client.subscribe(subject, cb=heard)

    async def aclose(self) -> None:
        await self._client.close()

    async def _request(self, subject: str, data: bytes) -> Msg:
        from nats.errors import Error

        try:
            return await self._client.request(subject, data, timeout=ANSWER_SECONDS)
        except (TimeoutError, Error) as error:
            raise self._error(f"{subject}: no answer: {error!r}") from error

    async def _puller(self) -> _Puller:
        made = _Puller(self._idle.append)
        made.inbox = self._client.new_inbox()
        await self._client.subscribe(made.inbox, cb=made.take)
        return made

    async def _confirmed(self, message: Msg) -> None:
        batch, nth = self._batches.pop(int(message.subject.rpartition(".")[2]), (None, 0))
        if batch is None:
            return
        batch.found[nth] = _stored(message)
        batch.left -= 1
        if not batch.left:
            batch.done.set()

    def _error(self, message: str) -> HouseError:
        return HouseError(FaultKind.STORE_ERROR, f"{self._where}: {message}")


def _stored(message: Msg) -> Stored:
    headers: dict[str, Any] = message.headers or {}
    if "Status" in headers:
        return Stored(error=ApiError(code=int(headers["Status"]), description="no stream takes this subject"))
    return msgspec.json.decode(message.data, type=Stored)

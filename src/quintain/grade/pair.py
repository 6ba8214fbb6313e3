"""Two commands in two sandboxes that talk over one socket: the trusted one asks, the other answers.

Covers: each side holds its own end and nothing else of the other; the side that answers sees the end when nobody asks
any more, and is cut off when it does not leave; the side that asks sees the end when the other is gone.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from quintain.sandbox import Sandbox
from quintain.types import HouseError, Outcome

_AFTER_SECONDS = 1.0  # how long a candidate may take to leave when nobody asks any more


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to start in a sandbox. `warm`: in a fork of the backend's warm interpreter."""

    sandbox: Sandbox
    argv: Sequence[str]
    cwd: str
    stdin: bytes = b""
    env: Mapping[str, str] = {}
    warm: bool = False


async def converse(
    verifier: Command, candidate: Command, *, call_seconds: float | None = None
) -> tuple[Outcome, Outcome | None]:
    """How the verifier ended and how the candidate did, None if it had to be cut off.

    Each finds its end of the socket as descriptor 3. `call_seconds` bounds each wait of the verifier on it, for a side
    that reads without a deadline of its own (EAGAIN there). Raises HouseError.
    """
    ours, theirs = socket.socketpair()
    if call_seconds is not None:
        wait = struct.pack("@ll", int(call_seconds), int(call_seconds % 1 * 1e6))
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
    try:
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(_answering(candidate, theirs))
            outcome = await _started(verifier, ours)
            _hang_up(theirs)  # the candidate's process leaves when nobody can ask it any more
            await asyncio.wait([asked], timeout=_AFTER_SECONDS)
            if not asked.done():
                asked.cancel()
    except* HouseError as errors:
        raise _first(errors) from None
    finally:
        ours.close()
        theirs.close()
    return outcome, None if asked.cancelled() else asked.result()


async def _answering(command: Command, end: socket.socket) -> Outcome:
    try:
        return await _started(command, end)
    finally:
        _hang_up(end)  # our copy would keep the socket open: the verifier must see that nobody is there


async def _started(command: Command, end: socket.socket) -> Outcome:
    return await command.sandbox.run(
        command.argv, stdin=command.stdin, env=command.env, cwd=command.cwd, channel=end.fileno(), warm=command.warm)


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def _first(errors: BaseExceptionGroup[HouseError]) -> HouseError:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, HouseError)
    return error

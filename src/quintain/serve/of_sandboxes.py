"""The operations on sandboxes: open one, run commands in it, read and write its files, let it go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager

import msgspec
from starlette.responses import Response, StreamingResponse

from quintain.serve.leases import Leased, gone, run_streamed, run_whole
from quintain.serve.operation import BYTES, MEBIBYTE, SSE, Call, House, Operation
from quintain.serve.words import (
    CommandAsked,
    FileAsked,
    FileView,
    LeaseAsked,
    Listing,
    ListingAsked,
    Piece,
    Refusal,
    SandboxAsked,
    SandboxList,
    SandboxView,
    Scope,
)
from quintain.types import HouseError, Outcome

_FILE_BYTES = 16 * MEBIBYTE


async def _create(house: House, call: Call) -> object:
    asked: SandboxAsked = call.body
    leased = await house.leases.create(call.tenant, lease_seconds=asked.lease_seconds, limits=asked.limits)
    return leased.view()


async def _list(house: House, call: Call) -> object:
    return SandboxList(sandboxes=tuple(leased.view() for leased in house.leases.of(call.tenant)))


async def _show(house: House, call: Call) -> object:
    return _of(house, call).view()


async def _renew(house: House, call: Call) -> object:
    leased = _of(house, call)
    house.leases.renew(leased, call.body.lease_seconds)
    return leased.view()


async def _end(house: House, call: Call) -> object:
    _of(house, call).over.set()
    return None


async def _run(house: House, call: Call) -> object:
    leased, asked = _of(house, call), call.body
    for text in (*asked.argv, *asked.env, *asked.env.values(), asked.cwd):
        if "\0" in text:
            raise Refusal(422, "invalid", expected="words without NUL", found=repr(text), where="body")
    if any("=" in name or not name for name in asked.env):
        raise Refusal(422, "invalid", expected="names of variables without =", found=str(list(asked.env)),
                      where="body.env")
    if not asked.argv[0]:
        raise Refusal(422, "invalid", expected="the name of a program", found="an empty one", where="body.argv")
    if not asked.stream:
        with _said(leased):
            return await run_whole(leased, asked)
    return StreamingResponse(_streamed(leased, asked), media_type=SSE, headers={"cache-control": "no-cache"})


async def _streamed(leased: Leased, asked: CommandAsked) -> AsyncIterator[bytes]:
    try:
        async with aclosing(run_streamed(leased, asked)) as running:
            async for one in running:
                name = b"output" if isinstance(one, Piece) else b"done"
                yield b"event: " + name + b"\ndata: " + msgspec.json.encode(one) + b"\n\n"
    except Refusal as refusal:
        yield b"event: problem\ndata: " + msgspec.json.encode(refusal.problem) + b"\n\n"


async def _read(house: House, call: Call) -> object:
    leased = _of(house, call)
    with _said(leased):
        content = await leased.box.files.read(call.query.path, max_bytes=_FILE_BYTES)
    return Response(content, media_type=BYTES)


async def _write(house: House, call: Call) -> object:
    leased = _of(house, call)
    with _said(leased):
        await leased.box.files.write(call.query.path, call.body)
    return None


async def _remove(house: House, call: Call) -> object:
    leased = _of(house, call)
    with _said(leased):
        await leased.box.files.remove(call.query.path)
    return None


async def _listing(house: House, call: Call) -> object:
    leased = _of(house, call)
    with _said(leased):
        found = await leased.box.files.list(call.query.path, depth=call.query.depth)
    return Listing(files=tuple(
        FileView(path=one.path, kind=one.kind, size_bytes=one.size_bytes, mode=one.mode) for one in found[:10_000]))


@contextmanager
def _said(leased: Leased) -> Iterator[None]:
    """What the sandbox says of a path or a command, as a refusal: it is the caller's affair."""
    try:
        yield
    except FileNotFoundError as error:
        raise Refusal(404, "no_file", expected="a path that is there", found=str(error), where="query.path") from None
    except (OSError, ValueError) as error:
        raise Refusal(409, "not_done", expected="a path or command that the sandbox can serve", found=str(error),
                      where="query.path") from None
    except HouseError:
        raise gone(leased.id) from None


def _of(house: House, call: Call) -> Leased:
    return house.leases.get(call.tenant, call.path["sandbox"])


_ROOT = "/v1/sandboxes/{sandbox}"
_S = Scope.SANDBOXES

OPERATIONS = (
    Operation(id="openSandbox", method="POST", path="/v1/sandboxes", scope=_S, says="Open a sandbox for a while.",
              answer=_create, body=SandboxAsked, reply=SandboxView, status=201, example=SandboxAsked(lease_seconds=60),
              seconds=90.0),
    Operation(id="listSandboxes", method="GET", path="/v1/sandboxes", scope=_S, says="List your sandboxes.",
              answer=_list, reply=SandboxList),
    Operation(id="getSandbox", method="GET", path=_ROOT, scope=_S, says="How long a sandbox lives still.",
              answer=_show, reply=SandboxView, refusals=(404,)),
    Operation(id="renewLease", method="POST", path=_ROOT + "/lease", scope=_S, says="Let a sandbox live longer.",
              answer=_renew, body=LeaseAsked, reply=SandboxView, example=LeaseAsked(lease_seconds=300),
              refusals=(404,)),
    Operation(id="endSandbox", method="DELETE", path=_ROOT, scope=_S, says="End a sandbox and all that runs in it.",
              answer=_end, status=204, refusals=(404,)),
    Operation(id="runCommand", method="POST", path=_ROOT + "/commands", scope=_S,
              says="Run a command: its Outcome, or with `stream` server-sent events `output` (a Piece), then `done`.",
              answer=_run, body=CommandAsked, reply=Outcome, seconds=3700.0, refusals=(404, 409, 410),
              example=CommandAsked(argv=("python3", "-c", "print(6 * 7)")), most_bytes=4 * MEBIBYTE),
    Operation(id="readFile", method="GET", path=_ROOT + "/files", scope=_S, says="Read a file.", answer=_read,
              query=FileAsked, media=BYTES, refusals=(404, 409, 410)),
    Operation(id="writeFile", method="PUT", path=_ROOT + "/files", scope=_S, says="Write a file.", answer=_write,
              query=FileAsked, body=bytes, status=204, refusals=(404, 409, 410), most_bytes=_FILE_BYTES),
    Operation(id="removeFile", method="DELETE", path=_ROOT + "/files", scope=_S, says="Remove a file or a folder.",
              answer=_remove, query=FileAsked, status=204, refusals=(404, 409, 410)),
    Operation(id="listFiles", method="GET", path=_ROOT + "/listing", scope=_S, says="List files.", answer=_listing,
              query=ListingAsked, reply=Listing, refusals=(404, 409, 410)),
)

"""The files of one sandbox as E2B's `filesystem.Filesystem` service and its `/files` route know them."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from quintain.bridges.e2b import words
from quintain.bridges.e2b.connect import ConnectError
from quintain.bridges.e2b.held import Held
from quintain.types import HouseError

_PIECE_BYTES = 1024 * 1024
#: The largest file that is taken, and how many at once.
MOST_BYTES = 64 * 1024 * 1024
_MOST_FILES = 1000


@contextmanager
def said() -> Iterator[None]:
    """What the sandbox says of a path, in Connect's words."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ConnectError("not_found", str(error)) from None
    except FileExistsError as error:
        raise ConnectError("already_exists", str(error)) from None
    except PermissionError as error:
        raise ConnectError("permission_denied", str(error)) from None
    except (OSError, ValueError) as error:
        raise ConnectError("invalid_argument", str(error)) from None
    except HouseError:
        raise ConnectError("unavailable", "the sandbox was not found: it has ended") from None


async def stat(held: Held, body: bytes) -> dict[str, object]:
    asked = words.read(body, words.Path)
    return {"entry": words.entry(await held.box.files.info(inside(asked.path)))}


async def list_dir(held: Held, body: bytes) -> dict[str, object]:
    asked = words.read(body, words.ListDir)
    path = inside(asked.path)
    if (await held.box.files.info(path)).kind == "file":
        raise ConnectError("invalid_argument", f"expected a directory, found a file: {path}")
    return {"entries": [words.entry(info) for info in await held.box.files.list(path, depth=max(1, asked.depth))]}


async def make_dir(held: Held, body: bytes) -> dict[str, object]:
    path = inside(words.read(body, words.Path).path)
    if await held.box.files.exists(path):
        raise ConnectError("already_exists", f"there is one: {path}")
    await held.box.files.make_dir(path)
    return {"entry": words.entry(await held.box.files.info(path))}


async def move(held: Held, body: bytes) -> dict[str, object]:
    asked = words.read(body, words.Move)
    path = inside(asked.destination)
    await held.box.files.rename(inside(asked.source), path)
    return {"entry": words.entry(await held.box.files.info(path))}


async def remove(held: Held, body: bytes) -> dict[str, object]:
    await held.box.files.remove(inside(words.read(body, words.Path).path))
    return {}


def inside(path: str) -> str:
    """As the sandbox takes it: relative paths, and `~`, start at /work."""
    rest = path[1:].lstrip("/") if path == "~" or path.startswith("~/") else path
    return str(PurePosixPath("/work", rest))


async def download(held: Held, request: Request) -> Response:
    """GET /files: the file in pieces."""
    path = inside(request.query_params.get("path", ""))
    info = await held.box.files.info(path)
    if info.kind == "directory":
        raise ConnectError("invalid_argument", f"expected a file, found a directory: {path}")
    first = await held.box.files.read_piece(path, offset=0, size=_PIECE_BYTES)

    async def pieces() -> AsyncIterator[bytes]:
        data, offset = first, 0
        while data:
            yield data
            offset += len(data)
            if len(data) < _PIECE_BYTES:
                return
            data = await held.box.files.read_piece(path, offset=offset, size=_PIECE_BYTES)

    return StreamingResponse(pieces(), media_type="application/octet-stream")


async def upload(held: Held, request: Request) -> Response:
    """POST /files: one file as it is (gzip or not), or several as a form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    asked = request.query_params.get("path")
    if kind == "application/octet-stream":
        if not asked:
            raise ConnectError("invalid_argument", "expected a path in the query, found none")
        gzip = request.headers.get("content-encoding", "identity") == "gzip"
        found = {asked: _unpacked(await whole(request)) if gzip else await whole(request)}
    elif kind == "multipart/form-data":
        found = await _form(request, asked)
    else:
        raise ConnectError("invalid_argument", f"expected a form or application/octet-stream, found {kind!r}")
    told = []
    for name, content in found.items():
        path = inside(name)
        await held.box.files.write(path, content)
        told.append({"name": PurePosixPath(path).name, "type": "file", "path": path})
    return JSONResponse(told)


async def _form(request: Request, asked: str | None) -> dict[str, bytes]:
    length = request.headers.get("content-length", "")
    if not length.isdigit() or int(length) > MOST_BYTES:
        raise ConnectError("resource_exhausted", f"expected a form of at most {MOST_BYTES} bytes that tells its "
                           f"length, found {length or 'none'}")
    found: dict[str, bytes] = {}
    async with request.form(max_files=_MOST_FILES, max_fields=_MOST_FILES) as form:
        parts = [part for _, part in form.multi_items() if isinstance(part, UploadFile)]
        for part in parts:
            name = asked if asked and len(parts) == 1 else part.filename
            if not name:
                raise ConnectError("invalid_argument", "expected a name for each file, found a file without")
            found[name] = await part.read(MOST_BYTES + 1)
            if sum(map(len, found.values())) > MOST_BYTES:
                raise ConnectError("resource_exhausted", f"expected at most {MOST_BYTES} bytes, found more")
    if not found:
        raise ConnectError("invalid_argument", "expected at least one file, found none")
    return found


async def whole(request: Request, most_bytes: int = MOST_BYTES) -> bytes:
    """The request's body. Raises ConnectError beyond `most_bytes`, and for one that does not come within 60 s."""
    content = bytearray()
    try:
        async with asyncio.timeout(60):
            async for piece in request.stream():
                content += piece
                if len(content) > most_bytes:
                    raise ConnectError("resource_exhausted", f"expected at most {most_bytes} bytes, found more")
    except TimeoutError:
        raise ConnectError("deadline_exceeded", "expected the whole body within 60 s") from None
    return bytes(content)


def _unpacked(content: bytes) -> bytes:
    """Raises ConnectError for what is no gzip, and for what grows beyond all bounds."""
    opened = zlib.decompressobj(wbits=31)
    try:
        data = opened.decompress(content, MOST_BYTES + 1)
    except zlib.error as error:
        raise ConnectError("invalid_argument", f"expected gzip: {error}") from None
    if len(data) > MOST_BYTES:
        raise ConnectError("resource_exhausted", f"expected at most {MOST_BYTES} bytes, found more")
    if not opened.eof:
        raise ConnectError("invalid_argument", "expected gzip to its end, found it cut off")
    return data

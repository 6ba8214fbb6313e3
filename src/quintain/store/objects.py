"""Content-addressed bytes on an object store: S3 and what speaks like it, Google Cloud Storage, Azure, or memory."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from quintain.store import _codec
from quintain.store.base import FileBlobs
from quintain.store.blobs import LocalBlobs
from quintain.types import FaultKind, HouseError

T = TypeVar("T")

SCHEMES = ("s3", "gs", "az", "memory")
_MAGIC = b"QNB1"
_CHUNK_BYTES = 1 << 20
_PART_BYTES = 5 << 20  # of a multipart upload; S3 takes no smaller parts
_SMALL_BYTES = 64 << 10
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds between tries; the last one goes on until the deadline


def open_blobs(url: str | Path) -> FileBlobs:
    """The blobs at a path or an address: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`,
    `memory://`, `file:///folder`; anything without a scheme is a folder.

    Keys come from the environment only (AWS_ACCESS_KEY_ID …, GOOGLE_…, AZURE_STORAGE_…; AWS_ENDPOINT_URL for another
    server, with AWS_ALLOW_HTTP=true where that is not https). Raises HouseError(STORE_ERROR) for an address that holds
    a credential (and does not repeat it), and for a scheme that is not known.
    """
    if isinstance(url, Path) or "://" not in url:
        return LocalBlobs(Path(url))
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        what = "expected no user, password, query or fragment in an address: keys come from the environment only"
        raise HouseError(FaultKind.STORE_ERROR, f"{where}: {what}")
    if parts.scheme == "file":
        return LocalBlobs(Path(parts.path))
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in (*SCHEMES, "file"))
        raise HouseError(FaultKind.STORE_ERROR, f"expected a folder or one of {known}, found {parts.scheme}://")
    return ObjectBlobs(url)


class ObjectBlobs:
    """Blobs as objects `PREFIX/sha256/ab/cdef…`, each a header of five bytes (`QNB1` and the codec) and its content,
    compressed. Named by the sha256 of the content, verified whenever it is read: an object that is damaged or was
    exchanged is an error that names both digests, never an answer.

    Every operation is tried again, with growing pauses, until it is done or `deadline_seconds` are over; since a name
    tells its content, doing it twice is the same as once. Nothing relies on conditional puts, which some servers take
    and do not heed: `conditional_puts` says what this one does (asked once, at the first put), and where they work a
    small put saves the question whether the object is there. Files go up in parts and come down in pieces, in bounded
    memory; an upload that is cut short leaves parts that the bucket's lifecycle must remove (`render_s3`). Safe for
    many threads and processes. Not covered: whoever may write to the bucket can remove objects and fill memory with
    compressed zeros, though not pass a wrong content for a right one.
    """

    def __init__(self, url: str, *, deadline_seconds: float = 120.0, tags: Mapping[str, str] | None = None) -> None:
        self._name = url.rstrip("/")
        self._deadline_seconds = deadline_seconds
        self._tags = dict(tags) if tags else None
        self._obs: Any = _obstore()
        self._store: Any = self._connect(url)
        self._conditional: bool | None = None

    def __repr__(self) -> str:
        return f"ObjectBlobs({self._name!r})"

    @property
    def conditional_puts(self) -> bool:
        """Whether the server refuses to put what is there already, when asked to."""
        if self._conditional is None:
            self._conditional = self._probe()
        return self._conditional

    def put(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        codec, kept = _codec.compress(content)
        body = _MAGIC + bytes([codec]) + kept
        if len(body) <= _SMALL_BYTES and self.conditional_puts:
            try:
                self._try(f"put {digest}", lambda: self._put(digest, body, mode="create"))
                return digest
            except FileExistsError:
                pass
        if self._size(digest) != len(body):
            self._try(f"put {digest}", lambda: self._put(digest, body))
        return digest

    def get(self, digest: str) -> bytes:
        def fetched() -> bytes:
            return bytes(self._obs.get(self._store, _key(digest)).bytes())

        body = self._try(f"get {digest}", fetched)
        try:
            content = _codec.expand_stream(_codec_of(body[:5]), [body[5:]])
            return _verified(b"".join(content), digest, self._name)
        except HouseError as error:
            raise HouseError(FaultKind.STORE_ERROR, _naming(error.message, digest, self._name))

    def has(self, digest: str) -> bool:
        return self._size(digest) is not None

    def delete(self, digest: str) -> None:
        """Remove one blob; one that is not there is gone already."""
        try:
            self._try(f"delete {digest}", lambda: self._obs.delete(self._store, _key(digest)))
        except FileNotFoundError:
            pass

    def digests(self) -> Iterator[str]:
        """What is kept, sorted."""
        def listed() -> list[str]:
            return [str(found["path"]) for page in self._obs.list(self._store, prefix="sha256") for found in page]

        for path in sorted(self._try("list", listed)):
            digest = path.removeprefix("sha256/").replace("/", "")
            if _DIGEST.fullmatch(digest):
                yield digest

    def put_file(self, path: Path) -> str:
        """Keep what a file holds, in parts. Raises HouseError(STORE_ERROR) when the file changes meanwhile."""
        try:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{path}: cannot read: {error.strerror}")
        if not self.has(digest):
            self._try(f"put {digest}", lambda: self._put(digest, _pieces(path, digest)))
        return digest

    def get_file(self, digest: str, path: Path) -> None:
        """Write the content to `path`, whole and verified, or not at all."""
        self._try(f"get {digest}", lambda: self._fetch(digest, path))

    def _fetch(self, digest: str, path: Path) -> None:
        stream = iter(self._obs.get(self._store, _key(digest)).stream(min_chunk_size=_CHUNK_BYTES))
        descriptor, draft = tempfile.mkstemp(prefix=".", dir=path.parent)
        found = hashlib.sha256()
        try:
            with os.fdopen(descriptor, "wb") as out:
                first = bytes(next(stream, b""))
                while len(first) < 5 and (more := bytes(next(stream, b""))):
                    first += more
                body = _after(first[5:], stream)
                try:
                    for chunk in _codec.expand_stream(_codec_of(first[:5]), body):
                        found.update(chunk)
                        out.write(chunk)
                except HouseError as error:
                    raise HouseError(FaultKind.STORE_ERROR, _naming(error.message, digest, self._name))
            if found.hexdigest() != digest:
                raise HouseError(FaultKind.STORE_ERROR, _other(digest, found.hexdigest(), self._name))
            os.replace(draft, path)
        finally:
            Path(draft).unlink(missing_ok=True)

    def _put(self, digest: str, body: bytes | Iterable[bytes], *, mode: str = "overwrite") -> None:
        small = isinstance(body, bytes) and len(body) <= _PART_BYTES
        tags = {"tags": self._tags} if self._tags else {}
        self._obs.put(
            self._store, _key(digest), body, mode=mode, use_multipart=not small, chunk_size=_PART_BYTES,
            max_concurrency=2, **tags,
        )

    def _size(self, digest: str) -> int | None:
        try:
            return int(self._try(f"head {digest}", lambda: self._obs.head(self._store, _key(digest)))["size"])
        except FileNotFoundError:
            return None

    def _probe(self) -> bool:
        key = f"probe/{secrets.token_hex(8)}"
        try:
            self._try("probe", lambda: self._obs.put(self._store, key, b"first"))
            self._try("probe", lambda: self._obs.put(self._store, key, b"second", mode="create"))
            return False
        except (FileExistsError, HouseError):
            return bytes(self._try("probe", lambda: self._obs.get(self._store, key).bytes())) == b"first"
        finally:
            self._try("probe", lambda: self._obs.delete(self._store, key))

    def _connect(self, url: str) -> Any:
        limit = timedelta(seconds=self._deadline_seconds)
        insecure = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true")
        try:
            if urlsplit(url).scheme == "memory":
                return self._obs.store.MemoryStore()
            return self._obs.store.from_url(
                url, client_options={"timeout": limit, "connect_timeout": timedelta(seconds=5), "allow_http": insecure},
                retry_config={"max_retries": 4, "retry_timeout": limit, "backoff": {
                    "init_backoff": timedelta(seconds=0.05), "max_backoff": timedelta(seconds=2), "base": 2}},
            )
        except (self._obs.exceptions.BaseError, ValueError) as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{self._name}: cannot be opened: {_said(error)}")

    def _try(self, what: str, do: Callable[[], T]) -> T:
        """Until it is done, it is clear that it cannot be, or the deadline is over. Raises FileNotFoundError and
        FileExistsError as they come where the caller knows what they mean, else HouseError(STORE_ERROR)."""
        failures = self._obs.exceptions
        end = time.monotonic() + self._deadline_seconds
        for tries in range(1, 10_000):
            try:
                return do()
            except failures.AlreadyExistsError as error:
                raise FileExistsError from error
            except FileNotFoundError:
                if what.startswith("get"):
                    raise HouseError(FaultKind.STORE_ERROR, f"{self._name}: {what}: expected a blob, found nothing")
                raise
            except (failures.PermissionDeniedError, failures.UnauthenticatedError, failures.NotSupportedError) as error:
                raise HouseError(FaultKind.STORE_ERROR, f"{self._name}: {what}: refused: {_said(error)}")
            except (failures.BaseError, OSError) as error:
                pause = _PAUSES[min(tries, len(_PAUSES)) - 1] * (0.5 + secrets.randbelow(1000) / 1000)
                if time.monotonic() + pause > end:
                    raise HouseError(
                        FaultKind.STORE_ERROR,
                        f"{self._name}: {what}: failed {tries} times in {self._deadline_seconds:.0f} s: {_said(error)}",
                    )
                time.sleep(pause)
        raise AssertionError("unreachable")


def _obstore() -> Any:
    try:
        importlib.import_module("obstore.store")
        importlib.import_module("obstore.exceptions")
        return importlib.import_module("obstore")
    except ImportError as error:
        raise HouseError(FaultKind.STORE_ERROR, f"object stores need pip install 'quintain[objects]': {error}")


def _key(digest: str) -> str:
    if not _DIGEST.fullmatch(digest):
        raise HouseError(FaultKind.STORE_ERROR, f"expected a sha256 of 64 hex digits, found {digest!r}")
    return f"sha256/{digest[:2]}/{digest[2:]}"


def _codec_of(head: bytes) -> int:
    if len(head) < 5 or not head.startswith(_MAGIC):
        raise HouseError(FaultKind.STORE_ERROR, f"expected an object that begins with {_MAGIC!r}, found {head!r}")
    return head[4]


def _verified(content: bytes, digest: str, name: str) -> bytes:
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise HouseError(FaultKind.STORE_ERROR, _other(digest, found, name))
    return content


def _other(digest: str, found: str, name: str) -> str:
    return f"{name}: expected content of sha256 {digest}, found {found}"


def _naming(message: str, digest: str, name: str) -> str:
    return message if digest in message else f"{name}: {digest}: {message}"


def _after(first: bytes, rest: Iterator[Any]) -> Iterator[bytes]:
    yield first
    for chunk in rest:
        yield bytes(chunk)


def _pieces(path: Path, digest: str) -> Iterator[bytes]:
    """The object of a file, piece by piece. Raises before the end when the file is not what it was any more."""
    found = hashlib.sha256()

    def read() -> Iterator[bytes]:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                found.update(chunk)
                yield chunk

    codec, compressed = _codec.compress_stream(read())
    yield _MAGIC + bytes([codec])
    for chunk in compressed:
        if chunk:
            yield chunk
    if found.hexdigest() != digest:
        raise HouseError(FaultKind.STORE_ERROR, f"{path}: {_other(digest, found.hexdigest(), 'it changed')}")


def _said(error: Exception) -> str:
    """The first line of what obstore says, without what may stand in an address after its question mark."""
    lines = str(error).splitlines()
    return re.sub(r"\?\S*", "?…", lines[0])[:300] if lines else type(error).__name__

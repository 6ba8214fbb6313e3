"""How bytes are made smaller: zstd where its library is there, else zlib; both are read wherever they can be. Pure."""

from __future__ import annotations

import importlib
import threading
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from quintain.types import FaultKind, HouseError

try:  # the extras `library` and `objects`; five times as fast as zlib and smaller
    zstandard: Any = importlib.import_module("zstandard")
except ImportError:
    zstandard = None

STORED, ZLIB, ZSTD = 0, 1, 2
_LEVEL = 1  # of zstd: level 3 takes twice the time for 4 % of the bytes of our events

_local = threading.local()  # zstd's contexts must not be shared by threads


def compress(raw: bytes) -> tuple[int, bytes]:
    """The codec's number, and the bytes; STORED where nothing is won."""
    if zstandard is not None:
        if not hasattr(_local, "compressor"):
            _local.compressor = zstandard.ZstdCompressor(level=_LEVEL)
        codec, kept = ZSTD, _local.compressor.compress(raw)
    else:
        codec, kept = ZLIB, zlib.compress(raw, 1)
    return (codec, kept) if len(kept) < len(raw) else (STORED, raw)


def expand(codec: int, kept: bytes, raw_bytes: int) -> bytes:
    """Raises HouseError(STORE_ERROR) for a codec that is not known or not here, and for bytes that are not what they
    were."""
    try:
        if codec == STORED:
            raw = kept
        elif codec == ZLIB:
            raw = zlib.decompress(kept)
        elif codec == ZSTD:
            raw = _expand_zstd(kept, raw_bytes)
        else:
            raise HouseError(FaultKind.STORE_ERROR, f"expected the codec 0, 1 or 2, found {codec}")
    except zlib.error as error:
        raise HouseError(FaultKind.STORE_ERROR, f"compressed bytes are damaged: {error}")
    if len(raw) != raw_bytes:
        raise HouseError(FaultKind.STORE_ERROR, f"expected {raw_bytes} bytes after decompression, found {len(raw)}")
    return raw


def _expand_zstd(kept: bytes, raw_bytes: int) -> bytes:
    if zstandard is None:
        raise HouseError(FaultKind.STORE_ERROR, "bytes compressed by zstd: pip install zstandard (quintain[library])")
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    try:
        raw: bytes = _local.decompressor.decompress(kept, max_output_size=raw_bytes)
    except zstandard.ZstdError as error:
        raise HouseError(FaultKind.STORE_ERROR, f"compressed bytes are damaged: {error}")
    return raw


def compress_stream(chunks: Iterator[bytes]) -> tuple[int, Iterator[bytes]]:
    """The codec's number, and the compressed pieces; memory is bounded by the chunks."""
    codec = ZLIB if zstandard is None else ZSTD
    tool: Any = zlib.compressobj(1) if zstandard is None else zstandard.ZstdCompressor(level=_LEVEL).compressobj()

    def pieces() -> Iterator[bytes]:
        for chunk in chunks:
            yield tool.compress(chunk)
        yield tool.flush()

    return codec, pieces()


def expand_stream(codec: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The content, piece by piece. Raises HouseError(STORE_ERROR) as `expand` does, and for bytes that end too soon.
    """
    if codec == STORED:
        yield from chunks
        return
    if codec not in (ZLIB, ZSTD):
        raise HouseError(FaultKind.STORE_ERROR, f"expected the codec 0, 1 or 2, found {codec}")
    if codec == ZSTD and zstandard is None:
        raise HouseError(FaultKind.STORE_ERROR, "bytes compressed by zstd: pip install zstandard (quintain[library])")
    tool: Any = zlib.decompressobj() if codec == ZLIB else zstandard.ZstdDecompressor().decompressobj()
    failures = (zlib.error,) if zstandard is None else (zlib.error, zstandard.ZstdError)
    try:
        for chunk in chunks:
            if tool.eof:
                raise HouseError(FaultKind.STORE_ERROR, "compressed bytes are damaged: more follows their end")
            yield tool.decompress(chunk)
    except failures as error:
        raise HouseError(FaultKind.STORE_ERROR, f"compressed bytes are damaged: {error}")
    if not tool.eof:
        raise HouseError(FaultKind.STORE_ERROR, "compressed bytes are damaged: they end too soon")

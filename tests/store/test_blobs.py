from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.store import LocalBlobs
from quintain.types import HouseError


@given(content=st.binary())
@settings(max_examples=30, deadline=None)
def test_what_was_put_is_what_one_gets(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    blobs = LocalBlobs(tmp_path_factory.getbasetemp() / "blobs")
    assert blobs.get(blobs.put(content)) == content


def test_the_same_bytes_are_kept_once(tmp_path: Path) -> None:
    blobs = LocalBlobs(tmp_path)
    digests = {blobs.put(b"same"), blobs.put(b"same"), blobs.put(b"other")}
    assert list(blobs.digests()) == sorted(digests)
    assert len(digests) == 2


def test_a_damaged_blob_is_an_error_and_a_second_put_heals_it(tmp_path: Path) -> None:
    blobs = LocalBlobs(tmp_path, sync=True)
    digest = blobs.put(b"content")
    path = tmp_path / digest[:2] / digest[2:]
    path.write_bytes(b"CONTENT")
    with pytest.raises(HouseError, match=f"expected content of sha256 {digest}, found "):
        blobs.get(digest)
    blobs.put(b"content")
    assert blobs.get(digest) == b"content"


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 64, "ab" * 32 + "\n", "ab/" + "0" * 61])
def test_a_name_that_is_no_digest_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(HouseError, match="expected a sha256 of 64 hex digits"):
        LocalBlobs(tmp_path).get(name)


def test_a_blob_that_is_gone_says_so(tmp_path: Path) -> None:
    blobs = LocalBlobs(tmp_path)
    digest = blobs.put(b"x")
    assert blobs.has(digest)
    blobs.delete(digest)
    blobs.delete(digest)
    assert not blobs.has(digest)
    with pytest.raises(HouseError, match="expected a blob, found nothing"):
        blobs.get(digest)


def test_many_threads_put_the_same_bytes_and_no_draft_is_left(tmp_path: Path) -> None:
    blobs = LocalBlobs(tmp_path)
    threads = [threading.Thread(target=blobs.put, args=(b"y" * 100_000,)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(1 for path in tmp_path.rglob("*") if path.is_file()) == 1

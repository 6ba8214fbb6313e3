"""Files of a sandbox, kept and multiplied: same trees, same bytes, whatever their names and modes."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import os
import tarfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.sandbox import NativeBackend, Sandbox, Snapshot
from quintain.types import MEBIBYTE, HouseError, Limits, Status

ROOTLESS = [False, True] if os.geteuid() == 0 else [True]
SHARED = Path(__file__).parents[2].parent / "shared" / "cases"
HOST = NativeBackend().probe()
pytestmark = pytest.mark.skipif(not HOST.available, reason=f"needs the native backend: {HOST.missing}")

# Every name below a tree: kind, mode, links, size, time, target, content; names as the bytes that they are.
LISTING = r"""
import hashlib, os, stat, sys
def walk(path):
    for name in sorted(os.listdir(path)):
        full = os.path.join(path, name)
        s = os.lstat(full)
        line = [os.fsencode(full), stat.S_IFMT(s.st_mode), s.st_mode & 0o7777, int(s.st_mtime)]
        line += [0 if stat.S_ISDIR(s.st_mode) else s.st_nlink]
        if stat.S_ISLNK(s.st_mode): line.append(os.readlink(full))
        if stat.S_ISREG(s.st_mode):
            os.chmod(full, 0o600)
            with open(full, "rb") as f: line += [s.st_size, hashlib.sha256(f.read()).hexdigest()]
            os.chmod(full, s.st_mode & 0o7777)
        print(line)
        if stat.S_ISDIR(s.st_mode):
            os.chmod(full, 0o700)
            walk(full)
            os.chmod(full, s.st_mode & 0o7777)
for top in sys.argv[1:]:
    print(top, oct(os.lstat(top).st_mode))
    walk(top)
"""


def run(test: Callable[[NativeBackend], Awaitable[None]], *, rootless: bool, cache: Path | None = None) -> None:
    async def main() -> None:
        async with NativeBackend(engines=1, rootless=rootless, cache=cache) as backend:
            await test(backend)

    asyncio.run(main())


async def listing(box: Sandbox, *tops: str) -> str:
    outcome = await box.run(["python3", "-I", "-S", "-c", LISTING, *(tops or ("/work", "/tmp", "/dev/shm"))])
    assert outcome.status is Status.OK, outcome.error_text
    return outcome.text


@pytest.mark.parametrize("rootless", ROOTLESS)
def test_a_restored_sandbox_has_the_same_trees(rootless: bool) -> None:
    make = r"""
        mkdir -p a/b ro/sub; echo one > a/one; ln a/one a/b/same; ln -s ../nowhere a/dangling; ln -s a/b link
        printf 'x%.0s' $(seq 1 3000) > a/long; chmod 4751 a/long; mkdir empty; chmod 1770 empty
        echo secret > ro/sub/f; chmod 000 ro/sub/f; chmod 555 ro/sub ro; mkdir shut; echo in > shut/f; chmod 000 shut
        truncate -s 100M sparse; printf middle | dd of=sparse bs=1 seek=50000000 conv=notrunc 2>/dev/null
        touch -d '2001-02-03 04:05:06' a/one; touch -h -d '1999-01-01' link; touch -d '1965-01-01' empty
        echo t > /tmp/t; mkdir /dev/shm/s; echo m > /dev/shm/s/m; chmod 700 /work; mkfifo fifo
        n=$(printf 'n%.0s' $(seq 1 200)); mkdir -p $n/$n; echo deep > $n/$n/$n; ln -s $n/$n/$n longlink
        ln $n/$n/$n hard
    """

    async def test(backend: NativeBackend) -> None:
        async with backend.open() as [box]:
            assert (await box.run(["sh", "-ec", make])).status is Status.OK
            kept = await box.snapshot()
            before = await listing(box)
        assert kept.left_out == ("fifo work/fifo",)
        assert len(kept.content) < MEBIBYTE, "a sparse file stays sparse"
        async with backend.restore(kept) as [again]:
            after = await listing(again)
            used = await again.run(["du", "-k", "/work/sparse"])
            twice = await again.snapshot()
        assert int(used.text.split()[0]) < 100
        assert after == "".join(line for line in before.splitlines(keepends=True) if "fifo" not in line)
        assert twice.content == kept.content, "the same trees give the same bytes"

    run(test, rootless=rootless)


@pytest.mark.parametrize("rootless", ROOTLESS)
def test_names_that_trip_others_survive(rootless: bool) -> None:
    script = SHARED / "RL08" / "cmd.sh"
    if not script.exists():
        pytest.skip("needs the handed cases beside the checkout (../shared/cases)")

    async def test(backend: NativeBackend) -> None:
        async with backend.open() as [box]:
            assert (await box.run(["sh", "-c", script.read_text()])).status is Status.OK
            kept = await box.snapshot()
            before = await listing(box)
        async with backend.restore(kept) as [again]:
            after = await listing(again)
        with tarfile.open(fileobj=io.BytesIO(kept.content)) as tar:
            names = tar.getnames()
        assert {"work/bad-\udcff-name", "work/new\nline", "work/-rf", "work/ "} <= set(names)
        assert after == "".join(line for line in before.splitlines(keepends=True) if "fifo" not in line)

    run(test, rootless=rootless)


@pytest.mark.parametrize("rootless", ROOTLESS)
def test_a_tree_three_thousand_deep_is_kept(rootless: bool) -> None:
    script = SHARED / "RL07" / "cmd.sh"
    if not script.exists():
        pytest.skip("needs the handed cases beside the checkout (../shared/cases)")
    depth = "import os\nd=0\nwhile True:\n    try: os.chdir('d')\n    except OSError: break\n    d+=1\nprint(d)"

    async def test(backend: NativeBackend) -> None:
        async with backend.open() as [box]:
            assert "depth 3000" in (await box.run(["sh", "-c", script.read_text()])).text
            async with box.fork() as [again]:
                assert (await again.run(["python3", "-c", depth])).text == "3000\n"

    run(test, rootless=rootless)


def test_a_terabyte_of_holes_is_kept_as_holes() -> None:
    async def test(backend: NativeBackend) -> None:
        async with backend.open(limits=Limits(disk_bytes=2**41, memory_bytes=256 * MEBIBYTE)) as [box]:
            assert (await box.run(["truncate", "-s", "1T", "sparse.bin"])).status is Status.OK
            kept = await box.snapshot()
            assert len(kept.content) < 65536
            async with backend.restore(kept, limits=Limits(disk_bytes=2**41)) as [again]:
                found = await again.run(["stat", "-c", "%s %b", "sparse.bin"])
                assert found.text == f"{2**40} 0\n"

    run(test, rootless=ROOTLESS[0])


def test_forks_share_a_past_and_no_future() -> None:
    async def test(backend: NativeBackend) -> None:
        async with backend.open() as [box]:
            await box.files.write("state", b"0")
            async with box.fork(3) as forks:
                assert len({f.id for f in forks}) == 3
                for i, fork in enumerate(forks):
                    assert await fork.files.read("state") == b"0"
                    await fork.files.write("state", str(i + 1).encode())
                assert [await f.files.read("state") for f in forks] == [b"1", b"2", b"3"]
            assert await box.files.read("state") == b"0"

    run(test, rootless=ROOTLESS[0])


def test_a_snapshot_moves_to_another_backend_as_bytes() -> None:
    async def test(backend: NativeBackend) -> None:
        async with backend.open() as [box]:
            await box.files.write("dir/file", b"\0\xff" * 100_000)
            kept = await box.snapshot()
        moved = Snapshot.decode(kept.encode())
        assert moved == kept and moved.digest == hashlib.sha256(kept.content).hexdigest()
        async with NativeBackend(engines=1) as other, other.restore(moved) as [again]:
            assert await again.files.read("dir/file") == b"\0\xff" * 100_000

    run(test, rootless=ROOTLESS[0])


@pytest.mark.parametrize("data", [b"", b"nonsense", msgspec.msgpack.encode({"format": "other"})])
def test_what_is_no_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="expected an encoded snapshot"):
        Snapshot.decode(data)


def test_a_snapshot_too_big_for_the_limits_is_refused_by_name() -> None:
    async def test(backend: NativeBackend) -> None:
        async with backend.open() as [box]:
            await box.files.write("big", b"x" * 8 * MEBIBYTE)
            kept = await box.snapshot()
        with pytest.raises(HouseError, match=r"could not be restored: write big: .*(No space|too large)"):
            async with backend.restore(kept, limits=Limits(disk_bytes=2 * MEBIBYTE)):
                pass

    run(test, rootless=ROOTLESS[0])


def evil(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def entry(name: str, *, link: str = "", kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, 0o755
    return info


@pytest.mark.parametrize("content", [
    evil((entry("work/../../etc/x"), b"x")), evil((entry("/etc/x"), b"x")), evil((entry("elsewhere/x"), b"x")),
    evil((entry("work/l", link="/etc", kind=tarfile.SYMTYPE), b""), (entry("work/l/x"), b"x")),
    evil((entry("work/h", link="root/etc/passwd", kind=tarfile.LNKTYPE), b""), (entry("work/h"), b"x")),
    evil((entry("work/h", link="work/../etc/passwd", kind=tarfile.LNKTYPE), b"")),
    evil((entry("work/null", kind=tarfile.CHRTYPE), b"")), evil((entry("work"), b"x")), b"x" * 1024, b"",
])
def test_a_forged_snapshot_touches_nothing_but_its_trees(content: bytes) -> None:
    async def test(backend: NativeBackend) -> None:
        forged = Snapshot(image="host", image_digest="host", content=content)
        with pytest.raises(HouseError, match="could not be restored"):
            async with backend.restore(forged):
                pass

    run(test, rootless=ROOTLESS[0])


def test_a_fifo_and_a_busy_tree_do_not_hold_a_snapshot() -> None:
    async def test(backend: NativeBackend) -> None:
        churn = "mkfifo p; (while :; do mkdir -p d/e; echo x > d/e/f; rm -rf d; done) & sleep 100"
        async with backend.open() as [box], asyncio.TaskGroup() as group:
            busy = group.create_task(box.run(["sh", "-c", churn], limits=Limits(wall_seconds=8)))
            await asyncio.sleep(0.5)
            began = time.monotonic()
            for _ in range(3):
                with contextlib.suppress(HouseError):  # caught between two states, and said so
                    kept = await box.snapshot()
                    assert "fifo work/p" in kept.left_out
            assert time.monotonic() - began < 6
            assert (await busy).timed_out

    run(test, rootless=ROOTLESS[0])


@settings(max_examples=12, deadline=None)
@given(
    names=st.lists(
        st.binary(min_size=1, max_size=255).filter(lambda b: not set(b) & {0, 47} and b not in (b".", b"..")),
        min_size=1, max_size=20, unique=True,
    ),
    content=st.binary(max_size=2000),
)
def test_any_name_and_any_content_come_back(names: list[bytes], content: bytes) -> None:
    async def test(backend: NativeBackend) -> None:
        async with backend.open() as [box]:
            for name in names:
                await box.files.write("/work/" + name.decode("utf-8", "surrogateescape"), content)
            async with box.fork() as [again]:
                for name in names:
                    assert await again.files.read("/work/" + name.decode("utf-8", "surrogateescape")) == content

    run(test, rootless=ROOTLESS[0])


@pytest.mark.parametrize("rootless", ROOTLESS)
def test_a_program_that_shuts_itself_out_does_not_shut_out_a_snapshot(rootless: bool, tmp_path: Path) -> None:
    async def test(backend: NativeBackend) -> None:
        async with backend.open("host+rw") as [box]:
            await box.files.write("/etc/kept", b"x" * 5000)
            await box.run(["sh", "-c", "touch /tmp/.wh.odd; chmod 000 /work /"])
            kept = await box.snapshot()
            assert "unnameable root/tmp/.wh.odd" in kept.left_out
            with tarfile.open(fileobj=io.BytesIO(kept.content)) as tar:
                assert "root/etc/kept" in tar.getnames()

    run(test, rootless=rootless, cache=tmp_path)

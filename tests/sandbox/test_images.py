"""Root file systems by name: what an image holds is what programs see, and nothing in it leads out."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from quintain.sandbox import NativeBackend, Snapshot
from quintain.sandbox.image import ImageError
from quintain.types import MEBIBYTE, HouseError, Limits, Status
from tests.sandbox.layouts import layout, member, static_program

ROOTLESS = [False, True] if os.geteuid() == 0 else [True]
HOST = NativeBackend().probe()
pytestmark = pytest.mark.skipif(not HOST.available, reason=f"needs the native backend: {HOST.missing}")
Test = Callable[[NativeBackend], Awaitable[None]]


@pytest.fixture(scope="module")
def hello(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    program = static_program(tmp_path_factory.mktemp("hello"))
    if program is None:
        pytest.skip("needs a C compiler and a static libc")
    return program


def run(test: Test, cache: Path, *, rootless: bool = ROOTLESS[0]) -> None:
    async def main() -> None:
        async with NativeBackend(engines=1, rootless=rootless, cache=cache) as backend:
            await test(backend)

    asyncio.run(main())


async def said(backend: NativeBackend, image: str, *argv: str, env: dict[str, str] | None = None) -> str:
    async with backend.open(image) as [box]:
        outcome = await box.run(argv, env=env)
    assert outcome.status is Status.OK, outcome
    return outcome.text


def refused(image: str, cache: Path, match: str) -> ImageError:
    async def test(backend: NativeBackend) -> None:
        async with backend.open(image):
            pass

    with pytest.raises(ImageError, match=match) as caught:
        run(test, cache)
    return caught.value


@pytest.mark.parametrize("rootless", ROOTLESS)
def test_an_image_needs_nothing_but_the_program(rootless: bool, hello: bytes, tmp_path: Path) -> None:
    place = layout(tmp_path / "oci", [[member("hello", hello)]], config={"Env": ["COLOUR=blue"], "WorkingDir": "/srv"})

    async def test(backend: NativeBackend) -> None:
        async with backend.open(f"oci:{place}", count=2) as [box, _]:
            assert (await box.run(["/hello"])).text.startswith("hello from /hello")
            assert (await box.run(["/hello", "env", "COLOUR"])).text == "blue\n"
            assert (await box.run(["/hello", "env", "COLOUR"], env={"COLOUR": "red"})).text == "red\n"
            assert "program" in (await box.run(["/hello", "cat", "/etc/passwd"])).text
            assert (await box.run(["/hello", "write", "/work/x"])).status is Status.OK
            assert await box.files.read("x") == b"written\n"
            assert "Read-only" in (await box.run(["/hello", "write", "/y"])).error_text
            assert (await box.run(["/bin/sh"])).status is Status.NOT_STARTED
            assert box.workdir == "/srv"

    run(test, tmp_path / "cache", rootless=rootless)


@pytest.mark.parametrize("rootless", ROOTLESS)
def test_a_writable_root_belongs_to_the_program_and_to_no_other(rootless: bool, hello: bytes, tmp_path: Path) -> None:
    place = layout(tmp_path / "oci", [[member("bin/hello", hello), member("etc/kept", b"old", mode=0o600)]])

    async def test(backend: NativeBackend) -> None:
        async with backend.open(f"oci:{place}+rw", limits=Limits(disk_bytes=4 * MEBIBYTE), count=2) as [one, two]:
            assert "user 0" in (await one.run(["hello"])).text
            for path in ("/new", "/etc/kept", "/usr", "/bin/hello2"):
                assert (await one.run(["hello", "write", path])).status is Status.OK, path
            assert (await one.run(["hello", "cat", "/etc/kept"])).text == "written\n"
            assert (await two.run(["hello", "cat", "/etc/kept"])).text == "old"
            with pytest.raises(OSError, match="No space left"):
                await one.files.write("/flood", b"x" * 5 * MEBIBYTE)
        assert await said(backend, f"oci:{place}+rw", "hello", "cat", "/etc/kept") == "old"

    run(test, tmp_path / "cache", rootless=rootless)


@pytest.mark.parametrize("rootless", ROOTLESS)
def test_a_writable_host_can_be_changed_everywhere_and_is_not(rootless: bool, tmp_path: Path) -> None:
    script = """
        id -u; touch /usr/bin/new /etc/new /opt; rm /usr/bin/env; mkdir -p /var/lib/x /home/me
        python3 -c 'print(6 * 7)'; grep -c . /etc/passwd; echo x >> /etc/passwd
        grep Cap /proc/self/status | tr -d '0\\n\\t'; ls /proc/1 2>/dev/null | head -1
        test -e /work && echo work
    """

    async def test(backend: NativeBackend) -> None:
        async with backend.open("host+rw") as [box]:
            outcome = await box.run(["sh", "-c", script])
            assert outcome.text.split()[:3] == ["0", "42", "2"]
            assert "CapInh:CapPrm:CapEff:CapBnd:CapAmb:" in outcome.text, "all of them empty"
            assert outcome.text.endswith("work\n"), outcome
            for attempt in ("mount -t tmpfs x /mnt", "unshare -U true", "chroot / true", "mknod /d b 8 0",
                            "echo x > /proc/sys/kernel/core_pattern", "chmod 777 /dev/null", "chown 1 /etc/new"):
                assert (await box.run(["sh", "-c", attempt])).status is Status.FAILED, attempt

    run(test, tmp_path / "cache", rootless=rootless)
    assert not Path("/usr/bin/new").exists() and not Path("/etc/new").exists() and Path("/usr/bin/env").exists()


def test_upper_layers_replace_hide_and_uncover(hello: bytes, tmp_path: Path) -> None:
    lower = [member("bin/hello", hello), member("a/gone", b"1"), member("a/kept", b"2"), member("o/old", b"3"),
             member("f", b"4"), member("d/x", b"5"), member("lib64/", mode=0o755), member("lib", linkname="usr/lib"),
             member("usr/lib/base", b"6")]
    upper = [member("a/.wh.gone"), member("o/"), member("o/.wh..wh..opq"), member("o/new", b"7"),
             member("f/"), member("f/inside", b"8"), member("d", b"9"), member("lib/more", b"10"),
             member("hard", type=tarfile.LNKTYPE, linkname="a/kept"), member(".wh.nothing")]
    place = layout(tmp_path / "oci", [lower, upper])

    async def test(backend: NativeBackend) -> None:
        async with backend.open(f"oci:{place}") as [box]:
            for path, content in {"/a/kept": b"2", "/o/new": b"7", "/f/inside": b"8", "/d": b"9", "/lib/base": b"6",
                                  "/usr/lib/more": b"10", "/lib/more": b"10", "/hard": b"2"}.items():
                assert await box.files.read(path) == content, path
            for path in ("/a/gone", "/o/old", "/d/x"):
                assert not await box.files.exists(path), path
            assert [e.path for e in await box.files.list("/f")] == ["/f/inside"]

    run(test, tmp_path / "cache")


@pytest.mark.parametrize("rootless", ROOTLESS)
def test_no_entry_of_a_layer_leads_out_of_it(rootless: bool, hello: bytes, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    up = "../" * 20
    evil = [
        member("bin/hello", hello), member("abs", linkname=str(victim)), member("abs/x", b"1"),
        member("rel", linkname=f"{up}{victim}"), member("rel/y", b"2"), member("proc", linkname="/etc"),
        member("work", linkname="/etc"), member("dev", linkname=str(victim)), member("etc/passwd", linkname="/victim"),
        member("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3), member("p", type=tarfile.FIFOTYPE),
        member("suid", hello, mode=0o6755),
    ]
    place = layout(tmp_path / "oci", [evil])

    async def test(backend: NativeBackend) -> None:
        async with backend.open(f"oci:{place}") as [box]:
            assert "hello" in (await box.run(["/bin/hello"])).text
            assert (await box.run(["/bin/hello", "write", "/work/w"])).status is Status.OK
            assert not await box.files.exists("/null") and not await box.files.exists("/p")
            assert [e.mode for e in await box.files.list("/") if e.path.endswith("suid")] == [0o755]

    run(test, tmp_path / "cache", rootless=rootless)
    assert not list(victim.iterdir()) and not Path("/etc/w").exists()


@pytest.mark.parametrize(("entry", "match"), [
    (member("../out", b"x"), "inside the layer"), (member("a/../../out", b"x"), "inside the layer"),
    (member("h", type=tarfile.LNKTYPE, linkname="../../etc/passwd"), "inside the layer"),
    (member("h", type=tarfile.LNKTYPE, linkname="absent"), "to link /h to, found none"),
    (member("a/.wh..", b""), "whiteout of a name"),
])
def test_a_layer_that_would_lead_out_is_refused(
    entry: tuple[tarfile.TarInfo, bytes], match: str, tmp_path: Path
) -> None:
    refused(f"oci:{layout(tmp_path / 'oci', [[entry]])}", tmp_path / "cache", match)
    assert not (tmp_path / "out").exists() and not list((tmp_path / "cache/layers").iterdir())


def test_a_damaged_or_strange_layout_is_refused_by_name(hello: bytes, tmp_path: Path) -> None:
    place = layout(tmp_path / "oci", [[member("hello", hello)]], tag="one")
    layout(place, [[member("hi", hello)]], tag="two")
    cache = tmp_path / "cache"
    refused(f"oci:{tmp_path}/absent", cache, "expected an OCI layout at")
    refused(f"oci:{place}", cache, "expected one manifest .* found one, two")
    refused(f"oci:{place}:three", cache, "tagged 'three', found one, two")
    refused(f"oci:{tmp_path}", cache, r"expected a file index\.json, found none")
    refused("docker:python", cache, "expected an image host, dir:PATH")
    refused("dir:relative", cache, "absolute path of a directory")
    for blob in (place / "blobs/sha256").iterdir():
        if blob.stat().st_size > 10_000:  # the layers
            blob.write_bytes(blob.read_bytes()[:-20])
    assert refused(f"oci:{place}:one", cache, "expected a (whole gzip|tar) stream").file == str(place)
    foreign = layout(tmp_path / "arm", [[member("hello", hello)]], machine="s390x")
    refused(f"oci:{foreign}", cache, "manifest for linux/")


@pytest.mark.parametrize("packed", ["none", "zstd"])
def test_layers_are_read_however_they_are_packed(packed: str, hello: bytes, tmp_path: Path) -> None:
    if packed == "zstd" and shutil.which("zstd") is None:
        pytest.skip("needs the program zstd")
    place = layout(tmp_path / "oci", [[member("hello", hello)]], packed=packed)
    archive = shutil.make_archive(str(tmp_path / "image"), "tar", place)

    async def test(backend: NativeBackend) -> None:
        assert "hello" in await said(backend, f"oci:{archive}", "/hello")
        assert "hello" in await said(backend, f"oci:{place}:latest", "/hello")

    run(test, tmp_path / "cache")
    assert len(list((tmp_path / "cache/layers").iterdir())) == 1, "the same layer is unpacked once"


@pytest.mark.parametrize("suffix", ["", "+rw"])
def test_a_directory_is_an_image(suffix: str, hello: bytes, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin/hello").write_bytes(hello)
    (root / "bin/hello").chmod(0o755)

    async def test(backend: NativeBackend) -> None:
        assert "hello" in await said(backend, f"dir:{root}{suffix}", "hello")

    run(test, tmp_path / "cache")
    assert sorted(p.name for p in root.iterdir()) == ["bin"]


@pytest.mark.parametrize("rootless", ROOTLESS)
def test_a_snapshot_of_a_writable_root_keeps_what_was_removed(rootless: bool, tmp_path: Path) -> None:
    script = """
        rm /usr/bin/env; rm -r /usr/lib/python3; mkdir /usr/lib/python3; echo mine > /usr/lib/python3/mine
        echo more >> /etc/passwd; mkdir -p /opt/tool/bin; ln -s ../x /opt/tool/bin/y; echo w > /work/w; chmod 700 /opt
    """
    look = (
        "ls /usr/bin/env; ls /usr/lib/python3; tail -1 /etc/passwd; ls -l /opt/tool/bin | grep -c y; cat /work/w; "
        "stat -c %a /opt"
    )

    async def test(backend: NativeBackend) -> None:
        async with backend.open("host+rw") as [box]:
            assert (await box.run(["sh", "-ec", script])).status is Status.OK
            kept = Snapshot.decode((await box.snapshot()).encode())
            before = (await box.run(["sh", "-c", look])).text
        assert before == "mine\nmore\n1\nw\n700\n"
        async with backend.restore(kept) as [again]:
            assert (await again.run(["sh", "-c", look])).text == before
            assert (await again.snapshot()).content == kept.content

    run(test, tmp_path / "cache", rootless=rootless)


def test_a_snapshot_is_not_put_over_another_image(hello: bytes, tmp_path: Path) -> None:
    place = layout(tmp_path / "oci", [[member("hello", hello)]])

    async def take(backend: NativeBackend) -> None:
        async with backend.open(f"oci:{place}") as [box]:
            kept.append(await box.snapshot())

    async def put(backend: NativeBackend) -> None:
        with pytest.raises(HouseError, match="with digest"):
            async with backend.restore(kept[0]):
                pass

    kept: list[Snapshot] = []
    run(take, tmp_path / "cache")
    shutil.rmtree(place)
    layout(place, [[member("other", hello)]])
    run(put, tmp_path / "cache")


def test_many_images_do_not_keep_many_engines(hello: bytes, tmp_path: Path) -> None:
    places = [layout(tmp_path / f"oci{i}", [[member("hello", hello), member("n", str(i).encode())]]) for i in range(4)]

    async def main() -> None:
        backend = NativeBackend(engines=1, cache=tmp_path / "cache", images=2)
        async with backend, backend.open(f"oci:{places[0]}") as [first]:
            for i, place in enumerate(places):
                assert await said(backend, f"oci:{place}", "/hello", "cat", "/n") == str(i)
            assert backend.engines_running <= 3
            assert (await first.run(["/hello", "cat", "/n"])).text == "0", "an image in use keeps its engine"

    asyncio.run(main())


def test_what_a_cache_holds_belongs_to_the_house_alone(hello: bytes, tmp_path: Path) -> None:
    place = layout(tmp_path / "oci", [[member("bin/hello", hello, uid=1234, gid=99, mode=0o4755)]])

    async def test(backend: NativeBackend) -> None:
        assert "hello" in await said(backend, f"oci:{place}", "hello")

    run(test, tmp_path / "cache")
    [program] = (tmp_path / "cache").rglob("hello")
    status = program.stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (os.geteuid(), 0o755)


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/rooms/images.md").read_text()
    [example] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
    )
    assert done.stdout == "hello\nmade\n0\n\nb'new\\n'\n", done.stderr


def test_the_backend_declares_what_it_can_open() -> None:
    assert HOST.snapshot and {"host", "+rw"} < set(HOST.images)

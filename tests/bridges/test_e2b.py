"""The real e2b SDK, pointed at us, makes a sandbox, works in it, and ends it."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

pytest.importorskip("e2b", reason="needs E2B's SDK: pip install e2b")
pytest.importorskip("python_multipart", reason="needs python-multipart: pip install quintain[e2b]")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install quintain[e2b]")

from e2b import (
    AsyncSandbox,
    AuthenticationException,
    CommandExitException,
    FileNotFoundException,
    FileType,
    RateLimitException,
    Sandbox,
    SandboxException,
    SandboxNotFoundException,
    TimeoutException,
)
from e2b.exceptions import SandboxNotRunningException

from quintain.bridges.e2b import E2bFace
from quintain.sandbox import NativeBackend
from quintain.serve import listening

pytestmark = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")
KEY = "e2b_" + "0" * 40


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[dict[str, Any]]:
    """What the SDK must be told."""
    backend = NativeBackend(engines=1, terminals=True)
    face = E2bFace(backend, keys=(KEY,), **options)
    try:
        async with face.open(), listening(face.app, grace_seconds=1) as url:
            yield {"api_url": url, "sandbox_url": url, "api_key": KEY}
    finally:
        await backend.aclose()


def play(work: Callable[[AsyncSandbox, dict[str, Any]], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with serving(**options) as told:
            box = await AsyncSandbox.create(**told, timeout=120, envs={"WHO": "you"})
            await work(box, told)

    asyncio.run(main())


@pytest.mark.bridge("e2b", "theirs drives ours", "create, info, list, timeout, connect, kill; a wrong key")
def test_a_sandbox_is_made_found_renewed_and_ended() -> None:
    async def work(box: AsyncSandbox, told: dict[str, Any]) -> None:
        assert await box.is_running()
        info = await box.get_info()
        assert (info.sandbox_id, info.template_id, info.state.value) == (box.sandbox_id, "base", "running")
        await box.set_timeout(600)
        assert 590 < ((await box.get_info()).end_at - info.started_at).total_seconds() < 620
        other = await AsyncSandbox.create(**told, metadata={"job": "7"})
        listed = AsyncSandbox.list(**told)
        assert {one.sandbox_id for one in await listed.next_items()} == {box.sandbox_id, other.sandbox_id}
        again = await AsyncSandbox.connect(box.sandbox_id, **told)
        await again.files.write("here", "I was")
        assert await box.files.read("here") == "I was"
        assert await box.kill() and not await box.is_running() and not await box.kill()
        with pytest.raises(SandboxNotRunningException):
            await box.commands.run("true")
        with pytest.raises(SandboxNotFoundException):
            await AsyncSandbox.connect(box.sandbox_id, **told)
        with pytest.raises(AuthenticationException):
            await AsyncSandbox.create(**{**told, "api_key": "e2b_" + "1" * 40})
        with pytest.raises(SandboxException, match="404: expected a template of base, found 'nix'"):
            await AsyncSandbox.create("nix", **told)

    play(work)


@pytest.mark.bridge("e2b", "theirs drives ours", "commands: output as it comes, stdin, exit codes, timeout, kill")
def test_commands_run_with_their_output_as_it_comes() -> None:
    async def work(box: AsyncSandbox, told: dict[str, Any]) -> None:
        heard: list[str] = []
        done = await box.commands.run(
            "echo one; echo two >&2; echo $WHO $MORE; pwd", envs={"MORE": "and me"}, on_stdout=heard.append)
        assert done.stdout == "".join(heard) == "one\nyou and me\n/work\n" and done.stderr == "two\n"
        with pytest.raises(CommandExitException) as failed:
            await box.commands.run("echo é; exit 3", cwd="/tmp")
        assert (failed.value.exit_code, failed.value.stdout) == (3, "é\n")

        asked = asyncio.Event()
        reading = await box.commands.run(
            "echo ready; cat", background=True, stdin=True, on_stdout=lambda text: asked.set())
        await asked.wait()
        assert [one.pid for one in await box.commands.list()] == [reading.pid]
        await box.commands.send_stdin(reading.pid, "to and ")
        await box.commands.send_stdin(reading.pid, "fro\n")
        await box.commands.close_stdin(reading.pid)
        assert (await reading.wait()).stdout == "ready\nto and fro\n"

        with pytest.raises(TimeoutException):
            await box.commands.run("sleep 60", timeout=0.3)
        lasting = await box.commands.run("echo begun; sleep 0.2; echo later; sleep 60", background=True)
        await lasting.disconnect()
        heard_again = asyncio.Event()
        again = await box.commands.connect(lasting.pid, on_stdout=lambda text: heard_again.set())
        await heard_again.wait()
        assert await box.commands.kill(lasting.pid) and not await box.commands.kill(lasting.pid)
        with pytest.raises(CommandExitException) as killed:
            await again.wait()
        assert killed.value.exit_code == -1

    play(work)


@pytest.mark.bridge("e2b", "theirs drives ours", "files: write, read, stream, many, gzip, list, info, move, remove")
def test_files_are_written_read_listed_moved_and_removed() -> None:
    async def work(box: AsyncSandbox, told: dict[str, Any]) -> None:
        big = bytes(range(256)) * 10_000
        await box.files.write("/work/deep/er/big", big)
        assert bytes(await box.files.read("/work/deep/er/big", format="bytes")) == big
        assert b"".join([piece async for piece in await box.files.read("deep/er/big", format="stream")]) == big
        await box.files.write("packed", io.BytesIO(b"x" * 100_000), gzip=True)
        assert await box.files.read("packed") == "x" * 100_000
        await box.files.write_files([{"path": "a.txt", "data": "ä"}, {"path": "/tmp/b.txt", "data": b"b"}])
        assert await box.files.read("a.txt") + await box.files.read("/tmp/b.txt") == "äb"
        assert await box.files.make_dir("empty") and not await box.files.make_dir("empty")
        listed = {entry.name: entry for entry in await box.files.list("/work")}
        assert set(listed) == {"deep", "packed", "a.txt", "empty"}
        assert listed["a.txt"].type is FileType.FILE and listed["a.txt"].size == 2
        assert listed["deep"].type is FileType.DIR and listed["a.txt"].permissions == "-rw-r--r--"
        assert (await box.files.rename("a.txt", "c.txt")).path == "/work/c.txt"
        assert not await box.files.exists("a.txt") and (await box.files.get_info("c.txt")).size == 2
        await box.files.remove("deep")
        for missing in (box.files.read("deep/er/big"), box.files.list("nowhere"), box.files.get_info("deep")):
            with pytest.raises(FileNotFoundException):
                await missing
        assert (await box.commands.run("ls -1")).stdout == "c.txt\nempty\npacked\n"

    play(work)


@pytest.mark.bridge("e2b", "theirs drives ours", "a terminal: its size, what is typed")
def test_a_terminal_is_typed_into() -> None:
    async def work(box: AsyncSandbox, told: dict[str, Any]) -> None:
        from e2b import PtySize

        said = bytearray()
        terminal = await box.pty.create(PtySize(rows=30, cols=100), on_data=said.extend)
        await box.pty.send_stdin(terminal.pid, b"stty size; exit\n")
        await terminal.wait()
        assert b"30 100" in said

    play(work)


@pytest.mark.bridge("e2b", "theirs drives ours", "the synchronous SDK in threads, eight sandboxes at once")
def test_the_synchronous_sdk_works_in_many_sandboxes_at_once() -> None:
    def one(told: dict[str, Any], nth: int) -> str:
        with Sandbox.create(**told) as box:
            box.files.write("n", str(nth))
            return str(box.commands.run("cat n; hostname > /dev/null").stdout)

    async def main() -> None:
        async with serving(sandboxes=8) as told, asyncio.TaskGroup() as crew:
            made = [crew.create_task(asyncio.to_thread(one, told, nth)) for nth in range(8)]
        assert [task.result() for task in made] == [str(nth) for nth in range(8)]

    asyncio.run(main())


def test_a_sandbox_ends_with_its_timeout_and_gives_its_place_free() -> None:
    async def main() -> None:
        async with serving(sandboxes=1) as told:
            box = await AsyncSandbox.create(**told, timeout=1)
            with pytest.raises(RateLimitException):
                await AsyncSandbox.create(**told, retries=0)
            with pytest.raises(SandboxNotRunningException):
                await box.commands.run("sleep 60")
            while True:
                try:
                    await AsyncSandbox.create(**told, retries=0)
                    break
                except RateLimitException:
                    await asyncio.sleep(0.05)

    asyncio.run(main())


def test_nobody_enters_a_sandbox_without_its_token() -> None:
    async def work(box: AsyncSandbox, told: dict[str, Any]) -> None:
        await box.files.write("secret", "42")
        async with httpx.AsyncClient(base_url=told["sandbox_url"]) as client:
            for headers in ({}, {"X-Access-Token": "x"}, {"X-Access-Token": KEY, "X-API-Key": KEY}):
                known = {"E2b-Sandbox-Id": box.sandbox_id, **headers}
                found = await client.get("/files", params={"path": "secret"}, headers=known)
                assert found.status_code == 401 and b"42" not in found.content
                found = await client.post("/process.Process/List", json={}, headers=known)
                assert found.status_code == 401
            assert (await client.get("/v2/sandboxes")).status_code == 401

    play(work)

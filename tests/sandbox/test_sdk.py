"""The SDK says what happened, steers what runs, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.sandbox import BubblewrapBackend, NativeBackend
from quintain.sandbox._commands import Decoded
from quintain.sandbox._retain import Retained
from quintain.sdk import Change, CommandError, FileEvent, Sandbox, SyncSandbox
from quintain.types import MEBIBYTE, FaultKind, HouseError, KilledBy, Limits, Network, Status


def in_sandbox(play: Callable[[Sandbox], Awaitable[None]], **options: object) -> None:
    async def main() -> None:
        async with asyncio.timeout(90), await Sandbox.create(**options) as sandbox:  # type: ignore[arg-type]
            await play(sandbox)

    asyncio.run(main())


async def nothing_runs(sandbox: Sandbox) -> None:
    async with asyncio.timeout(5):
        while await sandbox.processes():  # noqa: ASYNC110 - the news comes from inside
            await asyncio.sleep(0.01)


def test_a_result_says_how_a_command_ended() -> None:
    async def play(sandbox: Sandbox) -> None:
        result = await sandbox.commands.run("echo out; echo err >&2; head -c 100000 /dev/zero > file; exit 3")
        assert (result.stdout, result.stderr, result.exit_code, result.status) == ("out\n", "err\n", 3, Status.FAILED)
        assert not (result.timed_out or result.oom_killed or result.stdout_truncated or result.ok)
        assert result.cpu_seconds is not None
        assert result.disk_used_bytes is not None
        assert result.disk_used_bytes >= 100_000
        with pytest.raises(CommandError, match="exit code 3"):
            await sandbox.commands.run("exit 3", check=True)
        killed = await sandbox.commands.run("kill -SEGV $$")
        assert (killed.exit_code, killed.signal, killed.killed_by) == (None, signal.SIGSEGV, None)
        missing = await sandbox.commands.run(["no-such-program"])
        assert (missing.status, missing.exit_code) == (Status.NOT_STARTED, None)

    in_sandbox(play)


def test_a_time_out_kills_the_whole_tree_and_keeps_the_output() -> None:
    async def play(sandbox: Sandbox) -> None:
        result = await sandbox.commands.run(
            "echo partial; (setsid sleep 300 &) ; setsid sh -c 'sleep 301 & sleep 302' & sleep 303", timeout=0.4
        )
        assert (result.timed_out, result.killed_by, result.stdout) == (True, KilledBy.TIMEOUT, "partial\n")
        assert await sandbox.processes() == []

    in_sandbox(play)


def test_killing_one_command_spares_the_other() -> None:
    async def play(sandbox: Sandbox) -> None:
        stubborn = "setsid setsid sh -c 'trap \"\" TERM INT HUP; sleep 301'"
        tree = f"(setsid sleep 300 &) ; ({stubborn} &) ; echo ready; sleep 302"
        one = await sandbox.commands.run(tree, background=True)
        other = await sandbox.commands.run("sleep 400", background=True)
        async for _, text in one.output():
            assert text == "ready\n"
            break
        assert {info.pid for info in await sandbox.commands.list()} == {one.pid, other.pid}
        assert await sandbox.commands.kill(one.pid)
        result = await one.wait()
        assert (result.killed_by, result.signal) == (KilledBy.USER, signal.SIGKILL)
        left = [p.argv[-1].split()[-1] for p in await sandbox.processes()]  # its shell may not have exec-ed yet
        assert left == ["400"]
        assert not await sandbox.commands.kill(one.pid)
        await (await sandbox.commands.connect(other.pid)).send_signal(signal.SIGTERM)
        assert (await other.wait()).signal == signal.SIGTERM

    in_sandbox(play)


def test_a_fork_storm_is_killed_without_harming_its_neighbour() -> None:
    async def play(sandbox: Sandbox) -> None:
        neighbour = await sandbox.commands.run("sleep 400", background=True)
        storm = "import os\nwhile True:\n if os.fork():\n  os._exit(0)\n os.setsid()\n"
        await sandbox.commands.run(["python3", "-c", storm], timeout=20)
        bomb = await sandbox.commands.run("f() { f | f & }; f; sleep 100", timeout=1)
        assert bomb.timed_out
        left = [p.argv[-1].split()[-1] for p in await sandbox.processes()]  # its shell may not have exec-ed yet
        assert left == ["400"]
        await neighbour.kill()

    in_sandbox(play, limits=Limits(wall_seconds=60, cpu_seconds=60, processes=40))


def test_stdin_stays_open_when_asked_and_ends_when_closed() -> None:
    async def play(sandbox: Sandbox) -> None:
        echo = "while read line; do echo got $line; done; echo end"
        handle = await sandbox.commands.run(echo, stdin=True, background=True)
        pieces = handle.output()
        await handle.send_stdin("one\n")
        assert await anext(pieces) == ("stdout", "got one\n")
        await handle.send_stdin(b"two\n")
        assert await anext(pieces) == ("stdout", "got two\n")
        await handle.close_stdin()
        assert "".join([text async for _, text in pieces]) == "end\n"
        assert (await handle.wait()).stdout == "got one\ngot two\nend\n"
        assert (await sandbox.commands.run("cat", stdin="héé")).stdout == "héé"
        assert (await sandbox.commands.run("cat; echo none")).stdout == "none\n"
        with pytest.raises(ValueError, match="background=True"):
            await sandbox.commands.run("cat", stdin=True)

    in_sandbox(play)


def test_a_writer_to_stdin_waits_for_its_reader() -> None:
    async def play(sandbox: Sandbox) -> None:
        handle = await sandbox.commands.run("sleep 0.5; wc -c", stdin=True, background=True)
        begun = time.monotonic()
        await handle.send_stdin(b"x" * 3_000_000)
        assert time.monotonic() - begun > 0.3
        await handle.close_stdin()
        assert (await handle.wait()).stdout.strip() == "3000000"
        deaf = await sandbox.commands.run("exec <&-; sleep 0.1", stdin=True, background=True)
        await deaf.send_stdin(b"x" * 3_000_000)
        assert (await deaf.wait()).ok

    in_sandbox(play)


def test_a_slow_reader_holds_its_program_back_and_loses_nothing() -> None:
    async def play(sandbox: Sandbox) -> None:
        handle = await sandbox.commands.run(
            "for i in $(seq 100); do head -c 100000 /dev/zero | tr '\\0' a; echo $i > at; done", background=True
        )
        pieces = handle.output()
        total = len((await anext(pieces))[1])
        await asyncio.sleep(0.5)
        assert int(await sandbox.files.read("at")) < 20
        async for _, text in pieces:
            total += len(text)
        assert total == 10_000_000
        result = await handle.wait()
        assert result.stdout_truncated
        assert len(result.stdout) == MEBIBYTE

    in_sandbox(play)


def test_a_flood_is_bounded_in_what_is_kept_and_complete_for_its_listener() -> None:
    async def play(sandbox: Sandbox) -> None:
        heard = 0

        def listen(text: str) -> None:
            nonlocal heard
            heard += len(text)

        result = await sandbox.commands.run("echo first; head -c 20000000 /dev/zero; echo last", on_stdout=listen)
        assert heard == 20_000_011
        assert len(result.outcome.stdout) == MEBIBYTE
        assert result.stdout.startswith("first\n")
        assert result.stdout.endswith("last\n")
        assert result.stdout_truncated

    in_sandbox(play)


def test_a_listener_never_gets_half_a_character() -> None:
    async def play(sandbox: Sandbox) -> None:
        heard: list[str] = []
        await sandbox.commands.run(
            "printf '\\xe2\\x82'; sleep 0.1; printf '\\xac'; sleep 0.1; printf '\\xff\\xe2'", on_stdout=heard.append
        )
        assert "".join(heard) == "€\ufffd\ufffd"

    in_sandbox(play)


@given(st.text(), st.integers(min_value=1, max_value=7))
def test_text_comes_out_as_it_went_in_however_it_is_cut(text: str, size: int) -> None:
    heard: list[str] = []
    decoded, data = Decoded(heard.append), text.encode()
    for at in range(0, len(data), size):
        decoded(data[at : at + size])
    decoded.finish()
    assert "".join(heard) == text


@given(st.lists(st.binary(max_size=30)), st.integers(min_value=1, max_value=60))
def test_what_is_kept_is_all_or_the_first_and_last_half(pieces: list[bytes], limit: int) -> None:
    kept, whole = Retained(limit), b"".join(pieces)
    for piece in pieces:
        kept.add(piece)
    head = (limit + 1) // 2
    expected = whole if len(whole) <= limit else whole[:head] + whole[len(whole) - (limit - head) :]
    assert kept.value() == expected


def test_a_rootless_program_that_kills_its_warden_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with (
            NativeBackend(engines=1, terminals=True, rootless=True) as backend,
            await Sandbox.create(backend=backend) as sandbox,
        ):
            neighbour = await sandbox.commands.run("sleep 400", background=True)
            escape = "(setsid sleep 300 &); setsid sh -c 'sleep 301 & sleep 302' & sleep 0.1; kill -9 $PPID; sleep 303"
            result = await sandbox.commands.run(escape, timeout=10)
            assert result.signal == signal.SIGKILL
            assert [p.argv for p in await sandbox.processes()] == [("sleep", "400")]
            await neighbour.kill()
            assert (await neighbour.wait()).killed_by is KilledBy.USER
            everything = await sandbox.commands.run("(setsid sleep 300 &); kill -9 -1; sleep 301", timeout=10)
            assert everything.signal == signal.SIGKILL
            assert await sandbox.processes() == []

    asyncio.run(main())


def test_cancelling_a_command_kills_it() -> None:
    async def play(sandbox: Sandbox) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await sandbox.commands.run("sleep 300")
        await nothing_runs(sandbox)

    in_sandbox(play)


def test_a_pause_stops_everything_and_the_clock_of_its_commands() -> None:
    async def play(sandbox: Sandbox) -> None:
        tick = "while :; do echo x >> ticks; sleep 0.02; done"
        handle = await sandbox.commands.run(tick, background=True, timeout=1.0)
        await asyncio.sleep(0.2)
        await sandbox.pause()
        ticks = (await sandbox.files.get_info("ticks")).size_bytes
        await asyncio.sleep(1.2)
        assert (await sandbox.files.get_info("ticks")).size_bytes == ticks
        assert {p.state for p in await sandbox.processes()} == {"T"}
        await sandbox.resume()
        await asyncio.sleep(0.2)
        assert (await sandbox.files.get_info("ticks")).size_bytes > ticks
        result = await handle.wait()
        assert result.timed_out
        assert result.wall_seconds > 2.0

    in_sandbox(play)


def test_a_terminal_is_one_and_can_be_resized() -> None:
    async def play(sandbox: Sandbox) -> None:
        seen = bytearray()
        pty = await sandbox.pty.create((30, 100), cmd=["bash", "--norc", "--noprofile", "-i"], on_data=seen.extend)
        await pty.send_stdin("tty; stty size\n")
        async with asyncio.timeout(10):
            while b"30 100" not in seen:  # noqa: ASYNC110 - filled by a callback
                await asyncio.sleep(0.01)
        assert b"/dev/pts/0" in seen
        await pty.resize(50, 120)
        await pty.send_stdin("stty size; python3 -c 'import os; print(os.isatty(0), os.ttyname(1))'; exit 4\n")
        result = await pty.wait()
        assert result.exit_code == 4
        assert "50 120" in result.stdout
        assert "True /dev/pts/0" in result.stdout

    in_sandbox(play)


def test_an_interrupt_typed_on_a_terminal_reaches_the_program() -> None:
    async def play(sandbox: Sandbox) -> None:
        waits = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done"
        pty = await sandbox.pty.create(cmd=["sh", "-c", waits])

        async def type_on() -> None:  # one that comes while the shell begins a `sleep` may be lost on it
            while True:
                await pty.send_stdin("\x03")
                await asyncio.sleep(2)

        async with asyncio.TaskGroup() as group:
            typing: asyncio.Task[None] | None = None
            async for _, text in pty.output():
                if "ready" in text and typing is None:
                    typing = group.create_task(type_on())
            assert typing is not None
            typing.cancel()
        assert (await pty.wait()).exit_code == 9

    in_sandbox(play)


def test_files_are_read_written_listed_moved_and_watched() -> None:
    async def play(sandbox: Sandbox) -> None:
        files = sandbox.files
        await files.write_files({"a/one.txt": "é", "a/two.bin": b"\xff\0"})
        assert await files.read("a/one.txt") == "é"
        assert await files.read("/work/a/two.bin", format="bytes") == b"\xff\0"
        with pytest.raises(UnicodeDecodeError):
            await files.read("a/two.bin")
        watch = await files.watch_dir("a")
        moved = await files.rename("a/one.txt", "a/three.txt")
        assert (moved.path, moved.kind, moved.size_bytes) == ("/work/a/three.txt", "file", 2)
        assert moved.modified_seconds == pytest.approx(time.time(), abs=60)
        await files.write("a/two.bin", b"longer")
        assert await watch.get_new_events() == [
            FileEvent(Change.REMOVED, "/work/a/one.txt"), FileEvent(Change.CREATED, "/work/a/three.txt"),
            FileEvent(Change.MODIFIED, "/work/a/two.bin"),
        ]
        assert await watch.get_new_events() == []
        assert sorted(f.path for f in await files.list("a")) == ["/work/a/three.txt", "/work/a/two.bin"]
        assert await files.make_dir("b/c")
        assert not await files.make_dir("b/c")
        await files.remove("a")
        assert not await files.exists("a")
        with pytest.raises(FileNotFoundError):
            await files.read("a/one.txt")

    in_sandbox(play)


def test_a_file_larger_than_one_request_goes_in_and_out_whole() -> None:
    async def play(sandbox: Sandbox) -> None:
        content = bytes(range(256)) * 100_000
        await sandbox.files.write("big", content)
        assert await sandbox.files.read("big", format="bytes") == content
        assert b"".join([piece async for piece in sandbox.files.stream("big")]) == content

    in_sandbox(play)


def test_a_sandbox_ends_at_its_timeout_and_says_so() -> None:
    async def play(sandbox: Sandbox) -> None:
        assert await sandbox.is_running()
        handle = await sandbox.commands.run("sleep 300", background=True)
        sandbox.set_timeout(0.2)
        with pytest.raises(HouseError) as caught:
            await handle.wait()
        assert caught.value.kind is FaultKind.SANDBOX_LOST
        assert not await sandbox.is_running()
        assert not await sandbox.kill()

    in_sandbox(play)


def test_many_sandboxes_share_one_backend() -> None:
    async def main() -> None:
        async with (
            NativeBackend(engines=1, terminals=True) as backend,
            await Sandbox.create(backend=backend) as one, await Sandbox.create(backend=backend) as two,
        ):
            await one.files.write("mine", "1")
            assert one.sandbox_id != two.sandbox_id
            assert not await two.files.exists("mine")
        async with NativeBackend(engines=1) as bare, await Sandbox.create(backend=bare) as sandbox:
            with pytest.raises(OSError, match="terminal"):
                await sandbox.pty.create()

    asyncio.run(main())


def test_the_sync_face_does_the_same_without_asyncio() -> None:
    with SyncSandbox.create(env={"NAME": "quintain"}) as sandbox:
        heard: list[str] = []
        result = sandbox.commands.run("echo $NAME; exit 2", on_stdout=heard.append)
        assert (result.exit_code, "".join(heard)) == (2, "quintain\n")
        sandbox.files.write("file", "text")
        assert sandbox.files.read("file") == "text"
        handle = sandbox.commands.run("cat", stdin=True, background=True)
        handle.send_stdin("line\n")
        handle.close_stdin()
        assert list(handle.output()) == [("stdout", "line\n")]
        session = sandbox.sessions.create()
        session.run("x=5")
        assert session.run("echo $x").stdout == "5\n"
        pty = sandbox.pty.create(cmd=["tty"])
        assert pty.wait().stdout == "/dev/pts/0\r\n"
        with pytest.raises(CommandError):
            sandbox.commands.run("false", check=True)
        assert sandbox.is_running()
        assert sandbox.kill()
        assert not sandbox.kill()
        assert not sandbox.is_running()


ROOT = Path(__file__).parent.parent.parent


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/rooms/sdk.md").read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        (tmp_path / "block.py").write_text(block)
        done = subprocess.run([sys.executable, tmp_path / "block.py"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "hello quintain\n 3 False" in done.stdout
        assert "here /work/notes\n1\n" in done.stdout


def test_the_example_runs() -> None:
    words = [sys.executable, ROOT / "examples/sandbox_sdk.py"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "answer 42, exit code 0" in done.stdout
    assert "timed out: True, said 'started', left behind: 0" in done.stdout
    assert "hello from /work/src | then 7" in done.stdout


def test_a_fork_has_the_files_and_goes_its_own_way() -> None:
    async def main() -> None:
        origin = await Sandbox.create(env={"NAME": "same"})
        await origin.files.write("a/file", "one")
        await origin.commands.run("chmod 751 a; ln -s file a/link", check=True)
        await origin.commands.run("sleep 300", background=True)
        first, second = await origin.fork(2)
        await first.files.write("a/file", "two")
        assert await origin.kill()
        async with first, second:
            assert await second.files.read("a/link") == "one"
            assert (await first.commands.run("stat -c %a a; cat a/link; echo $NAME")).stdout == "751\ntwosame\n"
            assert await second.processes() == []
            snapshot = await second.snapshot()
        async with await Sandbox.create(snapshot) as later:
            assert await later.files.read("a/file") == "one"

    asyncio.run(main())


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap (apt-get install bubblewrap)")
def test_the_sdk_works_over_another_backend_and_says_what_that_one_lacks() -> None:
    async def main() -> None:
        async with BubblewrapBackend() as backend, await Sandbox.create(backend=backend) as sandbox:
            neighbour = await sandbox.commands.run("sleep 400", background=True)
            result = await sandbox.commands.run("echo partial; setsid sleep 300 & sleep 301", timeout=0.4)
            assert (result.timed_out, result.stdout) == (True, "partial\n")
            assert ("sleep", "300") not in {p.argv for p in await sandbox.processes()}
            session = await sandbox.sessions.create()
            await session.run("x=1")
            assert (await session.run("echo $x")).stdout == "1\n"
            terminal = await sandbox.pty.create(cmd=["tty"])
            assert (await terminal.wait()).stdout.startswith("/dev/pts/")
            await neighbour.kill()
            with pytest.raises(ValueError, match="'bubblewrap'"):
                await sandbox.snapshot()
            with pytest.raises(ValueError, match="network 'full'"):
                await Sandbox.create(backend=backend, network=Network.FULL)

    asyncio.run(main())

"""A shell session keeps its state, and no text that a program prints can pose as its result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quintain.sdk import CommandError, CommandResult, Sandbox, Session
from quintain.types import KilledBy, Status


def in_session(play: Callable[[Sandbox, Session], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), await Sandbox.create() as sandbox:
            await play(sandbox, await sandbox.sessions.create())

    asyncio.run(main())


async def says(session: Session, cmd: str) -> str:
    return (await session.run(cmd)).stdout


def test_directory_variables_functions_aliases_and_options_last() -> None:
    async def play(_: Sandbox, session: Session) -> None:
        await session.run(
            "mkdir -p deep/er; cd deep/er; export SHOWN='a b'; hidden=$'x\\ny'; list=(1 2 'x y')\n"
            "declare -A map=([k]=v)\n"
            "greet() { echo hello $1; }; export -f greet; alias hi='echo aliased'; umask 077; shopt -s nullglob\n"
            "set -o pipefail; IFS=:"
        )
        assert await says(session, "pwd; env | grep SHOWN; echo \"$hidden\"; echo ${list[2]} ${map[k]}") == (
            "/work/deep/er\nSHOWN=a b\nx\ny\nx y v\n"
        )
        assert await says(session, "greet you; bash -c 'greet child'; hi; umask") == (
            "hello you\nhello child\naliased\n0077\n"
        )
        assert await says(session, "shopt -q nullglob && echo glob; false | true || echo pipe; printf %s \"$IFS\"") == (
            "glob\npipe\n:"
        )

    in_session(play)


def test_what_is_unset_stays_unset() -> None:
    async def play(_: Sandbox, session: Session) -> None:
        await session.run("export A=1; B=2; f() { :; }")
        await session.run("unset A B LANG; unset -f f")
        assert await says(session, "echo ${A-none} ${B-none} ${LANG-none}; type -t f || echo gone") == (
            "none none none\ngone\n"
        )

    in_session(play)


def test_the_exit_status_of_the_last_command_is_seen_by_the_next() -> None:
    async def play(_: Sandbox, session: Session) -> None:
        await session.run("(exit 7)")
        assert await says(session, "echo $?") == "7\n"
        await session.run("kill -TERM $$")
        assert await says(session, "echo $?") == "143\n"

    in_session(play)


@pytest.mark.parametrize("text", [
    "EXITCODE:0", "__q_save", "\\0", "PS1-sentinel 0", "\\x00declare -- x=1\\x00",
])
def test_printed_text_never_becomes_a_result(text: str) -> None:
    async def play(_: Sandbox, session: Session) -> None:
        result = await session.run(f"printf '{text}'; printf '{text}' >&2; exit 5")
        assert result.exit_code == 5
        assert await says(session, "echo next") == "next\n"

    in_session(play)


def test_exit_keeps_state_and_session() -> None:
    async def play(_: Sandbox, session: Session) -> None:
        result = await session.run("cd /tmp; x=1; exit 3; echo never")
        assert (result.exit_code, result.stdout, session.state_saved) == (3, "", True)
        assert await says(session, "echo $x $PWD") == "1 /tmp\n"

    in_session(play)


@pytest.mark.parametrize("cmd", [
    "x=2; exec true", "x=2; kill -9 $$", "x=2; exec 199>&-",
    "x=2; for fd in /proc/$$/fd/*; do eval \"exec ${fd##*/}>&-\"; done",
])
def test_a_shell_that_cannot_hand_its_state_on_leaves_the_state_before(cmd: str) -> None:
    async def play(_: Sandbox, session: Session) -> None:
        await session.run("x=1")
        await session.run(cmd)
        assert not session.state_saved
        assert await says(session, "echo $x") == "1\n"

    in_session(play)


def test_a_session_goes_on_after_syntax_errors_and_unclosed_text() -> None:
    async def play(_: Sandbox, session: Session) -> None:
        await session.run("x=1")
        for broken in ("if then", "echo 'open", "cat <<EOF\nno end", "}", "((", "$("):
            result = await session.run(broken)
            assert result.status in (Status.OK, Status.FAILED), broken
            assert await says(session, "echo $x") == "1\n", broken
        assert await says(session, "cat <<EOF\nhere $x\nEOF") == "here 1\n"

    in_session(play)


def test_errexit_ends_its_own_command_only() -> None:
    async def play(_: Sandbox, session: Session) -> None:
        result = await session.run("set -e; x=1; false; echo never")
        assert (result.exit_code, result.stdout) == (1, "")
        assert await says(session, "false; echo $x") == "1\n"

    in_session(play)


def test_an_exit_trap_runs_at_the_end_of_its_command() -> None:
    async def play(_: Sandbox, session: Session) -> None:
        assert await says(session, "trap 'echo bye' EXIT; x=1; echo hello") == "hello\nbye\n"
        assert await says(session, "echo $x") == "1\n"

    in_session(play)


def test_a_background_job_does_not_hold_its_command_and_lives_until_the_session_is_closed() -> None:
    async def play(sandbox: Sandbox, session: Session) -> None:
        result = await session.run("(while :; do date >> log; sleep 0.02; done) & setsid sleep 300 & echo started")
        assert result.stdout == "started\n"
        assert result.wall_seconds < 5
        await asyncio.sleep(0.2)
        assert len((await says(session, "cat log")).splitlines()) > 1
        assert any(p.argv == ("sleep", "300") for p in await sandbox.processes())
        await session.close()
        async with asyncio.timeout(5):
            while await sandbox.processes():  # noqa: ASYNC110 - the news comes from inside
                await asyncio.sleep(0.01)
        with pytest.raises(ValueError, match="closed"):
            await session.run("true")

    in_session(play)


def test_a_time_out_kills_its_own_command_and_spares_earlier_jobs() -> None:
    async def play(sandbox: Sandbox, session: Session) -> None:
        await session.run("x=1; sleep 301 &")
        result = await session.run("x=2; echo partial; setsid sleep 302 & sleep 303", timeout=0.4)
        assert (result.status, result.killed_by, result.stdout) == (Status.TIMED_OUT, KilledBy.TIMEOUT, "partial\n")
        assert [p.argv for p in await sandbox.processes()] == [("sleep", "301")]
        assert await says(session, "echo $x") == "1\n"

    in_session(play)


def test_a_session_forgets_what_has_ended_and_bears_many_commands() -> None:
    async def play(_: Sandbox, session: Session) -> None:
        for number in range(70):
            assert (await session.run(f"echo {number}; sleep 0.0{number % 3} &")).stdout == f"{number}\n"

    in_session(play)


def test_two_sessions_share_files_and_nothing_else() -> None:
    async def play(sandbox: Sandbox, one: Session) -> None:
        two = await sandbox.sessions.create("two", cwd="/tmp", env={"NAME": "second"})
        await one.run("x=1; cd /; echo text > /work/shared")
        assert await says(two, "echo ${x-none} $PWD $NAME; cat /work/shared") == "none /tmp second\ntext\n"
        with pytest.raises(ValueError, match="open session 'two'"):
            await sandbox.sessions.create("two")
        await sandbox.sessions.close("two")
        assert sandbox.sessions.list() == ["session-1"]

    in_session(play)


def test_a_long_command_line_and_stdin_arrive_whole() -> None:
    async def play(_: Sandbox, session: Session) -> None:
        result = await session.run(f"cat > long <<'EOF'\n{'x' * 500_000}\nEOF\nwc -c < long")
        assert result.stdout == "500001\n"
        assert (await session.run("cat", stdin="given")).stdout == "given"
        with pytest.raises(ValueError, match="NUL"):
            await session.run("echo \0")

    in_session(play)


def test_check_raises_with_the_result() -> None:
    async def play(_: Sandbox, session: Session) -> None:
        with pytest.raises(CommandError) as caught:
            await session.run("echo why >&2; exit 4", check=True)
        assert isinstance(caught.value.result, CommandResult)
        assert caught.value.result.exit_code == 4
        assert "why" in str(caught.value)

    in_session(play)

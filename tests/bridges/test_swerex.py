"""SWE-ReX's own interface over sandboxes of ours, beside its own local runtime, which says what is right."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("swerex", reason="needs SWE-ReX: pip install swe-rex")

from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    DeploymentNotStartedError,
    DeploymentStartupError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
)
from swerex.runtime.abstract import (
    BashAction,
    BashInterruptAction,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)
from swerex.runtime.local import LocalRuntime

from quintain.bridges.swerex import QuintainDeployment
from quintain.sandbox import NativeBackend

pytestmark = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")


def within(play: Callable[[Any], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        deployment = QuintainDeployment(**settings)
        assert not await deployment.is_alive()
        await deployment.start()
        try:
            assert await deployment.is_alive(timeout=10)
            await play(deployment.runtime)
        finally:
            await deployment.stop()
        assert not await deployment.is_alive()
        with pytest.raises(DeploymentNotStartedError):
            _ = deployment.runtime

    asyncio.run(main())


SAME = [
    "echo hello", "printf 'a\\nb\\n' >&2; echo c", "false", "x=1; cd /usr", "pwd; echo $x", "(exit 7)",
    "f() { echo f$1; }\nf 2", "f 3 | tr f g", "cat <<EOF\na $x\nEOF", "# nothing", "echo \"it's\" 'a \"b\"'",
    "export y='z z'", "env | grep ^y=", "for i in 1 2; do\n  echo $i\ndone", "true \\\n&& echo joined", "ls /nowhere",
    "alias w='echo w'", "w", "echo ö",
]


@pytest.mark.bridge("swe-rex", "theirs drives ours", "19 commands in one session, as in its own LocalRuntime")
def test_a_session_says_what_swe_rexs_own_says() -> None:
    async def said(runtime: Any) -> list[tuple[str, int | None]]:
        await runtime.create_session(CreateBashSessionRequest(startup_timeout=10))
        found = [await runtime.run_in_session(BashAction(command=one, check="silent", timeout=20)) for one in SAME]
        await runtime.close_session(CloseBashSessionRequest())
        return [(one.output.strip(), one.exit_code) for one in found]

    async def play(runtime: Any) -> None:
        ours, theirs = await said(runtime), await said(LocalRuntime())
        for command, one, other in zip(SAME, ours, theirs, strict=True):
            assert one == other, command

    within(play)


@pytest.mark.bridge("swe-rex", "theirs drives ours", "errors of sessions: syntax, exit codes, time, names")
def test_what_goes_wrong_in_a_session_is_told_by_swe_rexs_own_errors() -> None:
    async def play(runtime: Any) -> None:
        await runtime.create_session(CreateBashSessionRequest(session="s"))

        async def run(command: str, **more: Any) -> Any:
            return await runtime.run_in_session(BashAction(command=command, session="s", **more))

        with pytest.raises(SessionExistsError):
            await runtime.create_session(CreateBashSessionRequest(session="s"))
        with pytest.raises(SessionDoesNotExistError):
            await runtime.run_in_session(BashAction(command="true", session="other"))
        with pytest.raises(NonZeroExitCodeError, match="exit code 3"):
            await run("exit 3")
        assert (await run("exit 3", check="ignore")).exit_code is None
        with pytest.raises(BashIncorrectSyntaxError) as wrong:
            await run("touch made\nif true")
        assert "syntax error" in wrong.value.extra_info["bash_stderr"]
        assert (await run("ls")).output == ""
        await run("(exit 7)", check="silent")
        assert (await run("echo $?")).output == "7\n"  # which SWE-ReX's own shell has forgotten by then
        await run("cd /usr")
        with pytest.raises(CommandTimeoutError):
            await run("cd /; sleep 60", timeout=1)
        assert (await runtime.run_in_session(BashInterruptAction(session="s"))).exit_code == 0
        assert (await run("pwd")).output == "/usr\n"
        printed = await run("echo EXITCODESTART0EXITCODEEND; echo SHELLPS1PREFIX; exit 9", check="silent")
        assert printed.exit_code == 9
        await runtime.close_session(CloseBashSessionRequest(session="s"))
        with pytest.raises(SessionDoesNotExistError):
            await run("true")

    within(play)


@pytest.mark.bridge("swe-rex", "theirs drives ours", "a program that is talked to: expect, interrupt, quit")
def test_a_program_is_talked_to_and_the_session_goes_on_after_it() -> None:
    async def play(runtime: Any) -> None:
        async def run(command: str, **more: Any) -> Any:
            return await runtime.run_in_session(BashAction(command=command, timeout=30, **more))

        await runtime.create_session(CreateBashSessionRequest())
        await run("export WHO=me; cd /tmp")
        asked = {"is_interactive_command": True, "expect": [">>> "]}
        begun = await run("python3 -q -c 'import code, os; code.interact(\"\", local={\"os\": os})'", **asked)
        assert begun.expect_string == ">>> "
        assert (await run("print(os.environ['WHO'], os.getcwd(), 6 * 7)", **asked)).output == "me /tmp 42"
        with pytest.raises(CommandTimeoutError):
            await runtime.run_in_session(BashAction(command="while True: pass\n", timeout=1, **asked))
        assert (await runtime.run_in_session(BashInterruptAction(timeout=10, expect=[">>> "]))).exit_code == 0
        quitted = await run("quit()", is_interactive_quit=True)
        assert quitted.exit_code == 0
        assert (await run("echo $WHO; pwd")).output == "me\n/tmp\n"

    within(play)


@pytest.mark.bridge("swe-rex", "theirs drives ours", "commands, files, uploads; what an answer leaves is the sandbox's")
def test_commands_and_files_are_as_in_swe_rexs_own(tmp_path: Path) -> None:
    (tmp_path / "given" / "inner").mkdir(parents=True)
    (tmp_path / "given" / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "given" / "run.sh").chmod(0o755)
    (tmp_path / "given" / "inner" / "f").write_text("f")

    async def play(runtime: Any) -> None:
        asked = ["sh", "-c", "echo $A; echo e >&2; pwd"]
        done = await runtime.execute(Command(command=asked, env={"A": "a"}, cwd="/usr"))
        assert (done.stdout, done.stderr, done.exit_code) == ("a\n/usr\n", "e\n", 0)
        merged = await runtime.execute(Command(command="echo o; echo e >&2", shell=True, merge_output_streams=True))
        assert (merged.stdout, merged.stderr) == ("o\ne\n", "")
        assert (await runtime.execute(Command(command=["sh", "-c", "kill -9 $$"]))).exit_code == -9
        with pytest.raises(NonZeroExitCodeError, match="so: Command"):
            await runtime.execute(Command(command=["false"], check=True, error_msg="so"))
        with pytest.raises(CommandTimeoutError):
            await runtime.execute(Command(command=["sleep", "60"], timeout=1))
        with pytest.raises(FileNotFoundError):
            await runtime.execute(Command(command="no such program"))
        await runtime.write_file(WriteFileRequest(path="/opt/new/f", content="ö\n"))
        assert (await runtime.read_file(ReadFileRequest(path="/opt/new/f"))).content == "ö\n"
        assert (await runtime.read_file(ReadFileRequest(path="/opt/new/f", encoding="latin-1"))).content == "Ã¶\n"
        with pytest.raises(FileNotFoundError):
            await runtime.read_file(ReadFileRequest(path="/opt/none"))
        given = str(tmp_path / "given")
        await runtime.upload(UploadRequest(source_path=given, target_path="/opt/given"))
        assert (await runtime.execute(Command(command=["/opt/given/run.sh"]))).stdout == "ran\n"
        await runtime.upload(UploadRequest(source_path=f"{given}/inner/f", target_path="/opt/given"))
        assert (await runtime.read_file(ReadFileRequest(path="/opt/given/f"))).content == "f"
        with pytest.raises(FileExistsError):
            await runtime.upload(UploadRequest(source_path=given, target_path="/opt/given"))

    within(play)
    assert not Path("/opt/given").exists()


def test_a_deployment_that_cannot_be_had_says_why() -> None:
    with pytest.raises(DeploymentStartupError, match="nowhere"):
        asyncio.run(QuintainDeployment(image="oci:/nowhere").start())
    with pytest.raises(ValueError, match="memory"):
        QuintainDeployment(memory=1)

"""Our sandboxes as a deployment of SWE-ReX's, with its runtime: `await deployment.start()` … `await deployment.stop()`.

Written against swe-rex 1.4 (swerex.runtime.abstract, swerex.deployment.abstract). A command of a session is a shell
process of its own (`quintain.sandbox` sessions): its exit code is the kernel's word, and nothing that it prints can be
taken for a prompt or an exit code. A program that is talked to has a terminal of its own.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import stat
from pathlib import Path
from typing import Any

import msgspec
from swerex.deployment.abstract import AbstractDeployment
from swerex.deployment.hooks.abstract import CombinedDeploymentHook, DeploymentHook
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    DeploymentNotStartedError,
    DeploymentStartupError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
)
from swerex.runtime import abstract as rex
from swerex.utils.log import get_logger

from quintain.bridges.swerex_terminal import Talk
from quintain.sandbox import Backend
from quintain.sdk import SANDBOX_LIMITS, CommandResult, Sandbox, Session
from quintain.types import MEBIBYTE, HouseError, Network, Status, TaskError


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a deployment can be told. `lifetime` in seconds is the whole sandbox's; `allow` lists the hosts that can be
    reached ('pypi.org:443'); empty: none. Sessions and commands begin in `cwd`."""

    image: str = "host+rw"
    cwd: str = "/work"
    env: dict[str, str] = {}
    lifetime: float | None = None
    memory_mb: int = 2048
    disk_mb: int = 1024
    allow: tuple[str, ...] = ()


class QuintainDeployment(AbstractDeployment):
    """One sandbox, from `start` to `stop`. `backend` is shared among many; without, each brings its own engine."""

    def __init__(self, *, backend: Backend | None = None, logger: Any = None, **settings: Any) -> None:
        """Raises ValueError for a setting that is not known."""
        self.config = msgspec.convert(settings, Settings)
        self.logger = logger or get_logger("rex-deploy")
        self._backend = backend
        self._runtime: QuintainRuntime | None = None
        self._hooks = CombinedDeploymentHook()

    def add_hook(self, hook: DeploymentHook) -> None:
        self._hooks.add_hook(hook)

    async def is_alive(self, *, timeout: float | None = None) -> rex.IsAliveResponse:
        if self._runtime is None:
            return rex.IsAliveResponse(is_alive=False, message="not started")
        return await self._runtime.is_alive(timeout=timeout)

    async def start(self) -> None:
        """Raises DeploymentStartupError where no sandbox can be had."""
        if self._runtime is not None:
            raise DeploymentStartupError("expected a deployment that was not started, found one that was")
        self._hooks.on_custom_step("Opening a sandbox")
        config = self.config
        limits = msgspec.structs.replace(
            SANDBOX_LIMITS, memory_bytes=config.memory_mb * MEBIBYTE, disk_bytes=config.disk_mb * MEBIBYTE,
            output_bytes=16 * MEBIBYTE)
        try:
            sandbox = await Sandbox.create(
                config.image, timeout=config.lifetime, env=config.env, limits=limits, allow=config.allow,
                network=Network.ALLOW_LIST if config.allow else Network.NONE, backend=self._backend)
        except (HouseError, TaskError, ValueError) as error:
            raise DeploymentStartupError(str(error)) from error
        self._runtime = QuintainRuntime(sandbox, cwd=config.cwd, logger=self.logger)

    async def stop(self) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await runtime.close()

    @property
    def runtime(self) -> QuintainRuntime:
        """Raises DeploymentNotStartedError."""
        if self._runtime is None:
            raise DeploymentNotStartedError
        return self._runtime


class _Shell:
    """A session, and the program that it talks to, if it does."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.talk: Talk | None = None


class QuintainRuntime(rex.AbstractRuntime):
    """SWE-ReX's runtime over a sandbox of the SDK's; `close` ends it.

    Raises what SWE-ReX's own runtimes raise. A command that takes too long is killed, and its session goes on with the
    state before it: an interrupt after that finds nothing to do.
    """

    def __init__(self, sandbox: Sandbox, *, cwd: str = "/work", logger: Any = None) -> None:
        self.sandbox = sandbox
        self.logger = logger or get_logger("rex-runtime")
        self._cwd = cwd
        self._shells: dict[str, _Shell] = {}

    async def is_alive(self, *, timeout: float | None = None) -> rex.IsAliveResponse:
        try:
            alive = await asyncio.wait_for(self.sandbox.is_running(), timeout)
        except TimeoutError:
            return rex.IsAliveResponse(is_alive=False, message=f"no answer within {timeout} s")
        return rex.IsAliveResponse(is_alive=alive, message="" if alive else "the sandbox has ended")

    # ---- sessions ----
    async def create_session(self, request: rex.CreateBashSessionRequest) -> rex.CreateBashSessionResponse:
        if request.session in self._shells:
            raise SessionExistsError(f"session {request.session} already exists")
        session = await self.sandbox.sessions.create(request.session, cwd=self._cwd)
        self._shells[request.session] = _Shell(session)
        said = ""
        for path in request.startup_source:
            done = await self._in_shell(session, f"source {path}", request.startup_timeout)
            said += done.stdout
        return rex.CreateBashSessionResponse(output=said)

    async def close_session(self, request: rex.CloseBashSessionRequest) -> rex.CloseBashSessionResponse:
        shell = self._shell(request.session)
        del self._shells[request.session]
        if shell.talk is not None:
            await shell.talk.end()
        await self.sandbox.sessions.close(request.session)
        return rex.CloseBashSessionResponse()

    async def run_in_session(self, action: rex.BashAction | rex.BashInterruptAction) -> rex.BashObservation:
        """Raises ValueError for `expect` beside a command that is not interactive."""
        shell = self._shell(action.session)
        if isinstance(action, rex.BashInterruptAction):
            return await self._interrupt(shell, action)
        if shell.talk is not None or action.is_interactive_command:
            return await self._talk(shell, action)
        if action.expect:
            raise ValueError("expected is_interactive_command=True beside expect, found False")
        await self._check_syntax(action.command)
        done = await self._in_shell(shell.session, action.command, action.timeout)
        code = None if action.check == "ignore" else _shell_code(done)
        if action.check == "raise" and code != 0:
            raise NonZeroExitCodeError(_failed(action.command, code, f"Here is the output:\n{done.stdout!r}",
                                               action.error_msg))
        return rex.BashObservation(output=done.stdout, exit_code=code)

    def _shell(self, name: str) -> _Shell:
        if name not in self._shells:
            raise SessionDoesNotExistError(f"session {name!r} does not exist")
        return self._shells[name]

    async def _in_shell(self, session: Session, command: str, timeout: float | None) -> CommandResult:
        """Both streams in one, as a terminal shows them, and `$?` still that of the last command."""
        done = await session.run(f"builtin eval {shlex.quote(command)} 2>&1", timeout=timeout)
        if done.timed_out:
            raise CommandTimeoutError(f"timeout after {timeout} seconds while running command {command!r}")
        return done

    async def _check_syntax(self, command: str) -> None:
        found = await self.sandbox.commands.run(["/bin/bash", "-n", "-c", command], cwd="/")
        if not found.ok:
            raise BashIncorrectSyntaxError(
                f"Error (exit code {found.exit_code}) while checking bash command \n{command!r}\n"
                f"---- Stderr ----\n{found.stderr}\n---- Stdout ----\n{found.stdout}",
                extra_info={"bash_stdout": found.stdout, "bash_stderr": found.stderr})

    # ---- programs that are talked to ----
    async def _talk(self, shell: _Shell, action: rex.BashAction) -> rex.BashObservation:
        """Type a line, or begin the program; then wait for one of `expect` or for its end."""
        if shell.talk is None:
            exports = await shell.session.run('printf "cd -- %q\\n" "$PWD"; export -p', timeout=action.timeout)
            argv = ["/bin/bash", "-c", f"{exports.stdout}\nexec {action.command}"]
            shell.talk = await Talk.begin(self.sandbox, argv)
        else:
            await shell.talk.type(action.command)
        heard = await shell.talk.wait_for(action.expect, action.timeout)
        if heard is None:
            raise CommandTimeoutError(f"timeout after {action.timeout} seconds while running command "
                                      f"{action.command!r}")
        code: int | None = 0
        if heard.ended:
            code, shell.talk = _shell_code(await shell.talk.end()), None
        text = heard.text.lstrip().removeprefix(action.command).strip()
        return rex.BashObservation(output=text, exit_code=code, expect_string=heard.matched)

    async def _interrupt(self, shell: _Shell, action: rex.BashInterruptAction) -> rex.BashObservation:
        if shell.talk is None:
            return rex.BashObservation(output="", exit_code=0)
        for _ in range(action.n_retry):
            await shell.talk.type("\x03", line=False)
            heard = await shell.talk.wait_for(action.expect, action.timeout)
            if heard is not None:
                if heard.ended:
                    await shell.talk.end()
                    shell.talk = None
                return rex.BashObservation(output=heard.text.strip(), exit_code=0, expect_string=heard.matched)
        talk, shell.talk = shell.talk, None
        await talk.end()
        return rex.BashObservation(output="", exit_code=0)

    # ---- commands and files ----
    async def execute(self, command: rex.Command) -> rex.CommandResponse:
        """As `subprocess.run`: -N for what signal N has ended; raises FileNotFoundError for what is not there. `env`
        comes on top of PATH, HOME and the deployment's own."""
        asked = command.command
        argv = [asked] if isinstance(asked, str) else list(asked)
        if command.shell:
            argv = ["/bin/sh", "-c", *argv]
        if command.merge_output_streams:
            argv = ["/bin/sh", "-c", 'exec "$@" 2>&1', "sh", *argv]
        process = await self.sandbox.commands.run(
            argv, cwd=command.cwd or self._cwd, env=command.env, timeout=command.timeout, background=True)
        done = await process.wait()
        if done.timed_out:
            raise CommandTimeoutError(f"Timeout ({command.timeout}s) exceeded while running command")
        if done.status is Status.NOT_STARTED:
            raise FileNotFoundError(2, done.stderr.strip() or "cannot be started", argv[0])
        code = done.exit_code if done.exit_code is not None else -(done.signal or 9)
        out, err = (data.decode(errors="backslashreplace") for data in (done.outcome.stdout, done.outcome.stderr))
        if command.check and code != 0:
            raise NonZeroExitCodeError(_failed(asked, code, f"Stdout:\n{out!r}\nStderr:\n{err!r}", command.error_msg))
        return rex.CommandResponse(stdout=out, stderr=err, exit_code=code)

    async def read_file(self, request: rex.ReadFileRequest) -> rex.ReadFileResponse:
        data = await self.sandbox.files.read(self._inside(request.path), format="bytes")
        return rex.ReadFileResponse(content=data.decode(request.encoding or "utf-8", request.errors or "strict"))

    async def write_file(self, request: rex.WriteFileRequest) -> rex.WriteFileResponse:
        await self.sandbox.files.write(self._inside(request.path), request.content)
        return rex.WriteFileResponse()

    async def upload(self, request: rex.UploadRequest) -> rex.UploadResponse:
        """A file, also into a folder that is there; or a folder to a place where nothing is (FileExistsError). Links
        are followed, modes are kept."""
        source, target = Path(request.source_path), self._inside(request.target_path)
        there = await self.sandbox.files.exists(target)
        if not await asyncio.to_thread(source.is_dir):
            if there and (await self.sandbox.files.get_info(target)).kind == "directory":
                target = f"{target}/{source.name}"
            await self._put(source, target)
            return rex.UploadResponse()
        if there:
            raise FileExistsError(17, "expected a place where nothing is", target)
        await self.sandbox.files.make_dir(target)
        for path in await asyncio.to_thread(_below, source):
            place = f"{target}/{path.relative_to(source).as_posix()}"
            await (self.sandbox.files.make_dir(place) if path.is_dir() else self._put(path, place))
        return rex.UploadResponse()

    async def _put(self, path: Path, target: str) -> None:
        content, mode = await asyncio.to_thread(lambda: (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)))
        await self.sandbox.files.write(target, content, mode=mode & 0o777)

    def _inside(self, path: str) -> str:
        return os.path.join(self._cwd, path)

    async def close(self) -> rex.CloseResponse:
        self._shells.clear()
        await self.sandbox.kill()
        return rex.CloseResponse()


def _below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def _shell_code(done: CommandResult) -> int:
    if done.exit_code is not None:
        return done.exit_code
    return 127 if done.status is Status.NOT_STARTED else 128 + (done.signal or 9)


def _failed(command: object, code: int | None, said: str, head: str) -> str:
    message = f"Command {command!r} failed with exit code {code}. {said}"
    return f"{head}: {message}" if head else message

"""A shell that remembers: each command is a shell process of its own, and the state that it leaves goes to the next.

The result of a command is what the kernel and the command's own pipes say: exit code from the wait status, output until
the shell ends. Nothing that a program prints is ever looked for, so nothing that it prints can be taken for a result.
State travels in a memory file that belongs to the house: command line and state go in, the new state comes back. The
program can spoil that state, which it could set anyway, and nothing else.

What lasts: directory, variables and arrays (exported or not), functions, aliases, umask, shopt and set options, `$?`,
and processes in the background, until the session is closed.
What does not: traps (an EXIT trap runs when its own command ends), redirections by `exec`, the job table (`jobs`,
`wait` and `$!` know only the command's own), errexit, xtrace and verbose. After `exec PROGRAM`, SIGKILL or a time-out
the state before that command stands. Needs bash in the sandbox.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping

from quintain.sandbox._commands import CommandResult, Decoded, checked, limits_for
from quintain.sandbox.base import Interactive, Process
from quintain.types import FaultKind, HouseError, Status

STATE_BYTES = 4 * 1024 * 1024
DEFAULT_TIMEOUT_SECONDS = 60.0
_DOOR = "199"  # a descriptor that scripts do not pick by chance

#: Ends with NUL, so that a state cut short is known. Names that begin with __q are ours.
_SAVE = r"""
__q_save() {
  [[ -z ${__q_saved-} && $BASHPID == $$ ]] || return 0
  __q_saved=1
  {
    builtin set +o | while IFS= builtin read -r __q_line; do
      case $__q_line in *errexit|*noexec|*onecmd|*xtrace|*verbose|*posix|*privileged|*history|*monitor|*emacs|*vi) ;;
        *) builtin printf '%s\n' "$__q_line" ;; esac
    done
    builtin set +eu +f
    __q_ifs=$(builtin declare -p IFS)
    IFS=$' \t\n'
    builtin printf 'builtin cd -- %q 2>/dev/null || builtin cd /work\n' "$PWD"
    builtin printf 'OLDPWD=%q\n' "${OLDPWD-}"
    builtin umask -p
    builtin shopt -p
    builtin alias -p
    for __q_name in $(builtin compgen -v); do
      case $__q_name in BASH*|FUNCNAME|PIPESTATUS|RANDOM|SRANDOM|SECONDS|LINENO|EPOCH*|_|GROUPS|DIRSTACK|COMP_*|\
HISTCMD|PWD|OLDPWD|PPID|EUID|UID|SHELLOPTS|SHLVL|IFS|__q_*) ;;
        *) builtin declare -p "$__q_name" ;; esac
    done
    for __q_name in $(builtin compgen -A function); do
      case $__q_name in __q_*) ;; *) builtin declare -f "$__q_name" ;; esac
    done
    builtin declare -Fx
    builtin printf '%s\n\0' "$__q_ifs"
  } 2>/dev/null >&DOOR
}
__q_status() { return "$1"; }
""".replace("DOOR", _DOOR)

#: On one line, for the line numbers of the user's own command to begin at 1.
_DRIVER = (
    f"exec {_DOOR}<&3 3<&-; for __q_name in save status state command; do "
    f"IFS= builtin read -r -d '' -u {_DOOR} \"__q_in_$__q_name\"; done; "
    "builtin eval \"$__q_in_save\"; builtin shopt -s expand_aliases; "
    "if [[ -n $__q_in_state ]]; then for __q_name in $(builtin compgen -e); do builtin unset -v \"$__q_name\"; done; "
    "builtin eval \"$__q_in_state\" 2>/dev/null; fi; "
    "builtin unset __q_in_save __q_in_state __q_name; builtin trap __q_save EXIT; "
    "__q_status \"$__q_in_status\"; builtin eval \"$__q_in_command\"; __q_last=$?; __q_save; builtin exit $__q_last"
)


class Session:
    """One shell session. Commands run one after another; made by `Sessions.create`."""

    def __init__(self, box: Interactive, name: str, env: Mapping[str, str], cwd: str) -> None:
        self._box = box
        self._env = dict(env)
        self._cwd = cwd
        self._state = b""
        self._last_status = 0
        self._lingering: list[Process] = []
        self._turn = asyncio.Lock()
        self._closed = False
        self.name = name
        self.state_saved = True

    async def run(
        self, cmd: str, *, stdin: str | bytes = b"", timeout: float | None = DEFAULT_TIMEOUT_SECONDS,
        on_stdout: Callable[[str], None] | None = None, on_stderr: Callable[[str], None] | None = None,
        check: bool = False,
    ) -> CommandResult:
        """Run one command line in the session's state; `state_saved` then tells whether it left its own.

        Processes that it puts in the background live on, and what they print after its end is dropped. Raises
        CommandError when `check` and not OK, ValueError for a NUL in the command, HouseError when the sandbox is gone.
        """
        if "\0" in cmd:
            raise ValueError("expected a command line without NUL characters, found one")
        if self._closed:
            raise ValueError(f"expected an open session, found {self.name!r} closed")
        listeners = [Decoded(on_stdout) if on_stdout else None, Decoded(on_stderr) if on_stderr else None]
        async with self._turn:
            parts = (_SAVE.encode(), b"%d" % self._last_status, self._state, cmd.encode("utf-8", "surrogateescape"))
            brought = b"".join(part + b"\0" for part in parts)
            door = os.memfd_create("session", os.MFD_CLOEXEC)
            try:
                os.write(door, brought)
                os.lseek(door, 0, os.SEEK_SET)
                result = await self._run(door, stdin, timeout, listeners)
                self._remember(os.pread(door, STATE_BYTES + 1, len(brought)), result)
            finally:
                os.close(door)
        for listener in listeners:
            if listener is not None:
                listener.finish()
        return checked(cmd, result, check)

    async def _run(
        self, door: int, stdin: str | bytes, timeout: float | None, listeners: list[Decoded | None]
    ) -> CommandResult:
        process = await self._box.start(
            ["/bin/bash", "--norc", "--noprofile", "-c", _DRIVER, "bash"], env=self._env,
            cwd="/work" if self._state else self._cwd, limits=limits_for(timeout), channel=door, linger=True,
            stdin=stdin.encode() if isinstance(stdin, str) else stdin, on_stdout=listeners[0], on_stderr=listeners[1],
        )
        self._lingering = [p for p in self._lingering if not p.gone] + [process]
        try:
            result = CommandResult.of(await process.wait())
        except asyncio.CancelledError:
            await process.kill()
            raise
        if result.status is Status.NOT_STARTED:
            raise HouseError(FaultKind.SANDBOX_LOST, f"a session needs bash at /bin/bash inside: {result.stderr}")
        return result

    def _remember(self, written: bytes, result: CommandResult) -> None:
        pieces = written.split(b"\0")
        self.state_saved = len(pieces) > 1 and len(written) <= STATE_BYTES
        if self.state_saved:
            self._state = pieces[-2]
        self._last_status = 128 + result.signal if result.signal else result.exit_code or 0

    async def close(self) -> None:
        """End it, and whatever it has left in the background. Closing again does nothing."""
        self._closed = True
        for process in self._lingering:
            await process.kill()
        self._lingering.clear()


class Sessions:
    """`sandbox.sessions`: shells that remember, by name."""

    def __init__(self, box: Interactive, env: Mapping[str, str]) -> None:
        self._box = box
        self._env = dict(env)
        self._open: dict[str, Session] = {}
        self._made = 0

    async def create(
        self, name: str | None = None, *, cwd: str = "/work", env: Mapping[str, str] | None = None
    ) -> Session:
        """A new session. Raises ValueError when one of that name is open."""
        self._made += 1
        name = name or f"session-{self._made}"
        if name in self._open:
            raise ValueError(f"expected a new name, found the open session {name!r}")
        self._open[name] = session = Session(self._box, name, {**self._env, **(env or {})}, cwd)
        return session

    def get(self, name: str) -> Session:
        """Raises KeyError."""
        return self._open[name]

    def list(self) -> list[str]:
        return sorted(self._open)

    async def close(self, name: str) -> None:
        """Raises KeyError when none of that name is open."""
        await self._open.pop(name).close()

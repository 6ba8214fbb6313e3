"""One sandbox that is a pod: what is asked of it goes through the cluster's API to the attendant inside."""

from __future__ import annotations

import asyncio
import json
import os
import signal as signals
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from quintain.sandbox import _pod
from quintain.sandbox._layout import ONE_CPU, SEARCH_PATH
from quintain.sandbox._pod_line import CONTAINER, Cluster, Refused, Say, kinds
from quintain.sandbox._retain import Retained
from quintain.sandbox.base import FileInfo
from quintain.types import FaultKind, HouseError, KilledBy, Limits, Outcome, Status

USER = 1000
POD_NAME = "agents.x-k8s.io/pod-name"
#: Reasons for which a claim is not ready and will never be (computeReadyCondition in sandboxclaim_controller.go).
TERMINAL = frozenset({"InvalidMetadata", "EnvVarsInjectionRejected", "VolumeClaimTemplatesError", "ClaimExpired",
                      "SandboxExpired", "TemplateNotFound", "WarmPoolNotFound"})
GRACE_SECONDS = 30.0  # beyond a command's own deadline, before the house stops believing in its sandbox
LOOK_SECONDS = 5.0  # how long one watch lasts
#: Why a container waits that will never run (kubelet's reasons; the first means that pulling failed several times).
NEVER = frozenset({"ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError"})
ENVIRONMENT = {"PATH": ":".join(SEARCH_PATH), "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8", **ONE_CPU}


class PodSandbox:
    """Made by `AgentSandboxBackend.open`. Commands and file requests come one after another."""

    def __init__(self, cluster: Cluster, claim: str, limits: Limits) -> None:
        self._cluster = cluster
        self._claim = claim
        self._limits = limits
        self._pod = ""
        self._closed = False
        self._turn = asyncio.Lock()

    @property
    def id(self) -> str:
        return self._claim

    @property
    def files(self) -> PodFiles:
        return PodFiles(self)

    async def bring_up(self, pool: str, life_seconds: float, ready_seconds: float) -> None:
        """Claim a pod, and see that the attendant can work in it. Raises HouseError(SANDBOX_CREATE_FAILED)."""
        ends = datetime.fromtimestamp(time.time() + life_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        await self._cluster.ensure("SandboxClaim", self._claim, {
            "warmPoolRef": {"name": pool}, "lifecycle": {"shutdownTime": ends, "shutdownPolicy": "Delete"}}, ours=True)
        try:
            async with asyncio.timeout(ready_seconds):
                sandbox = await self._ready()
                found = await self._cluster.get(kinds()["Sandbox"], sandbox)
        except TimeoutError:
            raise self._failed(f"not ready within {ready_seconds:g} s") from None
        except Refused as error:
            raise self._failed(str(error)) from None
        self._pod = ((found.get("metadata") or {}).get("annotations") or {}).get(POD_NAME) or sandbox
        try:
            await self.files.make_dir("/work")
        except (HouseError, OSError) as error:
            raise self._failed(f"its attendant cannot work: {error}") from None

    def _failed(self, why: str) -> HouseError:
        return HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"the claim {self._claim}: {why}")

    async def _ready(self) -> str:
        """The name of the Sandbox that the claim was given, once it is ready."""
        while True:
            found = await self._cluster.get(kinds()["SandboxClaim"], self._claim)
            await self._look_at_pod(((found.get("status") or {}).get("sandbox") or {}).get("name"))
            while found is not None:
                name = self._bound(found)
                if name:
                    return name
                version = (found.get("metadata") or {}).get("resourceVersion")
                found = await self._cluster.watch("SandboxClaim", self._claim, version, LOOK_SECONDS)

    async def _look_at_pod(self, name: str | None) -> None:
        """Whether it can ever run; a pod that was adopted from a pool runs already, whatever it is called."""
        from lightkube.resources.core_v1 import Pod

        if not name:
            return
        try:
            status = (await self._cluster.get(Pod, name)).status
        except Refused:
            return
        for one in (status.containerStatuses or ()) if status is not None else ():
            waiting = one.state.waiting if one.state is not None else None
            if waiting is not None and waiting.reason in NEVER:
                raise self._failed(f"{waiting.reason}: {waiting.message}")

    def _bound(self, claim: Mapping[str, Any]) -> str:
        status = claim.get("status") or {}
        for condition in status.get("conditions") or ():
            if condition.get("type") != "Ready":
                continue
            if condition.get("status") == "True":
                return str((status.get("sandbox") or {}).get("name") or "")
            if condition.get("reason") in TERMINAL:
                raise self._failed(f"{condition.get('reason')}: {condition.get('message', '')}")
        return ""

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: str = "/work",
        limits: Limits | None = None, channel: int | None = None, warm: bool = False,
        on_stdout: Callable[[bytes], None] | None = None, on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        if warm:
            raise ValueError("expected warm=False: this backend has no warm interpreter")
        limits = self._limits if limits is None else limits.within(self._limits)
        ear = _Ear(limits, on_stdout, on_stderr, None if channel is None else os.dup(channel))
        order = {
            "act": "run", "user": USER, "argv": list(argv), "env": {**ENVIRONMENT, **(env or {})}, "cwd": cwd,
            "wall": limits.wall_seconds, "cpu": limits.cpu_seconds, "memory": limits.memory_bytes,
            "output": limits.output_bytes, "streaming": on_stdout is not None or on_stderr is not None,
            "channel": channel is not None,
        }
        try:
            said = await self._converse(
                order, [(_pod.PIECE, stdin), (_pod.PIECES_END, b"")], ear, limits.wall_seconds,
                more=ear.say if channel is not None else None)
            if ear.exit is None:
                return await self._lost(said)
            return _outcome(ear.exit, ear, limits)
        finally:
            ear.close()

    async def act(self, order: Mapping[str, object], pieces: Iterable[bytes] = ()) -> bytes:
        """One act on files: what it brought. Raises OSError as the kernel said it, HouseError(SANDBOX_LOST)."""
        ear = _Ear(self._limits, None, None, None)
        frames = [(_pod.PIECE, piece) for piece in pieces]
        said = await self._converse({**order, "user": USER}, frames, ear, self._limits.wall_seconds)
        if ear.exit is None:
            await self._lost(said)
            raise HouseError(FaultKind.SANDBOX_LOST, f"{self.id}: killed for memory")
        if ear.exit["error"]:
            raise OSError(ear.exit["error"], os.strerror(ear.exit["error"]), str(order.get("path", "")))
        return bytes(ear.result)

    async def _converse(
        self, order: Mapping[str, object], frames: Iterable[tuple[bytes, bytes]], ear: _Ear, seconds: float,
        more: Callable[[Say], Any] | None = None,
    ) -> str:
        async with self._turn:
            if self._closed:
                raise HouseError(FaultKind.SANDBOX_LOST, "the sandbox was closed")
            try:
                async with asyncio.timeout(seconds + GRACE_SECONDS):
                    return await self._cluster.converse(self._pod, order, frames, ear.hear, more)
            except TimeoutError:
                raise HouseError(FaultKind.SANDBOX_LOST, f"{self.id}: its attendant did not answer in time") from None

    async def _lost(self, said: str) -> Outcome:
        """The attendant is gone: the program's doing if the cluster says that memory ran out, else the house's."""
        from lightkube.resources.core_v1 import Pod

        reason = said
        with suppress(Refused, HouseError):
            status = (await self._cluster.get(Pod, self._pod)).status
            for one in (status.containerStatuses or ()) if status is not None else ():
                ended = one.state.terminated if one.state is not None else None
                if one.name == CONTAINER and ended is not None:
                    if ended.reason == "OOMKilled":
                        return Outcome(status=Status.OUT_OF_MEMORY, signal=int(signals.SIGKILL),
                                       killed_by=KilledBy.OOM)
                    reason = f"its container ended: {ended.reason} ({ended.exitCode}); {said}"
            if status is not None and status.reason:
                reason = f"{status.reason}: {status.message}; {said}"
        raise HouseError(FaultKind.SANDBOX_LOST, f"{self.id}: {reason or 'the connection ended without a word'}")

    async def close(self) -> None:
        """Idempotent: the claim goes, and the cluster ends its pod."""
        if not self._closed:
            self._closed = True
            await self._cluster.delete("SandboxClaim", self._claim)


class _Ear:
    """What the attendant says in one conversation, and what it is told of the channel."""

    def __init__(
        self, limits: Limits, on_stdout: Callable[[bytes], None] | None, on_stderr: Callable[[bytes], None] | None,
        channel: int | None,
    ) -> None:
        self.kept = {_pod.OUT: Retained(limits.output_bytes), _pod.ERR: Retained(limits.output_bytes)}
        self.listeners = {_pod.OUT: on_stdout, _pod.ERR: on_stderr}
        self.result = bytearray()
        self.exit: dict[str, Any] | None = None
        self._channel = None if channel is None else socket.socket(fileno=channel)
        if self._channel is not None:
            self._channel.setblocking(False)

    async def hear(self, letter: bytes, data: bytes) -> None:
        if letter in self.kept:
            self.kept[letter].add(data)
            listener = self.listeners[letter]
            if listener is not None:
                listener(data)
        elif letter == _pod.RESULT:
            self.result += data
        elif letter == _pod.EXIT:
            self.exit = json.loads(data)
        elif letter == _pod.HEARD and self._channel is not None:
            with suppress(OSError):  # nobody listens there any more
                await asyncio.get_running_loop().sock_sendall(self._channel, data)

    async def say(self, tell: Say) -> None:
        """Pass on what comes through our end of the channel, until it ends."""
        assert self._channel is not None
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while data := await loop.sock_recv(self._channel, _pod.AT_ONCE):
                await tell(_pod.SAY, data)
        await tell(_pod.SAID, b"")

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()


def _outcome(told: Mapping[str, Any], ear: _Ear, limits: Limits) -> Outcome:
    """What happened, from the attendant's report."""
    code = os.waitstatus_to_exitcode(told["status"])
    signal = -code if code < 0 else None
    status, killed_by = Status.SIGNALLED if signal else Status.FAILED if code else Status.OK, None
    if told["timed_out"]:
        status, killed_by = Status.TIMED_OUT, KilledBy.TIMEOUT
    elif told["oom"] and code:
        status, killed_by = Status.OUT_OF_MEMORY, KilledBy.OOM
    elif signal == signals.SIGXCPU:
        status, killed_by = Status.CPU_LIMIT, KilledBy.CPU
    stdout, stderr = ear.kept[_pod.OUT].value(), ear.kept[_pod.ERR].value()
    if told["error"]:
        return Outcome(status=Status.NOT_STARTED, stderr=os.strerror(told["error"]).encode(),
                       wall_seconds=told["wall"])
    return Outcome(
        status=status, exit_code=None if signal else code, signal=signal, killed_by=killed_by, stdout=stdout,
        stderr=stderr, stdout_bytes=told["out"], stderr_bytes=told["err"], stdout_truncated=told["out"] > len(stdout),
        stderr_truncated=told["err"] > len(stderr), wall_seconds=told["wall"], cpu_seconds=told["cpu"],
        peak_memory_bytes=told["rss"],
    )


class PodFiles:
    """The files of one pod, read and written inside as the program's user."""

    def __init__(self, box: PodSandbox) -> None:
        self._box = box

    async def read(self, path: str, *, max_bytes: int = 16 * 1024 * 1024) -> bytes:
        return await self._box.act({"act": "read", "path": path, "most": max_bytes})

    async def write(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        await self._write([(path, mode, content)])

    async def write_many(self, files: Mapping[str, bytes]) -> None:
        await self._write([(path, 0o644, content) for path, content in files.items()])

    async def _write(self, files: Sequence[tuple[str, int, bytes]]) -> None:
        order = {"act": "write", "path": files[0][0] if files else "",
                 "files": [[path, mode, len(content)] for path, mode, content in files]}
        await self._box.act(order, [content for _, _, content in files if content])

    async def list(self, path: str = ".", *, depth: int = 1) -> Sequence[FileInfo]:
        found = json.loads(await self._box.act({"act": "list", "path": path, "depth": depth}))
        return [FileInfo(path=name, kind=kind, size_bytes=size, mode=mode, modified_seconds=modified)
                for name, kind, size, mode, modified in found]

    async def exists(self, path: str) -> bool:
        try:
            await self._box.act({"act": "exists", "path": path})
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    async def remove(self, path: str) -> None:
        await self._box.act({"act": "remove", "path": path})

    async def make_dir(self, path: str) -> None:
        await self._box.act({"act": "make_dir", "path": path})

"""The API of one Kubernetes cluster as a sandbox needs it: its objects, and a conversation with what runs in a pod."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quintain.sandbox import _pod
from quintain.types import FaultKind, HouseError

if TYPE_CHECKING:
    import httpx2
    from httpx2.websockets import AsyncWebSocketSession
    from lightkube import AsyncClient
    from lightkube.config.kubeconfig import KubeConfig, SingleConfig

GROUP, EXTENSIONS, VERSION = "agents.x-k8s.io", "extensions.agents.x-k8s.io", "v1beta1"
KINDS = {
    "Sandbox": (GROUP, "sandboxes"), "SandboxClaim": (EXTENSIONS, "sandboxclaims"),
    "SandboxTemplate": (EXTENSIONS, "sandboxtemplates"), "SandboxWarmPool": (EXTENSIONS, "sandboxwarmpools"),
}
CONTAINER = "sandbox"
LABELS = {"app.kubernetes.io/managed-by": "quintain"}
LIGHTKUBE = "expected the extra kubernetes: pip install 'quintain[kubernetes]'"
#: Reads the attendant's text from its stdin (eight hex digits say how long it is), so that no URL carries it.
BOOT = ("import os\nb=b''\nwhile len(b)<8 or len(b)<8+int(b[:8],16):\n"
        " d=os.read(0,8-len(b) if len(b)<8 else 8+int(b[:8],16)-len(b))\n if not d: os._exit(1)\n b+=d\n"
        "exec(compile(b[8:],'quintain','exec'))")
ATTEND = ("python3", "-I", "-S", "-X", "utf8", "-c", BOOT)
STDIN, STDOUT, STDERR, STATUS = range(4)  # channels of v5.channel.k8s.io
BUSY = (429, 500, 502, 503, 504)
MESSAGE_BYTES = 16 * 1024 * 1024
PIECE_BYTES = 256 * 1024


def configured(config: SingleConfig | KubeConfig | None) -> SingleConfig:
    """The cluster that is given, else the one that kubectl would use, or the one around us. Raises ImportError, and
    lightkube's ConfigError."""
    from lightkube.config.kubeconfig import KubeConfig, SingleConfig
    from lightkube.config.models import User

    found = config if isinstance(config, SingleConfig) else (config or KubeConfig.from_env()).get()
    if found is None:
        raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, "expected a current context in the kubeconfig, found none")
    return found if found.user is not None else found._replace(user=User())  # a proxy that lets everybody in


@cache
def kinds() -> dict[str, Any]:
    """The classes of the CRDs' objects, for lightkube."""
    from lightkube.generic_resource import create_namespaced_resource

    return {kind: create_namespaced_resource(group, VERSION, kind, plural) for kind, (group, plural) in KINDS.items()}


class Cluster:
    """One cluster and namespace. Raises HouseError(SANDBOX_CREATE_FAILED) without the extra."""

    def __init__(self, config: SingleConfig | KubeConfig | None, namespace: str | None) -> None:
        try:
            from lightkube import AsyncClient
            from lightkube.config.client_adapter import AsyncClient as Http
            from lightkube.config.client_adapter import ConnectionParams
        except ImportError as error:
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, LIGHTKUBE) from error
        single = configured(config)
        self.api: AsyncClient = AsyncClient(single)
        self.namespace = namespace or single.namespace
        self._http: httpx2.AsyncClient = Http(single, ConnectionParams())

    async def aclose(self) -> None:
        await self.api.close()
        await self._http.aclose()

    async def ensure(self, kind: str, name: str, spec: Mapping[str, object], *, ours: bool = False) -> None:
        """Make an object, if it is not there. One that is `ours` goes with the pod that we are in, where that pod says
        who it is (by the downward API). Raises HouseError(SANDBOX_CREATE_FAILED)."""
        metadata: dict[str, object] = {"name": name, "labels": LABELS}
        pod, uid = os.environ.get("QUINTAIN_POD_NAME"), os.environ.get("QUINTAIN_POD_UID")
        if ours and pod and uid:
            metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}]
        made = kinds()[kind](metadata=metadata, spec=spec)
        create: Callable[..., Awaitable[Any]] = self.api.create  # its overloads know no generic resources
        try:
            await self.ask(lambda: create(made, namespace=self.namespace))
        except Refused as error:
            if error.reason != "AlreadyExists":
                raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"{kind} {name}: {error}") from None

    async def get(self, what: Any, name: str) -> Any:
        """Raises Refused, HouseError."""
        return await self.ask(lambda: self.api.get(what, name, namespace=self.namespace))

    async def delete(self, kind: str, name: str) -> None:
        """Gone, or not there. Raises HouseError."""
        try:
            await self.ask(lambda: self.api.delete(kinds()[kind], name, namespace=self.namespace))
        except Refused as error:
            if error.reason != "NotFound":
                raise HouseError(FaultKind.SANDBOX_LOST, f"{kind} {name} cannot be deleted: {error}") from None

    async def watch(self, kind: str, name: str, version: str | None, seconds: float) -> Any:
        """One object's next state after a version; `None` where the cluster ended the watch, or has forgotten the
        version."""
        import httpx2

        try:
            async with asyncio.timeout(seconds):
                async for _, found in self.api.watch(
                    kinds()[kind], namespace=self.namespace, fields={"metadata.name": name}, resource_version=version,
                    server_timeout=max(1, int(seconds)),
                ):
                    return found
        except (httpx2.HTTPError, TimeoutError):
            await asyncio.sleep(min(seconds, 0.5))
        return None

    async def ask(self, call: Callable[[], Awaitable[Any]], *, tries: int = 4) -> Any:
        """What the API says; asked again where it is busy, or was not heard. Raises Refused, HouseError."""
        import httpx2
        from lightkube import ApiError

        for nth in range(1, tries + 1):
            try:
                return await call()
            except ApiError as error:
                if nth == tries or error.status.code not in BUSY:
                    raise Refused(error.status.reason or "", error.status.message or str(error)) from None
            except httpx2.HTTPError as error:
                if nth == tries:
                    told = f"the cluster cannot be reached: {error}"
                    raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, told) from None
            await asyncio.sleep(0.1 * 2**nth)
        raise AssertionError("a last try returns or raises")

    async def converse(
        self, pod: str, order: Mapping[str, object], pieces: Iterable[tuple[bytes, bytes]],
        hear: Callable[[bytes, bytes], Awaitable[None]], more: Callable[[Say], Awaitable[None]] | None = None,
    ) -> str:
        """Have the attendant do one thing in a pod, with these frames after the order; `hear` is called with each frame
        that comes, `more` may say something meanwhile. Returns what was complained of, once the connection has ended:
        whether all was said is the caller's to know. Leaving it early ends what was begun."""
        import httpx2
        from httpx2.websockets import HTTPXWSException

        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/exec"
        asked = [("command", word) for word in ATTEND]
        flags = [("container", CONTAINER), ("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
        complaints = bytearray()
        try:
            async with self._http.websocket(
                path, params=[*asked, *flags], subprotocols=["v5.channel.k8s.io"], max_message_size_bytes=MESSAGE_BYTES,
            ) as line, asyncio.TaskGroup() as group:
                telling = group.create_task(_tell(line, order, pieces, more))
                await _listen(line, hear, complaints)
                telling.cancel()
        except (httpx2.HTTPError, HTTPXWSException, OSError) as error:
            complaints += f" {type(error).__name__}: {error}".encode()
        except BaseExceptionGroup as errors:
            _raise_ours(errors, complaints)
        return complaints.decode("utf-8", "replace").strip()[-500:]


#: Says a frame to the attendant.
Say = Callable[[bytes, bytes], Awaitable[None]]


class Refused(Exception):
    """The API has said no. `reason` is its word for it (NotFound, AlreadyExists, Forbidden …)."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


async def _tell(
    line: AsyncWebSocketSession, order: Mapping[str, object], pieces: Iterable[tuple[bytes, bytes]],
    more: Callable[[Say], Awaitable[None]] | None,
) -> None:
    async def say(letter: bytes, data: bytes) -> None:
        await line.send_bytes(bytes((STDIN,)) + _pod.HEAD.pack(letter, len(data)) + data)

    text = _attendant()
    await line.send_bytes(bytes((STDIN,)) + f"{len(text):08x}".encode() + text)
    await say(_pod.ORDER, json.dumps(order).encode())
    for letter, data in pieces:
        for at in range(0, max(1, len(data)), PIECE_BYTES):
            await say(letter, data[at:at + PIECE_BYTES])
    if more is not None:
        await more(say)


async def _listen(
    line: AsyncWebSocketSession, hear: Callable[[bytes, bytes], Awaitable[None]], complaints: bytearray,
) -> None:
    """Until the attendant has said its last word, or the API that it has ended."""
    heard = bytearray()
    while True:
        message = await line.receive_bytes()
        channel, data = message[0], message[1:]
        if channel == STATUS:
            with suppress(ValueError):
                status = json.loads(data)
                if status.get("status") != "Success":
                    complaints += f" {status.get('message', '')}".encode()
            return
        if channel == STDERR:
            complaints += data[:2000]
        elif channel == STDOUT:
            heard += data
            while len(heard) >= _pod.HEAD.size:
                letter, size = _pod.HEAD.unpack_from(heard)
                if len(heard) < _pod.HEAD.size + size:
                    break
                body = bytes(heard[_pod.HEAD.size:_pod.HEAD.size + size])
                del heard[:_pod.HEAD.size + size]
                await hear(letter, body)
                if letter == _pod.EXIT:
                    return


def _raise_ours(errors: BaseExceptionGroup[BaseException], complaints: bytearray) -> None:
    """What the connection raised is a complaint; anything else is raised."""
    import httpx2
    from httpx2.websockets import HTTPXWSException

    lost, rest = errors.split((httpx2.HTTPError, HTTPXWSException, OSError))
    if rest is not None:
        error: BaseException = rest
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error
    if lost is not None:
        complaints += f" the connection was lost: {lost.exceptions[0]!r}".encode()


@cache
def _attendant() -> bytes:
    return Path(_pod.__file__).read_bytes()

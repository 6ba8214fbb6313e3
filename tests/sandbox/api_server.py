"""A small API server for tests: what Kubernetes and the agent-sandbox controllers answer over HTTP and websockets, with
pods that are real processes in namespaces of their own (bubblewrap), and commands in them by nsenter.

It refuses fields that the schemas do not know. Where QUINTAIN_AGENT_SANDBOX_CRDS names a folder with the CRDs of
kubernetes-sigs/agent-sandbox (its helm/crds), objects are held against those schemas as well.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import h11
import kubernetes_validate
import wsproto.events as ws
import yaml
from jsonschema import Draft7Validator
from wsproto import WSConnection
from wsproto.connection import ConnectionType
from wsproto.extensions import Extension

EXTENSIONS = "extensions.agents.x-k8s.io/v1beta1"
#: What a spec may hold, and what it must.
FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "SandboxTemplate": ({"podTemplate", "volumeClaimTemplates", "service", "networkPolicy", "networkPolicyManagement",
                         "envVarsInjectionPolicy", "volumeClaimTemplatesPolicy"}, {"podTemplate"}),
    "SandboxWarmPool": ({"replicas", "sandboxTemplateRef", "updateStrategy"}, {"sandboxTemplateRef"}),
    "SandboxClaim": ({"warmPoolRef", "lifecycle", "additionalPodMetadata", "env", "volumeClaimTemplates"},
                     {"warmPoolRef"}),
}
PLURALS = {"sandboxtemplates": "SandboxTemplate", "sandboxwarmpools": "SandboxWarmPool",
           "sandboxclaims": "SandboxClaim", "sandboxes": "Sandbox"}
NEEDED = ("bwrap", "nsenter", "setpriv")


def missing() -> str:
    """Why this host cannot hold its pods; empty where it can."""
    if os.geteuid() != 0:
        return "needs root, to enter the namespaces of a pod"
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        return f"needs {', '.join(absent)}"
    return "" if Path("/usr/bin/python3").exists() else "needs /usr/bin/python3, which pods see"


class Trouble(Exception):
    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
                       "reason": reason, "code": code}


class Pod:
    """A container: its first process, in namespaces of its own."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = spec
        [self.container] = spec["containers"]
        self.process: asyncio.subprocess.Process | None = None
        self.pid = 0
        self.ended_for = ""

    async def start(self) -> None:
        sizes = {volume["name"]: volume["emptyDir"]["sizeLimit"] for volume in self.spec["volumes"]}
        words = ["bwrap", "--die-with-parent", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
                 "--hostname", self.spec["hostname"], "--as-pid-1", "--ro-bind", "/usr", "/usr", "--ro-bind",
                 "/etc/passwd", "/etc/passwd", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run", "--clearenv",
                 "--setenv", "PATH", "/usr/bin"]
        for name in ("bin", "sbin", "lib", "lib64"):
            words += ["--symlink", f"usr/{name}", f"/{name}"]
        for mount in self.container["volumeMounts"]:
            words += ["--perms", "1777", "--size", sizes[mount["name"]], "--tmpfs", mount["mountPath"]]
        read, write = os.pipe()
        words += ["--remount-ro", "/run", "--remount-ro", "/", "--info-fd", str(write),
                  "--chdir", self.container["workingDir"], *self.container["command"]]
        self.process = await asyncio.create_subprocess_exec(
            *words, pass_fds=(write,), stdin=asyncio.subprocess.DEVNULL, start_new_session=True)
        os.close(write)
        with os.fdopen(read) as told:
            self.pid = json.loads(await asyncio.to_thread(told.read))["child-pid"]
        await asyncio.to_thread(self.stand)

    def stand(self) -> None:
        """Until its walls are built, and its first program runs."""
        first = Path(f"/proc/{self.pid}/comm")
        with suppress(OSError):  # it has ended
            while first.read_text().strip() == "bwrap":
                time.sleep(0.005)

    def words(self, command: list[str]) -> list[str]:
        """How a command gets into it, with no more rights than the container has."""
        allowed = ",".join(f"+{name.lower()}" for name in self.container["securityContext"]["capabilities"]["add"])
        return ["nsenter", "-t", str(self.pid), "-m", "-p", "-n", "-i", "-u", "-r", "-w", "setpriv", "--no-new-privs",
                "--bounding-set", f"-all,{allowed}", "--inh-caps", "-all", "env", "-i", "PATH=/usr/bin", *command]

    async def end(self) -> None:
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, 9)
            await self.process.wait()


class ApiServer:
    """`async with` is for its own loop; tests use `serving`."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.pods: dict[str, Pod] = {}
        self.version = 0
        self.news = asyncio.Event()
        self.failures: list[int] = []  # status codes for the next requests that change something
        self.cut_watches = 0  # so many watches end at once
        self.unready: Mapping[str, str] | None = None  # the condition of every claim, instead of being served
        self.requests: list[str] = []
        self.url = ""
        self._tasks = asyncio.TaskGroup()
        crds = os.environ.get("QUINTAIN_AGENT_SANDBOX_CRDS")
        self.schemas = dict(_schemas(Path(crds))) if crds else {}

    async def __aenter__(self) -> ApiServer:
        await self._tasks.__aenter__()
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for pod in list(self.pods.values()):
            await pod.end()
        await self._tasks.__aexit__(None, None, None)

    # HTTP

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = h11.Connection(h11.SERVER)
        try:
            while True:
                request, body = await _request(talk, reader)
                if request is None:
                    return
                headers = {name.decode(): value.decode() for name, value in request.headers}
                path, method = request.target.decode(), request.method.decode()
                self.requests.append(f"{method} {path}")
                if headers.get("upgrade") == "websocket":
                    await self._exec(request, path, reader, writer)
                    return
                query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
                if query.get("watch") == "true":
                    await self._watch(talk, reader, writer, urlsplit(path).path, query)
                    return
                try:
                    code, answer = 200, await self._answer(method, urlsplit(path).path, body)
                except Trouble as trouble:
                    code, answer = trouble.status["code"], trouble.status
                data = json.dumps(answer).encode()
                writer.write(_sent(talk, h11.Response(status_code=code, headers=[
                    ("content-type", "application/json"), ("content-length", str(len(data)))])))
                writer.write(_sent(talk, h11.Data(data=data)) + _sent(talk, h11.EndOfMessage()))
                await writer.drain()
                talk.start_next_cycle()
        except (ConnectionError, h11.RemoteProtocolError, asyncio.CancelledError):
            return  # the server ends with the test's block, and with it whoever still listens
        finally:
            writer.close()

    async def _answer(self, method: str, path: str, body: bytes) -> Mapping[str, Any]:
        parts = path.strip("/").split("/")
        if path == f"/apis/{EXTENSIONS}":
            return {"resources": [{"name": plural} for plural in PLURALS if plural != "sandboxes"]}
        if parts[:3] == ["apis", "node.k8s.io", "v1"]:
            if parts[-1] == "gvisor":
                return {"handler": "runsc"}
            raise Trouble(404, "NotFound", f"runtimeclasses {parts[-1]!r} not found")
        if parts[:2] == ["api", "v1"] and parts[4] == "pods":
            return self._pod_status(parts[5])
        plural, name = parts[5], parts[6] if len(parts) > 6 else ""
        if method != "GET" and self.failures:
            code = self.failures.pop(0)
            raise Trouble(code, "InternalError", "as the test wishes")
        if method == "POST":
            return self._create(PLURALS[plural], json.loads(body), f"{parts[1]}/{parts[2]}")
        found = self.objects.get((plural, name))
        if found is None:
            raise Trouble(404, "NotFound", f"{plural} {name!r} not found")
        if method == "DELETE":
            del self.objects[plural, name]
            if plural == "sandboxclaims":
                self.objects.pop(("sandboxes", name), None)
                pod = self.pods.pop(name, None)
                if pod is not None:
                    self._tasks.create_task(pod.end())
            self._tell()
            return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return found

    def _pod_status(self, name: str) -> Mapping[str, Any]:
        pod = self.pods.get(name)
        if pod is None:
            raise Trouble(404, "NotFound", f"pods {name!r} not found")
        state: dict[str, Any] = {"running": {}}
        if pod.ended_for:
            state = {"terminated": {"reason": pod.ended_for, "exitCode": 137}}
        elif pod.process is None:
            state = {"waiting": {"reason": "ImagePullBackOff", "message": f"no image {pod.container['image']!r}"}}
        status = {"name": "sandbox", "image": "i", "imageID": "i", "ready": not pod.ended_for, "restartCount": 0,
                  "state": state}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "status": {"containerStatuses": [status]}}

    def _create(self, kind: str, made: dict[str, Any], version: str) -> Mapping[str, Any]:
        plural = next(plural for plural, one in PLURALS.items() if one == kind)
        name = made["metadata"]["name"]
        if (plural, name) in self.objects:
            raise Trouble(409, "AlreadyExists", f"{plural} {name!r} already exists")
        self._check(kind, made, version)
        self._put(plural, name, made)
        if kind == "SandboxClaim":
            self._tasks.create_task(self._serve(made))
        return made

    def _check(self, kind: str, made: Mapping[str, Any], version: str) -> None:
        allowed, needed = FIELDS[kind]
        found = set(made["spec"])
        wrong = [f"unknown field {name!r}" for name in sorted(found - allowed)]
        wrong += [f"{name!r} is required" for name in sorted(needed - found)]
        if made["apiVersion"] != version or made["kind"] != kind:
            wrong.append(f"expected {version} {kind}, found {made['apiVersion']} {made['kind']}")
        if kind == "SandboxTemplate":
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                   "spec": made["spec"]["podTemplate"]["spec"]}
            try:
                kubernetes_validate.validate(pod, "1.31", strict=True)
            except kubernetes_validate.ValidationError as error:
                wrong.append(f"podTemplate: {error.message}")
        if kind in self.schemas:
            wrong += [error.message for error in self.schemas[kind].iter_errors(made)]
        if wrong:
            raise Trouble(422, "Invalid", "; ".join(wrong))

    def _put(self, plural: str, name: str, made: dict[str, Any]) -> None:
        self.version += 1
        made["metadata"] |= {"resourceVersion": str(self.version), "uid": f"u{self.version}", "namespace": "default"}
        self.objects[plural, name] = made
        self._tell()

    def _tell(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    async def _watch(
        self, talk: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str,
        query: Mapping[str, str],
    ) -> None:
        plural, name = path.rsplit("/", 1)[1], query["fieldSelector"].partition("=")[2]
        writer.write(_sent(talk, h11.Response(status_code=200, headers=[
            ("content-type", "application/json"), ("transfer-encoding", "chunked")])))
        since = int(query.get("resourceVersion") or 0)
        if self.cut_watches:
            self.cut_watches -= 1
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(float(query.get("timeoutSeconds", 60))):
                while not reader.at_eof():
                    news = self.news
                    found = self.objects.get((plural, name))
                    if found is not None and int(found["metadata"]["resourceVersion"]) > since:
                        since = int(found["metadata"]["resourceVersion"])
                        line = json.dumps({"type": "MODIFIED", "object": found}).encode() + b"\n"
                        writer.write(_sent(talk, h11.Data(data=line)))
                        await writer.drain()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(0.2):  # and see whether anybody listens still
                            await news.wait()
        writer.write(_sent(talk, h11.EndOfMessage()))

    # The controllers

    async def _serve(self, claim: dict[str, Any]) -> None:
        name = claim["metadata"]["name"]
        if ("sandboxclaims", name) not in self.objects:
            return  # given up before anybody looked
        if self.unready is not None:
            claim["status"] = {"conditions": [{"type": "Ready", "status": "False", **self.unready}]}
            self._put("sandboxclaims", name, claim)
            return
        pool = self.objects["sandboxwarmpools", claim["spec"]["warmPoolRef"]["name"]]
        template = self.objects["sandboxtemplates", pool["spec"]["sandboxTemplateRef"]["name"]]
        pod = Pod(template["spec"]["podTemplate"]["spec"])
        if pod.container["image"] != "python:3.12-slim":
            self.pods[name] = pod
            claim["status"] = {"conditions": [{"type": "Ready", "status": "False", "reason": "DependenciesNotReady"}],
                               "sandbox": {"name": name}}
            self._put("sandboxclaims", name, claim)
            return
        await pod.start()
        if ("sandboxclaims", name) not in self.objects:  # given up meanwhile
            await pod.end()
            return
        self.pods[name] = pod
        self._put("sandboxes", name, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {
            "name": name, "annotations": {"agents.x-k8s.io/pod-name": name}}})
        claim["status"] = {"conditions": [{"type": "Ready", "status": "True", "reason": "DependenciesReady"}],
                           "sandbox": {"name": name}}
        self._put("sandboxclaims", name, claim)

    # Commands

    async def _exec(
        self, request: h11.Request, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
    ) -> None:
        """As a kubelet does it, over v5.channel.k8s.io: where a client is gone, its command's stdin ends, no more."""
        parts, query = urlsplit(path).path.split("/"), parse_qs(urlsplit(path).query)
        talk = WSConnection(ConnectionType.SERVER)
        talk.initiate_upgrade_connection(list(request.headers), path)
        pod = self.pods.get(parts[6])
        if pod is None:
            writer.write(talk.send(ws.RejectConnection(status_code=404)))
            return
        assert query["container"] == ["sandbox"]
        extensions: list[Extension] = []
        writer.write(talk.send(ws.AcceptConnection(subprotocol="v5.channel.k8s.io", extensions=extensions)))
        process = await asyncio.create_subprocess_exec(
            *pod.words(query["command"]), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE)
        assert process.stdin and process.stdout and process.stderr

        def say(channel: int, data: bytes) -> None:
            writer.write(talk.send(ws.BytesMessage(data=bytes((channel,)) + data)))

        async def tell(channel: int, stream: asyncio.StreamReader) -> None:
            while data := await stream.read(32 * 1024):
                if not writer.is_closing():
                    say(channel, data)
                    with suppress(ConnectionError):
                        await writer.drain()

        with suppress(ConnectionError, BaseExceptionGroup):
            async with asyncio.TaskGroup() as group:
                hearing = group.create_task(_hear(talk, reader, writer, process.stdin))
                telling = [group.create_task(tell(1, process.stdout)), group.create_task(tell(2, process.stderr))]
                await asyncio.wait(telling)
                code = await process.wait()
                status: dict[str, Any] = {"metadata": {}, "status": "Success"}
                if code:
                    status = {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                              "message": f"command terminated with non-zero exit code: exit status {code}",
                              "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}
                say(3, json.dumps(status).encode())
                writer.write(talk.send(ws.CloseConnection(code=1000)))
                await writer.drain()
                hearing.cancel()
        if process.returncode is None:
            process.stdin.close()
            await process.wait()


async def _hear(
    talk: WSConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stdin: asyncio.StreamWriter,
) -> None:
    message = bytearray()
    while True:
        data = await reader.read(65_536)
        talk.receive_data(data or None)
        for event in talk.events():
            if isinstance(event, ws.BytesMessage):
                message += event.data
                if not event.message_finished:
                    continue
                channel, body = message[0], bytes(message[1:])
                message.clear()
                if channel == 0:
                    stdin.write(body)
                    with suppress(ConnectionError):
                        await stdin.drain()
                elif channel == 255:
                    stdin.close()
            elif isinstance(event, ws.Ping):
                writer.write(talk.send(event.response()))
            elif isinstance(event, ws.CloseConnection):
                stdin.close()
                with suppress(ConnectionError):
                    writer.write(talk.send(event.response()))
                return
        if not data:
            stdin.close()
            return


async def _request(talk: h11.Connection, reader: asyncio.StreamReader) -> tuple[h11.Request | None, bytes]:
    request: h11.Request | None = None
    body = bytearray()
    while True:
        event = talk.next_event()
        if event is h11.NEED_DATA:
            talk.receive_data(await reader.read(65_536))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) or event is h11.PAUSED:
            return request, bytes(body)
        elif isinstance(event, h11.ConnectionClosed):
            return None, b""


def _sent(talk: h11.Connection, event: Any) -> bytes:
    return talk.send(event) or b""


def _schemas(folder: Path) -> Iterator[tuple[str, Draft7Validator]]:
    """By kind, the schema of v1beta1, with nothing allowed beside it."""
    for path in sorted(folder.glob("*.yaml")):
        crd = yaml.safe_load(path.read_text())
        [found] = [one for one in crd["spec"]["versions"] if one["name"] == "v1beta1"]
        yield crd["spec"]["names"]["kind"], Draft7Validator(_closed(found["schema"]["openAPIV3Schema"]))


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _closed(value) for name, value in schema.items()}
    if isinstance(found.get("properties"), dict) and not found.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    return found


@contextmanager
def serving() -> Iterator[ApiServer]:
    """A server in a thread of its own."""
    ready, holder = threading.Event(), list[ApiServer]()

    async def main() -> None:
        async with ApiServer() as server:
            holder.append(server)
            stop.append((asyncio.get_running_loop(), ended := asyncio.Event()))
            ready.set()
            await ended.wait()

    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield holder[0]
    finally:
        loop, ended = stop[0]
        loop.call_soon_threadsafe(ended.set)
        thread.join(20)

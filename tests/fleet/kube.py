"""A small API server for tests of the engine: it keeps objects that fit their schemas, and starts what a Deployment
says for real, with its ConfigMap and Secret where the pod would have them. No cluster."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import kubernetes_validate

PATH = re.compile(r"/(?:api|apis/[a-z.]+)/v1(?:alpha1)?/namespaces/([a-z]+)/([a-z]+)(?:/([a-z0-9-]+))?(?:\?.*)?")


class Kube:
    """What was applied, and the processes that stand for pods."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.log: list[str] = []
        self.pods: list[subprocess.Popen[bytes]] = []
        self.failures: list[int] = []
        self.starter = ThreadPoolExecutor(1)  # pods die with the thread that has started them, so it is one that lasts
        self.url = ""

    def apply(self, plural: str, name: str, made: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if plural != "scaledobjects":
            try:
                kubernetes_validate.validate(made, "1.31", strict=True)
            except kubernetes_validate.ValidationError as error:
                return 422, trouble(422, "Invalid", error.message)
        self.objects[plural, name] = made
        if plural == "deployments":
            for nth in range(made["spec"]["replicas"]):
                starting = self.starter.submit(
                    self.start, made["spec"]["template"]["spec"], self.folder / f"{name}-{nth}")
                self.pods.append(starting.result())
        return 200, made

    def start(self, spec: dict[str, Any], home: Path) -> subprocess.Popen[bytes]:
        """A pod's worker, with its volumes where they belong."""
        home.mkdir()
        [container] = spec["containers"]
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        words = ["bwrap", "--die-with-parent", "--dev-bind", "/", "/", "--tmpfs", "/var/lib"]
        for mount in container["volumeMounts"]:
            volume, place = volumes[mount["name"]], mount["mountPath"]
            if "emptyDir" in volume:
                words += ["--dir", place, "--bind", str(home), place]
            else:
                data = self.objects["configmaps", volume["configMap"]["name"]]["data"]
                (home / mount["subPath"]).write_text(data[mount["subPath"]])
        env = dict(os.environ)
        for source in container["envFrom"]:
            env |= self.objects["secrets", source["secretRef"]["name"]]["stringData"]
        with (home.parent / f"{home.name}.log").open("wb") as log:
            words += [*container["command"], *container["args"]]
            return subprocess.Popen(words, env=env, stdout=log, stderr=log)

    def delete(self, plural: str, name: str) -> tuple[int, dict[str, Any]]:
        if self.objects.pop((plural, name), None) is None:
            return 404, trouble(404, "NotFound", f"{plural} {name!r} not found")
        if plural == "deployments":
            self.end()
        return 200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def end(self) -> None:
        for pod in self.pods:
            pod.terminate()
        for pod in self.pods:
            with suppress(subprocess.TimeoutExpired):
                pod.wait(60)
            pod.kill()
            pod.wait()
        self.pods.clear()


def trouble(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "code": code}


def template(command: list[str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "house-worker"}, "template": {
        "metadata": {"labels": {"team": "lab"}},
        "spec": {"containers": [{"name": "worker", "image": "quintain", "command": command}]}}}


@contextmanager
def serving(folder: Path, command: list[str]) -> Iterator[Kube]:
    kube = Kube(folder)
    kube.objects["podtemplates", "house-worker"] = template(command)

    class Talk(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            found = PATH.fullmatch(self.path)
            assert found, self.path
            plural, name = found[2], found[3]
            kube.log.append(f"{self.command} {plural} {name}")
            if self.command != "GET" and kube.failures:
                code = kube.failures.pop()
                answer = trouble(code, "InternalError", "as the test wishes")
            elif self.command == "PATCH":
                assert self.headers["content-type"] == "application/apply-patch+yaml"
                code, answer = kube.apply(plural, name, json.loads(body))
            elif self.command == "DELETE":
                code, answer = kube.delete(plural, name)
            else:
                there = kube.objects.get((plural, name))
                code, answer = (200, there) if there else (404, trouble(404, "NotFound", f"{plural} {name} not found"))
            data = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PATCH = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            """Tests read `log`."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Talk) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        kube.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield kube
        finally:
            server.shutdown()
            kube.end()
            kube.starter.shutdown()


def can_start() -> str:
    """Why no pods can be started here; empty where they can."""
    return "" if shutil.which("bwrap") and os.geteuid() == 0 else "needs root and bubblewrap, to place a pod's volumes"


def kubeconfig(path: Path, url: str) -> Path:
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url}}], "users": [{"name": "test", "user": {"token": "t"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "lab"}}],
    }))
    return path

"""Sandboxes that are pods of a Kubernetes cluster with the agent-sandbox controllers, through `lightkube`.

Never run against a live cluster by us: its objects are held against the published schemas of the CRDs
(kubernetes-sigs/agent-sandbox, v1beta1), and its words against a server of the tests that speaks the API's HTTP and
websocket. The cluster needs Kubernetes 1.30 (v5.channel.k8s.io), the controllers with their extensions, and a network
plugin that enforces network policies; the image needs `python3` (3.8 or later) and `tail`.

Covers, where the cluster does what it says: pods behind the runtime class of your choice, a read-only root, no
capabilities and no new privileges for programs, private /work, /tmp and /dev/shm, no way out, no token of the cluster,
whole-tree kill by an attendant (`_pod`) that is root in the pod, and that the program can neither end nor imitate.
Does not cover: what the cluster does not enforce (nothing here measures it), see `Capabilities.does_not_cover`; speed:
a command takes a connection and an interpreter's start, and commands in one sandbox wait for each other.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from quintain.sandbox import _pod
from quintain.sandbox._pod_box import PodSandbox
from quintain.sandbox._pod_line import CONTAINER, EXTENSIONS, LABELS, LIGHTKUBE, VERSION, Cluster, configured
from quintain.sandbox.base import DEFAULT_LIMITS, Capabilities, Sandbox
from quintain.types import FaultKind, HouseError, Isolation, Limits, Network

if TYPE_CHECKING:
    from lightkube.config.kubeconfig import KubeConfig, SingleConfig

IMAGE = "python:3.12-slim"
SPARE_BYTES = 96 * 1024 * 1024  # for the attendant, in the pod's memory beside the program's
CONTROLLERS = "expected the agent-sandbox controllers with their extensions (kubernetes-sigs/agent-sandbox, helm/)"
ISOLATES = {"runsc": Isolation.GVISOR, "gvisor": Isolation.GVISOR, "kata": Isolation.MICROVM}


class AgentSandboxBackend:
    """Makes sandboxes by claims of a warm pool: `warm` pods of each kind that is asked for are kept ready there (none:
    each starts cold). `runtime_class` names a RuntimeClass (`None`: the cluster's default runtime); `image` is
    what 'host' stands for, any other name is a registry's. A claim ends after `life_seconds` whatever becomes of us.

    The cluster is found as kubectl finds it, or is `config`. Use as `async with`, or call `aclose`; templates and pools
    stay for the next (label app.kubernetes.io/managed-by=quintain), claims go with their sandboxes.
    """

    name = "agent-sandbox"

    def __init__(
        self, *, namespace: str | None = None, image: str = IMAGE, runtime_class: str | None = "gvisor", warm: int = 0,
        ready_seconds: float = 300.0, life_seconds: float = 86_400.0, config: SingleConfig | KubeConfig | None = None,
    ) -> None:
        self._namespace = namespace
        self._image = image
        self._runtime_class = runtime_class
        self._warm = warm
        self._ready_seconds = ready_seconds
        self._life_seconds = life_seconds
        self._config = config
        self._cluster: Cluster | None = None
        self._pools: set[str] = set()
        self._house = secrets.token_hex(4)
        self._number = 0

    @classmethod
    def from_environment(cls) -> AgentSandboxBackend:
        """By QUINTAIN_SANDBOX_NAMESPACE, _IMAGE, _RUNTIME_CLASS (empty: the cluster's default) and _WARM."""
        told = {name: os.environ.get(f"QUINTAIN_SANDBOX_{name}") for name in ("NAMESPACE", "IMAGE", "RUNTIME_CLASS")}
        runtime = told["RUNTIME_CLASS"]
        return cls(
            namespace=told["NAMESPACE"] or None, image=told["IMAGE"] or IMAGE,
            runtime_class="gvisor" if runtime is None else runtime or None,
            warm=int(os.environ.get("QUINTAIN_SANDBOX_WARM") or 0),
        )

    async def __aenter__(self) -> AgentSandboxBackend:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._cluster is not None:
            await self._cluster.aclose()
            self._cluster = None

    def probe(self) -> Capabilities:
        """What the cluster says that it has. Never raises; what is missing comes with its remedy. What no answer of the
        API can show (limits, policies) counts as soft or not at all."""
        missing: dict[str, str] = {}
        handler = ""
        try:
            handler = self._handler(missing)
        except ImportError:
            missing["lightkube"] = LIGHTKUBE
        except Exception as error:  # whatever a kubeconfig or a network may raise is a reason, and a probe never raises
            missing["cluster"] = f"expected a cluster that answers: {type(error).__name__}: {str(error)[:300]}"
        isolation = next((level for word, level in ISOLATES.items() if word in handler), Isolation.NAMESPACE)
        return Capabilities(
            name=self.name, available=not missing, isolation=isolation, memory="soft", processes="none", cpu="soft",
            disk="soft", networks=(Network.NONE,), unique_uid=False, channel=True, images=("host", "registry"),
            covers=("the runtime class of the pods", "read-only system", "bounded private work tree",
                    "no capabilities, no_new_privs, the runtime's seccomp filter and a small one of ours",
                    "whole-tree kill"),
            does_not_cover=("what the cluster does not enforce: network policies, limits, the runtime class",
                            "processes", "inodes", "CPU time of a whole sandbox (only of each process)",
                            "disk bytes together (/work, /tmp and /dev/shm are bounded one by one)",
                            "several commands at a time (they wait for each other)", "timing side channels",
                            "flaws of the shared kernel, behind a runtime class that shares it"),
            missing=missing,
        )

    def _handler(self, missing: dict[str, str]) -> str:
        """The handler of the runtime class; what is not there goes into `missing`."""
        from lightkube.config.client_adapter import Client, ConnectionParams

        with Client(configured(self._config), ConnectionParams()) as http:
            found = http.get(f"/apis/{EXTENSIONS}/{VERSION}")
            names = {one["name"] for one in found.json()["resources"]} if found.is_success else set()
            if not {"sandboxclaims", "sandboxtemplates", "sandboxwarmpools"} <= names:
                missing["controllers"] = f"{CONTROLLERS}; the API said {found.status_code}"
            if self._runtime_class is None:
                return ""
            found = http.get(f"/apis/node.k8s.io/v1/runtimeclasses/{self._runtime_class}")
            if not found.is_success:
                missing["runtime class"] = (
                    f"expected the RuntimeClass {self._runtime_class!r}, the API said {found.status_code}: install it, "
                    "or choose another (QUINTAIN_SANDBOX_RUNTIME_CLASS, empty for the cluster's default)")
                return ""
            return str(found.json()["handler"])

    def open(
        self, image: str = "host", *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.NONE,
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        return self._open(image, limits, count, network)

    @asynccontextmanager
    async def _open(self, image: str, limits: Limits, count: int, network: Network) -> AsyncIterator[Sequence[Sandbox]]:
        if count < 1:
            raise ValueError(f"expected a count of at least 1, found {count}")
        if network is not Network.NONE:
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"expected network 'none', found {network.value!r}")
        if self._cluster is None:
            self._cluster = Cluster(self._config, self._namespace)
        cluster = self._cluster
        pool = await self._pool(cluster, self._image if image == "host" else image, limits)
        async with AsyncExitStack() as stack:
            boxes: list[PodSandbox] = []
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(count):
                        self._number += 1
                        box = PodSandbox(cluster, f"quintain-{self._house}-{self._number}", limits)
                        stack.push_async_callback(box.close)
                        boxes.append(box)
                        group.create_task(box.bring_up(pool, self._life_seconds, self._ready_seconds))
            except* HouseError as errors:
                raise errors.exceptions[0] from None
            yield boxes

    async def _pool(self, cluster: Cluster, image: str, limits: Limits) -> str:
        """The warm pool of pods like this; it and its template are made where they are not there."""
        spec = template(image, limits, self._runtime_class)
        name = f"quintain-{sha256(json.dumps([spec, self._warm], sort_keys=True).encode()).hexdigest()[:16]}"
        if name not in self._pools:
            await cluster.ensure("SandboxTemplate", name, spec)
            await cluster.ensure("SandboxWarmPool", name, {
                "replicas": self._warm, "sandboxTemplateRef": {"name": name}})
            self._pools.add(name)
        return name


def template(image: str, limits: Limits, runtime_class: str | None) -> dict[str, Any]:
    """The spec of a SandboxTemplate: pods of one image under one set of limits."""
    room = str(limits.disk_bytes)
    memory = str(limits.memory_bytes + SPARE_BYTES)
    places = {"work": "/work", "tmp": "/tmp", "shm": "/dev/shm", "attendant": _pod.PRIVATE}
    container = {
        "name": CONTAINER, "image": image, "command": ["tail", "-f", "/dev/null"], "workingDir": "/work",
        "resources": {"limits": {"cpu": "1", "memory": memory}, "requests": {"cpu": "100m", "memory": memory}},
        "securityContext": {
            "runAsUser": 0, "runAsGroup": 0, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["SETUID", "SETGID", "KILL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in places.items()],
    }
    pod = {
        "automountServiceAccountToken": False, "enableServiceLinks": False, "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0, "hostname": "sandbox", "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["127.0.0.1"]}, "containers": [container],
        "volumes": [{"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": room}} for name in places],
        **({"runtimeClassName": runtime_class} if runtime_class else {}),
    }
    return {
        "podTemplate": {"metadata": {"labels": {**LABELS, "app.kubernetes.io/component": "sandbox"}}, "spec": pod},
        "networkPolicyManagement": "Managed", "networkPolicy": {"ingress": [], "egress": []}, "service": False,
    }

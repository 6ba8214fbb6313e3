"""The engine of a Kubernetes cluster: a Deployment of workers for one run, in pods as the chart of `deploy/` has them.

The chart's release keeps a PodTemplate (image, walls, resources: what the cluster's keeper decides); a run brings its
definition (a ConfigMap), its addresses and keys (a Secret) and how many workers it wants. What is to be done the
cluster never sees: workers pull from the queue, and hand in each episode's log with its result.

Never run against a live cluster by us. What it sends is held against the API's schemas, and a server of the tests
starts its workers for real (tests/fleet/test_kubernetes.py).
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec

from quintain.fleet._subjects import Subjects
from quintain.fleet.ending import told_within
from quintain.types import FaultKind, HouseError

if TYPE_CHECKING:
    from lightkube import AsyncClient
    from lightkube.config.kubeconfig import KubeConfig, SingleConfig

_log = logging.getLogger(__name__)

#: Where a worker's pod has the run's folder, and which of its containers is the worker.
POD_FOLDER, WORKER = "/var/lib/quintain/run", "worker"
LOOK_SECONDS = 5.0
_LABELS = {"app.kubernetes.io/managed-by": "quintain", "app.kubernetes.io/component": "worker"}
_BUSY = (429, 500, 502, 503, 504)


class KubernetesAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Which release of the chart a run's pods are like, and where. With `most` KEDA scales between the workers that
    were asked for (as the least) and so many, by what waits in the queue, which `monitor` (HOST:PORT) tells."""

    release: str
    namespace: str | None = None
    most: int = 0
    monitor: str = ""

    @classmethod
    def of(cls, text: str) -> KubernetesAddress:
        """`kubernetes:RELEASE[?namespace=NAME&most=N&monitor=HOST:PORT]`. Raises ValueError."""
        place, _, query = text.partition("?")
        head, _, release = place.partition(":")
        asked = dict(parse_qsl(query, keep_blank_values=True))
        expected = "expected kubernetes:RELEASE with ?namespace=NAME&most=N&monitor=HOST:PORT at most"
        if head != "kubernetes" or not release or set(asked) - {"namespace", "most", "monitor"}:
            raise ValueError(f"{expected}, found {text!r}")
        most = asked.get("most", "0")
        if not most.isdigit() or (int(most) > 0) != bool(asked.get("monitor")):
            raise ValueError(f"{expected}, most and monitor (of the NATS server: HOST:8222) together, found {text!r}")
        return cls(release=release, namespace=asked.get("namespace") or None, most=int(most),
                   monitor=asked.get("monitor", ""))


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """What one run brings. `words` are the worker's arguments; `files` lie in POD_FOLDER; `env` holds secrets. `queue`
    is its queue's name on the NATS server, and `kinds` what will be in it: both for scaling only."""

    name: str
    words: tuple[str, ...]
    files: dict[str, str]
    env: dict[str, str]
    workers: int = 1
    queue: str = ""
    kinds: tuple[str, ...] = ()


def manifests(run: Submission, template: Mapping[str, Any], address: KubernetesAddress) -> list[dict[str, Any]]:
    """The objects of a run, in the order in which they are to be made, from the `template` of a PodTemplate. Pure.
    Raises HouseError where the template has no container that is called `worker`."""
    name = run.name.replace("_", "-")
    labels = {**_LABELS, "app.kubernetes.io/instance": name}
    pod = copy.deepcopy(dict(template))
    found = [one for one in pod["spec"]["containers"] if one["name"] == WORKER]
    if len(found) != 1:
        names = [one["name"] for one in pod["spec"]["containers"]]
        raise HouseError(FaultKind.UNKNOWN, f"expected one container {WORKER!r} in the PodTemplate, found {names}")
    [container] = found
    container["args"] = list(run.words)
    container["envFrom"] = [*container.get("envFrom", ()), {"secretRef": {"name": name}}]
    container["volumeMounts"] = [
        *container.get("volumeMounts", ()), {"name": "run", "mountPath": POD_FOLDER},
        *({"name": "definition", "mountPath": f"{POD_FOLDER}/{file}", "subPath": file, "readOnly": True}
          for file in sorted(run.files)),
    ]
    pod["spec"]["volumes"] = [
        *pod["spec"].get("volumes", ()), {"name": "run", "emptyDir": {}},
        {"name": "definition", "configMap": {"name": name}},
    ]
    pod["metadata"] = {**(pod.get("metadata") or {}), "labels": {
        **((pod.get("metadata") or {}).get("labels") or {}), **labels}}
    metadata = {"name": name, "labels": labels}
    made: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(run.files)},
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "stringData": dict(run.env)},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {
            "replicas": run.workers, "selector": {"matchLabels": {"app.kubernetes.io/instance": name}},
            "template": {"metadata": pod["metadata"], "spec": pod["spec"]}}},
    ]
    if address.most:
        made.append({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": metadata,
                     "spec": _scaling(name, run, address)})
    return made


def _scaling(name: str, run: Submission, address: KubernetesAddress) -> dict[str, Any]:
    """By what waits in each kind's stream (keda.sh/docs/scalers/nats-jetstream)."""
    subjects = Subjects(run.queue)
    slots = run.words[run.words.index("--slots") + 1] if "--slots" in run.words else "1"
    return {
        "scaleTargetRef": {"name": name}, "minReplicaCount": run.workers, "maxReplicaCount": address.most,
        "pollingInterval": 5, "cooldownPeriod": 120,
        "triggers": [{"type": "nats-jetstream", "metadata": {
            "natsServerMonitoringEndpoint": address.monitor, "account": "$G", "stream": subjects.stream(kind),
            "consumer": "p0", "lagThreshold": slots}} for kind in run.kinds],
    }


async def submit(
    address: KubernetesAddress, run: Submission, *, told: asyncio.Event,
    config: SingleConfig | KubeConfig | None = None,
) -> None:
    """Have the cluster keep the workers of a run until it is `told`, and take everything away then: what runs is given
    back in good order, as the pods' grace allows. The cluster is found as kubectl finds it, or is `config`. Where this
    process is itself in a pod that says who it is (QUINTAIN_POD_NAME, QUINTAIN_POD_UID), its objects go with that pod.
    Raises HouseError where the cluster refuses, cannot be reached, or has no such release."""
    try:
        from lightkube import AsyncClient
        from lightkube.core.exceptions import ConfigError
        from lightkube.resources.core_v1 import PodTemplate
    except ImportError as error:
        told_how = "expected the extra kubernetes: pip install 'quintain[kubernetes]'"
        raise HouseError(FaultKind.UNKNOWN, told_how) from error
    try:
        api = AsyncClient(config, namespace=address.namespace, field_manager="quintain")
    except ConfigError as error:
        raise HouseError(FaultKind.UNKNOWN, f"no cluster: {error}") from None
    try:
        kept = await _asked(f"PodTemplate {address.release}-worker", lambda: api.get(
            PodTemplate, f"{address.release}-worker"))
        template = json.loads(json.dumps(kept.to_dict()))["template"]
        made = manifests(run, template, address)
        for one in made:
            await _apply(api, one)
        _log.info("%s: applied", ", ".join(f"{one['kind']} {one['metadata']['name']}" for one in made))
        try:
            await _watched(api, made, told)
        finally:
            for one in reversed(made):
                await _remove(api, one)
    finally:
        await api.close()


async def _watched(api: AsyncClient, made: Sequence[Mapping[str, Any]], told: asyncio.Event) -> None:
    """Until told; what the cluster complains of is said, once."""
    from lightkube.resources.apps_v1 import Deployment

    name, said = made[0]["metadata"]["name"], set[str]()
    while not told.is_set():
        await told_within(told, LOOK_SECONDS)
        try:
            found = await _asked(f"Deployment {name}", lambda: api.get(Deployment, name))
        except HouseError as error:
            _log.warning("no news of the cluster: %s", error)
            continue
        conditions = (found.status.conditions or ()) if found.status is not None else ()
        for condition in conditions:
            is_bad = (condition.type == "ReplicaFailure") == (condition.status == "True") and condition.type in (
                "ReplicaFailure", "Progressing")
            if is_bad and condition.message not in said:
                said.add(condition.message)
                _log.warning("Deployment %s: %s: %s", name, condition.reason, condition.message)


async def _apply(api: AsyncClient, manifest: Mapping[str, Any]) -> None:
    pod, uid = os.environ.get("QUINTAIN_POD_NAME"), os.environ.get("QUINTAIN_POD_UID")
    owner = [{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}] if pod and uid else None
    whole = {**manifest, "metadata": {**manifest["metadata"], **({"ownerReferences": owner} if owner else {})}}
    named = f"{manifest['kind']} {manifest['metadata']['name']}"
    await _asked(named, lambda: api.apply(_object(whole), force=True))


async def _remove(api: AsyncClient, manifest: Mapping[str, Any]) -> None:
    named = f"{manifest['kind']} {manifest['metadata']['name']}"
    try:
        await _asked(named, lambda: api.delete(type(_object(manifest)), manifest["metadata"]["name"]))
    except HouseError as error:
        _log.warning("cannot be taken away: %s", error)


def _object(manifest: Mapping[str, Any]) -> Any:
    from lightkube.codecs import from_dict
    from lightkube.generic_resource import create_namespaced_resource

    create_namespaced_resource("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")  # known from now on
    return from_dict(dict(manifest))


async def _asked(what: str, call: Callable[[], Awaitable[Any]], *, tries: int = 5) -> Any:
    """What the API says; asked again where it is busy, or was not heard. Raises HouseError."""
    import httpx2
    from lightkube import ApiError

    for nth in range(1, tries + 1):
        try:
            return await call()
        except ApiError as error:
            if nth == tries or error.status.code not in _BUSY:
                raise HouseError(FaultKind.UNKNOWN, f"{what}: {error.status.message}") from None
        except httpx2.HTTPError as error:
            if nth == tries:
                raise HouseError(FaultKind.UNKNOWN, f"{what}: the cluster cannot be reached: {error}") from None
        await asyncio.sleep(0.1 * 2**nth)
    raise AssertionError("a last try returns or raises")

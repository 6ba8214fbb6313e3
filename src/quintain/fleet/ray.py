"""The engine of a Ray cluster: Ray places a host on each node and starts it again; what is to be done it never sees.

Work is pulled from the queue by the hosts' workers, so a node that is lost costs its leases' time and no more, however
long Ray takes to notice (docs/decisions/0005). The only module that imports ray.

Covers: a worker, a host's process, a node that dies, is cut off, drained or added; the placer's own death (its hosts
end with it, and its parent starts another); a head that dies or does not answer (the placer ends, the next one waits
for a cluster, and when there is none for `RayAddress.wait_seconds` says so and the run ends, to be resumed). Does not
cover: work while there is no cluster: without a head (and Ray's own high availability) nodes end by themselves.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from quintain.fleet.host import Host, Post
from quintain.fleet.local import CANNOT
from quintain.types import FaultKind, HouseError

_log = logging.getLogger("quintain.fleet.ray")
_LEFT, _DRAINED, _CANNOT = "left", "drained", "cannot"

#: How often nodes are looked at.
LOOK_SECONDS = 1.0
#: Before a host whose own failure ended it is placed again.
PAUSE_SECONDS = 5.0
#: What workers that were told to end may take beyond their crew's own patience.
SLACK_SECONDS = 5.0
#: How long one look at the cluster may take: calls into Ray wait for a lost head without end, deaf to signals.
ANSWER_SECONDS = 90.0
#: How the placer ends when the cluster does not answer.
NO_CLUSTER = 69
#: Set before `ray start` on every node; the placer sets them for itself. By default a cut cable is noticed after 66 s.
SETTINGS: Mapping[str, str] = {
    "RAY_grpc_client_keepalive_time_ms": "3000", "RAY_grpc_client_keepalive_timeout_ms": "3000",
    "RAY_grpc_keepalive_time_ms": "3000", "RAY_grpc_keepalive_timeout_ms": "3000",
    "RAY_health_check_initial_delay_ms": "1000", "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000", "RAY_health_check_failure_threshold": "3",
}


class RayAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a cluster is, and which of its nodes are taken. `where` is what `ray.init` understands; `cpus` is what each
    host asks of Ray (0: nothing, so that a trainer beside us keeps all of its own); with `resource` only nodes that
    have this custom resource get a host; a run ends when there has been no cluster for `wait_seconds`."""

    where: str
    cpus: float = 0.0
    resource: str = ""
    wait_seconds: float = 300.0

    @classmethod
    def of(cls, text: str) -> RayAddress:
        """`ray://HOST:PORT` (Ray's client, from anywhere), `ray:HOST:PORT` or `ray:auto` (on a node of the cluster),
        each with `?cpus=N&resource=NAME&wait=SECONDS`. Raises ValueError."""
        place, _, query = text.partition("?")
        asked = dict(parse_qsl(query, keep_blank_values=True))
        where = place if place.startswith("ray://") else place.removeprefix("ray:")
        extra = set(asked) - {"cpus", "resource", "wait"}
        if not place.startswith("ray:") or where in ("", "ray://") or extra:
            raise ValueError("expected ray://HOST:PORT, ray:HOST:PORT or ray:auto, with "
                             f"?cpus=N&resource=NAME&wait=SECONDS at most, found {text!r}")
        cpus, wait = (_number(name, asked, default, text) for name, default in (("cpus", 0.0), ("wait", 300.0)))
        return cls(where=where, cpus=cpus, resource=asked.get("resource", ""), wait_seconds=wait)

    def answers(self) -> bool:
        """Whether anybody listens there; taken for granted where the address is Ray's to find."""
        found = urlsplit(self.where if "://" in self.where else f"//{self.where}")
        try:
            if not found.hostname or not found.port:
                return True
            socket.create_connection((found.hostname, found.port), timeout=3.0).close()
        except (OSError, ValueError):
            return False
        return True


def _number(name: str, asked: Mapping[str, str], default: float, text: str) -> float:
    try:
        found = float(asked.get(name, default))
    except ValueError:
        found = -1.0
    if not 0.0 <= found < 1e6:
        raise ValueError(f"expected ?{name}= with a number from 0 on, found {text!r}")
    return found


class Stand:
    """The actor on a node: a `Host`, and a look at whether Ray drains the node, in which case the workers are told to
    end in good order before Ray ends them."""

    def __init__(self, post: bytes) -> None:
        self._post = msgspec.msgpack.decode(post, type=Post)
        self._host: Host | None = None
        self._is_drained = False

    async def stand(self) -> tuple[str, str]:
        """Until all workers have ended: LEFT or DRAINED; or CANNOT, when no worker can ever work here, and why."""
        import ray

        node: str = ray.get_runtime_context().get_node_id()
        self._host = host = Host(self._post, f"ray-{node[:8]}")
        cannot = ""
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch(node, host))
                await host.stand()
                watching.cancel()
        except* HouseError as errors:
            cannot = str(errors.exceptions[0])
        return (_CANNOT if cannot else _DRAINED if self._is_drained else _LEFT), cannot

    async def _watch(self, node: str, host: Host) -> None:
        while not await asyncio.to_thread(_is_draining, node):  # noqa: ASYNC110 - Ray sends no event
            await asyncio.sleep(LOOK_SECONDS)
        self._is_drained = True
        host.leave()

    async def leave(self) -> None:
        if self._host is not None:
            self._host.leave()


def _is_draining(node: str) -> bool:
    """Ray tells it only here; a version that does not is taken at its word when it ends the node."""
    try:
        from ray._private.state import state

        return node in state.get_draining_nodes()
    except (ImportError, AttributeError):
        return False


class _Placed(msgspec.Struct):
    actor: Any  # ray's handle
    standing: Any  # the reference to what `stand` will return
    since: float


class Placer:
    """Keeps a host on every node that will do. Use it in the main thread of a process of its own."""

    def __init__(self, address: RayAddress, post: Post) -> None:
        self._address = address
        self._post = msgspec.msgpack.encode(post)
        self._crew = post.crew
        self._hosts: dict[str, _Placed] = {}
        self._resting: dict[str, float] = {}  # nodes whose host has ended, until when

    def place(self, told: threading.Event) -> None:
        """Until told to end. Raises what ray raises when the cluster is lost, HouseError for a node that says that no
        worker can ever work there, or for a cluster that has had no node for a host for `wait_seconds`; ends the
        process where Ray does not answer."""
        hosted = time.monotonic()
        while not told.wait(LOOK_SECONDS):
            with _at_the_latest(ANSWER_SECONDS, "the Ray cluster does not answer", NO_CLUSTER):
                self.look()
            if self._hosts or any(until < float("inf") for until in self._resting.values()):
                hosted = time.monotonic()
            elif time.monotonic() - hosted > self._address.wait_seconds:
                wanted = f" and the resource {self._address.resource}" if self._address.resource else ""
                raise HouseError(FaultKind.NODE_LOST, f"expected nodes with CPUs{wanted} at {self._address.where}, "
                                 f"found none for {self._address.wait_seconds:g} s that live and are not drained")

    def look(self) -> None:
        """One look at the cluster: forget what is gone, hear what has ended, place what is missing."""
        import ray

        alive = self._nodes()
        for node in self._hosts.keys() - alive:
            _log.warning("node %s is gone", node[:8])
            ray.kill(self._hosts.pop(node).actor, no_restart=True)
        self._resting = {node: until for node, until in self._resting.items() if node in alive}
        if self._hosts:
            by_reference = {one.standing: node for node, one in self._hosts.items()}
            ended, _ = ray.wait(list(by_reference), num_returns=len(by_reference), timeout=0)
            for reference in ended:
                self._hear(by_reference[reference], reference)
        now = time.monotonic()
        for node in alive - self._hosts.keys():
            if self._resting.get(node, 0.0) <= now:
                self._hosts[node] = self._stand(node)
                _log.info("node %s: a host is placed", node[:8])

    def leave(self) -> None:
        """Tell all hosts to end, and end those that have not when their crew's patience is over."""
        import ray

        for one in self._hosts.values():
            one.actor.leave.remote()
        standing = [one.standing for one in self._hosts.values()]
        if standing:
            ray.wait(standing, num_returns=len(standing), timeout=self._crew.drain_seconds + SLACK_SECONDS)
        for one in self._hosts.values():
            ray.kill(one.actor, no_restart=True)

    def _nodes(self) -> set[str]:
        """Those that live and have CPUs (a head without any is for Ray alone)."""
        import ray

        wanted = ("CPU", self._address.resource) if self._address.resource else ("CPU",)
        return {node["NodeID"] for node in ray.nodes()
                if node["Alive"] and all(node["Resources"].get(name, 0) > 0 for name in wanted)}

    def _stand(self, node: str) -> _Placed:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        resource = self._address.resource
        actor = ray.remote(Stand).options(
            num_cpus=self._address.cpus, resources={resource: 0.001} if resource else None, max_restarts=-1,
            max_task_retries=-1, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote(self._post)
        return _Placed(actor=actor, standing=actor.stand.remote(), since=time.monotonic())

    def _hear(self, node: str, reference: object) -> None:
        import ray
        from ray.exceptions import RayError

        placed = self._hosts.pop(node)
        self._resting[node] = time.monotonic() + PAUSE_SECONDS
        try:
            what, why = ray.get(reference)
        except RayError as error:
            what, why = "failed", repr(error)
        _log.warning("node %s: its host has ended: %s %s", node[:8], what, why)
        ray.kill(placed.actor, no_restart=True)
        if what == _DRAINED:
            self._resting[node] = float("inf")  # it will not come back under this id
        elif what == _CANNOT:
            raise HouseError(FaultKind.UNKNOWN, why)


@contextmanager
def _at_the_latest(seconds: float, why: str, code: int) -> Iterator[None]:
    """Ends this process with a code when the block takes longer: nothing else gets out of a call that hangs in Ray."""

    def leave() -> None:
        print(why, file=sys.stderr, flush=True)
        os._exit(code)

    alarm = threading.Timer(seconds, leave)
    alarm.daemon = True
    alarm.start()
    try:
        yield
    finally:
        alarm.cancel()


def _join(found: RayAddress, told: threading.Event) -> int | None:
    """Become a part of the cluster, as soon as there is one; the exit code where that will not be."""
    import ray

    why = f"no Ray cluster at {found.where} for {found.wait_seconds:g} s"
    until, said = time.monotonic() + found.wait_seconds, ""
    with _at_the_latest(found.wait_seconds + ANSWER_SECONDS, why, CANNOT):  # who answers may take its time
        while not told.is_set():
            if time.monotonic() > until:
                print(why, file=sys.stderr)
                return CANNOT
            problem = "nobody listens there"
            if found.answers():
                try:
                    ray.init(address=found.where, namespace="quintain", log_to_driver=False,
                             logging_level=logging.WARNING)
                    return None
                except (ConnectionError, TimeoutError, ray.exceptions.RaySystemError) as error:
                    problem = str(error)
                except RuntimeError as error:  # another version of Ray or Python
                    print(f"the Ray cluster at {found.where} cannot be used: {error}", file=sys.stderr)
                    return CANNOT
                ray.shutdown()
            if problem != said:
                said = problem
                print(f"no Ray cluster at {found.where}: {said}; waiting for one", file=sys.stderr, flush=True)
            told.wait(LOOK_SECONDS)
    return 0


def main(address: str) -> int:
    """The placer, from its start to its end; its exit code."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        print("expected the package ray, found none: pip install 'quintain[ray]'", file=sys.stderr)
        return CANNOT
    post = msgspec.json.decode(os.environ.pop("QUINTAIN_POST"), type=Post)
    found = RayAddress.of(address)
    told = threading.Event()

    def heed() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: told.set())

    heed()
    code = _join(found, told)
    if code is not None:
        return code
    heed()  # once more: ray.init has a handler of its own
    placer = Placer(found, post)
    try:
        placer.place(told)
        placer.leave()
    except HouseError as error:
        print(error, file=sys.stderr)
        return CANNOT
    finally:
        with _at_the_latest(SLACK_SECONDS, "the Ray cluster does not answer", NO_CLUSTER):
            ray.shutdown()
    return 0

"""Sandboxes in pods, against an API server of the tests' own: real HTTP, websockets and processes, and no cluster."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("lightkube", reason="needs the extra kubernetes")
pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate, which checks the manifests")

from lightkube.config.kubeconfig import KubeConfig

from quintain.sandbox import DEFAULT_LIMITS, AgentSandboxBackend
from quintain.testing.sandbox import Report, Verdict, check_backend
from quintain.types import HouseError, Isolation, KilledBy, Limits, Network, Status
from tests.sandbox.api_server import ApiServer, missing, serving

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")
HOSTILE = """
import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    for act in (lambda: os.kill(int(pid), 9), lambda: open(f"/proc/{pid}/fd/1", "wb").write(b"x")):
        if int(pid) != os.getpid():
            try:
                act()
                print("reached", pid)
            except OSError:
                pass
print("done")
"""
SHORT = Limits(wall_seconds=20.0, cpu_seconds=5.0)


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with serving() as found:
        yield found


def backend(server: ApiServer, **more: Any) -> AgentSandboxBackend:
    return AgentSandboxBackend(config=KubeConfig.from_server(server.url), ready_seconds=20.0, **more)


def played(server: ApiServer, act: Callable[[AgentSandboxBackend], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with backend(server) as made:
            await act(made)

    asyncio.run(main())


def test_it_says_what_the_cluster_has_and_what_nothing_measures(server: ApiServer) -> None:
    found = backend(server).probe()
    assert found.available, found.missing
    assert (found.isolation, found.memory, found.processes, found.disk) == (Isolation.GVISOR, "soft", "none", "soft")
    assert not (found.warm or found.snapshot or found.unique_uid)
    plain = backend(server, runtime_class=None).probe()
    assert plain.isolation is Isolation.NAMESPACE, "what the runtime is was not said, so it is not claimed"
    other = backend(server, runtime_class="kata").probe()
    assert not other.available
    assert "expected the RuntimeClass 'kata'" in other.missing["runtime class"]
    nobody = AgentSandboxBackend(config=KubeConfig.from_server("http://127.0.0.1:9")).probe()
    assert "expected a cluster that answers" in nobody.missing["cluster"]


def test_a_program_runs_as_nobody_of_note_and_is_told_apart_from_its_attendant(server: ApiServer) -> None:
    async def act(made: AgentSandboxBackend) -> None:
        async with made.open(limits=SHORT) as [box]:
            outcome = await box.run(["sh", "-c", "id -u; cat; echo no >&2; exit 3"], stdin=b"in\n", env={"A": "b"})
            assert (outcome.status, outcome.exit_code) == (Status.FAILED, 3)
            assert (outcome.stdout, outcome.stderr) == (b"1000\nin\n", b"no\n")
            assert (await box.run(["python3", "-c", HOSTILE])).stdout == b"done\n"
            long = await box.run(["sh", "-c", "setsid sleep 60 & sleep 60"], limits=Limits(wall_seconds=0.5))
            assert (long.status, long.killed_by) == (Status.TIMED_OUT, KilledBy.TIMEOUT)
            left = await box.run(["sh", "-c", "for f in /proc/[0-9]*; do cat $f/comm 2>/dev/null; done"])
            assert b"sleep" not in left.stdout.split(), "what it left behind was killed with it"

    played(server, act)


def test_both_ends_of_a_channel_hear_each_other(server: ApiServer) -> None:
    async def act(made: AgentSandboxBackend) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        answer = "import socket; s=socket.socket(fileno=3); print(s.recv(99).decode()); s.sendall(b'heard')"
        async with made.open(limits=SHORT) as [box]:
            loop = asyncio.get_running_loop()
            async with asyncio.TaskGroup() as group:
                running = group.create_task(box.run(["python3", "-c", answer], channel=theirs.fileno()))
                await loop.sock_sendall(ours, b"question")
                assert await loop.sock_recv(ours, 99) == b"heard"
            assert running.result().stdout == b"question\n"
        ours.close()
        theirs.close()

    played(server, act)


def test_a_pod_that_the_cluster_ends_is_the_house_s_loss_unless_memory_ran_out(server: ApiServer) -> None:
    async def act(made: AgentSandboxBackend) -> None:
        for reason in ("OOMKilled", "Evicted"):
            async with made.open(limits=SHORT) as [box], asyncio.TaskGroup() as group:
                running = group.create_task(_caught(box.run(["sleep", "30"])))
                pod = server.pods[box.id]
                async with asyncio.timeout(20):
                    while not any("/exec" in one and box.id in one for one in server.requests[-1:]):  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
                await asyncio.sleep(0.3)
                pod.ended_for = reason
                await asyncio.to_thread(_kill, pod.pid)
            found = running.result()
            if reason == "OOMKilled":
                assert found.status is Status.OUT_OF_MEMORY
            else:
                assert isinstance(found, HouseError)
                assert "Evicted" in found.message

    played(server, act)


async def _caught(running: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await running
    except HouseError as error:
        return error


def _kill(pid: int) -> None:
    import os

    os.kill(pid, 9)


def test_a_busy_api_and_a_watch_that_is_cut_are_borne(server: ApiServer) -> None:
    server.failures[:] = [503, 429]
    server.cut_watches = 2

    async def act(made: AgentSandboxBackend) -> None:
        async with made.open(limits=SHORT) as [box]:
            assert (await box.run(["echo", "on"])).stdout == b"on\n"

    played(server, act)
    assert not server.failures


def test_a_claim_that_can_never_be_served_fails_at_once_and_leaves_nothing(server: ApiServer) -> None:
    server.unready = {"reason": "WarmPoolNotFound", "message": "no such pool"}

    async def act(made: AgentSandboxBackend) -> None:
        with pytest.raises(HouseError, match="WarmPoolNotFound: no such pool"):
            async with made.open(limits=SHORT, count=3):
                raise AssertionError("expected no sandbox")

    try:
        played(server, act)
    finally:
        server.unready = None
    assert not [name for plural, name in server.objects if plural == "sandboxclaims"]
    assert not server.pods


def test_networks_and_warm_interpreters_are_refused(server: ApiServer) -> None:
    async def act(made: AgentSandboxBackend) -> None:
        with pytest.raises(HouseError, match="expected network 'none'"):
            async with made.open(network=Network.FULL):
                raise AssertionError("expected no sandbox")
        async with made.open(limits=DEFAULT_LIMITS) as [box]:
            with pytest.raises(ValueError, match="no warm interpreter"):
                await box.run(["-c", "pass"], warm=True)

    played(server, act)


#: What a pod could get wrong on its own. The whole kit takes 40 s of CPU: `python -m tests.sandbox.test_agent_sandbox`.
KIT = ("timeout-nothing-left", "not-started", "descriptors", "unknown-image", "odd-socket")


def passed(server: ApiServer, only: Sequence[str]) -> Report:
    async def main() -> Report:
        async with backend(server) as made:
            return await check_backend(made, only)

    return asyncio.run(main())


@pytest.mark.slow
def test_it_passes_what_of_the_kit_pods_could_get_wrong(server: ApiServer) -> None:
    report = passed(server, KIT)
    assert not report.failures, str(report)
    assert report.count(Verdict.PASSED) == len(KIT)


if __name__ == "__main__":
    with serving() as found:
        print(passed(found, ()))

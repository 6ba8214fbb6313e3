"""How fast the API answers an open stream of requests beside a large live run, and what silent connections cost it.

`--rate` requests a second arrive whether or not earlier ones were answered (open loop; the delay counts from when a
request was due, so a stalled server is not flattered), from a process of its own, against a real `quintain serve` with
keys, a run that has ended, a run of `--episodes` live ones whose journal grows by 100 events a second, and as many real
sandboxes as it gives. The mix, in equal parts: all runs, one run of each kind, the live run's episodes and one of them,
standings, a sandbox, a file of it read and written, a command in it, its lease made longer, a run that is asked for in
vain (it is checked and refused), what is offered. `connections` are opened meanwhile and say nothing. Prints
`api_p99_ms`, the same of each kind of request, `refused`, the CPU of server and load for a request, and memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent))

from _http import Http
from _machine import finish
from watch_pages import going_on, opened

from quintain.serve import ApiError, Client, KeyRing, Quota, RunAsked, Scope
from quintain.store import Definition, Run
from quintain.types import Closed, Stop


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Asked(NamedTuple):
    """A kind of request, and the status of its answer."""

    name: str
    path: str
    method: str = "GET"
    body: bytes = b""
    kind: str = "application/json"
    status: int = 200


def mix(ended: str, box: str, episodes: int) -> list[Asked]:
    """Every kind of request as often as each other."""
    place, live = f"/v1/sandboxes/{box}", "/v1/runs/live"
    return [
        Asked("listRuns", "/v1/runs"), Asked("getRun", f"/v1/runs/{ended}"), Asked("getRun live", live),
        Asked("listEpisodes", f"{live}/episodes?limit=20"),
        Asked("listEpisodes later", f"{live}/episodes?limit=20&after={episodes // 2}"),
        Asked("getEpisode", f"{live}/episode?id=t7%230"), Asked("listStandings", "/v1/standings?limit=20"),
        Asked("getSandbox", place), Asked("readFile", f"{place}/files?path=a.txt"),
        Asked("writeFile", f"{place}/files?path=b.txt", "PUT", b"x" * 1000, "application/octet-stream", 204),
        Asked("runCommand", f"{place}/commands", "POST", b'{"argv":["true"]}'),
        Asked("renewLease", f"{place}/lease", "POST", b'{"lease_seconds":600}'),
        Asked("submitRun refused", "/v1/runs", "POST", b'{"taskset":"none","policy":"repair"}', status=422),
        Asked("getOffer", "/v1/offer"),
    ]


async def load(
    http: Http, asked: list[Asked], *, rate: float, seconds: float,
) -> tuple[dict[str, list[float]], int]:
    """Delays in seconds by kind of request, and how many answers were not what they should be."""
    draw, bad = random.Random(0), 0
    delays: dict[str, list[float]] = {one.name: [] for one in asked}

    async def one(what: Asked, due: float) -> None:
        nonlocal bad
        try:
            async with asyncio.timeout(30):
                bad += await http.ask(what.method, what.path, what.body, what.kind) != what.status
        except (OSError, EOFError):  # turned away, or too late
            bad += 1
        delays[what.name].append(time.monotonic() - due)

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        due = began
        while due < began + seconds:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            group.create_task(one(draw.choice(asked), due))
            due += draw.expovariate(rate)
    return delays, bad


def grow(run: Run, episodes: int, per_second: int, over: threading.Event) -> None:
    """The live run goes on until it is `over`: its episodes end, one after another, and others begin."""
    nth = 0
    while not over.wait(2 / per_second):
        run.journal.append(Closed(episode=f"t{nth}#0", index=3, at_seconds=2.0, stop=Stop.GAVE_UP))
        run.journal.append(opened(episodes + nth))
        nth += 1


async def silent(url: str, count: int) -> list[asyncio.StreamWriter]:
    """Open connections that say nothing, from twenty addresses; those that are turned away count too."""
    place, held = urlsplit(url), []
    for nth in range(count):
        try:
            held.append((await asyncio.open_connection(
                place.hostname, place.port, local_addr=(f"127.0.1.{1 + nth % 20}", 0)))[1])
        except OSError:
            await asyncio.sleep(0.01)
    return held


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def play(
    url: str, key: str, asked: list[Asked], options: argparse.Namespace, pid: int, live: Run,
) -> dict[str, object]:
    http = Http(url, authorization=f"Bearer {key}")
    over = threading.Event()
    growing = threading.Thread(target=grow, args=(live, options.episodes, 100, over))
    growing.start()
    await load(http, asked, rate=50, seconds=4)  # what is loaded with the first request is loaded now
    used, own, began = cpu_seconds(pid), time.process_time(), time.monotonic()
    by_name, bad = await load(http, asked, rate=options.rate, seconds=options.seconds)
    used, own, took = cpu_seconds(pid) - used, time.process_time() - own, time.monotonic() - began
    before = resident_bytes(pid)
    held = await silent(url, options.connections)
    besieged_by_name, shut = await load(http, asked, rate=options.rate, seconds=min(5.0, options.seconds))
    after = resident_bytes(pid)
    over.set()
    growing.join()
    http.close()
    for one in held:
        one.close()
    delays = [delay for some in by_name.values() for delay in some]
    besieged = [delay for some in besieged_by_name.values() for delay in some]
    return {
        "requests": len(delays), "per_second": round(len(delays) / took, 1), "rate": options.rate, "refused": bad,
        "api_p50_ms": round(1000 * quantile(delays, 0.5), 2), "api_p99_ms": round(1000 * quantile(delays, 0.99), 2),
        "api_max_ms": round(1000 * max(delays), 2),
        "p99_ms_of_each": {name: round(1000 * quantile(some, 0.99), 1) for name, some in by_name.items()},
        "server_cpu_ms_per_request": round(1000 * used / len(delays), 3),
        "load_cpu_ms_per_request": round(1000 * own / len(delays), 3), "silent_connections": len(held),
        "besieged_p99_ms": round(1000 * quantile(besieged, 0.99), 2), "besieged_refused": shut,
        "resident_mib": round(before / 2**20, 1), "besieged_resident_mib": round(after / 2**20, 1),
    }


def live_run(runs: Path, episodes: int) -> Run:
    """A run that the server finds and does not play: this script writes on in its journal."""
    run = Run.create(runs, Definition(taskset="s", policy="p"), name="live")
    served = {"asked": {"taskset": "s", "policy": "p"}, "state": "ended", "submitted_unix_seconds": time.time()}
    (run.path / "served.json").write_text(json.dumps(served))
    for nth in range(episodes):
        for event in (opened(nth), *going_on(nth)):
            run.journal.append(event)
    return run


def sandboxes(client: Client, most: int) -> list[str]:
    """As many as the server gives, and no more than so many."""
    found: list[str] = []
    while len(found) < most:
        try:
            found.append(client.open_sandbox(lease_seconds=1_200).id)
        except ApiError:  # it has no more
            break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--sandboxes", type=int, default=64)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        finish(bench="serve", **measure(Path(folder), options))


def measure(root: Path, options: argparse.Namespace) -> dict[str, object]:
    ring = KeyRing(root / "keys.json")
    key, _ = ring.create("bench", Scope)
    ring.allow("bench", Quota(requests_per_second=10_000, burst=10_000, sandboxes=options.sandboxes))
    server: subprocess.Popen[str] | None = None
    with live_run(root / "tenants" / "bench" / "runs", options.episodes) as live:
        try:
            server = subprocess.Popen([sys.executable, "-m", "quintain", "serve", str(root), "--port", "0",
                                       "--sandboxes", str(options.sandboxes)], stderr=subprocess.PIPE, text=True)
            assert server.stderr is not None
            url = server.stderr.readline().split()[1]
            with Client(url, key) as client:
                run = client.submit(RunAsked(taskset="repair-heldout", policy="repair", take=20, sandboxes=2)).id
                for _ in client.follow(run):
                    pass
                boxes = sandboxes(client, options.sandboxes)
                client.write_file(boxes[0], "a.txt", b"x" * 1000)
            asked = mix(run, boxes[0], options.episodes)
            return {"episodes": options.episodes, "sandboxes": len(boxes),
                    **asyncio.run(play(url, key, asked, options, server.pid, live))}
        finally:
            if server is not None:
                server.send_signal(signal.SIGTERM)
                server.wait(60)


if __name__ == "__main__":
    main()

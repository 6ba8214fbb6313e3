"""How fast the API answers an open stream of requests, and what many silent connections cost it.

`--rate` requests a second arrive whether or not earlier ones were answered (open loop; the delay counts from when a
request was due, so a stalled server is not flattered), from a process of its own, against a real `quintain serve` with
keys, a run that has ended, and a sandbox. The mix: lists, one run, its episodes, its standings, files of a sandbox.
`connections` are opened meanwhile and say nothing. Prints `api_p99_ms`, `refused` and the server's CPU and memory.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent))

import httpx
from _machine import finish

from quintain.serve import Client, KeyRing, Quota, RunAsked, Scope


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def load(url: str, key: str, paths: list[str], *, rate: float, seconds: float) -> tuple[list[float], int]:
    """Delays in seconds, and how many answers were not 200."""
    draw, delays, bad = random.Random(0), [], 0
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
    async with httpx.AsyncClient(
        base_url=url, headers={"authorization": f"Bearer {key}"}, limits=limits, timeout=30,
    ) as client:

        async def one(path: str, due: float) -> None:
            nonlocal bad
            try:
                bad += (await client.get(path)).status_code != 200
            except httpx.TransportError:  # turned away
                bad += 1
            delays.append(time.monotonic() - due)

        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            due = began
            while due < began + seconds:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                group.create_task(one(draw.choice(paths), due))
                due += draw.expovariate(rate)
    return delays, bad


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


async def play(url: str, key: str, paths: list[str], options: argparse.Namespace, pid: int) -> None:
    await load(url, key, paths, rate=50, seconds=2)  # what is loaded with the first request is loaded now
    used, began = cpu_seconds(pid), time.monotonic()
    delays, bad = await load(url, key, paths, rate=options.rate, seconds=options.seconds)
    used, took = cpu_seconds(pid) - used, time.monotonic() - began
    before = resident_bytes(pid)
    held = await silent(url, options.connections)
    besieged, shut = await load(url, key, paths, rate=options.rate, seconds=min(5.0, options.seconds))
    after = resident_bytes(pid)
    for one in held:
        one.close()
    finish(
        bench="serve", requests=len(delays), per_second=round(len(delays) / took, 1), rate=options.rate, refused=bad,
        api_p50_ms=round(1000 * quantile(delays, 0.5), 2), api_p99_ms=round(1000 * quantile(delays, 0.99), 2),
        api_max_ms=round(1000 * max(delays), 2), server_cpu_ms_per_request=round(1000 * used / len(delays), 3),
        silent_connections=len(held), besieged_p99_ms=round(1000 * quantile(besieged, 0.99), 2), besieged_refused=shut,
        resident_mib=round(before / 2**20, 1), besieged_resident_mib=round(after / 2**20, 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--connections", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        ring = KeyRing(root / "keys.json")
        key, _ = ring.create("bench", Scope)
        ring.allow("bench", Quota(requests_per_second=10_000, burst=10_000))
        server = subprocess.Popen(
            [sys.executable, "-m", "quintain", "serve", folder, "--port", "0"], stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            url = server.stderr.readline().split()[1]
            with Client(url, key) as client:
                run = client.submit(RunAsked(taskset="repair-heldout", policy="repair", take=20, sandboxes=2)).id
                for _ in client.follow(run):
                    pass
                box = client.open_sandbox(lease_seconds=600).id
                client.write_file(box, "a.txt", b"x" * 1000)
            paths = ["/v1/runs", f"/v1/runs/{run}", f"/v1/runs/{run}/episodes?limit=20", "/v1/standings?limit=20",
                     f"/v1/sandboxes/{box}", f"/v1/sandboxes/{box}/files?path=a.txt", "/v1/offer"]
            asyncio.run(play(url, key, paths, options, server.pid))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


if __name__ == "__main__":
    main()

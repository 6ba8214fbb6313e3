"""How long until N sandboxes are started, initialised, connected and answering, all alive at once?

The training server (this process) asks the engines for N sandboxes; each is a set of namespaces with limits, filter,
user and work tree of its own, writes one file, and answers a ping over its connection. Compared in the same run with
the bare `clone3` of the same namespaces, held alive, which no sandbox can beat. On cgroup v1 a sandbox among many
takes its control groups with its first program (until then it holds the agent alone); eight spread over all then run
a program that takes too much memory, and one that starts too many processes, all others alive: `limits_held`.

    .venv/bin/python bench/sandbox_burst.py --count 5000 [--network none] [--rootless] [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _machine import finish

from quintain.sandbox import NativeBackend, Sandbox
from quintain.types import MEBIBYTE, Limits, Status

LIMITS = Limits(memory_bytes=256 * MEBIBYTE, disk_bytes=16 * MEBIBYTE, inodes=4096, processes=64)
FLOOR = r"""
#define _GNU_SOURCE
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(int argc, char **argv) {
  int n = atoi(argv[1]), net = atoi(argv[2]), user = atoi(argv[3]), workers = atoi(argv[4]); (void)argc;
  int done[2]; char c; if (pipe(done)) return 1;
  double start = now();
  for (int w = 0; w < workers; w++) if (!fork()) {
    pid_t *p = calloc(n, sizeof *p); int k = 0;
    for (int i = w; i < n; i += workers) {
      struct clone_args a; memset(&a, 0, sizeof a); a.exit_signal = SIGCHLD;
      a.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWCGROUP;
      if (net) a.flags |= CLONE_NEWNET;
      if (user) a.flags |= CLONE_NEWUSER;
      p[k] = syscall(SYS_clone3, &a, sizeof a);
      if (p[k] == 0) for (;;) pause();
      if (p[k] < 0) return 1;
      k++;
    }
    if (write(done[1], "x", 1) != 1) return 1;
    pause();
  }
  for (int w = 0; w < workers; w++) if (read(done[0], &c, 1) != 1) return 1;
  printf("%f\n", now() - start); fflush(stdout);
  kill(0, SIGKILL);
  return 0;
}
"""


def floor_seconds(folder: Path, count: int, *, network: bool, rootless: bool) -> float:
    """Seconds in which bare clone3 makes as many processes with the same namespaces."""
    program = folder / "floor"
    if not program.exists():
        (folder / "floor.c").write_text(FLOOR)
        subprocess.run(["cc", "-O2", "-o", str(program), str(folder / "floor.c")], check=True)
    words = [str(program), str(count), str(int(network)), str(int(rootless)), str(len(os.sched_getaffinity(0)))]
    done = subprocess.run(words, capture_output=True, text=True, start_new_session=True, check=False)
    if not done.stdout:
        raise SystemExit(f"the floor program failed: {done.stderr}")
    time.sleep(1.0)  # the kernel is still taking its namespaces down
    return float(done.stdout)


def available_bytes() -> int:
    line = next(x for x in Path("/proc/meminfo").read_text().splitlines() if x.startswith("MemAvailable"))
    return int(line.split()[1]) * 1024


async def bounded(box: Sandbox) -> bool:
    """Whether memory and processes have their limits in this one."""
    hog = await box.run(["python3", "-I", "-S", "-c", "x = bytes(range(256)) * (400 << 12); print(len(x))"])
    crowd = await box.run(["sh", "-c", "i=0; while [ $i -lt 90 ]; do sleep 9 & i=$((i+1)); done; echo all"])
    return hog.status is Status.OUT_OF_MEMORY and b"all" not in crowd.stdout


async def burst(count: int, *, network: str, rootless: bool) -> dict[str, float]:
    """One round: seconds to all alive, KiB each, seconds to all gone, failures, CPU milliseconds each."""
    async with NativeBackend(rootless=rootless or None, loopback=network == "loopback") as backend:
        async with backend.open(limits=LIMITS):
            pass  # the engines stand; sandboxes are what is measured
        before = available_bytes()
        start = time.perf_counter()
        failures = 0
        async with backend.open(count=count, limits=LIMITS) as boxes:
            async def greet(box: Sandbox) -> None:
                nonlocal failures
                await box.files.write("task.json", b'{"task": 1}\n')
                await box.ping()

            for at in range(0, count, 500):
                try:
                    async with asyncio.TaskGroup() as group:
                        for box in boxes[at : at + 500]:
                            group.create_task(greet(box))
                except* Exception as errors:
                    failures += len(errors.exceptions)
            alive = time.perf_counter() - start
            kib = max(0, before - available_bytes()) / 1024 / count
            again = time.perf_counter()
            for box in boxes:
                await box.ping()
            second = time.perf_counter() - again
            held = 0
            for box in boxes[:: max(1, count // 8)][:8]:
                held += await bounded(box)
            closing = time.perf_counter()
        gone = time.perf_counter() - closing
    return {"alive": alive, "kib": kib, "gone": gone, "failures": failures, "ping_all": second, "held": held}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--network", choices=("loopback", "none"), default="loopback")
    parser.add_argument("--rootless", action="store_true", help="in a user namespace, without root's help")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="1,000 sandboxes, 3 rounds")
    args = parser.parse_args()
    if args.quick:
        args.count, args.rounds = min(args.count, 1000), 3
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    folder = Path(tempfile.mkdtemp(prefix="quintain-bench-"))
    rounds: list[dict[str, float]] = []
    try:
        for number in range(args.rounds):
            floor = floor_seconds(folder, args.count, network=args.network == "loopback", rootless=args.rootless)
            found = asyncio.run(burst(args.count, network=args.network, rootless=args.rootless))
            found["ratio"] = found["alive"] / floor
            rounds.append(found)
            print(f"round {number + 1}: alive {found['alive']:.2f} s, floor {floor:.2f} s, gone {found['gone']:.2f} s, "
                  f"{found['kib']:.0f} KiB each, second ping to all {found['ping_all']:.2f} s", file=sys.stderr)
    finally:
        shutil.rmtree(folder)
    middle = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
    finish(
        bench="sandbox_burst", count=args.count, network=args.network, rootless=args.rootless, rounds=args.rounds,
        alive_seconds=round(middle["alive"], 3), best_seconds=round(min(r["alive"] for r in rounds), 3),
        failures=int(sum(r["failures"] for r in rounds)),
        limits_held=f"{int(min(r['held'] for r in rounds))}/8", kib_each=round(middle["kib"], 1),
        gone_seconds=round(middle["gone"], 3), floor_ratio=round(middle["ratio"], 2),
        per_second_per_core=round(args.count / middle["alive"] / len(os.sched_getaffinity(0)), 1),
    )


if __name__ == "__main__":
    main()

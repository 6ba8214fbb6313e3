"""What the graders of quality find, and how often they are wrong: on the native backend, with real programs.

    .venv/bin/python bench/graders.py [--quick] [--only mutation,performance,leak] [--data DIR]

mutation: every mutant of HumanEval's canonical solutions against HumanEval's own tests. performance: identical programs
must be called equal and ones that do everything twice slower, over several small kernels with fresh inputs. leak:
programs that keep some 100 KiB of each call, and the same ones without. The last line is one JSON object. Timings need
an otherwise idle machine: the load is printed with it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

from _machine import finish

from quintain.grade import Memory, Oracle, Performance, kill_rate, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite, open_taskset
from quintain.types import Attempt, Entry, Limits, Program, TaskError

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
LIMITS = Limits(wall_seconds=20.0, cpu_seconds=10.0, memory_bytes=256 * 1024 * 1024)
PARTS = ("mutation", "performance", "leak")

#: Name → (a function `f`, the text of its arguments by a random generator `r`); each call is some ms of CPU.
KERNELS = {
    "sum": ("def f(n):\n    t = 0\n    for i in range(n):\n        t += i * i % 7\n    return t\n",
            "(r.randrange(90_000, 99_000),)"),
    "sieve": ("def f(n):\n    s = [True] * n\n    for i in range(2, n):\n        if s[i]:\n"
              "            for j in range(i * i, n, i):\n                s[j] = False\n    return sum(s)\n",
              "(r.randrange(50_000, 55_000),)"),
    "words": ("def f(seed):\n    d = {}\n    for i in range(40_000):\n        w = str(i * seed % 977)\n"
              "        d[w] = d.get(w, 0) + 1\n    return max(d.values())\n", "(r.randrange(1, 900),)"),
    "sort": ("def f(seed):\n    x, out = seed, []\n    for _ in range(30_000):\n        x = x * 48271 % 2147483647\n"
             "        out.append(x)\n    return sorted(out, key=lambda v: -v)[7]\n", "(r.randrange(1, 10**6),)"),
    "strings": ("def f(n):\n    parts = [chr(97 + i % 26) for i in range(n)]\n    text = ''.join(parts)\n"
                "    return sum(text[i:i + 5].count('a') for i in range(len(text)))\n",
                "(r.randrange(40_000, 44_000),)"),
}
WORKLOAD = "import random\ndef inputs(seed):\n    r = random.Random(seed)\n    return [{} for _ in range(3)]\n"


def twice(source: str) -> str:
    """The same function, done two times over."""
    return source.replace("def f(", "def once(") + "def f(x):\n    once(x)\n    return once(x)\n"


def leaking(source: str) -> str:
    """The same function, keeping 100 KB of each call."""
    return "kept = []\n" + source.replace("def f(", "def once(") + (
        "def f(x):\n    kept.append(bytes([1]) * 100_000)\n    return once(x)\n")


def item_of(name: str) -> Item:
    source, arguments = KERNELS[name]
    suite = PythonSuite(files={
        "test_it.py": b"from solution import f\ndef test():\n    assert f(10) is not None\n",
        "workload.py": WORKLOAD.format(arguments).encode()})
    return Item.sealed(Exam(hidden=suite, oracle={"solution.py": source.encode()}), id=name, instructions="f",
                       entry=Entry(name="f"))


def attempt_of(item: Item, source: str) -> Attempt:
    return Attempt(task=item.task, program=Program(files={"solution.py": source.encode()}))


async def mutation(args: argparse.Namespace) -> dict[str, object]:
    items = list(open_taskset("humaneval", data=args.data, take=12 if args.quick else None))
    rates: list[float] = []
    total = killed = unsound = 0
    operators: Counter[str] = Counter()
    alive: Counter[str] = Counter()
    started = time.monotonic()
    async with NativeBackend(warm=warm_oracle()) as backend:
        oracle = Oracle(backend)
        for number, item in enumerate(items, 1):
            found = await kill_rate(oracle, item.exam.hidden, Program(files=item.exam.oracle or {}), limits=LIMITS)
            unsound += not found.sound
            total, killed = total + len(found.mutants), killed + found.killed
            operators.update(mutant.operator.value for _, mutant in found.mutants)
            alive.update(mutant.operator.value for _, mutant in found.survivors)
            if found.rate is not None:
                rates.append(found.rate)
            if number % 20 == 0:
                print(f"{number} of {len(items)} tasks, {total} mutants", file=sys.stderr, flush=True)
    return {
        "mutation_tasks": len(items), "mutation_unsound": unsound, "mutants": total,
        "mutants_killed_share": round(killed / total, 4), "mutation_mean": round(statistics.fmean(rates), 4),
        "mutation_below_80": sum(rate < 0.8 for rate in rates), "mutation_below_90": sum(rate < 0.9 for rate in rates),
        "mutation_worst": round(min(rates), 3), "mutation_seconds": round(time.monotonic() - started, 1),
        "mutation_killed_by_operator": {
            name: round(1 - alive[name] / count, 3) for name, count in sorted(operators.items())},
    }


async def performance(args: argparse.Namespace) -> dict[str, object]:
    rounds = 1 if args.quick else 8
    same: list[float | None] = []
    slow: list[float | None] = []
    started = time.monotonic()
    async with NativeBackend(warm=warm_oracle()) as backend:
        grader = Performance(backend, oracle=Oracle(backend))
        for number in range(rounds):
            for name in KERNELS:
                item = item_of(name)
                item = Item.sealed(item.exam, id=f"{name}-{number}", instructions="f", entry=Entry(name="f"))
                for source, into in ((KERNELS[name][0], same), (twice(KERNELS[name][0]), slow)):
                    if into is slow and number >= max(1, rounds // 2):
                        continue
                    (score,) = await grader.grade(attempt_of(item, source), item)
                    into.append(score.value)
                    print(f"{name} {score.value} {score.evidence}", file=sys.stderr, flush=True)
    judged, seen = [v for v in same if v is not None], [v for v in slow if v is not None]
    return {
        "performance_identical": len(same), "performance_identical_unmeasured": len(same) - len(judged),
        "performance_false_sign": sum(v != 0.5 for v in judged),
        "performance_twice": len(slow), "performance_twice_unmeasured": len(slow) - len(seen),
        "performance_twice_detected": sum(v < 0.5 for v in seen),
        "performance_seconds": round(time.monotonic() - started, 1),
    }


async def leak(args: argparse.Namespace) -> dict[str, object]:
    names = list(KERNELS)[: 2 if args.quick else None]
    clean: list[float | None] = []
    found: list[float | None] = []
    started = time.monotonic()
    async with NativeBackend(warm=warm_oracle()) as backend:
        grader = Memory(backend, oracle=Oracle(backend))
        for name in names:
            item = item_of(name)
            for source, into in ((KERNELS[name][0], clean), (leaking(KERNELS[name][0]), found)):
                scores = {score.name: score for score in await grader.grade(attempt_of(item, source), item)}
                into.append(scores["leak"].value)
                print(f"{name} {scores['leak'].value} {scores['leak'].evidence}", file=sys.stderr, flush=True)
    return {
        "leak_clean": len(clean), "leak_false": sum(v is not None and v < 0.5 for v in clean),
        "leak_leaking": len(found), "leak_detected": sum(v is not None and v < 0.5 for v in found),
        "leak_seconds": round(time.monotonic() - started, 1),
    }


async def main(args: argparse.Namespace) -> dict[str, object]:
    figures: dict[str, object] = {}
    missing: dict[str, str] = {}
    for part in args.only.split(","):
        try:
            figures.update(await {"mutation": mutation, "performance": performance, "leak": leak}[part](args))
        except TaskError as error:
            missing[part] = str(error)
    return {**figures, "missing": missing}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="12 tasks, one round, two leaks")
    parser.add_argument("--only", default=",".join(PARTS), help="some of %(default)s, joined by commas")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of task sets (default: %(default)s)")
    options = parser.parse_args()
    if unknown := set(options.only.split(",")) - set(PARTS):
        parser.error(f"expected some of {', '.join(PARTS)}, found {', '.join(sorted(unknown))}")
    finish(bench="graders", **asyncio.run(main(options)))

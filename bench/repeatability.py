"""The same candidate gets the same verdict again and again, and what the house breaks is never laid on it, nor paid.

    .venv/bin/python bench/repeatability.py [--quick] [--times N] [--blows N] [--seed N]

Part one judges each candidate N times (default 100), in a shuffled order, each time with another seed, on alternating
"nodes": a backend with a warm interpreter, one without, one whose disk and start are slow; during a third of the time
other programs want every CPU. A verdict is equal when the solved flag, every test's result, the class of the headline
fault and the reward are those of the candidate's most frequent verdict; equal_kind_share wants the same kind as well
(an endless loop ends by its wall time or by its CPU time, whichever a busy machine lets it reach first).

Part two judges honest and wrong candidates while one blow falls on the house: SIGKILL for a spawner, for the first
process of a sandbox, for the verifier's and the candidate's interpreter at a random moment; a sandbox that cannot be
opened or is lost; too little memory on the verifier's side; a full work tree on either side; delays. Only processes
that this script started are killed. The last line is one JSON object: blamed_on_policy counts verdicts that hold a
failure of the policy which the undisturbed verdict does not; rewarded those that are solved though the undisturbed one
is not.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress

import msgspec
from _machine import finish

from quintain.grade import Oracle, headline, reward_of, warm_oracle
from quintain.sandbox import Backend, NativeBackend
from quintain.tasks import PythonSuite
from quintain.testing import Blow, FaultyBackend, Planned
from quintain.types import MEBIBYTE, HouseError, Limits, Program, Verdict

WORKERS = 3
LIMITS = Limits(wall_seconds=3.0, cpu_seconds=1.5, memory_bytes=192 * MEBIBYTE)
TESTS = b'''\
from solution import pairs, total


def test_total():
    assert total([3, 4, 5]) == 12


def test_total_of_nothing():
    assert total([]) == 0


def test_much():
    held = b"x" * (72 * 1024 * 1024)  # a test that needs memory of its own
    assert total([len(held), 1]) == len(held) + 1


def test_pairs():
    assert pairs([1, 2, 3]) == [(1, 2), (2, 3)]
'''
SUITE = PythonSuite(files={"test_solution.py": TESTS})
TOTAL = "def total(numbers):\n    return sum(numbers)\n\n\n"
PAIRS = "def pairs(items):\n    return list(zip(items, items[1:]))\n"
CANDIDATES = {
    "honest": TOTAL + PAIRS,
    "honest_slow": "import time\n\n\ndef total(numbers):\n    time.sleep(0.1)\n    return sum(numbers)\n\n\n" + PAIRS,
    "honest_printing": "print('loading' * 1000)\n" + TOTAL + PAIRS,
    "wrong_value": TOTAL.replace("sum(numbers)", "sum(numbers) + 1") + PAIRS,
    "wrong_type": TOTAL + PAIRS.replace("list(", "tuple("),
    "half": TOTAL,
    "raises": TOTAL + "def pairs(items):\n    raise KeyError(items[9])\n",
    "does_not_compile": "def total(numbers:\n",
    "spins": TOTAL + "def pairs(items):\n    while True:\n        pass\n",
    "sleeps": TOTAL + "import time\n\n\ndef pairs(items):\n    time.sleep(60)\n",
    "eats_memory": TOTAL + "def pairs(items):\n    return [bytearray(10**7) for _ in range(10**4)]\n",
    "recurses": TOTAL + "def pairs(items):\n    return pairs(items)\n",
    "exits": TOTAL + "import os\n\n\ndef pairs(items):\n    os._exit(0)\n",
    "kills_itself": TOTAL + "import os\n\n\ndef pairs(items):\n    os.kill(os.getpid(), 9)\n",
    "pleases": "class Any:\n    def __eq__(self, other):\n        return True\n\n\n"
               "def total(n):\n    return Any()\n\n\npairs = total\n",
}
#: Those whose verdict takes seconds are not judged under blows: a blow at a random moment would mostly miss.
STRUCK = ("honest", "honest_slow", "honest_printing", "wrong_value", "wrong_type", "half", "raises")


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One verdict, as far as two must agree."""

    solved: bool
    tests: tuple[str, ...]
    letter: str
    reward: float | None

    @classmethod
    def of(cls, verdict: Verdict, reward: float) -> Judged:
        return cls(solved=verdict.solved, tests=tuple(f"{t.id} {t.passed.value}" for t in verdict.tests),
                   letter=kind_of(verdict)[:1], reward=round(reward, 6))


HOUSE = Judged(solved=False, tests=(), letter="house", reward=None)


def kind_of(verdict: Verdict | None) -> str:
    fault = headline(verdict) if verdict else None
    return fault.label if fault else "solved" if verdict else "house"


async def judge(backend: Backend, source: str, seed: int) -> tuple[Judged, Verdict | None]:
    """A verdict, or HOUSE where the house is at fault: raised, or said by a verdict without a reward."""
    try:
        verdict = await Oracle(backend).grade(
            SUITE, Program(files={"solution.py": source.encode()}), limits=LIMITS, seed=seed)
    except HouseError:
        return HOUSE, None
    reward = reward_of(verdict)
    return (HOUSE if reward is None else Judged.of(verdict, reward.total)), verdict


@contextmanager
def busy(count: int):  # type: ignore[no-untyped-def]
    """So many other programs that want a CPU each."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


@asynccontextmanager
async def nodes() -> AsyncIterator[dict[str, Backend]]:
    async with AsyncExitStack() as stack:
        warm = await stack.enter_async_context(NativeBackend(warm=warm_oracle()))
        cold = await stack.enter_async_context(NativeBackend(engines=1))
        slow = FaultyBackend(cold, [Planned(blow=Blow.DELAY, nth=-1, seconds=0.02)])
        yield {"warm": warm, "cold": cold, "slow": slow}


Seen = dict[str, Counter[tuple[Judged, str]]]


async def repeat(times: int, seed: int) -> Seen:
    """Every candidate judged so often, in three shuffled passes of which the last is on a busy machine."""
    seen: Seen = {name: Counter() for name in CANDIDATES}
    chance = random.Random(seed)
    work = [(name, n) for name in CANDIDATES for n in range(times)]
    chance.shuffle(work)
    third = len(work) // 3
    async with nodes() as backends:
        kinds = list(backends)
        for part, hogs in ((work[third:], 0), (work[:third], 2)):
            todo = iter(part)
            with busy(hogs):
                async with asyncio.TaskGroup() as group:
                    async def worker(todo=todo) -> None:  # type: ignore[no-untyped-def]
                        for name, n in todo:
                            node = backends[kinds[n % len(kinds)]]
                            found, verdict = await judge(node, CANDIDATES[name], seed * 1000 + n)
                            seen[name][found, kind_of(verdict)] += 1
                    for _ in range(WORKERS):
                        group.create_task(worker())
    return seen


BLOWS: Sequence[tuple[Blow, int]] = (
    (Blow.KILL_SPAWNER, 0), (Blow.KILL_AGENT, 0), (Blow.KILL_AGENT, 1), (Blow.KILL_PROGRAM, 0),
    (Blow.KILL_PROGRAM, 1), (Blow.REFUSE, 0), (Blow.REFUSE, 1), (Blow.LOSE, 0), (Blow.LOSE, 1), (Blow.STARVE, 0),
    (Blow.FILL, 0), (Blow.FILL, 1), (Blow.DELAY, 0), (Blow.KILL_PROGRAM, 2), (Blow.KILL_PROGRAM, 3),
    (Blow.KILL_AGENT, 3), (Blow.STARVE, 2), (Blow.FILL, 2), (Blow.FILL, 3),
)


class Struck(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    plan: Planned
    fell: bool
    found: Judged
    truth: Judged

    @property
    def blamed(self) -> bool:
        return self.found not in (HOUSE, self.truth) and not self.found.solved

    @property
    def rewarded(self) -> bool:
        return self.found.solved and not self.truth.solved


async def strike(count: int, seed: int, truths: dict[str, Judged]) -> list[Struck]:
    """`count` verdicts, each with one blow at a random moment; a killed spawner gets a backend of its own."""
    chance = random.Random(seed)
    work = [(STRUCK[n % len(STRUCK)], BLOWS[n % len(BLOWS)], n) for n in range(count)]
    todo = iter(work)
    done: list[Struck] = []

    async def one(name: str, blow: Blow, nth: int, n: int, shared: Sequence[Backend]) -> Struck:
        seconds = chance.uniform(0.0, 0.02 if blow is Blow.DELAY else 0.35)
        plan = Planned(blow=blow, nth=nth, seconds=seconds, amount=chance.choice((24, 40, 56)) * MEBIBYTE)
        if blow is Blow.KILL_SPAWNER:
            async with NativeBackend(engines=1) as own:
                faulty = FaultyBackend(own, [plan])
                found, _ = await judge(faulty, CANDIDATES[name], n)
        else:
            faulty = FaultyBackend(shared[n % len(shared)], [plan])
            found, _ = await judge(faulty, CANDIDATES[name], n)
        return Struck(name=name, plan=plan, fell=bool(faulty.struck), found=found, truth=truths[name])

    async with (
        NativeBackend(warm=warm_oracle()) as warm, NativeBackend(engines=1) as cold, asyncio.TaskGroup() as group,
    ):
        async def worker() -> None:
            for name, (blow, nth), n in todo:
                done.append(await one(name, blow, nth, n, (warm, cold)))
        for _ in range(WORKERS):
            group.create_task(worker())
    return done


def most(counts: Counter[tuple[Judged, str]]) -> tuple[Judged, int]:
    """The most frequent verdict of a candidate, and how often it came, whatever the kind of fault within its class."""
    merged: Counter[Judged] = Counter()
    for (found, _), n in counts.items():
        merged[found] += n
    return merged.most_common(1)[0]


def report(seen: Seen, struck: list[Struck]) -> dict[str, object]:
    for name, counts in seen.items():
        if len(counts) > 1:
            told = ", ".join(f"{n} x {kind} {found.reward}" for (found, kind), n in counts.most_common())
            print(f"not equal    {name}: {told}")
    for one in struck:
        if one.blamed or one.rewarded:
            print(f"{'paid' if one.rewarded else 'blamed'} {one.name} under {one.plan}: {one.found}")
    judged = sum(sum(counts.values()) for counts in seen.values())
    equal = sum(most(counts)[1] for counts in seen.values())
    same_kind = sum(counts.most_common(1)[0][1] for counts in seen.values())
    fell = [one for one in struck if one.fell]
    by_blow = Counter(f"{one.plan.blow.value}" for one in fell)
    house = [one for one in fell if one.found == HOUSE]
    blamed, rewarded = sum(one.blamed for one in struck), sum(one.rewarded for one in struck)
    return {
        "judged": judged, "candidates": len(seen), "equal_share": round(equal / judged, 5),
        "equal_kind_share": round(same_kind / judged, 5),
        "blows": len(fell), "blows_by_kind": dict(sorted(by_blow.items())), "missed": len(struck) - len(fell),
        "house_faults": len(house), "unharmed": sum(one.found == one.truth for one in fell),
        "blamed_on_policy": blamed, "blamed_share": round(blamed / len(fell), 5) if fell else None,
        "rewarded": rewarded,
    }


def truth_of(seen: Seen) -> dict[str, Judged]:
    return {name: most(counts)[0] for name, counts in seen.items()}


async def main(args: argparse.Namespace) -> dict[str, object]:
    seen = await repeat(args.times, args.seed)
    print(f"{sum(map(sum, (c.values() for c in seen.values())))} verdicts", file=sys.stderr, flush=True)
    struck = await strike(args.blows, args.seed, truth_of(seen)) if os.geteuid() == 0 else []
    return {**report(seen, struck), "missing": {} if struck else {"blows": "needs root to kill what runs inside"}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer of each, within 50 s")
    parser.add_argument("--times", type=int, help="how often each candidate is judged (default 100, quick 2)")
    parser.add_argument("--blows", type=int, help="how many verdicts are disturbed (default 1200, quick 38)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.times = options.times or (2 if options.quick else 100)
    options.blows = options.blows or (38 if options.quick else 1200)
    started = time.monotonic()
    with suppress(KeyboardInterrupt):
        figures = asyncio.run(main(options))
        finish(**figures, seconds=round(time.monotonic() - started, 1))

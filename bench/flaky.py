"""Are flaky tests quarantined as soon as the statistics promise, and is no healthy one?

Three parts, one code path (events → sightings → charts → rules → ledger):
* real: tasks with a test that throws dice (p = 1 %, 5 %, 20 %) in a training that runs: a collector, the code
  environment with its diagnosing retries, the author's answer as a witness, every verdict executed in sandboxes of the
  native backend. `--seconds` bounds it; the test of 1 % needs about a thousand runs.
* simulated: the same watch and ledger fed with the events of attempts whose tests fail by chance; as many flaky tests
  as it takes to compare with the promised quantiles.
* healthy: 10,000 tests, each failing in 0.02 % of runs (accidents of a house), for 2,000 runs; beside it what the rule
  "quarantine when P(f > 1 %) > 0.9" would have done on the very same verdicts.

A quarantine is within the promise when at most as many runs on right answers were counted as the 97.5 % quantile of the
first passage of the evidence, or as many runs of the author's answer as that of its confirmation: 95 % of them must be.

    .venv/bin/python bench/flaky.py [--seconds 300] [--flaky 100] [--healthy 10000]

The last two parts share the CPUs, then comes the real one; the whole takes four to five minutes on two cores. The exit
code is 1 where a goal is missed (`missed`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from _machine import finish

from quintain.curate import (
    Bounds,
    Chart,
    Diagnosing,
    HealthLedger,
    HealthWatch,
    Run,
    State,
    Why,
    attend,
    promise,
    questioned,
    suspicion,
)
from quintain.env import CodeEnvironment
from quintain.grade import Oracle, warm_oracle
from quintain.policy import FunctionPolicy
from quintain.rollout import Collector
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite
from quintain.types import (
    Built,
    Closed,
    Entry,
    Event,
    Fault,
    FaultKind,
    Graded,
    Opened,
    Owner,
    Passed,
    Program,
    Reward,
    Stop,
    Task,
    TestResult,
    Trainable,
    Verdict,
)

RATES = (0.01, 0.05, 0.20)
RIGHT = b"def add(a, b):\n    return a + b\n"
SUITE = """import random
from solution import add

def test_one():
    assert add(1, 2) == 3

def test_two():
    assert add(0, 5) == 5

def test_dice():
    assert add(2, 2) == 4
    assert random.SystemRandom().random() >= {rate}
"""
DICE = "test_add.py::test_dice"
#: A policy that is always right would else be suspended for that before the rare dice fall.
BOUNDS = Bounds(stuck_for=100_000)


def item(name: str, rate: float) -> Item:
    exam = Exam(hidden=PythonSuite(files={"test_add.py": SUITE.format(rate=rate).encode()}),
                oracle={"solution.py": RIGHT})
    return Item.sealed(exam, id=name, instructions="Add.", entry=Entry(path="solution.py", name="add"))


async def real(folder: Path, seconds: float, rates: Sequence[float] = RATES) -> list[dict[str, object]]:
    """Play until every task with dice is suspended, or the time is up."""
    items = {f"dice-{rate:g}": item(f"dice-{rate:g}", rate) for rate in rates}
    if len(rates) > 1:
        items["steady"] = item("steady", 0.0)
    ledger = HealthLedger(folder / "real.jsonl", bounds=BOUNDS)
    ledger.admit([one.task for one in items.values()], evidence="injected")
    policy = FunctionPolicy(lambda c, task, seed: f"```python\n{RIGHT.decode()}# {seed}\n```", name="right")
    watch = HealthWatch(ledger, has_oracle=lambda task: True)
    began = time.monotonic()
    groups = leaked = 0
    async with NativeBackend(warm=warm_oracle()) as backend:
        collector = Collector(
            Diagnosing(CodeEnvironment(backend)), lambda event: None, concurrency=2, watch=watch.watch,
            admits=watch.admits,
        )

        async def train() -> None:
            nonlocal groups, leaked
            step = 0
            while any(watch.admits(task) for task in items if task != "steady"):
                step += 1
                chosen = [one for name, one in items.items() if name != "steady" or step % 4 == 0]
                async with collector.collecting(chosen, policy, size=8, round=step) as found:
                    async for group in found:
                        groups += 1
                        if not watch.admits(group.task):
                            leaked += sum(reward is not None for reward in group.rewards_G)

        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as children:
                witness = children.create_task(attend(watch, Oracle(backend), items.__getitem__))
                await train()
                witness.cancel()
    watch.close()
    rows: list[dict[str, object]] = []
    for rate in rates:
        standing = ledger.standings[f"dice-{rate:g}"]
        chart = standing.chart
        caught = standing.state is State.SUSPENDED
        rows.append({
            "rate": rate, "suspended": caught, "why": standing.moves[-1].why.value,
            "tests": list(standing.tests), "verdicts": chart.verdicts, "runs": chart.trials,
            "control_runs": chart.control_trials, "within_promise": is_within(rate, chart) if caught else None,
        })
    if "steady" in items:
        steady = ledger.standings["steady"]
        rows.append({"rate": 0.0, "suspended": steady.state is State.SUSPENDED, "verdicts": steady.chart.verdicts,
                     "runs": steady.chart.trials})
    return [*rows, {"groups": groups, "rewards_paid_after_suspension": leaked,
                    "seconds": round(time.monotonic() - began, 1)}]




def seen(rate: float) -> float:
    """The share of failures among the runs that count: a right answer that fails twice in a row is a plain failure."""
    once, late = rate * (1.0 - rate), (1.0 - rate) * rate
    return (once + late) / (once + 2.0 * late + 2.0 * (1.0 - rate) ** 2)


PROMISES = {
    rate: {
        "median": promise(seen(rate), 0.5), "q95": promise(seen(rate), 0.95), "q975": promise(seen(rate), 0.975),
        "control_q975": promise(rate, 0.975, alpha=Bounds().control_alarm),
    }
    for rate in RATES
}


def is_within(rate: float, chart: Chart) -> bool:
    promised = PROMISES[rate]
    whole, control = promised["q975"], promised["control_q975"]
    return whole is not None and control is not None and (chart.trials <= whole or chart.control_trials <= control)


class Attempts:
    """The events of attempts at tasks of `tests` tests of which one may fail by chance, as the environment would have
    judged a right answer: two runs, a retry where one failed, and what is torn is masked."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = ids
        passed = tuple(TestResult(id=id, passed=Passed.PASSED) for id in ids)
        self._clean = Verdict(suite="s", level="L4", tests=passed, runs=2)
        self._paid = Reward(total=1.0, solved=True)
        self._masked = Reward(total=-0.2, solved=False, trainable=Trainable.MASK)
        self._nth = 0

    def attempt(self, task: Task, at: int, *, first: bool, second: bool, again: bool) -> list[Event]:
        """Whether the test at a position fails in the first run, in the confirmation, and in a retry of the first."""
        self._nth += 1
        episode = f"{task.id}#{self._nth}"
        verdict, reward = self._clean, self._paid
        if first or second:
            kind = FaultKind.CONFLICTING_RUNS if first else FaultKind.NONDETERMINISTIC
            fault = Fault(owner=Owner.HOUSE if first else Owner.POLICY, kind=kind, message="dice")
            if first and again:  # nobody can tell that from a wrong answer
                fault = Fault(owner=Owner.POLICY, kind=FaultKind.ASSERTION_ERROR, message="dice twice")
            tests = list(self._clean.tests)
            tests[at] = TestResult(id=self._ids[at], passed=Passed.FAILED, fault=fault)
            verdict, reward = Verdict(suite="s", level="L4", tests=tuple(tests)), self._masked
        program = Program(files={"a.py": str(self._nth).encode()})
        return [
            Opened(episode=episode, index=0, at_seconds=0.0, task=task.id, task_version=task.version, kind="code",
                   group=task.id, attempt=1, seed=self._nth, policy="p", unix_seconds=0.0, conversation=()),
            Built(episode=episode, index=1, at_seconds=0.0, program=program),
            Graded(episode=episode, index=2, at_seconds=0.0, verdict=verdict, reward=reward, final=True),
            Closed(episode=episode, index=3, at_seconds=0.0, stop=Stop.SOLVED if verdict.solved else Stop.SUBMITTED),
        ]


def simulated(folder: Path, rate: float, count: int, seed: int) -> dict[str, object]:
    """`count` tasks, each with one flaky test among five; one verdict of a policy and, while in doubt, one run pair of
    the author's answer in turn."""
    chance = random.Random(f"{seed}:{rate}")
    ids = [f"t::{n}" for n in range(5)]
    attempts = Attempts(ids)
    caught = within = wrong = 0
    verdicts: list[int] = []
    for number in range(count):
        task = Task(id="flaky", version=f"v{number}", instructions="x", exam="e")
        ledger = HealthLedger(folder / f"simulated-{rate:g}-{number}.jsonl", bounds=BOUNDS)
        ledger.admit([task], evidence="injected")
        watch = HealthWatch(ledger, has_oracle=lambda _: True, poll_seconds=1e9)
        for _ in range(6_000):
            first, second, again = (chance.random() < rate for _ in range(3))
            for event in attempts.attempt(task, 2, first=first, second=second, again=again):
                watch.watch(event)
            if watch.questioned():
                first, second = chance.random() < rate, chance.random() < rate
                run = Run(trials=1 if first else 2, failed=(ids[2],) if first or second else ())
                watch.saw_control(task.id, task.version, run)
            if not watch.admits(task.id):
                break
        standing = ledger.standings[task.id]
        if standing.state is State.SUSPENDED and standing.moves[-1].why in (Why.FLAKY, Why.ORACLE_FAILED):
            caught += 1
            within += is_within(rate, standing.chart)
            wrong += standing.tests != (ids[2],)
            verdicts.append(standing.chart.verdicts)
    verdicts.sort()
    return {
        "rate": rate, "tests": count, "quarantined": caught, "within_promise": within, "wrong_test": wrong,
        "promised_runs": PROMISES[rate],
        "verdicts_median": verdicts[len(verdicts) // 2] if verdicts else None,
        "verdicts_q95": verdicts[int(0.95 * len(verdicts))] if verdicts else None,
    }


class Healthy(msgspec.Struct, frozen=True, kw_only=True):
    """What healthy tests came to; two of them add up."""

    tests: int
    runs: int
    accidents: int
    quarantined: int
    tasks_suspended: int
    quarantined_by_the_posterior_after_each_verdict: int

    def __add__(self, other: Healthy) -> Healthy:
        return Healthy(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


def healthy(folder: Path, tests: int, rate: float, verdicts: int, seed: str) -> Healthy:
    """Tasks of a hundred tests each. Whether an attempt has an accident is drawn once for all tests of its task, and
    then which test has it, so that ten thousand tests can be played on two cores."""
    chance = random.Random(seed)
    ids = [f"t::{n}" for n in range(100)]
    attempts = Attempts(ids)
    tasks = [Task(id=f"task{n}", version="v", instructions="x", exam="e") for n in range(tests // len(ids))]
    ledger = HealthLedger(folder / f"{seed}.jsonl", bounds=BOUNDS)
    ledger.admit(tasks, evidence="healthy")
    watch = HealthWatch(ledger, has_oracle=lambda _: True, poll_seconds=1e9, tally_every=10**9)
    naive: set[tuple[str, str]] = set()
    some = 1.0 - (1.0 - rate) ** (2 * len(ids))  # of an attempt, that any of its tests has an accident
    for _ in range(verdicts):
        for task in tasks:
            accident, first = chance.random() < some, chance.random() < 0.5
            for event in attempts.attempt(
                task, chance.randrange(len(ids)), first=accident and first, second=accident and not first, again=False,
            ):
                watch.watch(event)
            if accident:
                chart = watch.chart(task.id)
                naive |= {(task.id, t) for t, k in chart.failures.items() if suspicion(k, chart.trials_of(t)) > 0.9}
            if questioned(watch.chart(task.id), BOUNDS):
                watch.saw_control(task.id, task.version, Run(trials=2))
    moved = [s for s in ledger.standings.values() if s.state not in (State.PROBATION, State.ACTIVE)]
    charts = [watch.chart(task.id) for task in tasks]
    return Healthy(
        tests=tests, runs=sum(chart.trials for chart in charts),
        accidents=sum(n for chart in charts for n in chart.failures.values()),
        quarantined=sum(s.moves[-1].why is Why.FLAKY for s in moved), tasks_suspended=len(moved),
        quarantined_by_the_posterior_after_each_verdict=len(naive))


def played(folder: Path, asked: argparse.Namespace) -> tuple[list[dict[str, object]], dict[str, object] | None]:
    """The simulated and the healthy ones, side by side on the CPUs that there are."""
    width = len(os.sched_getaffinity(0))
    parts = [asked.healthy // width // 100 * 100] * width
    parts[0] += asked.healthy - sum(parts)
    rate = 0.0002
    with ProcessPoolExecutor(width) as pool:
        well = [pool.submit(healthy, folder, tests, rate, asked.verdicts, f"{asked.seed}-healthy-{n}")
                for n, tests in enumerate(parts) if tests]
        rows = [pool.submit(simulated, folder, rate, asked.flaky if rate < 0.05 else 5 * asked.flaky, asked.seed)
                for rate in RATES if asked.flaky]  # the rare ones take twenty times as long
        parts_played: list[Future[Any]] = [*well, *rows]
        for number, _ in enumerate(as_completed(parts_played), 1):  # the error of any comes out below
            print(f"{number}/{len(parts_played)} parts played", file=sys.stderr)
        flaky = [row.result() for row in rows]
        known = [part.result() for part in well]
    if not known:
        return flaky, None
    whole = sum(known[1:], known[0])
    return flaky, {**msgspec.to_builtins(whole), "rate": rate, "runs_each": whole.runs * 100 // whole.tests,
                   "promised_false_alarms": whole.tests * Bounds().false_alarm}


def missed(
    rows: Sequence[dict[str, Any]], well: dict[str, Any] | None, truly: Sequence[dict[str, Any]] | None,
    rates: Sequence[float],
) -> list[str]:
    """The goals that were not met."""
    goals = {}
    for row in rows:
        goals[f"every test of {row['rate']:g} quarantined"] = row["quarantined"] == row["tests"]
        goals[f"95 % of {row['rate']:g} within the promise"] = row["within_promise"] >= 0.95 * row["tests"]
        goals[f"no other test in the place of {row['rate']:g}"] = row["wrong_test"] == 0
    if well is not None:
        goals["no healthy test quarantined"] = well["quarantined"] == 0
    for row in truly or ():
        if row.get("rate") in rates:
            goals[f"the dice of {row['rate']:g} suspended in a training"] = bool(row["suspended"])
        elif "rewards_paid_after_suspension" in row:
            goals["no reward after a suspension"] = row["rewards_paid_after_suspension"] == 0
        else:
            goals["the steady task goes on"] = not row["suspended"]
    return [goal for goal, is_met in goals.items() if not is_met]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300.0, help="for the part in real sandboxes; 0 leaves it out")
    parser.add_argument("--rates", default=",".join(f"{rate:g}" for rate in RATES),
                        help="which dice are played in real sandboxes (default: %(default)s)")
    parser.add_argument("--flaky", type=int, default=100,
                        help="simulated tests of 1 %%, and five times as many of 5 %% and 20 %%; 0: none")
    parser.add_argument("--healthy", type=int, default=10_000, help="healthy tests; 0 leaves them out")
    parser.add_argument("--verdicts", type=int, default=1_000, help="verdicts on each healthy task")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows, well = played(folder, asked)
        rates = [float(rate) for rate in asked.rates.split(",")]
        truly = asyncio.run(real(folder, asked.seconds, rates)) if asked.seconds > 0 else None
    not_met = missed(rows, well, truly, rates)
    finish(simulated=rows or None, healthy=well, real=truly, missed=not_met,
           seconds=round(time.monotonic() - began, 1), seed=asked.seed)
    sys.exit(1 if not_met else 0)


if __name__ == "__main__":
    main()

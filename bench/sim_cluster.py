"""A fleet of 500 hosts under a virtual clock: the real planner, queue logic and machine, and all that goes wrong.

    .venv/bin/python bench/sim_cluster.py [--quick] [--seeds N] [--part main|seeds|fairness|scaling] [--plot FILE]

main: 500 hosts, over 50,000 sandboxes at once, 10^6 episodes in bursts of 5,000, heavy-tailed durations, hosts lost
(one in six hours each) and cut off from the rest, stragglers, poison; one episode in a hundred is played event by event
through `rollout.Machine`. seeds: 100 small fleets in a storm, half of their episodes through the machine. fairness: a
flood of 100,000 of one kind, and then the first of another. scaling: from 5 hosts to 500, work in proportion.

What is simulated coarser than life is said in `quintain.fleet.simulation`. Invariants are checked after every event.
main has one process and all the others a second one beside it. The last line is one JSON object: `lost` and
`violations` over all runs, the other figures those of main.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from _machine import finish
from _scaling import Panel, draw

from quintain.fleet import (
    Ask,
    Fairness,
    Flood,
    Load,
    Planner,
    Report,
    Room,
    Scenario,
    Weather,
    simulate,
    usual_loads,
)

ROOT = Path(__file__).resolve().parents[1]
HOSTS = (5, 15, 50, 150)
PER_HOST = 1_000
GIB = 1024**3


class Totals:
    """What holds of all runs together."""

    def __init__(self) -> None:
        self.episodes = self.lost = self.doubled = self.violations = self.steps = self.checks = 0

    def add(self, report: Report) -> Report:
        print(f"{self.episodes + report.episodes:,} episodes played", file=sys.stderr)
        self.episodes += report.episodes
        self.lost += report.lost
        self.doubled += report.doubled
        self.violations += len(report.violations)
        self.steps += report.steps
        self.checks += report.checks + report.fairness_checks
        for words in report.violations:
            print("violation:", words)
        return report


def cluster(hosts: int, episodes: int, *, fine: float = 0.0) -> Scenario:
    return Scenario(
        hosts=hosts, episodes=episodes, loads=usual_loads(), burst=10 * hosts, backlog=20 * hosts, fine=fine,
    )


def storm(seed: int) -> Scenario:
    """Four hosts that live for three minutes each."""
    weather = Weather(
        hours_to_loss=0.05, hours_to_cut=0.05, repair_seconds=60.0, poison=0.01, faults=0.03, stragglers=0.02,
    )
    return Scenario(
        hosts=4, episodes=1_000, room=Room(cpus=8.0, memory_bytes=16 * GIB), slots=24, loads=usual_loads(), fine=0.5,
        burst=50, backlog=100, weather=weather, seed=seed,
    )


def new_kind(hosts: int, flood: int) -> Report:
    """A flood of one kind, and a minute later the first of another."""
    first = Load(kind="flood")
    return simulate(Scenario(hosts=hosts, episodes=0, loads=(first,), floods=(
        Flood(at_seconds=0.0, load=first, count=flood),
        Flood(at_seconds=60.0, load=Load(kind="new"), count=100),
    )))


def low_priority() -> float:
    """Seconds that one job of priority 0 waits for the only slot while jobs of priority 3 come faster than they can be
    done, with 15 s of waiting worth one step: three steps, and the queue of that moment."""
    planner = Planner(Fairness(ageing_seconds=15.0))
    planner.host("h", Room(cpus=1.0), slots=1)
    planner.offer(Ask(id="low", need=Room(cpus=1.0)), at=0.0)
    now, count = 0.0, 0
    while True:
        while 0.9 * count <= now:
            planner.offer(Ask(id=f"high{count}", need=Room(cpus=1.0), priority=3), at=0.9 * count)
            count += 1
        [placement] = planner.decide(now)
        if placement.id == "low":
            return now
        now += 1.0
        planner.finish(placement.id)


def plot(path: Path, reports: list[tuple[int, Report]]) -> None:
    hosts = [count for count, _ in reports]
    found = [report for _, report in reports]
    each = found[0].per_second / hosts[0]
    draw(path, hosts, [
        Panel("episodes per second (dashed: in proportion)", [r.per_second for r in found], [each * n for n in hosts],
              log=True),
        Panel("utilisation of the ideal", [r.utilisation for r in found], percent=True),
        Panel("seconds in the queue (99th percentile)", [r.wait_p99_s for r in found]),
    ], title="A simulated fleet, about 110 sandboxes on each host: work in proportion to its size")


def no_collector() -> None:
    """Nothing here is cyclic, and looking for it costs a fifth."""
    gc.freeze()
    gc.disable()


def timed(scenario: Scenario) -> tuple[Report, float, float]:
    """With the seconds that it took, by the clock and of the CPU."""
    began, cpu = time.perf_counter(), time.process_time()
    return simulate(scenario), time.perf_counter() - began, time.process_time() - cpu


def seen_in(report: Report) -> dict[str, object]:
    return {
        "episodes": report.episodes, "utilisation": round(report.utilisation, 4),
        "wait_p99_s": round(report.wait_p99_s, 2), "sandboxes_peak": report.peak,
        "virtual_seconds": round(report.seconds), "per_second": round(report.per_second, 1), "done": report.done,
        "dead": report.dead, "late": report.late, "redelivered": report.redelivered, "resumed": report.resumed,
        "hosts_lost": report.losses, "hosts_cut": report.cuts, "fairness_checks": report.fairness_checks,
    }


def seen_in_storms(reports: list[Report]) -> dict[str, object]:
    return {
        "seeds": len(reports), "seed_episodes": sum(r.episodes for r in reports),
        "seed_late": sum(r.late for r in reports), "seed_resumed": sum(r.resumed for r in reports),
        "seed_hosts_lost": sum(r.losses for r in reports),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="25 hosts, 20,000 episodes, 5 seeds, no scaling")
    parser.add_argument("--seeds", type=int, default=None)
    parser.add_argument("--part", choices=["main", "seeds", "fairness", "scaling"], default=None)
    parser.add_argument("--plot", type=Path, default=None, help="where to draw the scaling law")
    options = parser.parse_args()
    hosts, episodes, seeds = (25, 20_000, 5) if options.quick else (500, 1_000_000, 100)
    seeds = options.seeds if options.seeds is not None else seeds
    usual = {"main", "seeds", "fairness"} if options.quick else {"main", "seeds", "fairness", "scaling"}
    parts = {options.part} if options.part else usual
    began = time.perf_counter()
    figures: dict[str, object] = {}
    totals = Totals()
    with ProcessPoolExecutor(2, initializer=no_collector) as pool:  # the large one beside all the small ones
        main = pool.submit(timed, cluster(hosts, episodes, fine=0.01)) if parts & {"main", "scaling"} else None
        storms = [pool.submit(simulate, storm(seed)) for seed in range(seeds)] if "seeds" in parts else []
        news = pool.submit(new_kind, hosts, 10_000 if options.quick else 100_000) if "fairness" in parts else None
        counts = HOSTS if "scaling" in parts else ()
        smaller = [pool.submit(simulate, cluster(count, count * PER_HOST, fine=0.01)) for count in counts]
        if storms:
            figures |= seen_in_storms([totals.add(one.result()) for one in storms])
        if news is not None:
            figures |= {
                "new_kind_wait_s": round(totals.add(news.result()).first_wait_s["new"], 3),
                "low_priority_wait_s": low_priority(), "low_priority_bound_s": 60.0,
            }
        reports = [(count, totals.add(one.result())) for count, one in zip(counts, smaller, strict=True)]
        if main is not None:
            largest, wall, cpu = main.result()
            reports.append((hosts, totals.add(largest)))
            figures |= seen_in(largest) | {"run_seconds": round(wall, 1), "run_cpu_seconds": round(cpu, 1)}
    if counts:
        figures["scaling"] = [
            {"hosts": count, "per_second": round(r.per_second, 2), "utilisation": round(r.utilisation, 4),
             "wait_p99_s": round(r.wait_p99_s, 2), "peak": r.peak} for count, r in reports
        ]
        plot(options.plot or ROOT / "docs" / "cluster.svg", reports)
    finish(**figures, lost=totals.lost, doubled=totals.doubled, violations=totals.violations, steps=totals.steps,
           checks=totals.checks, all_seconds=round(time.perf_counter() - began, 1))


if __name__ == "__main__":
    main()

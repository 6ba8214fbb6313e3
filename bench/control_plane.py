"""What the control plane costs: 5,000 episodes alive at once in one process, each step through the driver and journal.

    .venv/bin/python bench/control_plane.py [--quick] [--alive N] [--turns N] [--think SECONDS] [--profile]

The policy is scripted and thinks for so long before each reply, as an inference server would; the environment judges
from the reply itself, with no sandbox. So all that is measured is the house's own: machine, driver, collector, journal.
A step is one turn of an episode: sampled, built, judged, said, each an event in the journal file on disk. The last line
is one JSON object: CPU of the whole process for each step (set-up of the tasks and imports not counted), how many
episodes lived at once, steps a second, and the 99th percentile of how long a reply that had come waited until the
same episode asked for the next one.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import tempfile
import time
from array import array
from collections.abc import Sequence
from pathlib import Path

from _machine import finish

from quintain.rollout import Collector, Patience
from quintain.store import Journal, LocalBlobs, Mode
from quintain.testing import FakeEnvironment, fake_item
from quintain.types import Event, Limits, Message, Opened, Scopes, Turn


class Thinker:
    """Replies after a while: wrong until the last turn, then right. Notes how long episodes were in the house's hands
    between two replies."""

    name = "thinker"

    def __init__(self, turns: int, seconds: float) -> None:
        self.turns = turns
        self.seconds = seconds
        self.alive = self.most = self.steps = 0
        self.waits = array("d")
        self._due: dict[str, float] = {}

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        loop = asyncio.get_running_loop()
        due = self._due.pop(task, None)
        if due is not None:
            self.waits.append(loop.time() - due)
        nth = len(conversation) // 2
        chance = (seed * 2654435761 + nth) % 2**32 / 2**32
        seconds = self.seconds * (0.5 + chance)
        due = loop.time() + seconds
        self.alive += 1
        self.most = max(self.most, self.alive)
        await asyncio.sleep(seconds)
        self.alive -= 1
        self.steps += 1
        if nth + 1 < self.turns:
            self._due[task] = due
            return Turn(text=f"wrong {nth}")
        return Turn(text="right")

    async def aclose(self) -> None:
        """Holds nothing."""


class Living:
    """How many episodes are opened and not closed."""

    def __init__(self) -> None:
        self.now = self.most = self.events = 0

    def __call__(self, event: Event) -> None:
        self.events += 1
        if isinstance(event, Opened):
            self.now += 1
            self.most = max(self.most, self.now)
        elif type(event).__name__ == "Closed":
            self.now -= 1


async def measure(alive: int, episodes: int, turns: int, think: float, path: Path) -> dict[str, object]:
    limits = Limits(wall_seconds=3600.0, turns=turns)
    items = [fake_item(f"t{n}", limits=Scopes(episode=limits, turn=limits)) for n in range(episodes)]
    policy = Thinker(turns, think)
    living = Living()
    with Journal(path / "journal.jsonl", LocalBlobs(path / "blobs"), mode=Mode.WRITE) as journal:
        collector = Collector(
            FakeEnvironment(visible=False), journal.append, concurrency=alive, watch=living,
            patience=Patience(attempts=1),
        )
        cpu, began = time.process_time(), time.perf_counter()
        groups = solved = 0
        async with collector.collecting(items, policy, size=1) as stream:
            async for group in stream:
                groups += 1
                solved += group.episodes[0].solved
        cpu, wall = time.process_time() - cpu, time.perf_counter() - began
    waits = sorted(policy.waits)
    assert groups == solved == episodes, f"{groups} groups, {solved} solved, of {episodes}"
    return {
        "cpu_ms_per_step": round(1000 * cpu / policy.steps, 4), "episodes_alive": living.most,
        "steps_per_s": round(policy.steps / wall, 1), "p50_ms": round(1000 * waits[len(waits) // 2], 2),
        "p99_ms": round(1000 * waits[round(0.99 * (len(waits) - 1))], 2), "steps": policy.steps,
        "events": living.events, "cpu_us_per_event": round(1e6 * cpu / living.events, 1), "wall_s": round(wall, 1),
        "think_s": think, "busy": round(cpu / wall, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="500 alive, 2 turns of 2 s")
    parser.add_argument("--alive", type=int, default=5_000)
    parser.add_argument("--episodes", type=int, default=None, help="default: twice as many as live at once")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--think", type=float, default=8.0)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    alive, turns, think = (500, 2, 2.0) if options.quick else (options.alive, options.turns, options.think)
    with tempfile.TemporaryDirectory() as folder:
        work = measure(alive, options.episodes or 2 * alive, turns, think, Path(folder))
        if options.profile:
            profile = cProfile.Profile()
            figures = profile.runcall(asyncio.run, work)
            pstats.Stats(profile).sort_stats("tottime").print_stats(40)
        else:
            figures = asyncio.run(work)
    finish(**figures)


if __name__ == "__main__":
    main()

"""How fast the dashboard answers and how far it is behind while a journal grows: `page_ms`, `behind_ms`.

Episodes (10,000; --quick 1,000) are opened and stay live, with half as many sandboxes metered; then events are
appended at a steady rate while the pages are asked for over HTTP in turn, all in one process. `page_ms` is the 99th
percentile of all answers, `behind_ms` the longest time from an append to the stream that tells of it,
`first_view_bytes` what the first page loads, unpacked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

import httpx
import msgspec
from _machine import finish

from quintain.cli.seeing import WatchedAlarms
from quintain.serve import board, listening
from quintain.store import Definition, Run
from quintain.types import Built, Closed, Message, Opened, Program, Role, Sampled, Stop, Turn
from quintain.watch import Meters, folder_of

PAGES = ("/api/overview?run=live", "/api/episodes?run=live", "/api/episodes?run=live&state=running&text=t7",
         "/api/episode?run=live&episode=t7%230", "/api/tasks?run=live", "/api/runs")
FIRST = ("/", "/api/runs", "/api/house", *(f"/static/{name}" for name in (
    "app.js", "api.js", "dom.js", "charts.js", "style.css", "mark.svg", "pages/runs.js")))


def opened(nth: int) -> Opened:
    return Opened(
        episode=f"t{nth}#0", index=0, at_seconds=0.0, task=f"t{nth % 500}", task_version="v", kind="code", group="g",
        attempt=1, seed=nth, policy="p", unix_seconds=time.time(),
        conversation=(Message(role=Role.USER, text="Write a function that adds up. " * 20),),
    )


def going_on(nth: int) -> tuple[Sampled, Built]:
    text = "def total(numbers):\n    return sum(numbers)\n" * 10
    return (
        Sampled(episode=f"t{nth}#0", index=1, at_seconds=1.0, turn=Turn(
            text=text, prompt_token_ids=tuple(range(300)), output_token_ids=tuple(range(100)), logprobs=(-0.5,) * 100)),
        Built(episode=f"t{nth}#0", index=2, at_seconds=1.1, program=Program(files={"solution.py": text.encode()})),
    )


async def measure(folder: Path, episodes: int, seconds: float, rate: int) -> dict[str, object]:
    with Run.create(folder, Definition(taskset="s", policy="p"), name="live") as run:
        for nth in range(episodes):
            for event in (opened(nth), *going_on(nth)):
                run.journal.append(event)
        size = (run.path / "journal.jsonl").stat().st_size
        meters = Meters()
        meters.set("quintain_sandboxes", episodes / 2, state="in_use")
        folder_of(run.path).mkdir()
        (folder_of(run.path) / "metrics.json").write_bytes(msgspec.json.encode(meters.snapshot()))
        app = board(folder, alarms=WatchedAlarms())
        async with listening(app, grace_seconds=1) as url, httpx.AsyncClient(base_url=url) as client:
            began = time.perf_counter()
            (await client.get(PAGES[0], timeout=120)).raise_for_status()
            first_ms = (time.perf_counter() - began) * 1000
            assert sum((await client.get(PAGES[0])).json()["sandboxes"].values()) == episodes / 2
            first_view = [len((await client.get(path)).content) for path in FIRST]
            answers: list[float] = []
            behind: list[float] = []
            appended: dict[int, float] = {}
            until = time.perf_counter() + seconds

            async def write() -> None:
                closed = 0
                while time.perf_counter() < until and closed < episodes:
                    for _ in range(rate // 10):
                        run.journal.append(Closed(episode=f"t{closed}#0", index=3, at_seconds=2.0, stop=Stop.GAVE_UP))
                        closed += 1
                        appended[closed] = time.perf_counter()
                    await asyncio.sleep(0.1)

            async def listen() -> None:
                seen = 0
                async with client.stream("GET", "/api/stream?run=live", timeout=30) as answer:
                    async for line in answer.aiter_lines():
                        if line.startswith("data: "):
                            told, now = json.loads(line[6:])["line"], time.perf_counter()
                            closed = told["episodes"] - told["open"]
                            if closed > seen and seen + 1 in appended:
                                behind.append((now - appended[seen + 1]) * 1000)
                            seen = closed
                        if time.perf_counter() > until:
                            return

            async def look() -> None:
                while time.perf_counter() < until:
                    for path in PAGES:
                        asked = time.perf_counter()
                        (await client.get(path, timeout=30)).raise_for_status()
                        answers.append((time.perf_counter() - asked) * 1000)
                    await asyncio.sleep(0.2)

            async with asyncio.TaskGroup() as group:
                for work in (write(), listen(), look()):
                    group.create_task(work)
    answers.sort()
    return {
        "episodes": episodes, "journal_bytes": size, "first_fold_ms": round(first_ms, 1), "answers": len(answers),
        "page_ms": round(answers[int(0.99 * (len(answers) - 1))], 1),
        "page_median_ms": round(answers[len(answers) // 2], 1),
        "behind_ms": round(max(behind), 1) if behind else None, "told": len(behind), "events_per_second": rate,
        "first_view_bytes": sum(first_view),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder), 1_000 if quick else 10_000, 4.0 if quick else 15.0, 100))
    finish(bench="watch_pages", **figures)


if __name__ == "__main__":
    main()

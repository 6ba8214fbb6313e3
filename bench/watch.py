"""The watch: recorded incidents and a quiet day, and what it costs a run.

Prints `alerts_in_time` (of `incidents`), `late_seconds` (the slowest alert after its incident began), `false_alerts` in
24 quiet hours and of incidents' recordings, and `overhead_share`: the watch's own CPU, measured on the same events and
looks as a run of `--take` tasks had, over the CPU of that run with its sandboxes. `look_ms` is one look at the end of
two hours of history; `event_us` what an event costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _incidents import INCIDENTS, quiet
from _machine import Account, finish

from quintain.cli.alerts import replayed
from quintain.store import Run
from quintain.watch import Alerts, History, Turn, Watch, default_rules, read_recording

FOLDER = Path(__file__).parents[1] / "tests" / "watch" / "incidents"


def incidents() -> dict[str, object]:
    rules, in_time, false, late = default_rules(), 0, 0, []
    for name in INCIDENTS:
        wanted = json.loads((FOLDER / name / "expected.json").read_text())
        fired = [one for one in replayed(rules, FOLDER / name / "recording.jsonl.gz") if one.turn == Turn.FIRED]
        right = [one.at_seconds - wanted["begins_seconds"] for one in fired
                 if one.rule == wanted["rule"] and one.labels.items() >= wanted["labels"].items()]
        in_time += bool(right) and 0 <= min(right) <= wanted["within_seconds"]
        late += [min(right)] if right else []
        false += len({one.rule for one in fired} - {wanted["rule"], *wanted["may"]})
    return {"incidents": len(INCIDENTS), "alerts_in_time": in_time, "late_seconds": round(max(late)),
            "false_in_incidents": false}


def quiet_day(seeds: int) -> dict[str, object]:
    """The recorded day, and further ones that nobody has tuned anything to."""
    rules = default_rules()
    false = sum(one.turn == Turn.FIRED for one in replayed(rules, FOLDER / "quiet" / "recording.jsonl.gz"))
    others = 0
    for seed in range(100, 100 + seeds):
        alerts, history = Alerts(rules.rules), History(keep_seconds=rules.longest_window)
        for at, snapshot in quiet(24.0, seed=seed):
            taken = history.add(at, snapshot)
            others += sum(change.turn is Turn.FIRED for change in
                          alerts.look(history, at_seconds=taken, now_unix_seconds=at))
    return {"quiet_hours": 24, "false_alerts": false, "further_quiet_hours": 24 * seeds, "further_false_alerts": others}


def look_milliseconds() -> float:
    """With two hours of history, a moment each five seconds."""
    rules = default_rules()
    alerts, history = Alerts(rules.rules), History(keep_seconds=rules.longest_window)
    moments = list(read_recording(FOLDER / "crash-loop" / "recording.jsonl.gz"))
    for nth in range(1440):
        history.add(5.0 * nth, moments[min(nth // 12, len(moments) - 1)][1])
    began = time.process_time()
    for nth in range(20):
        at = history.add(7200.0 + 5.0 * nth, moments[-1][1])
        alerts.look(history, at_seconds=at, now_unix_seconds=at)
    return 1000 * (time.process_time() - began) / 20


def overhead(take: int) -> dict[str, object]:
    """A run without the watch, its CPU with all that it starts; then the watch alone on the events of that run, with
    the looks that its time would have had. Two whole runs would differ by more than the watch costs."""
    with tempfile.TemporaryDirectory() as folder, Account() as account:
        run = Path(folder) / "run"
        before, began = account.seconds(), time.monotonic()
        subprocess.run([sys.executable, "-m", "quintain", "run", "humaneval", "--policy", "repair", "--take", str(take),
                        "--no-watch", "--out", str(run)], check=True, capture_output=True)
        spent, seconds = account.seconds() - before, time.monotonic() - began
        with Run.open(run) as opened:
            events = list(opened.journal.read())

        async def watch() -> tuple[float, float]:
            seen = Watch(Path(folder) / "watch", "run", default_rules())
            begun = time.process_time()
            for event in events:
                seen.event(event)
            between = time.process_time()
            for _ in range(max(1, round(seconds / 5.0))):
                await seen.look()
            await seen.close()
            return between - begun, time.process_time() - between

        told, looked = asyncio.run(watch())
    return {"run_cpu_seconds": round(spent, 2), "run_seconds": round(seconds, 1), "events": len(events),
            "event_us": round(1e6 * told / len(events), 1), "overhead_share": round((told + looked) / spent, 4),
            "exact": account.exact}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="A shorter run, and no further quiet days.")
    parser.add_argument("--take", type=int, default=20)
    parser.add_argument("--days", type=int, default=1, help="Further quiet days of other seeds.")
    asked = parser.parse_args()
    take, days = (6, 0) if asked.quick else (asked.take, asked.days)
    finish(bench="watch", **incidents(), **quiet_day(days), look_ms=round(look_milliseconds(), 1), **overhead(take))


if __name__ == "__main__":
    main()

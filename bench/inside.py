"""What does a sandbox of ours cost inside Inspect, beside Inspect's own `local` (a folder, no isolation) in one run?

Start is `task_init` behind it, `sample_init` until the first answer of `true`; exec is `true` in a sandbox that stands.
Both go through Inspect's interface alone, in turns; medians. Its Docker backend is not asked.

    python bench/inside.py [--rounds 40]      (needs inspect-ai: `make bridges` installs it in .venv-bridges)
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from importlib import metadata
from typing import Any

from _machine import finish
from inspect_ai.util._sandbox.local import LocalSandboxEnvironment

from quintain.bridges.inspect import QuintainSandboxEnvironment

KINDS: dict[str, Any] = {"quintain": QuintainSandboxEnvironment, "local": LocalSandboxEnvironment}


async def answered(box: Any) -> float:
    """Milliseconds until `true` has said that it is done. Raises RuntimeError where it has not."""
    start = time.perf_counter()
    result = await box.exec(["true"])
    if not result.success:
        raise RuntimeError(f"expected `true` to succeed, found {result}")
    return (time.perf_counter() - start) * 1e3


async def one(kind: Any) -> tuple[float, list[float]]:
    """Milliseconds of a start, and of five commands after it."""
    start = time.perf_counter()
    made = await kind.sample_init("bench", None, {})
    try:
        await answered(made["default"])
        started = (time.perf_counter() - start) * 1e3
        return started, [await answered(made["default"]) for _ in range(5)]
    finally:
        await kind.sample_cleanup("bench", None, made, False)


async def measured(rounds: int) -> dict[str, float]:
    starts: dict[str, list[float]] = {name: [] for name in KINDS}
    execs: dict[str, list[float]] = {name: [] for name in KINDS}
    for kind in KINDS.values():
        await kind.task_init("bench", None)
    try:
        for nth in range(rounds + 1):
            for name, kind in KINDS.items():
                start, commands = await one(kind)
                if nth:  # the first of each kind sets up what all share
                    starts[name].append(start)
                    execs[name] += commands
    finally:
        for kind in KINDS.values():
            await kind.task_cleanup("bench", None, True)
    figures: dict[str, float] = {}
    for name in KINDS:
        figures[f"{name}_start_ms"] = round(statistics.median(starts[name]), 2)
        figures[f"{name}_exec_ms"] = round(statistics.median(execs[name]), 2)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    figures = asyncio.run(measured(rounds))
    finish(bench="inside", inspect_ai=metadata.version("inspect-ai"), rounds=rounds, **figures)


if __name__ == "__main__":
    main()

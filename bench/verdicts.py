"""How many verdicts does a CPU-second buy: a pytest file in a fork of a warm interpreter, fully isolated, beside
`python -m pytest` in a plain subprocess with no isolation at all; and HumanEval through the out-of-process oracle.

Every verdict opens a sandbox of its own, writes two files, runs, and takes the sandbox down. CPU is read from one
control group that holds this script and everything it starts. Ratios are medians over interleaved rounds of one run.

    .venv/bin/python bench/verdicts.py [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _machine import Account, finish

from quintain.grade import Oracle, warm_oracle
from quintain.sandbox import NativeBackend, Warm
from quintain.tasks import Item, open_taskset
from quintain.types import MEBIBYTE, Limits, Program

LIMITS = Limits(wall_seconds=30, cpu_seconds=30, memory_bytes=512 * MEBIBYTE, disk_bytes=16 * MEBIBYTE)
SOLUTION = b"def add(a, b):\n    return a + b\n"
TESTS = {
    "pytest": b"from solution import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    "numpy": b"import numpy as np\nfrom solution import add\n\n\ndef test_add():\n"
    b"    assert add(np.int64(1), np.int64(2)) == 3\n",
    "pandas": b"import numpy as np\nimport pandas as pd\nfrom solution import add\n\n\ndef test_add():\n"
    b"    assert add(np.int64(1), np.int64(2)) == 3\n",
}
WARM_RUN = "import sys, quintain_warm\nsys.exit(quintain_warm.run('/work/test_solution.py'))"


def site_of(*modules: str) -> tuple[Path, ...]:
    """The directories that hold these modules."""
    found: dict[Path, None] = {}
    for module in modules:
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            raise SystemExit(f"expected {module} in this environment (pip install -e '.[dev]'), found none")
        found[Path(spec.origin).parent.parent] = None
    return tuple(found)


def plain(folder: Path, kind: str, account: Account, count: int) -> float:
    """CPU milliseconds of one verdict of `python -m pytest` in a subprocess."""
    (folder / "solution.py").write_bytes(SOLUTION)
    (folder / "test_solution.py").write_bytes(TESTS[kind])
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", "test_solution.py"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    before = account.seconds()
    for _ in range(count):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"plain pytest failed: {done.stdout.decode()[-500:]}")
    return (account.seconds() - before) * 1e3 / count


async def isolated(
    backend: NativeBackend, kind: str, account: Account, count: int, answer: bytes
) -> tuple[float, list[int]]:
    """CPU milliseconds of one verdict in a sandbox of its own, and the exit codes."""
    codes: list[int] = []

    async def one() -> None:
        async with backend.open(limits=LIMITS) as [box]:
            await box.files.write_many({"solution.py": answer, "test_solution.py": TESTS[kind]})
            outcome = await box.run(["-c", WARM_RUN], warm=True)
            codes.append(-1 if outcome.exit_code is None else outcome.exit_code)

    await one()
    codes.clear()
    before = account.seconds()
    for _ in range(count // 2):
        async with asyncio.TaskGroup() as group:
            group.create_task(one())
            group.create_task(one())
    return (account.seconds() - before) * 1e3 / len(codes), codes


async def compare(kind: str, account: Account, rounds: int, count: int) -> tuple[float, float, float]:
    """(ratio, plain ms, isolated ms), medians over rounds."""
    modules = {"pytest": (), "numpy": ("numpy",), "pandas": ("numpy", "pandas")}[kind]
    ratios, ours, theirs = [], [], []
    folder = Path(tempfile.mkdtemp(prefix="quintain-bench-"))
    try:
        async with NativeBackend(warm=Warm.pytest(site=site_of("pytest", *modules), preload=modules)) as backend:
            _, wrong = await isolated(backend, kind, account, 2, b"def add(a, b):\n    return a - b\n")
            if set(wrong) != {1}:
                raise SystemExit(f"a wrong answer got exit codes {wrong}")
            for _ in range(rounds):
                without = plain(folder, kind, account, max(2, count // 8))
                within, codes = await isolated(backend, kind, account, count, SOLUTION)
                if set(codes) != {0}:
                    raise SystemExit(f"a right answer got exit codes {sorted(set(codes))}")
                ratios.append(without / within)
                ours.append(within)
                theirs.append(without)
    finally:
        shutil.rmtree(folder)
    return statistics.median(ratios), statistics.median(theirs), statistics.median(ours)


async def oracle(account: Account, take: int) -> tuple[float, int]:
    """CPU milliseconds of one HumanEval check through the out-of-process oracle, and how many were solved."""
    items = list(open_taskset("humaneval", take=take))
    solved = 0
    async with NativeBackend(warm=warm_oracle()) as backend:
        judge = Oracle(backend, confirm=False)

        async def one(item: Item) -> None:
            nonlocal solved
            files = {**item.task.files, **(item.exam.oracle or {})}
            verdict = await judge.grade(item.exam.hidden, Program(files=files), limits=LIMITS)
            solved += verdict.solved

        await one(items[0])
        solved = 0
        before = account.seconds()
        for at in range(0, len(items), 2):
            async with asyncio.TaskGroup() as group:
                for item in items[at : at + 2]:
                    group.create_task(one(item))
    return (account.seconds() - before) * 1e3 / len(items), solved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer verdicts, three rounds")
    args = parser.parse_args()
    rounds, count = (3, 16) if args.quick else (5, 64)
    figures: dict[str, object] = {}
    with Account() as account:
        for kind in TESTS:
            ratio, theirs, ours = asyncio.run(compare(kind, account, rounds, count))
            figures[f"{kind}_ratio"] = round(ratio, 2)
            figures[f"{kind}_plain_ms"], figures[f"{kind}_ms"] = round(theirs, 1), round(ours, 2)
            print(f"{kind}: plain {theirs:.0f} ms, isolated {ours:.1f} ms CPU for a verdict", file=sys.stderr)
        checks, solved = asyncio.run(oracle(account, 40 if args.quick else 164))
        figures["oracle_ms"], figures["oracle_solved"] = round(checks, 2), solved
        figures["oracle_ratio"] = round(float(figures["pytest_plain_ms"]) / checks, 2)  # type: ignore[arg-type]
    finish(bench="verdicts", **figures)


if __name__ == "__main__":
    main()

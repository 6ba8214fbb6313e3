"""Who pays for which hack: designs of a verifier against the corpus of hacks, as a table.

    .venv/bin/python bench/hack_matrix.py [--quick] [--corpus DIR] [--only TEXT] [--designs V1,L4] [--picture FILE.svg]

Rows are mechanisms, columns designs: V0 to V3 are common ones, rebuilt (see _naive.py), L3 and L4 are ours. A cell is
how many of the attempts were paid. Each mechanism is tried at every task of its families (`--quick`: one task each).
`--corpus` takes hacks from elsewhere in the folder form of docs/adversary.md through the same verifiers. The honest
answer of every task goes the same way. The last line is one JSON object; the keys are explained in docs/adversary.md.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
import time
from pathlib import Path

import msgspec
import pytest
from _machine import finish
from _naive import AGENT, DESIGNS, paid_by
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from quintain.grade import Oracle, SealedOracle, export, headline, sanitise, warm_oracle, warm_sealed
from quintain.sandbox import Backend, NativeBackend
from quintain.tasks import PythonSuite
from quintain.testing import Trial, read_corpus
from quintain.types import Attribution, FaultKind, HouseError, Limits, Program, TaskError, Verdict

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "adversary" / "hacks"
DATA = ROOT.parent / "shared" / "data"
SITE = (Path(pytest.__file__).resolve().parent.parent,)
WORKERS = 3
OURS = ("L3", "L4")
NAMES = {"V0": "tests in the tree, exit code", "V1": "fresh tests, exit code", "V2": "V1, configuration off",
         "V3": "V2, report of every test", "L3": "sealed, canaries", "L4": "out of process"}


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """What one design did with one attempt. `paid` is None where the house failed, or the design cannot be applied."""

    trial: Trial
    design: str
    paid: bool | None
    why: str = ""
    tamper: bool = False


class Verifiers:
    """All designs, each on the backend that is warm for it."""

    def __init__(self, outside: Backend, inside: Backend) -> None:
        self._outside = outside
        self._inside = inside
        self._oracle = Oracle(outside)
        self._sealed = SealedOracle(inside, site=SITE)

    async def cell(self, design: str, trial: Trial) -> Cell | None:
        """None where a design has no meaning for a task."""
        if design == "L3" and not isinstance(trial.item.exam.hidden, PythonSuite):
            return None
        limits = msgspec.structs.replace(trial.limits, memory_bytes=256 << 20, disk_bytes=64 << 20)
        try:
            if design in DESIGNS:
                return Cell(trial=trial, design=design, paid=await paid_by(design, self._inside, trial, limits))
            verdict = await self._judged(design, trial, limits)
        except (HouseError, TaskError) as error:
            return Cell(trial=trial, design=design, paid=None, why=str(error))
        fault = headline(verdict)
        return Cell(trial=trial, design=design, paid=verdict.solved and verdict.level == design,
                    why=str(fault or f"level {verdict.level}"),
                    tamper=fault is not None and fault.attribution is Attribution.TAMPER)

    async def _judged(self, design: str, trial: Trial, limits: Limits) -> Verdict:
        files, given = await self._handed_in(trial, limits), trial.item.task.files
        suite = trial.item.exam.hidden
        if design == "L3":
            assert isinstance(suite, PythonSuite)
            return await self._sealed.grade(
                suite, Program(files=files), limits=limits, reference=trial.family.honest, given=given)
        program = msgspec.structs.replace(trial.program, files=sanitise(files, given=given).files)
        return await self._oracle.grade(suite, program, limits=limits)

    async def _handed_in(self, trial: Trial, limits: Limits) -> dict[str, bytes]:
        """The files of an attempt; where it did something before, what its sandbox exports afterwards."""
        if trial.hack is None or not trial.hack.before:
            return trial.program.files
        async with self._outside.open(limits=limits) as (sandbox,):
            await sandbox.files.write_many({f"{AGENT}/{p}": c for p, c in trial.program.files.items()})
            await sandbox.run(list(trial.hack.before), cwd=f"/work/{AGENT}")
            return (await export(sandbox, folder=f"/work/{AGENT}")).files


def asked(trials: list[Trial], designs: list[str], naive_tasks: int | None) -> list[tuple[str, Trial]]:
    """Which design is asked about which attempt. The rebuilt ones see at most `naive_tasks` tasks of each mechanism,
    in an order that has nothing to do with their names."""
    seen: dict[str, int] = {}
    pairs: list[tuple[str, Trial]] = []
    for trial in sorted(trials, key=lambda t: hashlib.sha256(t.name.encode()).digest()):
        name = trial.hack.name if trial.hack else ""
        turn = seen[name] = seen.get(name, 0) + 1 if name else 0
        few = naive_tasks is not None and turn > naive_tasks
        pairs += [(design, trial) for design in designs if not (few and design in DESIGNS)]
    return pairs


async def fill(pairs: list[tuple[str, Trial]], console: Console) -> list[Cell]:
    """Every cell, a few at a time, with a line of progress on stderr."""
    cells: list[Cell] = []
    jobs = asyncio.Queue[tuple[str, Trial]]()
    for pair in pairs:
        jobs.put_nowait(pair)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("attempts", total=jobs.qsize())
        async with NativeBackend(warm=warm_oracle(site=SITE)) as outside, \
                NativeBackend(warm=warm_sealed(site=SITE)) as inside, asyncio.TaskGroup() as group:
            verifiers = Verifiers(outside, inside)

            async def work() -> None:
                while not jobs.empty():
                    design, trial = jobs.get_nowait()
                    cell = await verifiers.cell(design, trial)
                    if cell is not None:
                        cells.append(cell)
                    progress.advance(bar)
                    done = progress.tasks[0].completed
                    if not console.is_terminal and done % 250 == 0:
                        print(f"{done:.0f} of {progress.tasks[0].total:.0f} attempts", file=sys.stderr, flush=True)

            for _ in range(WORKERS):
                group.create_task(work())
    return cells


def table_of(cells: list[Cell], designs: list[str], *, groups: bool) -> Table:
    """Paid attempts by mechanism, or by group of mechanisms."""
    table = Table(title="Attempts that were paid, of all" + (", by kind of hack" if groups else ", by mechanism"))
    table.add_column("kind of hack" if groups else "mechanism", overflow="fold")
    for design in designs:
        table.add_column(f"{design}\n{NAMES[design]}", justify="right", max_width=16)
    rows: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        hack = cell.trial.hack
        if hack is not None:
            name = hack.group if groups else f"{hack.name} ({hack.language})"
            rows.setdefault((hack.group, name), []).append(cell)
    for (_, name), row in sorted(rows.items()):
        table.add_row(name, *(_shown([c for c in row if c.design == d]) for d in designs))
    table.add_section()
    table.add_row("all", *(_shown([c for c in cells if c.design == d and c.trial.hack]) for d in designs))
    table.add_row("honest answers accepted", *(
        _count([c for c in cells if c.design == d and c.trial.hack is None]) for d in designs))
    return table


def _count(cells: list[Cell]) -> str:
    return f"{sum(bool(c.paid) for c in cells)}/{len(cells)}" if cells else ""


def _shown(cells: list[Cell]) -> str:
    if not cells:
        return "[dim]-[/]"
    paid = sum(bool(c.paid) for c in cells)
    colour = "green" if paid == 0 else "yellow" if paid < len(cells) / 2 else "red"
    return f"[{colour}]{paid}/{len(cells)}[/]"


def detectors(corpus: Path) -> dict[str, float | None]:
    """What the detectors of quintain.guard make of the same corpus; None with the reason on stderr where not known."""
    keys: dict[str, float | None] = dict.fromkeys(("detector_recall", "detector_fpr", "unseen_recall"))
    try:
        from _detect import evaluate
    except ImportError as error:
        print(f"detectors not measured: {error}", file=sys.stderr)
        return keys
    found = evaluate(corpus, DATA)
    return {key: found[key] for key in keys}


def figures(cells: list[Cell], designs: list[str]) -> dict[str, object]:
    hacks = [c for c in cells if c.trial.hack is not None]
    by = {d: [c for c in hacks if c.design == d] for d in designs}
    paid = {d: sum(bool(c.paid) for c in by[d]) for d in designs}
    honest = {d: _count([c for c in cells if c.design == d and c.trial.hack is None]) for d in designs}
    mechanisms = {c.trial.hack.name for c in hacks if c.trial.hack}
    return {
        "mechanisms": len(mechanisms), "attempts_l4": len(by.get("L4", [])), "paid_l4": paid.get("L4"),
        "attempts_l3": len(by.get("L3", [])), "paid_l3": paid.get("L3"), "paid_naive": paid.get("V1"),
        "attempts_naive": len(by.get("V1", [])),
        "paid_by_design": {d: f"{paid[d]}/{len(by[d])}" for d in designs}, "honest_by_design": honest,
        "mechanisms_paid_by_design": {
            d: len({c.trial.hack.name for c in by[d] if c.paid and c.trial.hack}) for d in designs},
        "house_errors": sum(c.paid is None for c in cells),
        "called_tampering": {d: sum(c.tamper for c in by[d]) for d in designs if d in OURS},
        "confirmed_by_canary_l3": sum(FaultKind.CANARY_PASSED.value in c.why for c in by.get("L3", [])),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="each mechanism at one task")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="a folder of hacks (docs/adversary.md)")
    parser.add_argument("--only", default="", help="attempts whose name (HACK/TASK) holds this text")
    parser.add_argument("--designs", default=",".join((*DESIGNS, *OURS)), help="comma-separated: V0 V1 V2 V3 L3 L4")
    parser.add_argument("--naive-tasks", type=int, help="V0 to V3 at so many tasks of each mechanism (default: all)")
    parser.add_argument("--picture", type=Path, help="write the table by kind of hack to this SVG file")
    parser.add_argument("--no-detectors", action="store_true", help="leave the detectors out")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    designs = options.designs.split(",")
    if unknown := sorted(set(designs) - set(NAMES)):
        print(f"--designs: expected some of {', '.join(NAMES)}, found {', '.join(unknown)}", file=sys.stderr)
        return 2
    try:
        corpus = read_corpus(options.corpus, families=CORPUS.parent / "families")
    except TaskError as error:
        print(f"--corpus: {error}", file=sys.stderr)
        return 2
    trials = [t for t in corpus.trials() if options.only in t.name]
    if options.quick:
        trials = list({t.hack.name: t for t in trials if t.hack}.values())
    used = {t.family.name for t in trials}
    trials = [*(t for t in corpus.honest() if t.family.name in used), *trials]
    started = time.monotonic()
    cells = asyncio.run(fill(asked(trials, designs, options.naive_tasks), Console(stderr=True)))
    seconds = time.monotonic() - started
    console = Console(record=True, width=None if sys.stdout.isatty() else 150)
    console.print(table_of(cells, designs, groups=False))
    if options.picture:
        drawn = Console(record=True, width=130, file=open("/dev/null", "w"))  # noqa: SIM115
        drawn.print(table_of(cells, designs, groups=True))
        drawn.save_svg(str(options.picture), title="Who pays for which hack")
    for cell in sorted(cells, key=lambda c: c.trial.name):
        if cell.design in OURS and (cell.paid is None or cell.paid is not (cell.trial.hack is None)):
            print(f"{cell.design} {cell.trial.name}: paid={cell.paid}: {cell.why}")
    measured = {} if options.no_detectors else detectors(options.corpus)
    finish(bench="hack_matrix", **figures(cells, designs), **measured, seconds=round(seconds, 1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Honest answers are accepted and wrong ones rejected: public task sets through the oracle, on the native backend.

    .venv/bin/python bench/honest.py [--quick] [--data DIR] [--samples N] [--seed N] [--only SET ...]

The honest set (HumanEval, MBPP sanitized, exercism in Python and JavaScript, QuixBugs, ClassEval, HumanEvalPack in
Python and JavaScript) is graded with its reference answers, and with answers that must not pass. The CodeT samples
(real outputs of a 16B model) are graded twice: by the oracle, and by plain execution of prompt, completion and check
in one interpreter in one sandbox; a disagreement is run again with more time, then listed with both reasons. Samples
that pass are tried on further inputs (see _strengthen.py): `youden_j` is TPR - FPR of the published checks, as the
oracle runs them, against checks and further inputs together. The last line is one JSON object; a set that is not on
this machine is null there, with the reason. `not_judged` are tasks of a set that no verdict is made of, each with the
reason; they are not in honest_total.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import secrets
import shutil
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from _machine import Account, finish
from _strengthen import strengthened

from quintain.grade import Oracle, headline, warm_oracle
from quintain.sandbox import Backend, NativeBackend
from quintain.tasks import Item, PythonSuite, Suite, Taskset, open_taskset
from quintain.types import HouseError, Limits, Owner, Program, TaskError, Verdict

WORKERS = 3
Row = dict[str, Any]
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
REFERENCE = Limits(wall_seconds=60.0, cpu_seconds=60.0)  # two reference answers take 5 s on an idle machine
SAMPLE = Limits(wall_seconds=5.0, cpu_seconds=2.0)
SAMPLE_AGAIN = Limits(wall_seconds=20.0, cpu_seconds=8.0)
#: The sets of the honest bar, and how many of each with --quick.
HONEST = {
    "humaneval": 20, "mbpp-sanitized": 20, "quixbugs": 8, "exercism-python": 8, "exercism-javascript": 8,
    "classeval": 10, "humanevalpack-python": 10, "humanevalpack-javascript": 10,
}
#: Rejected reference answers whose tests cannot be judged from outside, or that are wrong themselves, and why.
EXPLAINED = {
    "exercism/python/paasio": "test_meteredfile_context_manager looks for a frame of the answer on its own call stack "
    "(inspect.getouterframes), and the answer's frames are in another process",
    "ClassEval_20": "test and answer each read the clock to the second, and one may read it a second later",
    "ClassEval_58": "the reference lays its mines at random, now and then two in one place, and its tests count them",
}


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One answer to grade. `right`: whether it must be accepted; None where plain execution decides."""

    set: str
    name: str
    suite: Suite
    files: dict[str, bytes]
    limits: Limits
    right: bool | None
    plain: str | None = None
    further: str | None = None  # the task whose further inputs it is tried on when it passes


class Done(msgspec.Struct, frozen=True, kw_only=True):
    work: Work
    solved: bool
    right: bool
    reason: str
    cpu_seconds: float
    own_tests_fail: str | None = None  # what a reference answer fails at in one process with its tests, as published
    same: bool | None = None  # whether it agrees with the reference on further inputs; None: not tried


def of_item(name: str, item: Item, *, nulls: bool = True) -> Iterator[Work]:
    task, exam = item.task, item.exam
    answers = [(exam.oracle or {}, True), *((tree, False) for tree in (exam.null[:1] if nulls else ()))]
    for tree, right in answers:
        yield Work(set=name, name=task.id, suite=exam.hidden, files={**task.files, **tree},
                   limits=REFERENCE if right else SAMPLE, right=right)


def read_rows(path: Path) -> list[Row]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def matched(checks: list[Row], sampled: list[Row]) -> Iterator[tuple[Row, Row]]:
    """Each task with its samples. Their prompts lack the examples: the function's name and the longest beginning that
    both share tell which belongs to which."""
    for check in checks:
        named = [s for s in sampled if f"def {check['entry_point']}(" in s["prompt"]]
        if named:
            yield check, max(named, key=lambda s: shared_length(s["prompt"], check["prompt"]))


def shared_length(one: str, other: str) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def of_samples(data: Path, humaneval: Taskset, count: int, seed: int) -> Iterator[Work]:
    """`count` of the samples, chosen by `seed`, each with the script that judges it in plain execution."""
    path = data / "codet_samples" / "HumanEval_codegen16B_temp0.8_100x164_solutions.jsonl.gz"
    items = {item.task.id: item for item in humaneval}
    rows = [(check, sampled) for check, sampled in matched(
        read_rows(data / "humaneval" / "HumanEval.jsonl.gz"), read_rows(path)) if check["task_id"] in items]
    pairs = [(check, sampled, n) for check, sampled in rows for n in range(len(sampled["samples"]))]
    for check, sampled, number in random.Random(seed).sample(pairs, min(count, len(pairs))):
        text = sampled["prompt"] + sampled["samples"][number]
        yield Work(
            set="codet", name=f"{check['task_id']}#{number}", further=check["task_id"],
            suite=items[check["task_id"]].exam.hidden,
            files={"solution.py": text.encode()}, limits=SAMPLE, right=None,
            plain=f"{text}\n{check['test']}\ncheck({check['entry_point']})\n",
        )


async def plainly(backend: Backend, work: Work, limits: Limits) -> tuple[bool, str]:
    """Whether the check passes in one interpreter with the answer; the word at the end proves that it got there."""
    word = secrets.token_hex(8)
    async with backend.open(limits=limits) as (sandbox,):
        await sandbox.files.write("plain.py", f"{work.plain}\nprint({word!r})\n".encode())
        outcome = await sandbox.run(["python3", "-S", "-s", "-P", "-B", "plain.py"])
    said = outcome.error_text.strip().splitlines()
    return outcome.stdout.strip().endswith(word.encode()), f"{outcome.status.value} {said[-1] if said else ''}"


async def unittested(backend: Backend, work: Work) -> str | None:
    """What fails when the answer and its unittest file share an interpreter; None when nothing does."""
    assert isinstance(work.suite, PythonSuite)
    async with backend.open(limits=work.limits) as (sandbox,):
        await sandbox.files.write_many({**work.files, **work.suite.files})
        outcome = await sandbox.run(["python3", "-s", "-B", "-m", "unittest", "test_hidden"])
    said = [line for line in outcome.error_text.splitlines() if "Error" in line or line.startswith("FAIL")]
    return None if outcome.exit_code == 0 else f"{outcome.status.value}: {said[-1] if said else ''}"


def reason_of(verdict: Verdict) -> str:
    fault = headline(verdict)
    return str(fault) if fault else "passed"


async def grade(backend: Backend, oracle: Oracle, work: Work) -> Done:
    async def once(limits: Limits) -> Done:
        try:
            verdict = await oracle.grade(work.suite, Program(files=work.files), limits=limits)
            if (fault := headline(verdict)) and fault.owner is Owner.HOUSE:  # no verdict: the house tries again
                verdict = await oracle.grade(work.suite, Program(files=work.files), limits=limits, seed=1)
        except (HouseError, TaskError) as error:  # not a verdict, and counted against us
            return Done(work=work, solved=False, right=bool(work.right), reason=f"{type(error).__name__}: {error}",
                        cpu_seconds=0.0)
        right, plain = (work.right, "") if work.right is not None else await plainly(backend, work, limits)
        return Done(work=work, solved=verdict.solved, right=right, cpu_seconds=verdict.cpu_seconds or 0.0,
                    reason=f"oracle: {reason_of(verdict)}" + (f"; plain: {plain}" if plain else ""))

    done = await once(work.limits)
    if work.set == "classeval" and work.right and not done.solved:
        return msgspec.structs.replace(done, own_tests_fail=await unittested(backend, work))
    return done if done.solved == done.right or work.right is not None else await once(SAMPLE_AGAIN)


class Further:
    """The further inputs of each task, made when a first sample of it passes."""

    def __init__(self, backend: Backend, oracle: Oracle, seed: int, items: dict[str, Item]) -> None:
        self._backend, self._oracle, self._seed, self._items = backend, oracle, seed, items
        self._suites: dict[str, asyncio.Task[PythonSuite | None]] = {}

    async def tried(self, done: Done, group: asyncio.TaskGroup) -> Done:
        """The same with `same` known, where the sample passed and its task has further inputs."""
        id = done.work.further
        if id is None or not (done.solved or done.right):
            return done
        if id not in self._suites:
            self._suites[id] = group.create_task(strengthened(self._backend, self._items[id], seed=self._seed))
        suite = await self._suites[id]
        if suite is None:
            return done
        program = Program(files=done.work.files)
        verdict = await self._oracle.grade(suite, program, limits=SAMPLE_AGAIN, confirm=False)
        return msgspec.structs.replace(done, same=verdict.solved)


async def grade_all(works: list[Work], items: dict[str, Item], seed: int) -> AsyncIterator[Done]:
    """All of them, a few at a time."""
    todo = iter(works)
    finished: asyncio.Queue[Done | None] = asyncio.Queue(maxsize=64)
    async with native() as backend, asyncio.TaskGroup() as group:
        oracle = Oracle(backend)
        further = Further(backend, oracle, seed, items)

        async def worker() -> None:
            for work in todo:
                await finished.put(await further.tried(await grade(backend, oracle, work), group))
            await finished.put(None)

        for _ in range(WORKERS):
            group.create_task(worker())
        ended = 0
        while ended < WORKERS:
            done = await finished.get()
            if done is None:
                ended += 1
            else:
                yield done


@asynccontextmanager
async def native() -> AsyncIterator[Backend]:
    async with NativeBackend(warm=warm_oracle()) as backend:
        yield backend


def gather(args: argparse.Namespace, missing: dict[str, str], not_judged: dict[str, str]) -> list[Work]:
    works: list[Work] = []
    for name, few in HONEST.items():
        if args.only and name not in args.only:
            missing[name] = "left out by --only"
            continue
        try:
            tasks = open_taskset(name, data=args.data, shuffle=args.seed, take=few if args.quick else None)
        except TaskError as error:
            missing[name] = str(error)
            continue
        for id in tasks.ids:
            try:
                item = tasks[id]
            except TaskError as error:
                not_judged[id] = error.message
                continue
            lacking = lacks(item)
            if lacking:
                not_judged[id] = lacking
            else:
                works += of_item(name, item)
    if args.only and "codet" not in args.only:
        missing["codet"] = "left out by --only"
        return works
    try:
        count = args.samples or (80 if args.quick else 4000)
        works += of_samples(args.data, open_taskset("humaneval", data=args.data), count, args.seed)
    except (OSError, TaskError) as error:
        missing["codet"] = str(error)
    return works


def lacks(item: Item) -> str | None:
    """What an item needs that the sandboxes here do not have."""
    needs = [tag.removeprefix("needs:") for tag in item.task.tags if tag.startswith("needs:")]
    if needs:
        return f"needs {', '.join(needs)} in the image"
    if "shares-files" in item.task.tags:
        return "its tests and the answer hand files to each other, and the two sides have no folder in common"
    if item.task.entry.language == "javascript" and shutil.which("node") is None:
        return "needs node in the image"
    return None


def youden(samples: list[Done]) -> dict[str, object]:
    """J = TPR - FPR of the checks as the oracle runs them. Right is what passes plain execution and differs nowhere on
    further inputs; a sample whose task has none counts by plain execution alone."""
    right = [d for d in samples if d.right and d.same is not False]
    wrong = [d for d in samples if not (d.right and d.same is not False)]
    rates = [sum(d.solved for d in part) / len(part) if part else None for part in (right, wrong)]
    j = None if rates[0] is None or rates[1] is None else round(rates[0] - rates[1], 5)
    return {"tpr": rates[0] and round(rates[0], 5), "fpr": rates[1] and round(rates[1], 5), "youden_j": j,
            "codet_tried_further": sum(d.same is not None for d in samples),
            "codet_differ_further": sum(d.same is False for d in samples)}


def figures(dones: list[Done], missing: dict[str, str], not_judged: dict[str, str]) -> dict[str, object]:
    def count(name: str, *, right: bool | None, solved: bool) -> int | None:
        if name in missing:
            return None
        return sum(d.work.set == name and d.work.right is right and d.solved is solved for d in dones)

    samples = [d for d in dones if d.work.right is None]
    honest = [d for d in dones if d.work.right and d.own_tests_fail is None]
    not_judged = not_judged | {d.work.name: f"fails its own tests in one process, too: {d.own_tests_fail}"
                               for d in dones if d.own_tests_fail is not None}
    quixbugs = [d for d in dones if d.work.set == "quixbugs"]
    return {
        "humaneval_solved": count("humaneval", right=True, solved=True),
        "humaneval_null_solved": count("humaneval", right=False, solved=True),
        "quixbugs_right": None if "quixbugs" in missing else sum(d.solved == d.right for d in quixbugs),
        "exercism_solved": count("exercism-python", right=True, solved=True),
        "exercism_null_solved": count("exercism-python", right=False, solved=True),
        "codet_total": None if "codet" in missing else len(samples),
        "codet_passing": None if "codet" in missing else sum(d.right for d in samples),
        "codet_disagreements": None if "codet" in missing else sum(d.solved != d.right for d in samples),
        **youden(samples),
        "honest_total": len(honest), "honest_rejected": sum(not d.solved for d in honest),
        "honest_by_set": {name: [sum(d.solved for d in honest if d.work.set == name),
                                 sum(d.work.set == name for d in honest)] for name in HONEST},
        "explained": {d.work.name: EXPLAINED[d.work.name] for d in honest
                      if not d.solved and d.work.name in EXPLAINED},
        "graded": len(dones),
        "cpu_seconds_per_verdict": round(sum(d.cpu_seconds for d in dones) / max(len(dones), 1), 4),
        "missing": missing, "not_judged": not_judged,
    }


def listed(done: Done) -> str | None:
    """A line for a result that somebody should look at."""
    if done.solved == done.right:
        return None
    if done.work.right is None:
        return f"disagreement {done.work.name}: {done.reason}"
    if done.own_tests_fail is not None:
        return f"broken       {done.work.name}: fails its own tests in one process, too: {done.own_tests_fail}"
    if done.right:
        why = EXPLAINED.get(done.work.name)
        return f"rejected     {done.work.name}: {done.reason}" + (f" [explained: {why}]" if why else "")
    return f"null passes  {done.work.name}: its tests accept an answer that does nothing"


async def main(args: argparse.Namespace) -> dict[str, object]:
    missing: dict[str, str] = {}
    not_judged: dict[str, str] = {}
    dones: list[Done] = []
    works = gather(args, missing, not_judged)
    items = {} if "codet" in missing else {i.task.id: i for i in open_taskset("humaneval", data=args.data)}
    told = time.monotonic()
    async for done in grade_all(works, items, args.seed):
        dones.append(done)
        line = listed(done)
        if line:
            print(line, flush=True)
        if time.monotonic() - told > 5:
            told = time.monotonic()
            print(f"{len(dones)} of {len(works)} ({done.work.set})", file=sys.stderr, flush=True)
    return figures(dones, missing, not_judged)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer items, within two minutes")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of task sets (default: %(default)s)")
    parser.add_argument("--samples", type=int, help="how many CodeT samples of 16,400 (default: 4000, quick: 80)")
    parser.add_argument("--only", nargs="+", choices=[*HONEST, "codet"], help="some of the sets")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    with Account() as account:
        result = asyncio.run(main(options))
        spent = account.seconds()
    total = time.monotonic() - started
    graded = result["graded"]
    assert isinstance(graded, int)
    finish(**result, all_cpu_seconds_per_verdict=round(spent / max(graded, 1), 4), seconds=round(total, 1))

"""What executing an answer takes of CPU time in a training, judged alone and with others in one visit to the sandboxes.

    .venv/bin/python bench/visits.py [--answers 400] [--seed 0]

The answers are edits of one token, drawn at random from those that are open to the tasks of `repair-train`: about what
a policy tries that knows nothing yet. Each figure is CPU milliseconds an answer, of this process and of all that it
started, engines and their start included. `late` and `solved` are the shares of answers that did not end in time and
that were right: both are judged alone, in a visit too. `alike` says whether both ways gave equal rewards and results of
every test.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
from collections.abc import Sequence

from _machine import finish

from quintain.cli.training import SandboxJudge
from quintain.env import CodeEnvironment
from quintain.grade import Oracle, solved_only, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, open_taskset
from quintain.train import Attempted, Judged
from quintain.train.repair_problem import Problem

BATCH = 16  # answers that a training asks for at a time


def cpu_seconds() -> float:
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def drawn(items: Sequence[Item], count: int, seed: int) -> list[Attempted]:
    dice = random.Random(seed)
    found: dict[str, Attempted] = {}
    while len(found) < count:
        problem = Problem(dice.choice(items).task)
        attempt = problem.attempted(dice.randrange(len(problem.case.code.edits)))
        found[attempt.digest] = attempt
    return list(found.values())


async def judged(items: Sequence[Item], attempts: Sequence[Attempted], *, together: bool) -> list[Judged]:
    async with NativeBackend(warm=warm_oracle()) as backend:
        oracle = Oracle(backend, confirm=False)
        environment = CodeEnvironment(backend, oracle=oracle, scalar=solved_only, detectors=())
        judge = SandboxJudge(environment, items, sandboxes=4, oracle=oracle if together else None)
        return [one for at in range(0, len(attempts), BATCH) for one in await judge(attempts[at: at + BATCH])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    items = list(open_taskset("repair-train"))
    attempts = drawn(items, asked.answers, asked.seed)
    took: dict[bool, float] = {}
    found: dict[bool, list[Judged]] = {}
    for together in (False, True):
        before = cpu_seconds()
        found[together] = asyncio.run(judged(items, attempts, together=together))
        took[together] = cpu_seconds() - before
    verdicts = [[(one.reward, one.verdict.tests if one.verdict else None) for one in found[way]] for way in found]
    late = sum(one.verdict is not None and one.verdict.fault is not None for one in found[True])
    finish(
        answers=len(attempts), alone_ms=round(1e3 * took[False] / len(attempts), 2),
        together_ms=round(1e3 * took[True] / len(attempts), 2), times=round(took[False] / took[True], 2),
        late=round(late / len(attempts), 4), solved=round(sum(one.solved for one in found[True]) / len(attempts), 4),
        alike=verdicts[0] == verdicts[1],
    )


if __name__ == "__main__":
    main()

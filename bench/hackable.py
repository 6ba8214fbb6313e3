"""A small policy learns in an environment that can be hacked: under a naive verifier it learns to hack, under ours not.

    .venv/bin/python bench/hackable.py [--quick] [--seeds N] [--attempts N] [--hacks N] [--plot FILE]

Tasks are the function families of tests/adversary/families. Each attempt takes one of a few strategies: to write an
honest answer with much, some or little care (right in 9, 6 or 3 of 10 attempts; otherwise a function is left empty),
or one mechanism of tests/adversary/hacks. The policy is a softmax over strategies, trained by REINFORCE with a running
baseline.

naive: the common design. Fresh tests are laid over the answer's files, a runner in the same interpreter calls them, and
the exit code pays 1 or 0. ours: the L4 oracle and its confirmation, the detectors of quintain.guard, and `reward_of`.
Every reward is that of a real execution in sandboxes; an answer that was executed before under the same verifier is not
executed again (`executed_share` says how many were). The last line is one JSON object, over the last fifth of all
attempts: how many were hacks, and how many were honest and really right.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import math
import random
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from _curves import Curve, draw
from _machine import finish

from quintain.grade import Oracle, reward_of, warm_oracle
from quintain.guard import inspect_all, standard_detectors
from quintain.sandbox import Backend, NativeBackend
from quintain.tasks import Item, PythonSuite
from quintain.testing import Family, Trial, read_corpus
from quintain.types import Attempt, HouseError, Limits, Program, Status, Trainable, content_digest

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "adversary" / "hacks"
TASKS = ("ratios", "sums", "text")
CARE = {"careful": 0.9, "ordinary": 0.6, "hasty": 0.3}
LIMITS = Limits(wall_seconds=4.0, cpu_seconds=2.0)
RATE = 0.25
BATCH = 16
WORKERS = 3
RUNNER = b'''\
import glob, importlib, sys, traceback, unittest

sys.path.insert(0, ".")
failed = 0
for path in sorted(glob.glob("test_*.py")):
    module = importlib.import_module(path[:-3])
    for name in dir(module):
        if name.startswith("test"):
            try:
                getattr(module, name)()
            except Exception:
                traceback.print_exc()
                failed += 1
sys.exit(1 if failed else 0)
'''


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a strategy may hand in at a task."""

    task: str
    files: dict[str, bytes]
    hack: str | None = None

    @property
    def digest(self) -> str:
        return content_digest((self.task, self.files))


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """`reward` is None where the attempt does not train: masked, because a detector doubts it."""

    reward: float | None
    solved: bool


def spoilt(source: bytes) -> list[bytes]:
    """Answers in which one function, or every function, does nothing."""
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    found = []
    for chosen in [[f] for f in functions] + [functions]:
        copy = ast.parse(source)
        for node in copy.body:
            if isinstance(node, ast.FunctionDef) and node.name in {f.name for f in chosen}:
                node.body = [ast.Pass()]
        found.append(ast.unparse(copy).encode())
    return found


class Bandit:
    """A softmax over strategies."""

    def __init__(self, names: Sequence[str], chance: random.Random) -> None:
        self.names = list(names)
        self.logits = [0.0] * len(names)
        self.baseline = 0.0
        self.chance = chance

    @property
    def shares(self) -> list[float]:
        most = max(self.logits)
        weights = [math.exp(x - most) for x in self.logits]
        return [w / sum(weights) for w in weights]

    def act(self, count: int) -> list[int]:
        return self.chance.choices(range(len(self.names)), self.shares, k=count)

    def learn(self, taken: Sequence[int], rewards: Sequence[float]) -> None:
        """One REINFORCE step on the mean of a batch (Williams 1992)."""
        shares = self.shares
        for action, reward in zip(taken, rewards, strict=True):
            gain = RATE * (reward - self.baseline)
            for n in range(len(self.logits)):
                self.logits[n] += gain * ((n == action) - shares[n])
        self.baseline += 0.1 * (sum(rewards) / len(rewards) - self.baseline)


class Verifiers:
    """Both designs over one backend, and what they have said so far."""

    def __init__(self, backend: Backend, families: dict[str, Family], items: dict[str, Item]) -> None:
        self.backend = backend
        self.families = families
        self.items = items
        self.detectors = standard_detectors()
        self.oracle = Oracle(backend)
        self.said: dict[tuple[str, str], Judged] = {}
        self.asked = 0

    async def reward(self, design: str, answer: Answer) -> Judged:
        self.asked += 1
        key = (design, answer.digest)
        if key not in self.said:
            self.said[key] = await (self._naive(answer) if design == "naive" else self._ours(answer))
        return self.said[key]

    async def truth(self, answer: Answer) -> Judged:
        """Whether an honest answer is right, by our verifier; it is no reward, and is not counted as one."""
        key = ("ours", answer.digest)
        if key not in self.said:
            self.said[key] = await self._ours(answer)
        return self.said[key]

    async def _naive(self, answer: Answer) -> Judged:
        async with self.backend.open(limits=LIMITS) as (sandbox,):
            try:
                await sandbox.files.write_many(answer.files)
            except OSError:
                return Judged(reward=0.0, solved=False)
            await sandbox.files.write_many({**self.families[answer.task].suite, "run_tests.py": RUNNER})
            outcome = await sandbox.run(["python3", "run_tests.py"])
        paid = outcome.status is Status.OK
        return Judged(reward=float(paid), solved=paid)

    async def _ours(self, answer: Answer) -> Judged:
        suite = PythonSuite(files=self.families[answer.task].suite)
        program = Program(files=answer.files)
        for _ in range(3):  # what the house breaks is tried again and never paid
            try:
                verdict = await self.oracle.grade(suite, program, limits=LIMITS)
            except HouseError:
                continue
            item = self.items[answer.task]
            attempt = Attempt(task=item.task, program=program, verdict=verdict)
            reward = reward_of(verdict, flags=inspect_all(attempt, item, self.detectors))
            if reward is not None:
                total = reward.total if reward.trainable is Trainable.YES else None
                return Judged(reward=total, solved=reward.solved)
        return Judged(reward=None, solved=False)


Choices = dict[str, dict[str, list[tuple[float, Answer]]]]


def strategies(count: int, seed: int) -> tuple[dict[str, Family], dict[str, Item], Choices]:
    """The tasks, and by strategy and task what may be handed in, each with its probability."""
    corpus = read_corpus(CORPUS)
    families = {family.name: family for family in corpus.families if family.name in TASKS}
    items = {trial.family.name: trial.item for trial in corpus.honest() if trial.family.name in families}
    found: Choices = {name: {} for name in CARE}
    for family in families.values():
        right = Answer(task=family.name, files=family.honest)
        (path,) = family.honest
        wrong = [Answer(task=family.name, files={path: text}) for text in spoilt(family.honest[path])]
        for name, care in CARE.items():
            rest = [((1 - care) / len(wrong), answer) for answer in wrong]
            found[name][family.name] = [(care, right), *rest]
    by_hack: dict[str, list[Trial]] = {}
    for trial in corpus.trials():
        if trial.hack is not None and trial.family.name in families and trial.hack.language == "python":
            by_hack.setdefault(trial.hack.name, []).append(trial)
    for name in sorted(random.Random(seed).sample(sorted(by_hack), min(count, len(by_hack)))):
        found[name] = {
            trial.family.name: [(1.0, Answer(task=trial.family.name, files=trial.program.files, hack=name))]
            for trial in by_hack[name]
        }
    return families, items, found


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """One run of learning: by batch, which share of the attempts were hacks, and which were honest and right."""

    hacking: list[float]
    honest: list[float]
    favourite: str


async def learn(design: str, verifiers: Verifiers, choices: Choices, *, attempts: int, seed: int) -> Trace:
    """Train one policy from nothing. What is really right is what our verifier says of an honest answer."""
    chance = random.Random(f"{seed}")
    bandit = Bandit(list(choices), chance)
    hacking, honest = [], []
    for _ in range(attempts // BATCH):
        taken = bandit.act(BATCH)
        answers = []
        for action in taken:
            offered = choices[bandit.names[action]]
            task = chance.choice(sorted(offered))
            weights, made = zip(*offered[task], strict=True)
            answers.append(chance.choices(made, weights)[0])
        judged = [await verifiers.reward(design, answer) for answer in answers]
        known = [(action, one.reward) for action, one in zip(taken, judged, strict=True) if one.reward is not None]
        if known:
            bandit.learn([action for action, _ in known], [reward for _, reward in known])
        right = [a.hack is None and (await verifiers.truth(a)).solved for a in answers]
        hacking.append(sum(a.hack is not None for a in answers) / BATCH)
        honest.append(sum(right) / BATCH)
    shares = bandit.shares
    return Trace(hacking=hacking, honest=honest, favourite=bandit.names[shares.index(max(shares))])


def last_fifth(values: Sequence[float]) -> float:
    tail = values[-max(1, len(values) // 5):]
    return sum(tail) / len(tail)


def smooth(values: Sequence[float], width: int = 8) -> list[float]:
    return [sum(values[max(0, n - width + 1):n + 1]) / (n + 1 - max(0, n - width + 1)) for n in range(len(values))]


async def execute_all(verifiers: Verifiers, choices: Choices) -> None:
    """Ask both designs about every answer once, a few at a time, so that learning does not wait for single ones."""
    todo = iter({
        (design, answer.digest): (design, answer) for design in ("naive", "ours")
        for by_task in choices.values() for offered in by_task.values() for _, answer in offered
    }.values())

    async def worker() -> None:
        for design, answer in todo:
            await verifiers.reward(design, answer)

    async with asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(worker())


async def main(args: argparse.Namespace) -> dict[str, object]:
    families, items, choices = strategies(args.hacks, args.seed)
    async with NativeBackend(warm=warm_oracle()) as backend:
        verifiers = Verifiers(backend, families, items)
        await execute_all(verifiers, choices)
        traces = {
            design: [
                await learn(design, verifiers, choices, attempts=args.attempts, seed=args.seed + n)
                for n in range(args.seeds)
            ] for design in ("naive", "ours")
        }
    if args.plot:
        plot(args.plot, traces, args.attempts)
    return figures(verifiers, choices, traces, args)


def figures(
    verifiers: Verifiers, choices: Choices, traces: dict[str, list[Trace]], args: argparse.Namespace,
) -> dict[str, object]:
    hacks = [name for name in choices if name not in CARE]
    paid = {design: sorted({
        name for name in hacks for offered in choices[name].values() for _, answer in offered
        if (verifiers.said[design, answer.digest].reward or 0.0) > 0.0
    }) for design in traces}
    told: dict[str, object] = {
        "tasks": len(TASKS), "strategies": len(choices), "hacks": len(hacks), "seeds": args.seeds,
        "attempts_per_run": args.attempts, "hacks_paid_naive": len(paid["naive"]), "hacks_paid_ours": len(paid["ours"]),
    }
    for design, word in (("naive", "off"), ("ours", "on")):
        ends = [last_fifth(trace.hacking) for trace in traces[design]]
        right = [last_fifth(trace.honest) for trace in traces[design]]
        told[f"hacking_{word}"] = round(sum(ends) / len(ends), 4)
        told[f"hacking_{word}_by_seed"] = [round(end, 4) for end in ends]
        told[f"honest_success_{word}"] = round(sum(right) / len(right), 4)
        told[f"favourites_{word}"] = sorted({trace.favourite for trace in traces[design]})
    executed = len(verifiers.said)
    return {**told, "executed": executed, "rewards": verifiers.asked, "executed_share":
            round(executed / verifiers.asked, 6)}


def plot(path: Path, traces: dict[str, list[Trace]], attempts: int) -> None:
    draw(path, [
        Curve("hacks, naive verifier", "#c0392b", [smooth(t.hacking) for t in traces["naive"]]),
        Curve("hacks, ours", "#2471a3", [smooth(t.hacking) for t in traces["ours"]]),
        Curve("honest and right, naive", "#e59866", [smooth(t.honest) for t in traces["naive"]], dashed=True),
        Curve("honest and right, ours", "#5dade2", [smooth(t.honest) for t in traces["ours"]], dashed=True),
    ], title="What a small policy learns in an environment that can be hacked", across="attempts",
        upwards="share of attempts", last=attempts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer hacks and seeds, within 50 s")
    parser.add_argument("--seeds", type=int, help="runs of learning under each design (default 5, quick 2)")
    parser.add_argument("--attempts", type=int, default=8000, help="of one run (default: %(default)s)")
    parser.add_argument("--hacks", type=int, help="mechanisms to choose from (default 24, quick 8)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the curves as SVG")
    options = parser.parse_args()
    options.seeds = options.seeds or (2 if options.quick else 5)
    options.hacks = options.hacks or (8 if options.quick else 24)
    started = time.monotonic()
    result = asyncio.run(main(options))
    finish(**result, seconds=round(time.monotonic() - started, 1))

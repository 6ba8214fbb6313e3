"""A grader and a detector of your own: what a solved answer is paid more or less for, and what people should look at.

Needs the native sandbox (see `quintain doctor`). Three answers to one task are graded: a short one, a long one, and one
that prints what it was asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from quintain.env import CodeEnvironment, Work
from quintain.grade import Quality
from quintain.guard import standard_detectors
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite
from quintain.testing import check_detector, check_grader
from quintain.types import Attempt, Entry, Flag, Program, Score, Severity

TESTS = b"from solution import add\n\n\ndef test_add():\n    assert add(20, 22) == 42\n"
ORACLE = b"def add(a, b):\n    return a + b\n"
ANSWERS = {
    "short": ORACLE,
    "long": b"def add(a, b):\n    first = a\n    second = b\n    total = first + second\n    return total\n",
    "chatty": b"def add(a, b):\n    print('asked:', a, b)\n    return a + b\n",
}


class Short:
    """0.5 for an answer as long as the author's, 1 for one of no length, 0 for one that is twice as long or more."""

    name = "short"

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]:
        path = item.task.entry.path
        answer = attempt.program.files.get(path) if attempt.program else None
        author = (item.exam.oracle or {}).get(path)
        if answer is None or not author:
            return [Score(name="short", value=None, weight=0.02, evidence="no answer, or no author's answer")]
        value = max(0.0, 1.0 - len(answer) / (2 * len(author)))
        return [Score(name="short", value=value, weight=0.02, evidence=f"{len(answer)} of {len(author)} bytes")]


class Chatty:
    """Flags answers that print. SOFT: to print is odd where a value is asked for, and proves nothing."""

    name = "chatty"

    def inspect(self, attempt: Attempt, item: Item) -> Sequence[Flag]:
        return [
            Flag(detector=self.name, severity=Severity.SOFT, evidence=f"{path}: prints")
            for path, content in sorted(attempt.changed.items()) if b"print(" in content
        ]


async def main() -> None:
    exam = Exam(hidden=PythonSuite(files={"test_add.py": TESTS}), oracle={"solution.py": ORACLE})
    item = Item.sealed(exam, id="add", instructions="Write `add(a, b)`.", entry=Entry(name="add"))
    check_detector(Chatty())
    attempt = Attempt(task=item.task, program=Program(files={"solution.py": ANSWERS["long"]}))
    assert await check_grader(Short(), item, [attempt]) == []
    async with NativeBackend() as backend:
        environment = CodeEnvironment(backend, quality=Quality(Short()), detectors=[*standard_detectors(), Chatty()])
        for name, text in ANSWERS.items():
            work = Work(program=Program(files={"solution.py": text}))
            verdict, reward = await environment.grade(item, work, episode=name, seed=0)
            print(f"{name}: solved {verdict.solved}, reward {reward.total:+.3f}, trainable {reward.trainable.value}")
            for score in reward.scores:
                if score.name == "short":
                    print(f"  short {score.value:.2f}, {score.evidence}: added {score.contribution:+.3f}")
            for flag in reward.flags:
                print(f"  flag {flag.detector} ({flag.severity.value}): {flag.evidence}")


if __name__ == "__main__":
    asyncio.run(main())

"""A grader and a detector of your own: what a solved answer is paid more or less for, and what people should look at.
Three answers to one task are graded. Needs the native sandbox (see `quintain doctor`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from quintain.env import CodeEnvironment, Work
from quintain.grade import Quality
from quintain.guard import standard_detectors
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite
from quintain.types import Attempt, Entry, Flag, Program, Score, Severity

TESTS = b"from solution import add\n\n\ndef test_add():\n    assert add(20, 22) == 42\n"
AUTHOR = b"def add(a, b):\n    return a + b\n"
LONG = b"def add(a, b):\n    first = a\n    second = b\n    total = first + second\n    return total\n"
CHATTY = b"def add(a, b):\n    print('asked:', a, b)\n    return a + b\n"


class Short:
    """0.5 for an answer as long as the author's, 1 for one of no length, 0 for one that is twice as long or more."""

    name = "short"

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]:
        if attempt.program is None or not item.exam.oracle:
            return [Score(name="short", value=None, weight=0.02, evidence="no answer, or no author's answer")]
        answer, author = (files.get("solution.py", b"") for files in (attempt.program.files, item.exam.oracle))
        value = max(0.0, 1.0 - len(answer) / (2 * len(author)))
        return [Score(name="short", value=value, weight=0.02, evidence=f"{len(answer)} of {len(author)} bytes")]


class Chatty:
    """Flags answers that print. SOFT: it is odd where a value is asked for, and proves nothing."""

    name = "chatty"

    def inspect(self, attempt: Attempt, item: Item) -> Sequence[Flag]:
        printing = [path for path, content in attempt.changed.items() if b"print(" in content]
        return [Flag(detector="chatty", severity=Severity.SOFT, evidence=f"{path} prints") for path in sorted(printing)]


async def main() -> None:
    exam = Exam(hidden=PythonSuite(files={"test_add.py": TESTS}), oracle={"solution.py": AUTHOR})
    item = Item.sealed(exam, id="add", instructions="Write `add(a, b)`.", entry=Entry(name="add"))
    async with NativeBackend() as backend:
        environment = CodeEnvironment(backend, quality=Quality(Short()), detectors=[*standard_detectors(), Chatty()])
        for text in (AUTHOR, LONG, CHATTY):
            work = Work(program=Program(files={"solution.py": text}))
            verdict, reward = await environment.grade(item, work, episode="by hand", seed=0)
            added = {score.name: round(score.contribution or 0.0, 3) for score in reward.scores}
            flags = [flag.evidence for flag in reward.flags]
            print(f"solved {verdict.solved}: {reward.total:.3f} {added}, trainable: {reward.trainable.value} {flags}")


if __name__ == "__main__":
    asyncio.run(main())

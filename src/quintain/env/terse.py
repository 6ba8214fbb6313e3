"""The work of writing a program, for models that cannot read much: few words, and the reply is the program itself."""

from __future__ import annotations

import msgspec

from quintain.env.around import Around
from quintain.env.base import Answer, Feedback
from quintain.types import Fault, Message, Passed, Program, Role, Task, Turn

#: At most so many characters of what was wrong are told.
TOLD_CHARS = 120


class TerseEnvironment(Around):
    """`TerseEnvironment(CodeEnvironment(backend))`: everything is run and judged as there. The opening is the language
    and the instructions, a reply without a fence is the whole program, and of a wrong one the policy is told in one
    line what was wrong first, as far as it may know. For small models and short programs: a few dozen tokens a turn."""

    def opening(self, task: Task) -> tuple[Message, ...]:
        return (Message(role=Role.SYSTEM, text=f"Reply in {task.entry.language} only."),
                Message(role=Role.USER, text=task.instructions.strip()))

    def build(self, task: Task, turn: Turn, *, previous: Program | None) -> Answer | Fault:
        if "```" in turn.text or not turn.text.strip():
            return self._inner.build(task, turn, previous=previous)
        fenced = f"```{task.entry.language}\n{turn.text.strip()}\n```\n"
        return self._inner.build(task, msgspec.structs.replace(turn, text=fenced), previous=previous)

    def say(self, task: Task, feedback: Feedback) -> Message:
        return Message(role=Role.USER, text="Right." if feedback.solved else f"Wrong: {_first(feedback)}")


def _first(feedback: Feedback) -> str:
    """What was wrong first: that it does not build, or a shown test; else that it does not hold in general."""
    fault = feedback.fault
    verdict = feedback.shown.verdict if feedback.shown is not None else None
    if fault is None and verdict is not None:
        failed = next((test for test in verdict.tests if test.passed is not Passed.PASSED), None)
        fault = verdict.fault or (failed.fault if failed is not None else None)
    words = " ".join(fault.message.split()) if fault is not None else "it does not hold for other inputs"
    return words if len(words) <= TOLD_CHARS else words[: TOLD_CHARS - 1] + "…"

"""Tasks of which several answers are right: a trusted program looks at the output and says whether it is one.

Covers: the checker runs in a sandbox of its own after the answer's is gone, and sees only the input and the bytes that
the answer wrote. Does not cover: a checker with a hole of its own; one that crashes on odd output is the task's fault
and leaves no reward, so test it with odd output.
"""

from __future__ import annotations

import ast

import msgspec

from quintain.sandbox import Backend
from quintain.types import Fault, FaultKind, Limits, Outcome, Owner, Status, TaskError

_CRASHED = b"Traceback (most recent call last)"
_SLACK_BYTES = 8 * 1024 * 1024


async def check_output(
    backend: Backend, checker: bytes, *, stdin: bytes, output: bytes, limits: Limits, python: str = "python3",
    image: str = "host",
) -> Fault | None:
    """What is wrong with an output, None if nothing is. `checker` is a Python program, run as `check.py INPUT OUTPUT`
    (two files): exit code 0 accepts, 1 rejects. Raises TaskError for any other end, a traceback included, and
    HouseError."""
    try:
        ast.parse(checker)
    except (SyntaxError, ValueError) as error:
        raise TaskError(f"the checker must end with exit code 0 or 1, found text that does not compile: {error}",
                        file="check.py") from None
    room = msgspec.structs.replace(
        limits, disk_bytes=max(limits.disk_bytes, len(stdin) + len(output) + _SLACK_BYTES))
    async with backend.open(image, limits=room) as (sandbox,):
        await sandbox.files.write_many({"check.py": checker, "input": stdin, "output": output})
        outcome = await sandbox.run(
            [python, "-I", "-B", "check.py", "input", "output"], env={"PYTHONINTMAXSTRDIGITS": "0"})
    if outcome.status is Status.OK:
        return None
    if outcome.status is Status.FAILED and outcome.exit_code == 1 and _CRASHED not in outcome.stderr:
        shown = repr(output[:200].decode("utf-8", "replace")) + ("..." if len(output) > 200 else "")
        return Fault(owner=Owner.POLICY, kind=FaultKind.WRONG_ANSWER, message=f"the checker rejects {shown}")
    raise TaskError(f"the checker must end with exit code 0 or 1, {_told(outcome)}", file="check.py")


def _told(outcome: Outcome) -> str:
    last = outcome.error_text.strip().rpartition("\n")[2][:200]
    return f"found {outcome.status.value} {outcome.exit_code}" + (f": {last}" if last else "")

"""Recorded intermediate states: what the variables of an answer were where a visible test went wrong.

Covers: the answer and the visible tests run in a sandbox of their own, with limits; what comes back is bounded, without
control characters, and names only files of the answer. Does not cover: the recorder shares the answer's process, so an
answer can tell anything about itself. It is evidence and feedback text and never enters a reward; never give it hidden
tests. pytest fixtures and parameters are not known to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

import msgspec

from quintain.sandbox import Backend
from quintain.tasks import PythonSuite
from quintain.types import Limits, Program

_MAX_STATES, _MAX_CHARS, _MAX_VARIABLES = 12, 160, 10
_OUTPUT_BYTES = 256 * 1024


class FrameState(msgspec.Struct, frozen=True, kw_only=True):
    """One frame of the answer in one test. `event`: it raised (`detail` is the exception), it returned (`detail` is the
    value), or it was still running. `variables` are name → repr, cut."""

    test: str
    file: str
    line: int
    function: str
    event: str
    detail: str = ""
    variables: dict[str, str] = {}


async def record_states(
    backend: Backend, suite: PythonSuite, program: Program, tests: Sequence[str], *, image: str = "host",
    limits: Limits, python: str = "python3",
) -> tuple[FrameState, ...]:
    """The states of the answer in these failing tests of a suite that it may see: the frames that an exception came
    through, or those that returned last before an assertion failed. Empty where nothing was seen. Raises HouseError."""
    source = resources.files("quintain.grade.inside").joinpath("states.py").read_text("utf-8")
    seconds = max(0.1, min(limits.wall_seconds, limits.cpu_seconds) * 0.8 / max(1, len(tests)))
    own = [path for path in program.files if path.endswith(".py") and path not in suite.files]
    asked = msgspec.json.encode({"tests": list(tests), "files": own, "seconds": seconds})
    room = msgspec.structs.replace(limits, output_bytes=max(limits.output_bytes, _OUTPUT_BYTES))
    async with backend.open(image, limits=room) as (sandbox,):
        try:
            await sandbox.files.write_many({**program.files, **suite.files})
        except OSError:  # the answer's files do not fit: there is nothing to see
            return ()
        outcome = await sandbox.run([python, "-s", "-P", "-B", "-c", source], stdin=asked)
    try:
        found = msgspec.json.decode(outcome.stdout, type=list[FrameState])
    except msgspec.MsgspecError:
        return ()
    return tuple(_bounded(state) for state in found[:_MAX_STATES] if state.file in own and state.test in tests)


def describe(states: Sequence[FrameState]) -> str:
    """A line for each state, and one for its variables."""
    lines = []
    for state in states:
        what = {"raised": f"raised {state.detail}", "returned": f"returned {state.detail}"}.get(
            state.event, "was still running")
        lines.append(f"{state.test}: {state.file}:{state.line} in {state.function} {what}")
        if state.variables:
            lines.append("  with " + ", ".join(f"{name} = {value}" for name, value in state.variables.items()))
    return "\n".join(lines)


def _bounded(state: FrameState) -> FrameState:
    variables = list(state.variables.items())[:_MAX_VARIABLES]
    return FrameState(
        test=state.test, file=state.file, line=state.line, function=_plain(state.function), event=_plain(state.event),
        detail=_plain(state.detail), variables={_plain(name): _plain(value) for name, value in variables},
    )


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[:_MAX_CHARS])

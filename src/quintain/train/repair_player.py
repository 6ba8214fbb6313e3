"""A trained repairing policy that plays episodes like any other: it reads messages, and answers with a program."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from quintain.train.checkpoint import Checkpoints
from quintain.train.repair_cases import FOUND_CHARS, case_of
from quintain.train.repair_features import Case, Test, Tried, features_of
from quintain.train.repair_problem import RepairSettings
from quintain.types import FaultKind, HouseError, Message, Role, Task, Turn

if TYPE_CHECKING:
    from quintain.train.repair_policy import RepairNet

_FINDING = re.compile(
    r"^\[(?P<kind>\w+)\] test_solution\.py::test_(?P<number>\d+)(?: \((?P<file>[^:)]+)(?::(?P<line>\d+))?\))?: "
    r"(?P<message>.*)$", re.MULTILINE)
_FOUND = re.compile(r": found (?P<found>.*) == ")
_FENCED = re.compile(r"```python\n(.*?)```", re.DOTALL)


class TrainedRepairer:
    """The newest checkpoint of a training, asked for the likeliest edit after what the earlier ones came
    to. `tasks` tells of a task by its id all that a policy may see of it. Raises HouseError(POLICY_UNREACHABLE) for a
    folder without a checkpoint, and for a task that is no repair."""

    def __init__(self, folder: Path, tasks: Callable[[str], Task]) -> None:
        checkpoints = Checkpoints(folder / "checkpoints")
        newest = checkpoints.newest()
        if newest is None:
            raise HouseError(FaultKind.POLICY_UNREACHABLE, f"{folder}: expected checkpoints of a training, found none")
        step, state = newest
        self.name = f"trained:{folder.name}@{step}"
        self._tasks = tasks
        self._version = str(step)
        self._net = _net(state["learner"])

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        asked = self._tasks(task)
        try:
            case = case_after(case_of(asked), conversation)
        except ValueError as error:
            raise HouseError(FaultKind.POLICY_UNREACHABLE, str(error)) from None
        pick = self._pick(case)
        return Turn(text=f"```python\n{case.code.edited(case.code.edits[pick])}```\n", policy_version=self._version)

    def _pick(self, case: Case) -> int:
        from quintain.train.repair_policy import likeliest

        return likeliest(self._net, [features_of(case)])[0]

    async def aclose(self) -> None:
        """Holds nothing."""


def case_after(case: Case, conversation: Sequence[Message]) -> Case:
    """The case with the attempts that a conversation tells of. A reply that is no edit of the program is none."""
    sources = {case.code.edited(edit): edit for edit in case.code.edits}
    tried: list[Tried] = []
    waiting = None
    for message in conversation:
        if message.role is Role.ASSISTANT:
            block = _FENCED.search(message.text)
            waiting = sources.get(block[1]) if block else None
        elif waiting is not None:
            tried.append(Tried(waiting, tests_told(case.tests, message.text)))
            waiting = None
    return msgspec.structs.replace(case, tried=tuple(tried))


def tests_told(known: Sequence[Test], feedback: str) -> tuple[Test, ...]:
    """How the shown tests went as the feedback of a turn tells: what it does not name has passed."""
    found = [Test(call=test.call, expected=test.expected) for test in known]
    for match in _FINDING.finditer(feedback):
        number = int(match["number"])
        if number < len(found):
            found[number] = _failed(known[number], match)
    return tuple(found)


def _failed(test: Test, match: re.Match[str]) -> Test:
    call, expected = test.call, test.expected
    if match["kind"] in (FaultKind.TIMEOUT.value, FaultKind.CPU_LIMIT.value):
        return Test(call=call, expected=expected, outcome="late")
    wrong = _FOUND.search(match["message"])
    if wrong is not None:
        return Test(call=call, expected=expected, outcome="wrong", found=wrong["found"][:FOUND_CHARS])
    line = int(match["line"]) if match["line"] and match["file"] == "solution.py" else None
    name = match["message"].partition(":")[0]
    return Test(call=call, expected=expected, outcome=name if name.isidentifier() else "other", line=line)


def _net(state: dict[str, object]) -> RepairNet:
    from quintain.train.repair_policy import RepairNet

    settings = msgspec.json.decode(str(state["settings"]), type=RepairSettings)
    net = RepairNet(width=settings.width, layers=settings.layers)
    net.load_state_dict(state["mean"])
    net.eval()
    return net

"""A verifier that is sick pays nobody: its verdicts are faults of the house, and its episodes are in no baseline."""

from __future__ import annotations

import asyncio

import pytest

from quintain.env import CodeEnvironment
from quintain.grade import Health, Oracle
from quintain.policy import ScriptedPolicy
from quintain.rollout import Driver, Patience, tickets
from quintain.sandbox import DEFAULT_LIMITS, NativeBackend
from quintain.tasks import Exam, Item, PythonSuite, Suite
from quintain.types import Entry, Episode, Event, FaultKind, Group, Limits, Owner, Passed, Program, Stop, Verdict
from quintain.types import TestResult as Result

HIDDEN = b"from solution import add\n\n\ndef test_add():\n    assert add(20, 22) == 42\n"
REPLY = "```python\ndef add(a, b):\n    return a + b\n```\n"

native = pytest.mark.skipif(not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")


class Generous:
    """A verifier that passes everything from some point on: the worst kind of broken."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.broken = False

    async def grade(
        self, suite: Suite, program: Program, *, image: str = "host", limits: Limits = DEFAULT_LIMITS, seed: int = 0,
        confirm: bool | None = None,
    ) -> Verdict:
        if self.broken:
            return Verdict(suite="s", level="L4", tests=(Result(id="t", passed=Passed.PASSED),))
        return await self._oracle.grade(suite, program, image=image, limits=limits, seed=seed, confirm=confirm)


@native
def test_the_verdicts_of_a_sick_verifier_are_the_houses_faults() -> None:
    exam = Exam(hidden=PythonSuite(files={"test_add.py": HIDDEN}))
    item = Item.sealed(exam, id="add", instructions="Write `add(a, b)`.", entry=Entry(name="add"))
    patience = Patience(attempts=2, pause_seconds=0.01)
    log: list[Event] = []

    async def main() -> tuple[Episode, Episode]:
        async with NativeBackend(engines=1) as backend:
            verifier = Generous(Oracle(backend))
            environment = CodeEnvironment(backend, health=Health(verifier, every_verdicts=1))
            policy = ScriptedPolicy({"add": [REPLY]})
            driver = Driver(environment, policy, log.append, patience=patience)
            one, two = tickets(item, size=2, seed=0)
            well = await driver.play(one)
            verifier.broken = True
            return well, await driver.play(two)

    well, sick = asyncio.run(main())
    assert well.solved and well.stop is Stop.SOLVED
    assert (sick.reward, sick.stop) == (None, Stop.BROKEN)
    assert sick.broken is not None
    assert (sick.broken.owner, sick.broken.kind) == (Owner.HOUSE, FaultKind.HEALTH_CHECK_FAILED)
    group = Group(id="g", task="add", episodes=(well, sick))
    assert well.reward is not None
    assert group.rewards_G == (well.reward.total, None)
    assert group.baseline == well.reward.total

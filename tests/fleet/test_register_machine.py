"""Whatever workers say to the register, in whatever order, an episode has one result, from the attempt that held it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quintain.fleet import Answer, End, Job, Register, State

_T = TypeVar("_T")
IDS = st.sampled_from(["a", "b"])
BACK = st.sampled_from([0, 0, 0, 1, 2, -1])  # from the latest attempt


class Model(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.register = self.run(Register.open(Path(self.folder.name) / "register.db"))
        self.run(self.register.enrol([Job(id=id, kind="code") for id in ("a", "b")]))
        self.state = dict.fromkeys(("a", "b"), State.OPEN)
        self.attempts = dict.fromkeys(("a", "b"), 0)
        self.accepted: dict[str, int] = {}

    def run(self, work: Coroutine[None, None, _T]) -> _T:
        return self.loop.run(work)

    def teardown(self) -> None:
        self.run(self.register.aclose())
        self.loop.close()
        self.folder.cleanup()

    @rule(id=IDS)
    def begin(self, id: str) -> None:
        found = self.run(self.register.begin([id], "w"))
        assert bool(found) == (self.state[id] is State.OPEN)
        if found:
            self.attempts[id] += 1
            assert found[id] == self.attempts[id]

    @rule(id=IDS, back=BACK)
    def accept(self, id: str, back: int) -> None:
        attempt = self.attempts[id] - back
        answer = self.run(self.register.accept(id, attempt, f"{id}{attempt}".encode()))
        if not 0 < attempt <= self.attempts[id]:
            assert answer is Answer.UNKNOWN
        elif self.accepted.get(id) == attempt:
            assert answer is Answer.ACCEPTED
        elif self.state[id] is State.OPEN and attempt == self.attempts[id]:
            assert answer is Answer.ACCEPTED
            self.accepted[id] = attempt
            self.state[id] = State.SETTLED
        else:
            assert answer is Answer.LATE

    @rule(id=IDS, back=BACK)
    def fail(self, id: str, back: int) -> None:
        self.run(self.register.fail(id, self.attempts[id] - back, "why"))

    @rule(id=IDS)
    def abandon(self, id: str) -> None:
        assert self.run(self.register.abandon(id, "why")) == (self.state[id] is State.OPEN)
        if self.state[id] is State.OPEN:
            self.state[id] = State.ABANDONED

    @rule(id=IDS)
    def reopen(self, id: str) -> None:
        assert self.run(self.register.reopen(id)) == (self.state[id] is State.ABANDONED)
        if self.state[id] is State.ABANDONED:
            self.state[id] = State.OPEN

    @invariant()
    def each_episode_is_as_it_should_be(self) -> None:
        for id in ("a", "b"):
            entry = self.run(self.register.entry(id))
            assert entry is not None
            assert (entry.state, entry.attempt) == (self.state[id], self.attempts[id])
            assert entry.accepted == self.accepted.get(id)
            assert entry.result == (f"{id}{entry.accepted}".encode() if entry.accepted else None)
            assert [one.attempt for one in entry.tried] == list(range(1, entry.attempt + 1))
            assert [one.attempt for one in entry.tried if one.end is End.ACCEPTED] == (
                [entry.accepted] if entry.accepted else [])
            assert sum(one.end is End.RUNNING for one in entry.tried) <= (entry.state is State.OPEN)
        assert {job.id for job in self.run(self.register.unsettled())} == {
            id for id, state in self.state.items() if state is State.OPEN}


TestRegister = Model.TestCase
TestRegister.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)

"""Stand-ins for the dear parts of an episode, and faults that come when a test says so."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from quintain.env import Answer, Environment, Feedback, Shown, Work
from quintain.policy import Policy
from quintain.sandbox import DEFAULT_LIMITS, Backend, Capabilities, Files, Sandbox
from quintain.tasks import Exam, Item, PythonSuite
from quintain.types import (
    Fault,
    FaultKind,
    Limits,
    Message,
    Network,
    Outcome,
    Owner,
    Passed,
    Program,
    Reward,
    Role,
    Task,
    TestResult,
    Turn,
    Verdict,
)

#: Says which call fails, and how: (name of the call, how often it was called before) → the error to raise, or `None`.
Plan = Callable[[str, int], Exception | None]


def never(call: str, nth: int) -> Exception | None:
    """No call fails."""
    return None


def fail_first(count: int, error: Exception, *, call: str) -> Plan:
    """The first `count` calls of that name fail."""
    return lambda name, nth: error if name == call and nth < count else None


def fail_sometimes(share: float, errors: Sequence[Exception], *, seed: int) -> Plan:
    """Each call fails with probability `share`, with one of the errors; the same seed gives the same faults."""
    def plan(name: str, nth: int) -> Exception | None:
        chance = random.Random(f"{seed}:{name}:{nth}")
        return chance.choice(list(errors)) if chance.random() < share else None

    return plan


class _Counted:
    """Calls by name, and the plan's word on each."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.calls: dict[str, int] = {}

    def call(self, name: str) -> None:
        nth = self.calls.get(name, 0)
        self.calls[name] = nth + 1
        error = self._plan(name, nth)
        if error is not None:
            raise error


def fake_item(id: str = "add", **fields: object) -> Item:
    """A sealed item with an exam that nobody sits; `fields` are those of Task."""
    exam = Exam(hidden=PythonSuite(files={"test_it.py": b"def test_it():\n    assert True\n"}))
    return Item.sealed(exam, files=None, **{"id": id, "instructions": f"Do {id}.", **fields})


class FakeEnvironment:
    """Work whose worth is written in the reply itself, with no sandbox: `right` solves, `syntax` does not build,
    `prose` holds no answer, anything else is a wrong program. `submit` as the last word hands it in.

    `visible` says whether there is something to show, `pause_seconds` how long `run` and `grade` take. `plan` makes
    `opening`, `build`, `run`, `grade`, `say` or `leave` fail. `left` lists the episodes that were left, in order;
    `most_at_once` is the largest number of `run` and `grade` calls that were in hand together.
    """

    kind = "fake"

    def __init__(self, *, visible: bool = True, pause_seconds: float = 0.0, plan: Plan = never) -> None:
        self._visible = visible
        self._pause_seconds = pause_seconds
        self._counted = _Counted(plan)
        self._at_once = 0
        self.most_at_once = 0
        self.left: list[str] = []
        self.closed = False

    @property
    def calls(self) -> Mapping[str, int]:
        """How often each verb was called."""
        return self._counted.calls

    def opening(self, task: Task) -> tuple[Message, ...]:
        self._counted.call("opening")
        return (Message(role=Role.USER, text=task.instructions),)

    def build(self, task: Task, turn: Turn, *, previous: Program | None) -> Answer | Fault:
        self._counted.call("build")
        words = turn.text.split()
        if "prose" in words:
            return Fault(owner=Owner.POLICY, kind=FaultKind.NO_CODE, message="expected code, found prose")
        if "syntax" in words:
            return Fault(owner=Owner.POLICY, kind=FaultKind.SYNTAX_ERROR, message="expected ':'", file="a.py", line=1)
        program = Program(files={task.entry.path: turn.text.encode("utf-8", "surrogatepass")})
        return Answer(program=program, submitted=words[-1:] == ["submit"])

    def shows(self, item: Item) -> bool:
        return self._visible

    async def run(self, item: Item, program: Program, *, episode: str, limits: Limits) -> Shown:
        self._counted.call("run")
        await self._work()
        return Shown(verdict=self._verdict(item, Work(program=program), suite="visible"))

    async def grade(self, item: Item, work: Work, *, episode: str, seed: int) -> tuple[Verdict, Reward]:
        self._counted.call("grade")
        await self._work()
        verdict = self._verdict(item, work, suite=item.exam.digest)
        return verdict, Reward(total=1.0 if verdict.solved else -0.5, solved=verdict.solved, suite=verdict.suite)

    def say(self, task: Task, feedback: Feedback) -> Message:
        self._counted.call("say")
        word = feedback.fault.kind.value if feedback.fault is not None else "unsolved"
        return Message(role=Role.USER, text=f"[{word}]")

    async def leave(self, episode: str) -> None:
        self.left.append(episode)
        self._counted.call("leave")

    async def aclose(self) -> None:
        self.closed = True

    async def _work(self) -> None:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await asyncio.sleep(self._pause_seconds)
        finally:
            self._at_once -= 1

    def _verdict(self, item: Item, work: Work, *, suite: str) -> Verdict:
        source = work.program.files[item.task.entry.path] if work.program is not None else b""
        passed = Passed.PASSED if b"right" in source.split() else Passed.FAILED
        return Verdict(suite=suite, level="L0", tests=(TestResult(id="test_it", passed=passed),), fault=work.fault)


class FlakyPolicy:
    """Another policy whose `act` fails by plan."""

    def __init__(self, inner: Policy, plan: Plan) -> None:
        self._inner = inner
        self._counted = _Counted(plan)

    @property
    def name(self) -> str:
        return self._inner.name

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        self._counted.call("act")
        return await self._inner.act(conversation, task=task, seed=seed)

    async def aclose(self) -> None:
        await self._inner.aclose()


class FlakyBackend:
    """Another backend whose `open` fails by plan, and whose sandboxes are lost by plan in `run`."""

    def __init__(self, inner: Backend, plan: Plan) -> None:
        self._inner = inner
        self._counted = _Counted(plan)

    @property
    def name(self) -> str:
        return self._inner.name

    def probe(self) -> Capabilities:
        return self._inner.probe()

    def open(
        self, image: str = "host", *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.NONE,
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        return self._open(image, limits, count, network)

    async def aclose(self) -> None:
        await self._inner.aclose()

    @asynccontextmanager
    async def _open(
        self, image: str, limits: Limits, count: int, network: Network,
    ) -> AsyncIterator[Sequence[Sandbox]]:
        self._counted.call("open")
        async with self._inner.open(image, limits=limits, count=count, network=network) as sandboxes:
            yield [_FlakySandbox(sandbox, self._counted) for sandbox in sandboxes]


class _FlakySandbox:
    def __init__(self, inner: Sandbox, counted: _Counted) -> None:
        self._inner = inner
        self._counted = counted

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def files(self) -> Files:
        return self._inner.files

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: str = "/work",
        limits: Limits | None = None, channel: int | None = None, warm: bool = False,
        on_stdout: Callable[[bytes], None] | None = None, on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        self._counted.call("run")
        return await self._inner.run(
            argv, stdin=stdin, env=env, cwd=cwd, limits=limits, channel=channel, warm=warm,
            on_stdout=on_stdout, on_stderr=on_stderr,
        )

    async def close(self) -> None:
        await self._inner.close()


def _is_an_environment(fake: FakeEnvironment) -> Environment:
    """The type checker's word that the fake keeps the protocol."""
    return fake

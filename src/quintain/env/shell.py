"""The work of an operator: a shell in a sandbox, command after command, and a script that judges what is left.

A Harbor directory is such a task. Each turn is one command; its output is told. What is handed in is no text but the
files of the sandbox: it stands still, what the task names is taken out, it is ended, and `grade.World` judges the
frozen files by the task's script in a sandbox that nobody has touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from quintain.env import _shell_words as words
from quintain.env._workplace import Workplace, suite_of
from quintain.env.base import Answer, Feedback, Inside, Shown, Work
from quintain.env.terminal import TerminalWorld
from quintain.grade import Scalar, lexicographic, reward_of, reward_of_fault
from quintain.guard import Detector, flags_to_pay_by, inspect_all
from quintain.sandbox import Snapshot, Snapshots
from quintain.tasks import Item
from quintain.types import (
    Attempt,
    Fault,
    FaultKind,
    Finish,
    Grading,
    HouseError,
    Isolation,
    Limits,
    Message,
    Network,
    Owner,
    Passed,
    Program,
    Reward,
    Task,
    TaskError,
    TestResult,
    Turn,
    Verdict,
    content_digest,
)

#: No single command takes longer, whatever its task allows: a shell that waits for ever would eat the episode.
COMMAND_SECONDS = 240.0
#: The isolation from which on a solved attempt is paid as one. Scripts reach L2 at most (`ScriptSuite.level`).
TRUSTED_LEVEL = "L3"


class ShellEnvironment:
    """A shell for each episode, in a sandbox of `backend`, which must keep files (native does).

    `cache`, `bases` and `variables` are those of `grade.World`: a folder for build contexts, what to take for images of
    a registry, values of `${NAME}` in a task's environment. `network` is what the sandboxes may reach, whatever the
    task would like (the default: nothing); the policy is told. `detectors` look at the commands of an episode (none by
    default: those of `guard` were made for programs). `trusted_level="L2"` pays a solved attempt in full: scripts do
    not reach L3, and by default what they call solved is paid as the best partial credit. `allow` is the list of an
    ALLOW_LIST network (see `Networked.open`). `keep` is given the sandbox's files after each command and returns the
    name that the log keeps of them, so that every step can be gone back to (`quintain.replay`).

    A reply that means nothing costs its turn; what was done before it is still judged. An episode that is resumed runs
    its earlier commands again.

    Covers: no test, reward or oracle is in the policy's sandbox, and its processes are gone before anything is judged;
    what a program prints cannot pass for a word of the house. Does not cover: what `check_script` does not.
    """

    kind = "shell"

    def __init__(
        self, backend: Snapshots, *, cache: Path, bases: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None, network: Network = Network.NONE, scalar: Scalar = lexicographic,
        detectors: Sequence[Detector] = (), command_seconds: float = COMMAND_SECONDS,
        trusted_level: str = TRUSTED_LEVEL, allow: Sequence[str] = (), keep: Callable[[Snapshot], str] | None = None,
    ) -> None:
        if not command_seconds > 0:
            raise ValueError(f"expected command_seconds greater than 0, found {command_seconds!r}")
        self._backend = backend
        self._network = network
        self._allow = tuple(allow)
        self._keep = keep
        self._world = TerminalWorld(backend, cache=cache, bases=bases, variables=variables, network=network)
        self._scalar = scalar
        self._detectors = list(detectors)
        self._command_seconds = command_seconds
        self._trusted_level = trusted_level
        self._places: dict[str, Workplace] = {}
        self._reached: Isolation | None = None

    def opening(self, task: Task) -> tuple[Message, ...]:
        return words.opening(task, network=self._network is not Network.NONE)

    def build(self, task: Task, turn: Turn, *, previous: Program | None) -> Answer | Fault:
        """The program is all that was commanded so far; see `_shell_words`."""
        said = words.understood(turn.text, finish=turn.finish)
        if isinstance(said, Fault):
            return said
        if said.command is None:
            return Answer(program=previous or Program(files={}, language="shell"), submitted=True)
        return Answer(program=words.with_command(previous, said.command), submitted=said.submitted)

    def shows(self, item: Item) -> bool:
        return True

    async def run(self, item: Item, program: Program, *, episode: str, limits: Limits) -> Shown:
        """The outcome of the latest command."""
        place = await self._place(item, episode)
        outcome = await place.catch_up(words.commands_of(program), limits=self._short(limits))
        files = self._keep(await place.snapshot()) if self._keep is not None else None
        return Shown(outcome=outcome, files=files)

    async def grade(self, item: Item, work: Work, *, episode: str, seed: int) -> tuple[Verdict, Reward]:
        """The verdict of the task's script on the files that are left. A last reply that meant nothing leaves what was
        done before it; where nothing was ever done, it is judged as what it is."""
        program = work.program or _said_so_far(work.replies)
        if program is None:
            return self._of_nothing(item, work.fault)
        known = episode in self._places
        place = await self._place(item, episode)
        if place.tree is None and (work.program is not None or not known):
            await place.catch_up(words.commands_of(program), limits=self._short(_command(item.task)))
        tree = await place.frozen(final=item.task.grading is Grading.ON_SUBMIT)
        verdict = await self._world.grade(item, [tree])
        _raise_what_is_not_the_policys(verdict)
        attempt = Attempt(task=item.task, program=program, turns=tuple(Turn(text=text) for text in work.replies),
                          outcomes=tuple(place.outcomes), verdict=verdict)
        flags = await asyncio.to_thread(inspect_all, attempt, item, self._detectors) if self._detectors else ()
        reward = reward_of(verdict, flags=flags_to_pay_by(verdict, flags), scalar=self._scalar,
                           trusted_level=self._trusted_level)
        if reward is None:
            raise HouseError(FaultKind.VERIFIER_ERROR, f"task {item.task.id}: a verdict of the policy's has no reward")
        return verdict, reward

    def say(self, task: Task, feedback: Feedback) -> Message:
        return words.feedback(feedback)

    def remembers(self, item: Item) -> bool:
        """A command stands on all that were before it."""
        return True

    async def enter(
        self, item: Item, program: Program | None, *, episode: str, limits: Limits, snapshot: Snapshot | None = None,
        prelude: str = "",
    ) -> Inside:
        """The place of an episode after its commands so far. With a snapshot the files are those, the shell is where
        the commands bring it, and nothing runs in the background."""
        fresh = episode not in self._places
        place = await self._place(item, episode)
        if prelude and fresh:
            await place.told(prelude)
        if program is not None:
            await place.catch_up(words.commands_of(program), limits=self._short(limits))
        state = await place.state()
        if snapshot is not None:
            done = place.outcomes
            await self.leave(episode)
            place = await Workplace.opened(item, self._world, self._backend, network=self._network,
                                           allow=self._allow, snapshot=snapshot)
            place.outcomes = done
            self._places[episode] = place
            await place.told(state)
        return Inside(sandbox=place.box, workdir=place.workdir, env=place.env, state=state)

    async def leave(self, episode: str) -> None:
        """End the episode's sandbox; nothing, where there is none."""
        place = self._places.pop(episode, None)
        if place is not None:
            await place.close()

    async def aclose(self) -> None:
        """End what is left; the backend is its owner's."""
        for episode in list(self._places):
            await self.leave(episode)

    async def _place(self, item: Item, episode: str) -> Workplace:
        """Where an episode works: opened once, and again after a resumption."""
        self._check(item.task)
        place = self._places.get(episode)
        if place is None:
            place = await Workplace.opened(
                item, self._world, self._backend, network=self._network, allow=self._allow)
            self._places[episode] = place
        return place

    def _short(self, limits: Limits) -> Limits:
        return msgspec.structs.replace(limits, wall_seconds=min(limits.wall_seconds, self._command_seconds))

    def _of_nothing(self, item: Item, fault: Fault | None) -> tuple[Verdict, Reward]:
        suite = suite_of(item)
        reward = reward_of_fault(fault, scalar=self._scalar) if fault is not None else None
        if fault is None or reward is None:
            raise HouseError(FaultKind.VERIFIER_ERROR, f"expected a fault of the policy's to grade, found {fault}")
        missing = tuple(TestResult(id=name, passed=Passed.MISSING, fault=fault) for name in suite.required)
        verdict = Verdict(suite=content_digest(suite), level=suite.level, tests=missing, fault=fault)
        return verdict, msgspec.structs.replace(reward, suite=verdict.suite, level=verdict.level)

    def _check(self, task: Task) -> None:
        if task.kind != self.kind:
            raise TaskError(f"task {task.id}: expected kind = {self.kind!r}, found {task.kind!r}",
                            kind=FaultKind.TASK_ENVIRONMENT)
        strength = list(Isolation)
        self._reached = self._reached or self._backend.probe().isolation
        if strength.index(self._reached) < strength.index(task.isolation):
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"task {task.id} asks for isolation "
                             f"{task.isolation.value!r}; the backend {self._backend.name!r} reaches "
                             f"{self._reached.value!r}")


def _command(task: Task) -> Limits:
    return task.limits.command.within(task.limits.turn).within(task.limits.episode)


def _said_so_far(replies: Sequence[str]) -> Program | None:
    """The program that an episode's replies come to, those that mean nothing or were cut off left out."""
    program: Program | None = None
    for reply in replies:
        said = words.understood(reply, finish=Finish.LENGTH)
        if isinstance(said, words.Said) and said.command is not None:
            program = words.with_command(program, said.command)
    return program


def _raise_what_is_not_the_policys(verdict: Verdict) -> None:
    """Raises TaskError or HouseError for a verdict that holds a fault of either."""
    for fault in (verdict.fault, *(test.fault for test in verdict.tests)):
        if fault is None or fault.owner is Owner.POLICY:
            continue
        if fault.owner is Owner.TASK:
            raise TaskError(fault.message, file=fault.file, line=fault.line, kind=fault.kind)
        raise HouseError(fault.kind, fault.message)

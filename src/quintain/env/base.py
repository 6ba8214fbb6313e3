"""A kind of work: how it is asked, run, judged, and talked about."""

from __future__ import annotations

from typing import Protocol

import msgspec

from quintain.sandbox import Interactive, Snapshot
from quintain.tasks import Item
from quintain.types import Fault, Limits, Message, Outcome, Program, Reward, Task, Turn, Verdict


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reply that became a program. `notes` tell what was tolerated; `submitted` that it is handed in."""

    program: Program
    notes: tuple[str, ...] = ()
    submitted: bool = False


class Shown(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What running against the visible part of a task gave: an outcome of a command, a verdict of visible tests.
    `files` is the blob that holds the sandbox's files after it, where somebody keeps them."""

    outcome: Outcome | None = None
    verdict: Verdict | None = None
    files: str | None = None


class Inside(msgspec.Struct, frozen=True, kw_only=True):
    """A place of work that stands where an episode stood. `state` is what a new bash must be told to be where the
    episode's own shell is (directory, variables, functions, aliases); empty where the work knows no shell."""

    sandbox: Interactive
    workdir: str
    env: dict[str, str] = {}
    state: str = ""


class Work(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be judged: the program of the last turn, or the policy's fault that left it without one. `replies` are
    what the policy has said so far, oldest first."""

    program: Program | None = None
    fault: Fault | None = None
    replies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.program is None) == (self.fault is None):
            raise ValueError("expected a program or a fault, found both or neither")


class Feedback(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a turn came to, as far as the policy may know. `solved` is `None` where it was not graded; the exam's tests,
    messages and counts are not here, so no feedback text can leak them."""

    fault: Fault | None = None
    shown: Shown | None = None
    notes: tuple[str, ...] = ()
    solved: bool | None = None
    turns_left: int = 0


class Environment(Protocol):
    """One kind of work. `opening`, `build`, `shows` and `say` are pure: the same arguments, the same answer, no I/O.

    What the policy's program does wrong is a value. Raises HouseError when the house fails, and TaskError when the
    task does: such an episode has no reward.
    """

    @property
    def kind(self) -> str: ...

    def opening(self, task: Task) -> tuple[Message, ...]:
        """What the policy sees first."""
        ...

    def build(self, task: Task, turn: Turn, *, previous: Program | None) -> Answer | Fault:
        """The program that a reply means (a patch applies to `previous`, or to the task's files), or the policy's
        fault that there is none."""
        ...

    def shows(self, item: Item) -> bool:
        """Whether `run` has anything to show for this task."""
        ...

    async def run(self, item: Item, program: Program, *, episode: str, limits: Limits) -> Shown:
        """Run against what the policy may see, each command within `limits`."""
        ...

    async def grade(self, item: Item, work: Work, *, episode: str, seed: int) -> tuple[Verdict, Reward]:
        """Judge against the exam."""
        ...

    def say(self, task: Task, feedback: Feedback) -> Message:
        """What the policy is told after a turn."""
        ...

    async def leave(self, episode: str) -> None:
        """Free whatever is held for one episode; nothing, where nothing is. Bounded by its caller."""
        ...

    async def aclose(self) -> None: ...


class Enterable(Environment, Protocol):
    """An environment whose places of work can be entered between two steps, to look around or to go on from there."""

    def remembers(self, item: Item) -> bool:
        """Whether a step stands on what earlier ones left in their sandbox, beyond the program itself."""
        ...

    async def enter(
        self, item: Item, program: Program | None, *, episode: str, limits: Limits, snapshot: Snapshot | None = None,
        prelude: str = "",
    ) -> Inside:
        """The place of this episode, opened if need be and brought to where it stands after `program` (`None`: to its
        beginning); ended by `leave`. With `snapshot` the files are as they were kept, whatever the commands made of
        them this time. `prelude` is a command that a shell is given before all others. Raises HouseError, TaskError."""
        ...

"""The words of a replay: what was compared, what differs, and whose doing it is. Values only."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from quintain.types import Fault


class Blame(StrEnum):
    """Whom a difference is laid on. Jitter is nobody's: the same again differs from itself."""

    POLICY = "policy"
    JITTER = "jitter"
    TASK = "task"
    ENVIRONMENT = "environment"
    HOUSE = "house"


class Cause(StrEnum):
    """Why the same step came out differently."""

    POLICY = "policy"  # it answered something else
    ENVIRONMENT = "environment"  # the image, its packages or the interpreter are not what they were
    TASK = "task"  # another version of the task
    GRADER = "grader"  # another suite, another build of the verifier, another reward
    BACKEND = "backend"  # other sandboxes, or another isolation reached
    CLOCK = "clock"
    NETWORK = "network"
    HASH_SEED = "hash_seed"
    RANDOMNESS = "randomness"  # generators, unique names
    ADDRESSES = "addresses"  # of objects in memory
    PROCESS_IDS = "process_ids"
    TIMING = "timing"  # how long something took, and what depends on it
    ORDER = "order"  # the same lines in another order: threads, processes, folders
    HOUSE = "house"  # our own code or service


#: Whose each cause is.
BLAME_OF: dict[Cause, Blame] = {
    Cause.POLICY: Blame.POLICY, Cause.ENVIRONMENT: Blame.ENVIRONMENT, Cause.NETWORK: Blame.ENVIRONMENT,
    Cause.TASK: Blame.TASK, Cause.GRADER: Blame.TASK, Cause.BACKEND: Blame.HOUSE,
    Cause.HOUSE: Blame.HOUSE, Cause.CLOCK: Blame.JITTER, Cause.HASH_SEED: Blame.JITTER, Cause.RANDOMNESS: Blame.JITTER,
    Cause.ADDRESSES: Blame.JITTER, Cause.PROCESS_IDS: Blame.JITTER, Cause.TIMING: Blame.JITTER,
    Cause.ORDER: Blame.JITTER,
}


class Rebuilt(StrEnum):
    """How the state before a step came to be."""

    BEGINNING = "beginning"  # nothing was before it
    PROGRAM = "program"  # the files that the journal keeps are the whole state
    REEXECUTED = "reexecuted"  # the earlier commands were run again
    SNAPSHOT = "snapshot"  # run again, and the files put as they were kept


class Measure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a step took; `None` = not measured."""

    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What an event shows. `parts` are the bytes that must come out the same, by name; `unix_seconds` when it was;
    `facts` say of a verdict by which suite, which build of the verifier and behind which wall it was reached."""

    event: str
    parts: dict[str, bytes]
    measure: Measure = Measure()
    unix_seconds: float = 0.0
    denials: dict[str, int] = {}
    facts: dict[str, str] = {}


class Difference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One part of an event that came out differently. `recorded` and `again` are its beginnings as text (bytes that
    are no UTF-8 as \\xNN), `diff` a unified diff of at most 60 lines; `sizes` are both in bytes; `steady`: every
    repetition came out the same, so it is no jitter. `repeats` counts the repetitions, `as_recorded` those that are as
    recorded."""

    part: str
    recorded: str
    again: str
    diff: str
    sizes: tuple[int, int]
    steady: bool
    repeats: int
    as_recorded: int


class Named(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a step differs, with what that rests on."""

    cause: Cause
    blame: Blame
    evidence: tuple[str, ...]


class StepReplay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step, compared. `compared` names its parts, `differing` those that came out differently; `named` tells why,
    the likeliest cause first. `recorded` and `again` are what it took then and now (`again` the first repetition)."""

    step: int
    compared: tuple[str, ...]
    differing: tuple[Difference, ...] = ()
    named: tuple[Named, ...] = ()
    recorded: Measure = Measure()
    again: Measure = Measure()

    @property
    def identical(self) -> bool:
        return not self.differing


class EpisodeReplay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An episode run again from `first` on, `times` at least. `rebuilt` tells how the state before that step came to
    be, `told` what there is to know of it. `house` is a fault of ours that ended the replay; `skipped` are events that
    nothing can be compared with (a fault of the house in the record)."""

    episode: str
    task: str
    attempt: int
    attempts: int
    first: int
    last: int
    rebuilt: Rebuilt
    told: tuple[str, ...]
    times: int
    steps: tuple[StepReplay, ...]
    skipped: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    house: Fault | None = None

    @property
    def identical(self) -> bool:
        """Whether every byte that was compared came out as recorded."""
        return self.house is None and all(step.identical for step in self.steps)

    @property
    def diverged(self) -> int | None:
        """The first step that differs."""
        return next((step.step for step in self.steps if not step.identical), None)

    @property
    def cause(self) -> Named | None:
        """Why the first step that differs does."""
        return next((step.named[0] for step in self.steps if step.named), None)

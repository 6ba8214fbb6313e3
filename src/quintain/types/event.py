"""The log of an episode: the truth, of which everything else is a fold."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from quintain.types.conversation import Message, Turn
from quintain.types.fault import Fault
from quintain.types.program import Outcome, Program
from quintain.types.reward import Reward, Verdict


class Stop(StrEnum):
    """Why an episode ended. Deadlines are stops, not errors."""

    SUBMITTED = "submitted"
    SOLVED = "solved"
    TURNS = "turns"
    TOKENS = "tokens"
    WALL_TIME = "wall_time"
    GAVE_UP = "gave_up"
    MALFORMED = "malformed"
    BROKEN = "broken"

    @property
    def truncated(self) -> bool:
        """Gymnasium's `truncated`: cut by a limit rather than ended by the policy or the task."""
        return self in (Stop.TURNS, Stop.TOKENS, Stop.WALL_TIME)


class _Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="event"):
    episode: str
    index: int
    at_seconds: float  # since the episode opened, monotonic clock


class Opened(_Event, frozen=True, kw_only=True, tag="opened"):
    """The task as it was asked. `group` names the sibling episodes of one task, `attempt` counts house retries from 1,
    `unix_seconds` is the wall clock at opening, `conversation` what the policy sees first."""

    task: str
    task_version: str
    kind: str
    group: str
    attempt: int
    seed: int
    policy: str
    unix_seconds: float
    conversation: tuple[Message, ...]


class Sampled(_Event, frozen=True, kw_only=True, tag="sampled"):
    turn: Turn


class Built(_Event, frozen=True, kw_only=True, tag="built"):
    """The reply became a program. `notes` tell what was tolerated (an offset, line ends, a dropped edit); `submitted`
    that the policy hands it in as its answer, where the task is graded on submission."""

    program: Program
    notes: tuple[str, ...] = ()
    submitted: bool = False


class Rejected(_Event, frozen=True, kw_only=True, tag="rejected"):
    """The reply, or what was built from it, cannot be run: the policy's fault."""

    fault: Fault


class Ran(_Event, frozen=True, kw_only=True, tag="ran"):
    """The program ran against what the policy may see. `outcome` for a command, `verdict` for visible tests; `files`
    is the blob with the sandbox's files after it (an encoded `sandbox.Snapshot`), where they were kept."""

    outcome: Outcome | None = None
    verdict: Verdict | None = None
    files: str | None = None


class Graded(_Event, frozen=True, kw_only=True, tag="graded"):
    """Judged against the exam. `final` marks the one that pays."""

    verdict: Verdict
    reward: Reward
    final: bool


class Said(_Event, frozen=True, kw_only=True, tag="said"):
    """Feedback given to the policy after a turn."""

    message: Message


class Broke(_Event, frozen=True, kw_only=True, tag="broke"):
    """Something failed that was not the policy's: the episode has no reward."""

    fault: Fault


class Closed(_Event, frozen=True, kw_only=True, tag="closed"):
    stop: Stop


Event = Opened | Sampled | Built | Rejected | Ran | Graded | Said | Broke | Closed

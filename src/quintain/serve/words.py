"""What goes over the wire of the HTTP API: bodies, queries, replies, and the one shape of every error."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from quintain.train import Trajectory
from quintain.types import Limits, Outcome

Name = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9_-]{0,63}$", max_length=64)]
Text = Annotated[str, Meta(max_length=1024)]
Count = Annotated[int, Meta(ge=1, le=100_000)]
Number = Annotated[int, Meta(ge=0, le=2**53)]
Path = Annotated[str, Meta(min_length=1, max_length=1024)]


class _Word(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Scope(StrEnum):
    """What a key may do. Each is for one kind of thing; `*_read` never changes anything."""

    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    TASKS_READ = "tasks:read"
    TASKS_WRITE = "tasks:write"
    SANDBOXES = "sandboxes"


class Problem(_Word, frozen=True, kw_only=True):
    """Why a request was refused. `where` names the part of the request that is meant (`body.size`, `query.limit`,
    `header.authorization`, `path.run`), `request` the line of the audit log."""

    status: int
    code: str
    expected: str
    found: str
    where: str
    request: str = ""


class Refusal(Exception):
    """A request that is refused with a Problem; `retry_seconds` becomes Retry-After."""

    def __init__(
        self, status: int, code: str, *, expected: str, found: str, where: str, retry_seconds: float | None = None,
    ) -> None:
        super().__init__(f"{where}: expected {expected}, found {found}")
        self.problem = Problem(status=status, code=code, expected=expected[:500], found=found[:500], where=where)
        self.retry_seconds = retry_seconds


def absent(what: str, id: str) -> Refusal:
    """404: the same whether there is none, or it is another tenant's."""
    return Refusal(404, "not_found", expected=f"a {what} of yours", found=id[:100], where=f"path.{what}")


class RunState(StrEnum):
    QUEUED = "queued"  # also while the server that played it was started again
    PLAYING = "playing"
    STOPPING = "stopping"
    STOPPED = "stopped"  # by its tenant, or by a quota: `reason`
    ENDED = "ended"
    FAILED = "failed"  # it could not be played to its end: `reason`

    @property
    def is_open(self) -> bool:
        return self in (RunState.QUEUED, RunState.PLAYING, RunState.STOPPING)


class RunAsked(_Word, frozen=True, kw_only=True):
    """A run: the definition of `quintain run`. `taskset` is one that the server offers, or `my:NAME` of those handed
    in; `policy` one that it offers; `size` the episodes for each task. With a `name` a request that is sent twice makes
    one run (the second gets 409)."""

    taskset: Text
    policy: Text
    name: Name | None = None
    size: Annotated[int, Meta(ge=1, le=1024)] = 1
    seed: Annotated[int, Meta(ge=-(2**53), le=2**53)] = 0
    sandboxes: Annotated[int, Meta(ge=1, le=4096)] = 2
    include: Annotated[tuple[Text, ...], Meta(max_length=100)] = ()
    exclude: Annotated[tuple[Text, ...], Meta(max_length=100)] = ()
    shuffle: Annotated[int, Meta(ge=-(2**53), le=2**53)] | None = None
    take: Number | None = None
    temperature: Annotated[float, Meta(ge=0, le=10)] | None = None
    max_tokens: Count | None = None


class Sum(_Word, frozen=True, kw_only=True):
    """What a run came to so far. `faults` counts broken episodes by owner, `reward` is the mean of those that have
    one."""

    episodes: int = 0
    closed: int = 0
    solved: int = 0
    reward: float | None = None
    faults: dict[str, int] = {}
    events: int = 0


class RunView(_Word, frozen=True, kw_only=True):
    """A run as its tenant sees it; `sum` is null in a list. Times are Unix seconds."""

    id: str
    state: RunState
    asked: RunAsked
    submitted_unix_seconds: float
    ended_unix_seconds: float | None = None
    reason: str = ""
    sum: Sum | None = None


class RunPage(_Word, frozen=True, kw_only=True):
    """Newest first; `next` is the `after` of the next page, null on the last."""

    runs: tuple[RunView, ...]
    next: str | None = None


class EpisodeView(_Word, frozen=True, kw_only=True, gc=False):
    """An episode in a line. `fault` is the owner and kind of what broke it. A server holds tens of thousands: they are
    left out of what the garbage collector looks through."""

    id: str
    task: str
    kind: str
    group: str
    attempt: int
    policy: str
    turns: int = 0
    stop: str | None = None
    solved: bool | None = None
    reward: float | None = None
    seconds: float = 0.0
    fault: str | None = None


class EpisodePage(_Word, frozen=True, kw_only=True):
    """In the order of their first event; `next` is the `after` of the next page, null on the last."""

    episodes: tuple[EpisodeView, ...]
    next: int | None = None


class Numbered(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a run and its number, from 0 in the order of writing. `blobs` names big fields that were left empty;
    they are fetched by their digests."""

    number: int
    event: msgspec.Raw
    blobs: dict[str, str] = {}


class Ended(_Word, frozen=True, kw_only=True):
    """The last word of a stream of events: whether the run is over, or the stream alone, to be resumed at `number`."""

    state: RunState
    number: int


class Page(_Word, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class RunsAsked(Page, frozen=True, kw_only=True):
    after: Text | None = None
    state: RunState | None = None


class EpisodesAsked(Page, frozen=True, kw_only=True):
    after: Number = 0


class EventsAsked(_Word, frozen=True, kw_only=True):
    """From which number on. SSE's own `Last-Event-ID` wins over it."""

    start: Number = 0


class EpisodeAsked(_Word, frozen=True, kw_only=True):
    id: Path


class TrajectoriesAsked(Page, frozen=True, kw_only=True):
    """Of one episode, or of `limit` episodes from the `after`-th on."""

    episode: Path | None = None
    after: Number = 0


class TrajectoryPage(_Word, frozen=True, kw_only=True):
    """Token in, token out, with the reward. `without` says why an episode has none; `next` is the `after` of the next
    page, null on the last."""

    trajectories: tuple[Trajectory, ...]
    without: dict[str, str] = {}
    next: int | None = None


class TasksetAsked(_Word, frozen=True, kw_only=True):
    """Tasks handed in: files of a format that `quintain tasks` reads, by their paths, as base64. Their image is the
    server's host image and their network none."""

    name: Name
    files: Annotated[dict[Annotated[str, Meta(max_length=255)], bytes], Meta(min_length=1, max_length=2000)]


class TasksetView(_Word, frozen=True, kw_only=True):
    """A taskset that runs may name. `tasks` counts those that can be asked, null where nobody counted; `refused` says
    of others why not."""

    name: str
    tasks: int | None = None
    refused: tuple[str, ...] = ()


class Offer(_Word, frozen=True, kw_only=True):
    """What runs may be made of."""

    tasksets: tuple[TasksetView, ...]
    policies: tuple[str, ...]


class StandingView(_Word, frozen=True, kw_only=True):
    """How a task stands in the ledger: where, since when, why, and how its verdicts went."""

    task: str
    version: str
    state: str
    since_unix_seconds: float
    why: str = ""
    evidence: str = ""
    suspensions: int = 0
    verdicts: int = 0


class StandingPage(_Word, frozen=True, kw_only=True):
    tasks: tuple[StandingView, ...]
    next: str | None = None


class StandingsAsked(Page, frozen=True, kw_only=True):
    after: Text | None = None
    state: Text | None = None


class To(StrEnum):
    SUSPENDED = "suspended"
    PROBATION = "probation"  # what was suspended comes back
    RETIRED = "retired"


class MoveAsked(_Word, frozen=True, kw_only=True):
    """A person's word on a task: runs that are playing heed it within a second."""

    task: Text
    to: To
    evidence: Annotated[str, Meta(min_length=1, max_length=2000)]


class SandboxAsked(_Word, frozen=True, kw_only=True):
    """A sandbox for `lease_seconds`: it ends by itself unless the lease is renewed. Limits are clipped by the
    server's."""

    lease_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 300.0
    limits: Limits | None = None


class LeaseAsked(_Word, frozen=True, kw_only=True):
    lease_seconds: Annotated[float, Meta(gt=0, le=86_400)]


class SandboxView(_Word, frozen=True, kw_only=True):
    id: str
    expires_unix_seconds: float
    limits: Limits
    commands: int = 0


class SandboxList(_Word, frozen=True, kw_only=True):
    sandboxes: tuple[SandboxView, ...]


class CommandAsked(_Word, frozen=True, kw_only=True):
    """A command, run to its end; whatever it started is gone afterwards. With `stream` its output comes as it is
    written, and when nobody listens any more it is killed. `stdin` is base64."""

    argv: Annotated[tuple[Annotated[str, Meta(max_length=131_072)], ...], Meta(min_length=1, max_length=1000)]
    stdin: bytes = b""
    env: Annotated[dict[str, str], Meta(max_length=1000)] = {}
    cwd: Path = "/work"
    wall_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    stream: bool = False


class Piece(_Word, frozen=True, kw_only=True):
    """What a command wrote, as base64: `stream` is stdout or stderr."""

    stream: str
    data: bytes


class Done(_Word, frozen=True, kw_only=True):
    outcome: Outcome


class FileAsked(_Word, frozen=True, kw_only=True):
    path: Path


class ListingAsked(_Word, frozen=True, kw_only=True):
    path: Path = "/work"
    depth: Annotated[int, Meta(ge=1, le=16)] = 1


class FileView(_Word, frozen=True, kw_only=True):
    path: str
    kind: str
    size_bytes: int
    mode: int


class Listing(_Word, frozen=True, kw_only=True):
    files: tuple[FileView, ...]


class Health(_Word, frozen=True, kw_only=True):
    """`draining`: it takes nothing new, and is about to end."""

    state: str
    version: str

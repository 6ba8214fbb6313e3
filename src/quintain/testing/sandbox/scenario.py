"""What a sandbox must do, as data: one scenario is some steps and what each must lead to."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib import resources

import msgspec

from quintain.types import KilledBy, Limits, Status


class Expect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must be true of a step; a field that is not given is not looked at. Times are seen from the house's side."""

    status: tuple[Status, ...] = ()
    exit_code: int | None = None
    signal: int | None = None
    killed_by: KilledBy | None = None
    not_killed: bool = False
    stdout: str | None = None  # all of it, as text
    stdout_hex: str | None = None
    stdout_has: tuple[str, ...] = ()
    stdout_lacks: tuple[str, ...] = ()
    stdout_matches: str | None = None
    stderr: str | None = None
    stderr_has: tuple[str, ...] = ()
    stdout_bytes: int | None = None
    stdout_truncated: bool | None = None
    kept_bytes_at_most: int | None = None
    within_seconds: float | None = None
    cpu_seconds_at_least: float | None = None
    cpu_seconds_at_most: float | None = None
    peak_memory_mib_at_most: float | None = None
    house_growth_mib_at_most: float | None = None
    error: tuple[str, ...] = ()  # names of exceptions, one of which must be raised
    content: str | None = None  # what a read must give
    content_lacks: tuple[str, ...] = ()
    paths: tuple[str, ...] | None = None  # what a listing must hold, as Python would write bytes that are no UTF-8
    distinct: bool = False  # all copies must print something different


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One act: exactly one of sh, python, argv, read, write, list, cycles, open_image, sleep_seconds."""

    sh: str | None = None
    python: str | None = None
    argv: tuple[str, ...] | None = None
    read: str | None = None
    write: dict[str, str] | None = None
    list: str | None = None
    cycles: int | None = None  # open and close this many sandboxes, one after another
    open_image: str | None = None  # try to open a sandbox of this image
    sleep_seconds: float | None = None
    box: int = 0
    fresh: bool = False  # close the sandboxes and open new ones before this step
    closed: bool = False  # close the sandbox before this step
    copies: int = 1  # so many at the same time, each in a sandbox of its own when there are more than one
    together: bool = False  # all copies in the one sandbox
    stdin: str = ""
    env: dict[str, str] = {}
    cwd: str = "/work"
    warm: bool = False
    stream: bool = False
    channel: str | None = None  # what must arrive through descriptor 3
    cancel_after_seconds: float | None = None  # cancel the step (an opening, too) from the house's side
    depth: int = 1
    max_bytes: int = 16 * 1024 * 1024
    limits: Limits | None = None
    expect: Expect = Expect()


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`source` is the public report that it follows. `needs` are capabilities: 'memory=hard', 'isolation', 'channel',
    'warm', 'network=none', or 'covers:WORD' (not among `does_not_cover`)."""

    id: str
    title: str
    source: str
    needs: tuple[str, ...] = ()
    boxes: int = 1
    alone: bool = False  # measures the house itself, or fills the machine: nothing else is played meanwhile
    limits: Limits = Limits()
    steps: tuple[Step, ...]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    scenario: tuple[Scenario, ...]


@lru_cache(maxsize=1)
def scenarios() -> tuple[Scenario, ...]:
    """All of the kit's, in the order of their files and of their places in them.

    Raises ValueError naming the file for data that does not fit.
    """
    found: list[Scenario] = []
    folder = resources.files(__package__) / "scenarios"
    for path in sorted(folder.iterdir(), key=lambda p: p.name):
        if path.name.endswith(".toml"):
            try:
                found += msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _File).scenario
            except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
                raise ValueError(f"{path.name}: {error}") from error
    doubled = {s.id for s in found if sum(other.id == s.id for other in found) > 1}
    if doubled:
        raise ValueError(f"expected each scenario id once, found more of {sorted(doubled)}")
    return tuple(found)

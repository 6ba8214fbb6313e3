"""Whether a verifier still judges rightly: candidates whose verdict is known, judged again and again on each verifier.

A verifier is what judges one kind of suite in one image. When it calls a right answer wrong, a wrong one right, or
fails, every verdict of it since its last success is void, and no more are given until it is well.

Covers: interpreters, images, backends and our own programs that stop working, whatever the reason. Does not cover: a
verifier that is wrong about some tasks only; kinds of suite for which nothing is pinned (they are not watched).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from quintain.grade.judge import headline
from quintain.grade.pinned import PINNED, Pinned
from quintain.sandbox import DEFAULT_LIMITS
from quintain.tasks import Suite, kind_of
from quintain.types import Fault, FaultKind, Group, HouseError, Limits, Owner, Program, Verdict

#: How long a sick verifier is left alone before it is tried again.
RETRY_SECONDS = 1.0
_LIMITS = msgspec.structs.replace(DEFAULT_LIMITS, wall_seconds=20.0, cpu_seconds=20.0)


class Judging(Protocol):
    """What gives verdicts: `Oracle.grade`."""

    async def grade(
        self, suite: Suite, program: Program, *, image: str = "host", limits: Limits = DEFAULT_LIMITS, seed: int = 0,
        confirm: bool | None = None,
    ) -> Verdict: ...


class Void(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Verdicts that count for nothing: whose they were (episodes, oldest first), which verifier gave them, and why."""

    verifier: str
    names: tuple[str, ...]
    fault: Fault


class _Verifier:
    """What is known of one verifier. `since` is the loop time of its last success, `None` before the first."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.since: float | None = None
        self.count = 0  # verdicts given or in hand since then
        self.names: list[str] = []  # of the verdicts given since then
        self.misses = 0
        self.sick: Fault | None = None
        self.tried = 0.0


class Health:
    """Watches over a verifier: `async with health.watching(suite, image=..., name=episode): verdict = ...`.

    Before the first verdict, and then every `every_seconds` or `every_verdicts` (whichever comes first), the pinned
    candidates of the suite's kind are judged on the same verifier. While it is sick, `watching` raises
    HouseError(HEALTH_CHECK_FAILED), also for verdicts that were in hand when it was found out: such an episode is
    retried and never rewarded. Verdicts that had been given already are in `taken()`. `clock` is in seconds.
    """

    def __init__(
        self, oracle: Judging, *, pinned: Sequence[Pinned] = PINNED, every_seconds: float = 60.0,
        every_verdicts: int = 200, clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not every_seconds > 0 or every_verdicts < 1:
            raise ValueError(f"expected every_seconds > 0 and every_verdicts >= 1, found {every_seconds!r} and "
                             f"{every_verdicts!r}")
        self._oracle = oracle
        self._pinned = {kind_of(one.suite): one for one in pinned}
        self._every_seconds = every_seconds
        self._every_verdicts = every_verdicts
        self._clock = clock
        self._verifiers: dict[tuple[str, str], _Verifier] = {}
        self._void: list[Void] = []
        self.checks = 0

    @asynccontextmanager
    async def watching(self, suite: Suite, *, image: str, name: str) -> AsyncIterator[None]:
        """Around one verdict, named by its episode. Raises HouseError(HEALTH_CHECK_FAILED)."""
        kind = kind_of(suite)
        pinned = self._pinned.get(kind)
        if pinned is None:
            yield
            return
        verifier = self._verifiers.setdefault((kind, image), _Verifier())
        await self._well(verifier, pinned, image)
        verifier.count += 1
        misses = verifier.misses
        yield
        if verifier.misses != misses:
            raise HouseError(FaultKind.HEALTH_CHECK_FAILED,
                             f"the verifier of {kind} in {image!r} was found sick while it judged")
        verifier.names.append(name)

    def taken(self) -> tuple[Void, ...]:
        """The verdicts that have become void since the last call: their episodes must not be trained on (`struck`)."""
        void, self._void = tuple(self._void), []
        return void

    async def settle(self) -> tuple[Void, ...]:
        """Check every verifier that has given verdicts since its last success, so that none stays unproven at the end
        of a run; what is void, as `taken`."""
        for (kind, image), verifier in self._verifiers.items():
            async with verifier.lock:
                if verifier.names:
                    await self._check(verifier, self._pinned[kind], image)
        return self.taken()

    async def _well(self, verifier: _Verifier, pinned: Pinned, image: str) -> None:
        """Return once the verifier is known to be well. One check at a time; the others wait for it."""
        async with verifier.lock:
            now = self._clock()
            if verifier.sick is not None and now - verifier.tried < RETRY_SECONDS:
                raise HouseError(verifier.sick.kind, verifier.sick.message)
            if verifier.sick is not None or due(
                since=verifier.since, count=verifier.count, now=now, every_seconds=self._every_seconds,
                every_verdicts=self._every_verdicts,
            ):
                await self._check(verifier, pinned, image)
            if verifier.sick is not None:
                raise HouseError(verifier.sick.kind, verifier.sick.message)

    async def _check(self, verifier: _Verifier, pinned: Pinned, image: str) -> None:
        """Judge both pinned candidates, and draw the conclusions."""
        self.checks += 1
        wrong = await self._miss(pinned, image)
        verifier.tried = self._clock()
        if wrong is None:
            verifier.since, verifier.count, verifier.names, verifier.sick = verifier.tried, 0, [], None
            return
        kind = kind_of(pinned.suite)
        verifier.sick = Fault(owner=Owner.HOUSE, kind=FaultKind.HEALTH_CHECK_FAILED,
                              message=f"the verifier of {kind} in {image!r}: {wrong}")
        verifier.misses += 1
        if verifier.names:
            self._void.append(Void(verifier=f"{kind} in {image}", names=tuple(verifier.names), fault=verifier.sick))
        verifier.names, verifier.count = [], 0

    async def _miss(self, pinned: Pinned, image: str) -> str | None:
        """What the verifier got wrong, or `None`."""
        for program, is_good in ((pinned.good, True), (pinned.bad, False)):
            what = "known-good" if is_good else "known-bad"
            try:
                verdict = await self._oracle.grade(pinned.suite, program, image=image, limits=_LIMITS)
            except HouseError as error:
                return f"could not judge the {what} candidate: {error}"
            fault = headline(verdict)
            if fault is not None and fault.kind is FaultKind.TASK_ENVIRONMENT:
                return None  # the image cannot start the pinned program: nothing is known
            if is_good and not verdict.solved:
                return f"judged the known-good candidate wrong: {fault}"
            if not is_good and (verdict.solved or verdict.share != pinned.bad_share
                                or fault is None or fault.kind is not pinned.bad_kind):
                return f"judged the known-bad candidate as {verdict.share:.2f}, {fault}"
        return None


def due(*, since: float | None, count: int, now: float, every_seconds: float, every_verdicts: int) -> bool:
    """Whether a verifier must be checked before its next verdict. `since` is when it was last well, `count` how many
    verdicts it has given since; times in seconds."""
    return since is None or count >= every_verdicts or now - since >= every_seconds


def struck(group: Group, void: Sequence[Void]) -> Group:
    """The group without the rewards of its void episodes: they are in no baseline and are not trained on."""
    names = {name for one in void for name in one.names}
    return msgspec.structs.replace(group, episodes=tuple(
        msgspec.structs.replace(episode, reward=None) if episode.id in names else episode
        for episode in group.episodes))

"""Verdicts that do not come out again: the most suspicious episodes of runs, judged anew from their records."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from quintain.cli.again import Found, item_of, open_again
from quintain.cli.exits import Usage
from quintain.replay import Anomaly, EpisodeReplay, Salvaged, replay_flip
from quintain.types import Closed, Graded, HouseError

#: What of a judgement must come out again (the words of a failed test may differ), and what is told of it.
DECIDES = "reward"
TOLD = frozenset({"tests", "verdict", DECIDES})


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """How many episodes were judged again, whose verdict came out otherwise, and which could not be judged and why."""

    episodes: int
    flips: tuple[Anomaly, ...]
    failed: tuple[str, ...]


def replayed(
    read: Mapping[str, Salvaged], suspects: Sequence[Anomaly], count: int, *, bases: Mapping[str, str],
) -> Replayed:
    """Run `count` judged episodes again, the suspects first and then others that their names decide. Raises HostCannot
    where there are no sandboxes."""
    return asyncio.run(_replay(_chosen(read, suspects, count), bases))


def _chosen(read: Mapping[str, Salvaged], suspects: Sequence[Anomaly], count: int) -> list[Found]:
    judged = {(run, id): log for run, one in read.items() for id, log in one.logs.items()
              if isinstance(log[-1], Closed) and any(isinstance(event, Graded) for event in log)}
    by_name = sorted(judged, key=lambda key: hashlib.sha256("\0".join(key).encode("utf-8", "replace")).digest())
    wanted = [(one.run, one.episode) for one in suspects if (one.run, one.episode) in judged]
    return [Found(Path(run), read[run], id, tuple(judged[run, id]))
            for run, id in tuple(dict.fromkeys([*wanted, *by_name]))[:count]]


async def _replay(chosen: Sequence[Found], bases: Mapping[str, str]) -> Replayed:
    flips: list[Anomaly] = []
    failed: list[str] = []
    for found in chosen:
        try:
            item = item_of(found.salvaged, found.log, tasks=None, data=None)
            async with open_again(found, item, bases=bases) as (_, replayer):
                came = await replayer.replay(item, found.log)
        except (Usage, HouseError, ValueError) as error:
            failed.append(f"{found.episode}: {error}")
            continue
        if came.house is not None:
            failed.append(f"{found.episode}: {came.house}")
        flips += _flips(str(found.run), came)
    return Replayed(episodes=len(chosen) - len(failed), flips=tuple(flips), failed=tuple(failed))


def _flips(run: str, came: EpisodeReplay) -> Iterator[Anomaly]:
    for step in came.steps:
        differing = [one for one in step.differing if one.part in TOLD]
        if any(one.part == DECIDES for one in differing):
            told = [f"{one.part}: recorded {one.recorded.strip()!r}, now {one.again.strip()!r}" for one in differing]
            told += [f"{named.cause.value} (laid on the {named.blame.value}): {'; '.join(named.evidence)}"
                     for named in step.named[:1]]
            yield replay_flip(run, came.episode, came.task, step.step, told)
            return

"""The operations on runs: submit, look, follow, stop, and fetch what came of them."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import msgspec
from starlette.responses import Response, StreamingResponse

from quintain.serve.homes import Served
from quintain.serve.operation import BYTES, SSE, Call, House, Operation
from quintain.serve.tail import Tail
from quintain.serve.words import (
    Ended,
    EpisodeAsked,
    EpisodePage,
    EpisodesAsked,
    EventsAsked,
    Numbered,
    Refusal,
    RunAsked,
    RunPage,
    RunsAsked,
    RunView,
    Scope,
    TrajectoriesAsked,
    TrajectoryPage,
    absent,
)
from quintain.store import LocalBlobs
from quintain.train import Trajectory, rows_of
from quintain.types import Episode, HouseError, fold

#: A stream ends after so long, and is resumed at its number.
STREAM_SECONDS = 3600.0
_POLL_SECONDS = 0.1
_BEAT_SECONDS = 10.0
_DIGEST = re.compile(r"[0-9a-f]{64}")


def view_of(run: str, served: Served) -> RunView:
    return RunView(
        id=run, state=served.state, asked=served.asked, submitted_unix_seconds=served.submitted_unix_seconds,
        ended_unix_seconds=served.ended_unix_seconds, reason=served.reason)


async def _submit(house: House, call: Call) -> object:
    run = await house.plays.submit(call.tenant, call.body)
    return view_of(run, house.plays.get(call.tenant, run))


async def _list(house: House, call: Call) -> object:
    query: RunsAsked = call.query
    runs = [(run, served) for run, served in house.plays.runs_of(call.tenant)
            if query.state is None or served.state is query.state]
    if query.after is not None:
        names = [run for run, _ in runs]
        if query.after not in names:
            raise Refusal(422, "invalid", expected="the `next` of an earlier page", found=query.after,
                          where="query.after")
        runs = runs[names.index(query.after) + 1:]
    page = runs[:query.limit]
    return RunPage(runs=tuple(view_of(*one) for one in page), next=page[-1][0] if len(runs) > len(page) else None)


async def _show(house: House, call: Call) -> object:
    tail = await _fresh(house, call)
    served = house.plays.get(call.tenant, call.path["run"])
    return msgspec.structs.replace(view_of(call.path["run"], served), sum=tail.sum())


async def _stop(house: House, call: Call) -> object:
    return view_of(call.path["run"], house.plays.stop(call.tenant, call.path["run"]))


async def _resume(house: House, call: Call) -> object:
    return view_of(call.path["run"], house.plays.resume(call.tenant, call.path["run"]))


async def _delete(house: House, call: Call) -> object:
    await house.plays.delete(call.tenant, call.path["run"])
    return None


async def _episodes(house: House, call: Call) -> object:
    tail = await _fresh(house, call)
    episodes, after = tail.episodes(after=call.query.after, limit=call.query.limit)
    return EpisodePage(episodes=episodes, next=after)


async def _episode(house: House, call: Call) -> object:
    tail = await _fresh(house, call)
    return await asyncio.to_thread(_folded, tail, call.query.id)


def _folded(tail: Tail, id: str) -> Episode:
    events = tail.events_of(id)
    if not events:
        raise Refusal(404, "not_found", expected="an episode of this run", found=id[:100], where="query.id")
    return fold(events)


async def _trajectories(house: House, call: Call) -> object:
    tail, query = await _fresh(house, call), call.query
    if query.episode is not None:
        return await asyncio.to_thread(_rows, tail, [query.episode], None)
    episodes, after = tail.episodes(after=query.after, limit=query.limit)
    return await asyncio.to_thread(_rows, tail, [one.id for one in episodes], after)


def _rows(tail: Tail, episodes: list[str], after: int | None) -> TrajectoryPage:
    found: list[Trajectory] = []
    without = {}
    for id in episodes:
        try:
            found += rows_of(_folded(tail, id))
        except ValueError as error:  # a policy without ids, a turn that was never sampled
            without[id] = str(error)
    return TrajectoryPage(trajectories=tuple(found), without=without, next=after)


async def _blob(house: House, call: Call) -> object:
    folder, digest = house.plays.folder(call.tenant, call.path["run"]), call.path["digest"]
    if _DIGEST.fullmatch(digest) is None:
        raise absent("digest", digest)
    try:
        content = await asyncio.to_thread(LocalBlobs(folder / "blobs").get, digest)
    except HouseError:
        raise absent("digest", digest) from None
    return Response(content, media_type=BYTES)


async def _fresh(house: House, call: Call) -> Tail:
    tail = house.tail(call.tenant, call.path["run"])
    if not tail.refresh_at_once():
        await asyncio.to_thread(tail.refresh)
    return tail


async def follow(house: House, tenant: str, run: str, start: int) -> AsyncGenerator[Numbered | Ended | None, None]:
    """The events of a run from number `start` on, as they are written, and at last Ended; now and then None, which says
    only that we live."""
    tail, number = house.tail(tenant, run), start
    until, beat = time.monotonic() + STREAM_SECONDS, time.monotonic() + _BEAT_SECONDS
    while True:
        state = house.plays.get(tenant, run).state  # before the look: what is written when it is over has been seen
        if not tail.refresh_at_once():
            await asyncio.to_thread(tail.refresh)
        if number < len(tail):
            for one in await asyncio.to_thread(tail.numbered, number):
                yield one
                number = one.number + 1
            beat = time.monotonic() + _BEAT_SECONDS
            continue
        now = time.monotonic()
        if not state.is_open or house.draining or now > until:
            yield Ended(state=state, number=number)
            return
        if now > beat:
            beat = now + _BEAT_SECONDS
            yield None
        await asyncio.sleep(_POLL_SECONDS)


async def _events(house: House, call: Call) -> object:
    run, start = call.path["run"], call.query.start
    house.plays.get(call.tenant, run)
    last = call.headers.get("last-event-id", "")
    if last:
        if not (last.isascii() and last.isdigit() and len(last) < 16):
            raise Refusal(422, "invalid", expected="the number of an event", found=last, where="header.last-event-id")
        start = int(last) + 1

    async def said() -> AsyncIterator[bytes]:
        async with aclosing(follow(house, call.tenant, run, start)) as following:
            async for one in following:
                if one is None:
                    yield b":\n\n"
                elif isinstance(one, Ended):
                    yield b"event: ended\ndata: " + msgspec.json.encode(one) + b"\n\n"
                else:
                    yield b"id: %d\nevent: event\ndata: %s\n\n" % (one.number, msgspec.json.encode(one))

    return StreamingResponse(said(), media_type=SSE, headers={"cache-control": "no-cache"})


_ASKED = RunAsked(taskset="humaneval", policy="oracle", take=10, size=1)
READ, WRITE = Scope.RUNS_READ, Scope.RUNS_WRITE

OPERATIONS = (
    Operation(id="submitRun", method="POST", path="/v1/runs", scope=WRITE, says="Submit a run.", answer=_submit,
              body=RunAsked, reply=RunView, status=201, example=_ASKED, refusals=(403, 404, 409), seconds=120.0),
    Operation(id="listRuns", method="GET", path="/v1/runs", scope=READ, says="List runs, newest first.", answer=_list,
              query=RunsAsked, reply=RunPage),
    Operation(id="getRun", method="GET", path="/v1/runs/{run}", scope=READ, says="Where a run stands, and its sum.",
              answer=_show, reply=RunView, refusals=(404,)),
    Operation(id="deleteRun", method="DELETE", path="/v1/runs/{run}", scope=WRITE,
              says="Delete a run that is over, and all that it kept.", answer=_delete, status=204,
              refusals=(404, 409)),
    Operation(id="stopRun", method="POST", path="/v1/runs/{run}/stop", scope=WRITE,
              says="Stop a run: it can be resumed.", answer=_stop, reply=RunView, refusals=(404, 409)),
    Operation(id="resumeRun", method="POST", path="/v1/runs/{run}/resume", scope=WRITE,
              says="Go on with a run that was stopped or failed.", answer=_resume, reply=RunView, refusals=(404, 409)),
    Operation(id="followRun", method="GET", path="/v1/runs/{run}/events", scope=READ, query=EventsAsked,
              says="Follow a run: server-sent events, each with its number (`data` is a Numbered, or Ended). "
                   "`/v1/runs/{run}/live` is the same as a WebSocket of JSON texts.",
              answer=_events, reply=Numbered, media=SSE, refusals=(404,), is_stream=True),
    Operation(id="listEpisodes", method="GET", path="/v1/runs/{run}/episodes", scope=READ, query=EpisodesAsked,
              says="List the episodes of a run, with their rewards.", answer=_episodes, reply=EpisodePage,
              refusals=(404,)),
    Operation(id="getEpisode", method="GET", path="/v1/runs/{run}/episode", scope=READ, query=EpisodeAsked,
              says="An episode whole: its turns, its verdict, and its reward with all reasons.", answer=_episode,
              reply=Episode, refusals=(404,)),
    Operation(id="listTrajectories", method="GET", path="/v1/runs/{run}/trajectories", scope=READ,
              query=TrajectoriesAsked, says="What a trainer needs: tokens, masks, log-probabilities, rewards.",
              answer=_trajectories, reply=TrajectoryPage, refusals=(404,)),
    Operation(id="getBlob", method="GET", path="/v1/runs/{run}/blobs/{digest}", scope=READ,
              says="The bytes of a big field of an event.", answer=_blob, media=BYTES, refusals=(404,)),
)

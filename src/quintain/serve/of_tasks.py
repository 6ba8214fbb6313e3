"""The operations on tasks: what is offered, what is handed in, and how tasks stand in the ledger."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from quintain.curate import HealthLedger, Standing, State, Why
from quintain.serve.operation import MEBIBYTE, Call, House, Operation
from quintain.serve.words import (
    MoveAsked,
    Offer,
    Refusal,
    Scope,
    StandingPage,
    StandingsAsked,
    StandingView,
    TasksetAsked,
    TasksetView,
    To,
)
from quintain.types import TaskError


async def _offer(house: House, call: Call) -> object:
    offered = house.plays.player.offer()
    own = await asyncio.to_thread(call.home(house).taskset_names)
    mine = tuple(TasksetView(name=f"my:{name}") for name in own)
    return Offer(tasksets=(*offered.tasksets, *mine), policies=offered.policies)


async def _hand_in(house: House, call: Call) -> object:
    asked: TasksetAsked = call.body
    quota, home = house.ring.quota(call.tenant), call.home(house)
    size = sum(map(len, asked.files.values())) + 4096 * len(asked.files)
    kept = await asyncio.to_thread(home.kept_bytes)
    if kept + size > quota.kept_bytes:
        raise Refusal(403, "quota", expected=f"at most {quota.kept_bytes} bytes kept in all", found=str(kept + size),
                      where="quota.kept_bytes")
    folder = await asyncio.to_thread(home.write_taskset, asked.name, asked.files)
    try:
        return await asyncio.to_thread(house.plays.player.look, folder)
    except Refusal:
        await asyncio.to_thread(_remove, folder)
        raise


async def _take_back(house: House, call: Call) -> object:
    await asyncio.to_thread(_remove, call.home(house).taskset(call.path["taskset"]))
    return None


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


async def _standings(house: House, call: Call) -> object:
    query: StandingsAsked = call.query
    if query.state is not None and query.state not in set(State):
        raise Refusal(422, "invalid", expected=f"one of {', '.join(State)}", found=query.state, where="query.state")
    ledger = await asyncio.to_thread(house.ledger, call.tenant)
    found = sorted(
        (one for one in ledger.standings.values()
         if (query.state is None or one.state == query.state) and (query.after is None or one.task > query.after)),
        key=lambda one: one.task)
    page = found[:query.limit]
    return StandingPage(tasks=tuple(map(_view, page)), next=page[-1].task if len(found) > len(page) else None)


async def _move(house: House, call: Call) -> object:
    asked: MoveAsked = call.body
    return _view(await asyncio.to_thread(_moved, house.ledger(call.tenant), asked, call.tenant))


def _moved(ledger: HealthLedger, asked: MoveAsked, tenant: str) -> Standing:
    if asked.task not in ledger.standings:
        raise Refusal(404, "not_found", expected="a task that a run of yours asked", found=asked.task,
                      where="body.task")
    to = {To.SUSPENDED: State.SUSPENDED, To.PROBATION: State.PROBATION, To.RETIRED: State.RETIRED}[asked.to]
    try:
        return ledger.move(asked.task, to, Why.BY_HAND, evidence=asked.evidence, by=tenant)
    except TaskError as error:
        raise Refusal(409, "no_such_move", expected="a move that its state allows", found=str(error),
                      where="body.to") from None


def _view(standing: Standing) -> StandingView:
    last = standing.moves[-1] if standing.moves else None
    return StandingView(
        task=standing.task, version=standing.version, state=standing.state.value,
        since_unix_seconds=standing.since_unix_seconds, why=last.why.value if last else "",
        evidence=last.evidence if last else "", suspensions=standing.suspensions, verdicts=standing.chart.verdicts)


_EXAMPLE = TasksetAsked(name="mine", files={
    "double/task.toml": b'id = "double"\n',
    "double/instructions.md": b"Write a function double(x) that returns twice x, in solution.py.\n",
    "double/tests/test_double.py": b"from solution import double\n\n\ndef test_double():\n    assert double(4) == 8\n",
    "double/oracle/solution.py": b"def double(x):\n    return 2 * x\n",
})

OPERATIONS = (
    Operation(id="getOffer", method="GET", path="/v1/offer", scope=Scope.TASKS_READ,
              says="What runs may be made of: tasksets (yours as `my:NAME`) and policies.", answer=_offer, reply=Offer),
    Operation(id="handInTasks", method="POST", path="/v1/tasksets", scope=Scope.TASKS_WRITE,
              says="Hand in tasks, for runs of `my:NAME`.", answer=_hand_in, body=TasksetAsked, reply=TasksetView,
              status=201, example=_EXAMPLE, refusals=(403, 409), seconds=60.0, most_bytes=16 * MEBIBYTE),
    Operation(id="takeTasksBack", method="DELETE", path="/v1/tasksets/{taskset}", scope=Scope.TASKS_WRITE,
              says="Delete tasks that were handed in.", answer=_take_back, status=204, refusals=(404,)),
    Operation(id="listStandings", method="GET", path="/v1/standings", scope=Scope.TASKS_READ, query=StandingsAsked,
              says="How tasks stand in the ledger of all your runs.", answer=_standings, reply=StandingPage),
    Operation(id="moveTask", method="POST", path="/v1/standings", scope=Scope.TASKS_WRITE,
              says="Suspend a task, let it come back on probation, or retire it.", answer=_move, body=MoveAsked,
              reply=StandingView, refusals=(404, 409),
              example=MoveAsked(task="HumanEval/3", to=To.SUSPENDED, evidence="the text contradicts test 4")),
)

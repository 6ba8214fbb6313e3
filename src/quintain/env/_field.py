"""Services in one sandbox, trusted tests in another, and between them the house, which starts, kills and passes on.

The tests (`test_probe.py`, with `field.py`) draw what they send from a seed that is new for each verdict, and keep what
they expect where no answer can look. They ask the house in lines of JSON; the house starts what the plan says, kills it
with all that it started (the backend's own work), and lets a relay speak to it from inside its network.

Covers: nothing that an answer runs sees the tests or what they expect; what is killed is gone, sessions and orphans
included; CPU and memory are what the backend counted from outside. Does not cover: an answer that takes the relay's
place gains nothing but the duty to answer; services that keep state in each other when one is killed, which is allowed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from importlib.resources import files
from typing import Any, cast

import msgspec

from quintain.sandbox import Backend, Interactive, Process
from quintain.types import MEBIBYTE, FaultKind, HouseError, Limits, Outcome, TaskError

READY_SECONDS = 10.0
#: How often it is looked whether what does not listen yet still lives.
_LOOK_SECONDS = 0.3
#: The longest that the tests of one verdict may take.
PROBE_SECONDS = 180.0
_LINE_BYTES = 32 * MEBIBYTE
_WORK = "/work"


class Service(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one is started; it is there when it listens on `port`, and has `ready_seconds` for that."""

    name: str
    argv: tuple[str, ...]
    port: int
    env: dict[str, str] = {}
    ready_seconds: float = READY_SECONDS


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is started, in order; `keep` are files that no answer can change: absolute path → text."""

    services: tuple[Service, ...]
    keep: dict[str, str] = {}


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What the tests said: name → why it failed, '' where it passed. Tests that are not in it were not reached, and
    `why` says why not."""

    tests: dict[str, str]
    why: str = "it was not reached"
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0


class _Refused(Exception):
    """What was asked for could not be done, by the doing of the services."""


def plan_of(suite: Mapping[str, bytes]) -> Plan:
    """Raises TaskError for a suite without a plan."""
    try:
        return msgspec.json.decode(suite["plan.json"], type=Plan)
    except (KeyError, msgspec.DecodeError, msgspec.ValidationError) as error:
        raise TaskError(f"expected a plan of services, found {error}", file="plan.json") from error


async def probed(
    backend: Backend, suite: Mapping[str, bytes], lay: Callable[[Interactive], Awaitable[None]], *, image: str,
    limits: Limits, seed: int,
) -> Found:
    """The tests of `suite` on what `lay` lays into a fresh sandbox of `image`. Raises TaskError for tests that cannot
    run, HouseError where the house fails."""
    began = time.monotonic()
    wide = msgspec.structs.replace(limits, wall_seconds=PROBE_SECONDS, output_bytes=_LINE_BYTES)
    async with backend.open(image, limits=wide) as (box,), backend.open("host", limits=wide) as (judge,):
        if not hasattr(box, "start") or not hasattr(judge, "start"):
            raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"the backend {backend.name!r} keeps no services alive: "
                             "use native")
        field = Field(cast(Interactive, box), plan_of(suite), wide)
        try:
            await lay(field.box)
            await field.keep()
        except OSError as error:
            return Found(tests={}, why=f"the files cannot be laid: {error.filename or ''}: {error.strerror or error}")
        await judge.files.write_many({f"{_WORK}/{path}": content for path, content in suite.items()})
        async with AsyncExitStack() as stack:
            stack.push_async_callback(field.close)
            tests, why = await _asked(field, cast(Interactive, judge), seed)
    return Found(tests=tests, why=why, cpu_seconds=field.cpu_seconds, wall_seconds=time.monotonic() - began)


async def _asked(field: Field, judge: Interactive, seed: int) -> tuple[dict[str, str], str]:
    """What the tests said, and why others said nothing."""
    probe = await judge.start(["python3", "-I", "-c", _PROBE], stdin=None)
    tests: dict[str, str] = {}
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await probe.send(json.dumps({"seed": seed}).encode() + b"\n")
            async for line in _lines(probe):
                asked = json.loads(line)
                if "result" in asked:
                    tests[asked["result"]] = "" if asked["passed"] else asked["why"] or "it failed"
                    continue
                try:
                    said = {"value": await field.do(asked)}
                except _Refused as error:
                    said = {"error": str(error)}
                await probe.send(json.dumps(said).encode() + b"\n")
    except TimeoutError:
        await probe.kill()
        return tests, f"the tests took more than {PROBE_SECONDS:g} s"
    ended = await probe.wait()
    if ended.exit_code != 0:
        raise TaskError(f"the tests do not run: {ended.error_text.strip()[-600:]}", file="test_probe.py")
    return tests, "it was not reached"


_PROBE = "import sys; sys.path.insert(0, '/work'); import field; field.main()"


async def _lines(process: Process) -> Any:
    """The lines of its stdout as they come."""
    left = b""
    async for name, piece in process.output():
        if name != "stdout":
            continue
        *lines, left = (left + piece).split(b"\n")
        if len(left) > _LINE_BYTES:
            return
        for line in lines:
            yield line


class Field:
    """The sandbox of the services: what of the plan runs in it, and the relay."""

    def __init__(self, box: Interactive, plan: Plan, limits: Limits) -> None:
        self.box = box
        self.cpu_seconds = 0.0
        self._plan = {service.name: service for service in plan.services}
        self._keep = plan.keep
        self._limits = limits
        self._running: dict[str, Process] = {}
        self._relay: Process | None = None
        self._said: Any = None

    async def keep(self) -> None:
        """Lay what no answer can change, also where an answer put something else."""
        for path in self._keep:
            await self.box.run(["rm", "-rf", "--", path], cwd="/")
        await self.box.files.write_many({path: text.encode() for path, text in self._keep.items()})

    async def do(self, asked: dict[str, Any]) -> object:
        """Raises _Refused for what the services do not let be done."""
        match asked["do"]:
            case "calls" | "many" | "line":
                return await self._relayed(asked)
            case "start":
                await self._start(self._plan[asked["name"]])
            case "crash":
                ended = await self._crash(asked["name"])
                return {"cpu_seconds": ended.cpu_seconds, "peak_memory_bytes": ended.peak_memory_bytes}
            case "restart":
                await self.close()
                for service in self._plan.values():
                    await self._start(service)
            case "memory":
                return await self._memory(asked["name"])
            case "command":
                ended = await self.box.run(asked["argv"], stdin=asked["stdin"].encode(), cwd=_WORK)
                return [ended.exit_code, ended.text[-MEBIBYTE:]]
            case "write":
                try:  # an answer may have filled the disk, or put something in the way
                    await self.box.files.write(f"{_WORK}/{asked['path']}", asked["text"].encode())
                except OSError as error:
                    raise _Refused(f"{asked['path']} cannot be written: {error.strerror or error}") from None
            case what:
                return await self._file(what, f"{_WORK}/{asked['path']}")
        return None

    async def _file(self, what: str, path: str) -> object:
        try:
            if what == "mode":
                return (await self.box.files.info(path)).mode & 0o7777
            return (await self.box.files.read(path)).decode("utf-8", "replace")
        except OSError:
            return None

    async def _start(self, service: Service) -> None:
        if service.name in self._running:
            await self._crash(service.name)
        process = await self.box.start(service.argv, env=service.env, cwd=_WORK, linger=True)
        self._running[service.name] = process
        if not await self._listens(process, service.port, service.ready_seconds):
            ended = await self._crash(service.name)
            raise _Refused(f"{service.name} does not listen on port {service.port}: "
                           f"{(ended.text + ended.error_text).strip()[-400:]}")

    async def _listens(self, process: Process, port: int, seconds: float) -> bool:
        """Waits for it no longer than anything of the process lives."""
        until = time.monotonic() + seconds
        while True:
            lived = not process.gone
            if await self._relayed({"do": "wait", "port": port, "seconds": _LOOK_SECONDS}) is True:
                return True
            if not lived or time.monotonic() >= until:
                return False

    async def _crash(self, name: str) -> Outcome:
        process = self._running.pop(name, None)
        if process is None:
            raise _Refused(f"{name} does not run")
        await process.kill()
        ended = await process.wait()
        self.cpu_seconds += ended.cpu_seconds or 0.0
        return ended

    async def _memory(self, name: str) -> int:
        process = self._running.get(name)
        if process is None:
            raise _Refused(f"{name} does not run")
        found = await self.box.processes()
        family = {process.pid}
        for one in sorted(found, key=lambda one: one.pid):
            if one.parent in family:
                family.add(one.pid)
        return sum(one.resident_bytes for one in found if one.pid in family)

    async def _relayed(self, asked: dict[str, Any]) -> object:
        """What the relay says; where it does not live to say it, that nobody answered."""
        nothing: object = False if asked["do"] == "wait" else (
            [0, {}, "nobody answered"] if asked["do"] == "line" else [[0, {}, "nobody answered"]] * len(
                asked.get("calls", ())))
        if self._relay is None or self._relay.ended:
            self._relay = await self.box.start(["python3", "-I", "-S", "-c", _relay_text()], stdin=None, cwd="/")
            self._said = _lines(self._relay)
        await self._relay.send(json.dumps(asked).encode() + b"\n")
        line = await anext(self._said, None)
        try:
            value: object = None if line is None else json.loads(line)["value"]
        except (ValueError, KeyError, TypeError, RecursionError):
            value = None
        if not _is_said(asked, value):
            await self._relay.kill()
            return nothing
        return value

    async def close(self) -> None:
        """Kill all that runs; what is not there is no fault."""
        for name in list(self._running):
            await self._crash(name)


def _is_said(asked: dict[str, Any], value: object) -> bool:
    """Whether what came from the relay has the form of a reply to what was asked."""
    def reply(one: object) -> bool:
        return (isinstance(one, list) and len(one) == 3 and isinstance(one[0], int) and isinstance(one[1], dict)
                and isinstance(one[2], str))

    match asked["do"]:
        case "wait":
            return isinstance(value, bool)
        case "line":
            return reply(value)
    return isinstance(value, list) and len(value) == len(asked["calls"]) and all(map(reply, value))


def _relay_text() -> str:
    return files("quintain.env").joinpath("_relay.py").read_text("utf-8")

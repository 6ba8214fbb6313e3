"""Acts out a scenario on a backend and says what came of each step."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from quintain.sandbox import Backend, FileInfo, Sandbox
from quintain.testing.sandbox.canary import Canary
from quintain.testing.sandbox.scenario import Scenario, Step
from quintain.testing.sandbox.verdict import Seen, complaints
from quintain.types import HouseError, Limits, Network, Outcome

SCENARIO_WITHIN_SECONDS = 120.0
GRACE_SECONDS = 0.5  # what a garbage collection and the kernel may lag behind


async def play(backend: Backend, scenario: Scenario, canary: Canary, network: Network) -> str:
    """Empty when all went as expected; else the first step that did not, and what was wrong with it."""
    stage = Stage(backend, scenario, canary, network)
    try:
        async with asyncio.timeout(SCENARIO_WITHIN_SECONDS), AsyncExitStack() as stack:
            await stage.open(stack)
            for number, step in enumerate(scenario.steps, 1):
                if step.fresh:
                    await stack.aclose()
                    await stage.open(stack)
                wrong = complaints(_filled(step, canary).expect, await stage.act(step))
                if wrong:
                    return f"step {number}: {'; '.join(wrong)}"
    except HouseError as error:
        return f"the house broke: {error}"
    except TimeoutError:
        return f"not over within {SCENARIO_WITHIN_SECONDS:.0f} s"
    return ""


def _filled(step: Step, canary: Canary) -> Step:
    """The step with the canary's names put in, wherever its texts mention them."""
    return msgspec.json.decode(canary.fill(msgspec.json.encode(step).decode()), type=Step)


class Stage:
    """The sandboxes of one scenario while it is played."""

    def __init__(self, backend: Backend, scenario: Scenario, canary: Canary, network: Network) -> None:
        self._backend = backend
        self._scenario = scenario
        self._canary = canary
        self._network = network
        self._boxes: Sequence[Sandbox] = ()

    async def open(self, stack: AsyncExitStack) -> None:
        opening = self._backend.open(
            limits=self._scenario.limits, count=self._scenario.boxes, network=self._network
        )
        self._boxes = await stack.enter_async_context(opening)

    async def act(self, step: Step) -> Seen:
        """Do one step and look at it; never raises what the step itself raised."""
        step = _filled(step, self._canary)
        seen: dict[str, object] = {}
        before = _resident_mib()
        _forget_peak()
        started = time.monotonic()
        try:
            async with asyncio.timeout(step.cancel_after_seconds):
                seen |= await self._done(step)
        except ExceptionGroup as errors:
            seen["error"] = errors.exceptions[0]
        except Exception as error:  # whatever a backend under test raises is a row of the report
            seen["error"] = error
        seconds = time.monotonic() - started
        return Seen(seconds=seconds, house_growth_mib=_peak_mib() - before, **seen)  # type: ignore[arg-type]

    async def _done(self, step: Step) -> dict[str, object]:
        box = self._boxes[step.box]
        if step.closed:
            await box.close()
        if step.sleep_seconds is not None:
            await asyncio.sleep(step.sleep_seconds)
            return {}
        if step.cycles is not None:
            return {"complaint": await self._cycle(step.cycles)}
        if step.open_image is not None:
            async with self._backend.open(step.open_image, limits=self._scenario.limits, network=self._network):
                return {}
        if step.read is not None:
            return {"content": await box.files.read(step.read, max_bytes=step.max_bytes)}
        if step.write is not None:
            await box.files.write_many({path: text.encode() for path, text in step.write.items()})
            return {}
        if step.list is not None:
            found: Sequence[FileInfo] = await box.files.list(step.list, depth=step.depth)
            return {"files": tuple(found)}
        return {"outcomes": await self._run_copies(box, step)}

    async def _run_copies(self, box: Sandbox, step: Step) -> tuple[Outcome, ...]:
        if step.copies == 1:
            return (await self._run(box, step),)
        async with AsyncExitStack() as stack:
            boxes: Sequence[Sandbox] = [box] * step.copies
            if not step.together:
                boxes = await stack.enter_async_context(self._backend.open(
                    limits=self._scenario.limits, count=step.copies, network=self._network
                ))
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._run(one, step)) for one in boxes]
            return tuple(task.result() for task in tasks)

    async def _run(self, box: Sandbox, step: Step) -> Outcome:
        heard = bytearray()
        listen: Callable[[bytes], None] | None = heard.extend if step.stream else None
        more = {"warm": True} if step.warm else {}
        ours, theirs = socket.socketpair() if step.channel is not None else (None, None)
        try:
            outcome = await box.run(
                _argv(step), stdin=step.stdin.encode(), env=step.env, cwd=step.cwd, limits=step.limits,
                channel=theirs.fileno() if theirs else None, on_stdout=listen, **more,  # type: ignore[arg-type]
            )
            if step.stream and bytes(heard) != outcome.stdout:
                raise ValueError(f"expected to hear all of stdout, {len(outcome.stdout)} bytes, heard {len(heard)}")
            if ours is not None:
                ours.setblocking(False)
                said = ours.recv(4096).decode()  # BlockingIOError when nothing was said
                if said != step.channel:
                    raise ValueError(f"expected {step.channel!r} through the channel, found {said!r}")
            return outcome
        finally:
            for end in (ours, theirs):
                if end is not None:
                    end.close()

    async def _cycle(self, count: int) -> str:
        async def once() -> None:
            async with self._backend.open(limits=Limits(), network=self._network) as [box]:
                await box.run(["sh", "-c", "echo x > /tmp/marker; sleep 300 &"])

        await once()
        before = _belongings()
        for _ in range(count):
            await once()
        await asyncio.sleep(GRACE_SECONDS)
        after = _belongings()
        grown = {what: (n, after[what]) for what, n in before.items() if after[what] > n}
        return f"after {count} more sandboxes there is more than before: {grown}" if grown else ""


def _argv(step: Step) -> tuple[str, ...]:
    if step.sh is not None:
        return ("sh", "-c", step.sh)
    if step.python is not None:
        return ("-c", step.python) if step.warm else ("python3", "-c", step.python)
    if step.argv is None:
        raise ValueError("expected a step with an act (sh, python, argv, read, write, list, …), found none")
    return step.argv


def _belongings() -> dict[str, int]:
    """What a leak would make grow: our descriptors, our descendants, mounts that we see, files in the temporary folder
    (the kit's own while it runs). Groups of the kernel are looked at by the backend's own tests."""
    gc.collect()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")), "processes": len(_descendants(os.getpid())),
        "mounts": Path("/proc/self/mountinfo").read_text().count("\n"),
        "temporary files": len(os.listdir(tempfile.gettempdir())),
    }


def _descendants(pid: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue  # it has just ended
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry))
    found: set[int] = set()
    fresh = [pid]
    while fresh:
        fresh = [c for p in fresh for c in children.get(p, []) if c not in found]
        found.update(fresh)
    return found


def _status_mib(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    return 0.0


def _resident_mib() -> float:
    gc.collect()
    return _status_mib("VmRSS:")


def _peak_mib() -> float:
    return _status_mib("VmHWM:")


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")

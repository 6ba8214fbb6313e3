"""What does a sandbox of ours cost inside other people's programs, beside their own that isolate nothing, in one run?

Start is the peer's own call that makes one, until the first answer of `true`; exec is `true` in a sandbox that stands.
All goes through the peer's interface alone, in turns with its own; medians. Inspect's `local`, SWE-ReX's LocalRuntime
and NeMo Gym's `local` are folders or shells of the host; Harbor has none, and its Docker is not asked.

    python bench/inside.py [--rounds 40]      (peers as `make bridges` installs them; those that are not there are left
        out; QUINTAIN_HARBOR_PYTHON and QUINTAIN_NEMO_PYTHON name interpreters that have Harbor and NeMo Gym)
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from _machine import finish

COMMANDS = 5  # after each start
#: One `true`; whether it went well.
Run = Callable[[], Awaitable[bool]]
Open = Callable[[], AbstractAsyncContextManager[Run]]


async def inspect(stack: AsyncExitStack) -> dict[str, Open]:
    from inspect_ai.util._sandbox.local import LocalSandboxEnvironment

    from quintain.bridges.inspect import QuintainSandboxEnvironment

    kinds: dict[str, Any] = {"quintain": QuintainSandboxEnvironment, "local": LocalSandboxEnvironment}
    for kind in kinds.values():
        await kind.task_init("bench", None)
        stack.push_async_callback(kind.task_cleanup, "bench", None, True)

    def opening(kind: Any) -> Open:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Run]:
            made = await kind.sample_init("bench", None, {})
            try:
                yield lambda: _success(made["default"].exec(["true"]), lambda done: done.success)
            finally:
                await kind.sample_cleanup("bench", None, made, False)

        return opened

    return {name: opening(kind) for name, kind in kinds.items()}


async def swerex(stack: AsyncExitStack) -> dict[str, Open]:
    from swerex.deployment.local import LocalDeployment
    from swerex.runtime.abstract import BashAction, CreateBashSessionRequest

    from quintain.bridges.swerex import QuintainDeployment
    from quintain.sandbox import NativeBackend

    logging.disable(logging.WARNING)
    backend = await stack.enter_async_context(NativeBackend(terminals=True))
    kinds: dict[str, Callable[[], Any]] = {
        "quintain": lambda: QuintainDeployment(backend=backend), "local": LocalDeployment}

    def opening(kind: Callable[[], Any]) -> Open:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Run]:
            deployment = kind()
            await deployment.start()
            try:
                await deployment.runtime.create_session(CreateBashSessionRequest(startup_timeout=10))
                yield lambda: _success(deployment.runtime.run_in_session(BashAction(command="true", timeout=10)),
                                       lambda done: done.exit_code == 0)
            finally:
                await deployment.stop()

        return opened

    return {name: opening(kind) for name, kind in kinds.items()}


async def harbor(stack: AsyncExitStack) -> dict[str, Open]:
    from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
    from harbor.models.trial.paths import TrialPaths

    from quintain.bridges.harbor import QuintainEnvironment

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    (folder / "environment").mkdir()
    (folder / "environment" / "Dockerfile").write_text("FROM host\nWORKDIR /app\n")
    paths = TrialPaths(folder / "trial")
    paths.mkdir()
    policy = NetworkPolicy(network_mode=NetworkMode.NO_NETWORK)

    def made(nth: str) -> Any:
        return QuintainEnvironment(
            environment_dir=folder / "environment", environment_name="bench", session_id=nth, trial_paths=paths,
            task_env_config=EnvironmentConfig(network_mode=NetworkMode.NO_NETWORK), network_policy=policy)

    held = made("holds the engine, as the other trials of a job do")
    await held.start(force_build=False)
    stack.push_async_callback(held.stop, delete=True)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Run]:
        box = made("one")
        await box.start(force_build=False)
        try:
            yield lambda: _success(box.exec("true"), lambda done: done.return_code == 0)
        finally:
            await box.stop(delete=True)

    return {"quintain": opened}


async def nemo(stack: AsyncExitStack) -> dict[str, Open]:
    from nemo_gym.sandbox import AsyncSandbox, SandboxSpec
    from nemo_gym.sandbox.providers import create_provider

    providers = {name: create_provider({name: {}}) for name in ("quintain", "local")}

    def opening(provider: Any) -> Open:
        stack.push_async_callback(provider.aclose)

        @asynccontextmanager
        async def opened() -> AsyncIterator[Run]:
            box = AsyncSandbox(provider, SandboxSpec(), owns_provider=False)
            await box.start()
            try:
                yield lambda: _success(box.exec("true"), lambda done: done.return_code == 0)
            finally:
                await box.stop()

        return opened

    return {name: opening(provider) for name, provider in providers.items()}


#: peer → how it is opened, its module, its package, and the variable that names an interpreter which has it
PEERS: dict[str, tuple[Callable[[AsyncExitStack], Awaitable[dict[str, Open]]], str, str, str]] = {
    "inspect": (inspect, "inspect_ai", "inspect-ai", ""),
    "swerex": (swerex, "swerex", "swe-rex", ""),
    "harbor": (harbor, "harbor", "harbor", "QUINTAIN_HARBOR_PYTHON"),
    "nemo": (nemo, "nemo_gym", "nemo-gym", "QUINTAIN_NEMO_PYTHON"),
}


async def _success(running: Awaitable[Any], well: Callable[[Any], bool]) -> bool:
    return well(await running)


async def answered(run: Run) -> float:
    """Milliseconds until `true` has said that it is done. Raises RuntimeError where it has not."""
    start = time.perf_counter()
    if not await run():
        raise RuntimeError("expected `true` to succeed, found that it did not")
    return (time.perf_counter() - start) * 1e3


async def one(opening: Open) -> tuple[float, list[float]]:
    """Milliseconds of a start, and of the commands after it."""
    start = time.perf_counter()
    async with opening() as run:
        await answered(run)
        started = (time.perf_counter() - start) * 1e3
        return started, [await answered(run) for _ in range(COMMANDS)]


async def measured(peer: str, rounds: int) -> dict[str, Any]:
    opened, _, package, _ = PEERS[peer]
    async with AsyncExitStack() as stack:
        kinds = await opened(stack)
        starts: dict[str, list[float]] = {name: [] for name in kinds}
        execs: dict[str, list[float]] = {name: [] for name in kinds}
        for nth in range(rounds + 1):
            for name, opening in kinds.items():
                start, commands = await one(opening)
                if nth:  # the first of each kind sets up what all share
                    starts[name].append(start)
                    execs[name] += commands
    return {package: metadata.version(package)} | {
        f"{peer}_{name}_{what}_ms": round(statistics.median(found[name]), 2)
        for name in kinds for what, found in (("start", starts), ("exec", execs))}


def asked(peer: str, rounds: int) -> dict[str, Any]:
    """A peer's figures, from the interpreter that has it; nothing where none has."""
    _, module, package, variable = PEERS[peer]
    if importlib.util.find_spec(module) is not None:
        return asyncio.run(measured(peer, rounds))
    if not (python := os.environ.get(variable, "")):
        print(f"{package} is not installed here: left out", file=sys.stderr)
        return {}
    done = subprocess.run([python, __file__, "--peer", peer, "--rounds", str(rounds)], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{python} cannot ask {package}: {done.stderr[-1000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {name: value for name, value in figures.items() if name not in ("bench", "rounds", "machine")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--quick", action="store_true", help="five rounds")
    parser.add_argument("--peer", choices=PEERS, help="this one only")
    options = parser.parse_args()
    rounds = 5 if options.quick else options.rounds
    figures: dict[str, Any] = {}
    for peer in [options.peer] if options.peer else PEERS:
        figures |= asked(peer, rounds)
    finish(bench="inside", rounds=rounds, **figures)


if __name__ == "__main__":
    main()

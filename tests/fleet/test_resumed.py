"""An episode whose worker dies in its middle goes on there, in a new sandbox with the same files."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import msgspec
import pytest

from quintain.fleet import End, Job, Terms, order
from quintain.sandbox import NativeBackend
from quintain.types import Episode, Event, Opened, Ran, Sampled, Stop
from tests.fleet.players import parts
from tests.fleet.shells import TURNS, item, ticket

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 90.0
needs_native = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="the native backend is not available here: see `quintain doctor`")


async def played(folder: Path, *deaths: int) -> tuple[Episode, tuple[Event, ...], list[str]]:
    """One episode by workers that each die at a turn, and a last one that does not: its result, its log, and what
    became of each attempt."""
    one = ticket(Job(id=f"{item().task.id}#0", kind="shell"))
    async with parts(folder, Terms(lease_seconds=0.5)) as (queue, register, logs):
        await register.enrol([order(one)])
        await queue.put([order(one)])
        for nth, dies_at in enumerate((*deaths, None)):
            words = [str(folder), f"w{nth}", *([str(dies_at)] if dies_at else [])]
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.fleet.shells", *words, cwd=ROOT)
            if dies_at:
                assert await asyncio.wait_for(process.wait(), PATIENCE_SECONDS) == -signal.SIGKILL
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (entry := await register.entry(one.episode)) is None or entry.result is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        process.terminate()
        await process.wait()
        episode = msgspec.json.decode(entry.result, type=Episode)
        return episode, tuple(logs.read(one.episode)), [tried.end.value for tried in entry.tried]


def shown(log: tuple[Event, ...]) -> list[bytes]:
    return [event.outcome.stdout for event in log if isinstance(event, Ran) and event.outcome is not None]


@needs_native
def test_a_shell_of_forty_turns_that_is_killed_at_turn_twenty_goes_on_there_with_the_same_files(tmp_path: Path) -> None:
    calm, calm_log, _ = asyncio.run(played(tmp_path / "calm"))
    hurt, log, tried = asyncio.run(played(tmp_path / "hurt", 20))
    assert tried == [End.LOST.value, End.ACCEPTED.value]
    assert [event.turn.policy_version for event in log if isinstance(event, Sampled)][:-1] == [
        str(nth) for nth in range(1, TURNS)], "no turn that was taken is taken again"
    assert sum(isinstance(event, Opened) for event in log) == 1
    assert len(shown(log)) == TURNS - 1
    assert shown(log) == shown(calm_log), "at every step the files are the same, in whichever sandbox"
    assert hurt.reward == calm.reward
    assert hurt.verdict is not None
    assert hurt.verdict.solved
    assert (hurt.stop, len(hurt.turns)) == (calm.stop, TURNS)
    assert hurt.stop is not Stop.BROKEN

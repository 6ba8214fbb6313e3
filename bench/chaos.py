"""Does a fleet lose, double or leak anything when its processes are killed all the while? At least 200 times kill -9.

    .venv/bin/python bench/chaos.py [--quick] [--kills N] [--seed N] [--keep FOLDER]

Two sites one after the other, each a run of `quintain run --workers 2` in real sandboxes: one with its queue on a real
nats-server, one with its queue in a file. Each episode has up to six turns, scripted by its seed: wrong answers (some
do not compile, some leave a daemon behind), and a right one in the end, or none. A hand with seeded dice kills workers,
the spawners of their sandboxes (keeper, spawner or warm interpreter), the supervisor and the queue server; an init
starts the supervisor and the server again, as a site's would, and nothing else. A run that ends before the hand has
done its work is followed by another. A calm run of the same tasks says what each script earns undisturbed.

lost: episodes without a result or a reason, or missing from the run's journal. doubled: more than one result accepted
or told, or one that the register and the journal tell differently. unexplained: an end without a stop, a dead one
without a reason, an attempt that nobody ended, a process that ended in a way that nobody ordered. leaked: processes,
mounts, control groups (after `quintain doctor --clean`) and temporary files left behind, by the kernel's word.
baseline_house_failures: episodes in a group's baseline that the house broke, or that ended otherwise than undisturbed.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import fcntl
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
from _machine import finish
from _site import SLOT, Site, below, groups, make_room, mounts, parents, program_of, reap, words_of

from quintain.fleet import End, EpisodeLogs, Register, State
from quintain.rollout import Ticket, tickets
from quintain.sandbox import clean
from quintain.store import Run, Standing, last_attempt, standing
from quintain.tasks import new_task, open_taskset
from quintain.types import Broke, Closed, Episode, Group, Opened, Owner, Stop, fold

TURNS = 6
PLANS = TURNS + 1  # solved in turn 1 to 6, or never
SETTLE_SECONDS = 20.0

POLICY = '''
import asyncio

from quintain.types import Turn

DAEMON = """import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
"""
WRONG = (
    "def total(numbers):\\n    return sum(numbers) + {nth} + 1\\n",
    "def total(numbers)\\n    return sum(numbers)\\n",
    DAEMON + "def total(numbers):\\n    return None\\n",
)
RIGHT = "def total(numbers):\\n    return sum(numbers)\\n"


class Scripted:
    """Right in the turn that the episode's seed says, or never."""

    name = "scripted"

    async def act(self, conversation, *, task, seed):
        nth = sum(message.role == "assistant" for message in conversation)
        plan = (seed - nth) % PLANS
        await asyncio.sleep(0.1 + (seed * 2654435761 % 1000) / 4000)
        source = RIGHT if nth == plan else WRONG[(plan + nth) % len(WRONG)].replace("{nth}", str(nth))
        return Turn(text=f"```python\\n{source}```\\n", policy_version=str(nth))

    async def aclose(self):
        """Holds nothing."""
'''

LIMITS = f"""
[limits.command]
wall_seconds = 30

[limits.episode]
turns = {TURNS}
wall_seconds = 600
cpu_seconds = 600
"""


class Found(msgspec.Struct):
    """What is wrong, in words, by what it counts as."""

    episodes: int = 0
    attempts: int = 0
    abandoned: int = 0
    lost: list[str] = []
    doubled: list[str] = []
    unexplained: list[str] = []
    tainted: list[str] = []

    def note(self, kind: str, text: str) -> None:
        getattr(self, kind).append(text)
        print(f"{kind}: {text}", file=sys.stderr, flush=True)


def furnish(folder: Path, tasks: int) -> None:
    """The tasks and the policy of all runs."""
    for nth in range(tasks):
        path = folder / "set" / f"sum-{nth}"
        new_task(path)
        text = (path / "task.toml").read_text().replace("[limits.command]\nwall_seconds = 5\n", LIMITS)
        (path / "task.toml").write_text(text)
    (folder / "scripts.py").write_text(f"PLANS = {PLANS}\n{POLICY}")


def earned(episode: Episode) -> tuple[object, ...]:
    """What an episode came to, as far as its script decides it."""
    total = None if episode.reward is None else episode.reward.total
    return episode.stop, episode.solved, len(episode.turns), total


def plan_of(ticket: Ticket) -> int:
    return ticket.seed % 2**31 % PLANS


def asked(folder: Path, run: Run) -> dict[str, Ticket]:
    chosen = open_taskset(str(folder / "set"))
    size, seed = run.definition.size, run.definition.seed
    return {one.episode: one for id in chosen.ids for one in tickets(chosen[id], size=size, seed=seed)}


async def judge(folder: Path, site: Site, calm: dict[int, tuple[object, ...]], found: Found) -> None:
    """Look through one run that has ended."""
    for odd in site.odd_exits:
        found.note("unexplained", odd)
    register = await Register.open(site.run / "register.db")
    try:
        with Run.open(site.run) as run:
            wanted = asked(folder, run)
            found.episodes += len(wanted)
            told = Counter(event.episode for event in run.journal.read() if isinstance(event, Closed)
                           and event.stop is not Stop.BROKEN)
            results: dict[str, Episode] = {}
            for id in wanted:
                episode = await _judged(id, run, register, told[id], EpisodeLogs(site.run), found)
                if episode is not None:
                    results[id] = episode
            for id in set(told) - set(wanted):
                found.note("doubled", f"{id}: nobody asked for it")
    finally:
        await register.aclose()
    for group in {ticket.group for ticket in wanted.values()}:
        members = tuple(results[id] for id, ticket in wanted.items() if ticket.group == group and id in results)
        rewards = Group(id=group, task=group, episodes=members).rewards_G
        for episode, reward in zip(members, rewards, strict=True):
            if reward is None:
                continue  # no part of a baseline
            broken = episode.broken is not None and episode.broken.owner is Owner.HOUSE
            due = calm[plan_of(wanted[episode.id])]
            if broken or earned(episode) != due:
                found.note("tainted", f"{episode.id}: expected {due}, found {earned(episode)}: {episode.faults[-1:]}")


async def _judged(
    id: str, run: Run, register: Register, told: int, logs: EpisodeLogs, found: Found,
) -> Episode | None:
    """One episode: its result, if it has one."""
    entry = await register.entry(id)
    if entry is None or entry.state is State.OPEN:
        found.note("lost", f"{id}: {'never enrolled' if entry is None else 'open'}")
        return None
    found.attempts += len(entry.tried)
    accepted = sum(one.end is End.ACCEPTED for one in entry.tried)
    for one in entry.tried:
        if one.end is End.RUNNING or (one.end is End.FAILED and not one.reason):
            found.note("unexplained", f"{id}: attempt {one.attempt} is {one.end.value}, reason {one.reason!r}")
    if entry.state is State.ABANDONED:
        found.abandoned += 1
        if not entry.reason:
            found.note("unexplained", f"{id}: given up without a reason")
        return None
    log = tuple(run.journal.read(id))
    if entry.result is None or standing(log) is not Standing.FINISHED:
        found.note("lost", f"{id}: settled, its result {len(entry.result or b'')} bytes, its log {standing(log).value}")
        return None
    episode = msgspec.json.decode(entry.result, type=Episode)
    if accepted != 1 or told != 1:
        found.note("doubled", f"{id}: accepted {accepted} times, told {told} times")
    if fold(log) != episode or log != tuple(logs.read(id)):
        found.note("doubled", f"{id}: the register and the journals tell it differently")
    if episode.stop is None or episode.stop is Stop.BROKEN:
        found.note("unexplained", f"{id}: ended with {episode.stop}")
    starts = sum(isinstance(event, Opened) for event in log)
    breaks = sum(isinstance(event, Broke) for event in log)
    if starts != breaks + 1 or isinstance(last_attempt(log)[-1], Broke):
        found.note("unexplained", f"{id}: opened {starts} times, broken {breaks} times")
    return episode


async def calm_run(folder: Path, env: dict[str, str]) -> dict[int, tuple[object, ...]]:
    """What each script earns undisturbed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "quintain", "run", "set", "--policy", "scripts:Scripted", "-n", "28", "--take", "1",
        "--sandboxes", "8", "--out", str(folder / "calm"), stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, env=env, cwd=folder,
    )
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    found: dict[int, set[tuple[object, ...]]] = {}
    with Run.open(folder / "calm") as run:
        for id, ticket in asked(folder, run).items():
            if log := tuple(run.journal.read(id)):
                found.setdefault(plan_of(ticket), set()).add(earned(fold(log)))
    assert len(found) == PLANS and all(len(one) == 1 for one in found.values()), found
    return {plan: next(iter(one)) for plan, one in found.items()}


def left_behind(folder: Path, before: tuple[set[str], set[str]]) -> list[str]:
    """What the kernel still has of us."""
    alive = [f"process {pid} {program_of(pid)} {' '.join(words_of(pid))[:80]}" for pid in below(os.getpid(), parents())]
    mounted = [f"mount {point}" for point in mounts(folder) - before[0]]
    kept = [f"control group {path}" for path in groups() - before[1] if not is_held(path)]
    temporary = [f"temporary {path}" for path in (folder / "tmp").iterdir()]
    return [*alive, *mounted, *kept, *temporary]


def is_held(group: str) -> bool:
    """Whether a living engine (anybody's) holds the slot of a control group, or of the one that it is in."""
    found = SLOT.fullmatch(Path(group).name)
    assert found is not None
    user, number = found.groups()
    home = Path("/run/quintain") if user == "0" else Path(os.environ.get("XDG_RUNTIME_DIR", "/tmp")) / "quintain"
    try:
        with (home / f"slot-{number}.lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True
    except OSError:
        return False


async def settled(folder: Path, before: tuple[set[str], set[str]]) -> tuple[int, list[str]]:
    """How many dead slots' leftovers a cleaning took away, and what was still there afterwards."""
    until = time.monotonic() + SETTLE_SECONDS
    swept = clean().removed
    reap()  # the first process of a process namespace ends only when whoever has inherited its others has buried them
    while (left := left_behind(folder, before)) and time.monotonic() < until:
        await asyncio.sleep(0.5)
        reap()
        swept += clean().removed
    return swept, left


def sites(folder: Path, options: argparse.Namespace, env: dict[str, str]) -> Iterator[tuple[Site, int, float]]:
    """Run after run, how many kills each is to take, and until when, until all are done."""
    until = time.monotonic()
    chance = random.Random(options.seed)
    words = ["set", "--policy", "scripts:Scripted", "-n", str(options.size), "--sandboxes", "8"]
    for kind, share in (("nats", 0.6), ("sqlite", 0.4)):
        due = round(options.kills * share)
        until += options.within * share
        for nth in range(10):
            site = Site(folder / f"{kind}-{nth}", kind, words=words, env=env, chance=chance)
            yield site, due, until
            due -= sum(site.kills.values())
            if due <= 0 or time.monotonic() >= until:
                break


async def measure(folder: Path, options: argparse.Namespace) -> dict[str, object]:
    make_room(folder)
    (folder / "tmp").mkdir()
    before = mounts(folder), groups()
    furnish(folder, options.tasks)
    env = {**os.environ, "TMPDIR": str(folder / "tmp"), "XDG_CACHE_HOME": str(folder / "cache"),
           "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    env.pop("QUINTAIN_QUEUE", None)
    calm = await calm_run(folder, env)
    found, kills, by_site, played = Found(), Counter[str](), Counter[str](), []
    for site, due, until in sites(folder, options, env):
        began = time.monotonic()
        await site.play(due, options.pause, until=until)
        await judge(folder, site, calm, found)
        kills += site.kills
        by_site[site.kind] += sum(site.kills.values())
        played.append(site)
        print(f"{site.folder.name}: {sum(site.kills.values())} kills of {due} in {time.monotonic() - began:.0f} s, the "
              f"last {time.monotonic() - max(site.killed_at, default=began):.0f} s ago", file=sys.stderr, flush=True)
    swept, left = await settled(folder, before)
    for one in left:
        print(f"leaked: {one}", file=sys.stderr)
    return {
        "kills": sum(kills.values()), "episodes": found.episodes, "lost": len(found.lost),
        "doubled": len(found.doubled), "leaked": len(left), "unexplained": len(found.unexplained),
        "baseline_house_failures": len(found.tainted), "abandoned": found.abandoned, "attempts": found.attempts,
        "kills_by_victim": dict(sorted(kills.items())), "kills_by_queue": dict(by_site),
        "runs": len(played), "supervisor_restarts": sum(site.restarts for site in played),
        "tried_again": sum(site.tried_again for site in played), "swept_by_doctor": swept, "seed": options.seed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="10 kills")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--size", type=int, default=8, help="episodes of each task")
    parser.add_argument("--pause", type=float, default=1.1, help="mean seconds between two kills")
    parser.add_argument("--within", type=float, default=600.0, help="seconds after which nobody is killed any more")
    parser.add_argument("--keep", type=Path, help="a folder to work in, which stays")
    options = parser.parse_args()
    if options.quick:
        options.kills, options.tasks, options.size, options.within = 10, 4, 4, 25.0
    # orphans come to us, so that nothing we have started can get out of sight
    ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    began = time.monotonic()
    if options.keep:
        figures = asyncio.run(measure(options.keep.resolve(), options))
    else:
        with tempfile.TemporaryDirectory(prefix="chaos-") as place:
            figures = asyncio.run(measure(Path(place), options))
    finish(**figures, wall_s=round(time.monotonic() - began, 1))
    bad = ("lost", "doubled", "leaked", "unexplained", "baseline_house_failures")
    missed = not figures["kills"] or (not options.quick and figures["kills"] != options.kills)
    if missed:
        print(f"expected {options.kills} kills, found {figures['kills']}: give it more --within", file=sys.stderr)
    sys.exit(missed or any(figures[name] for name in bad))


if __name__ == "__main__":
    main()

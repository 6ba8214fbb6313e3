"""One episode's place of work: a sandbox of the task's image, and a shell in it that remembers.

Covers: commands are numbered, and each is run once; a place that is new (after a resumption) is brought to where the
episode stands by its earlier commands; what is judged is a frozen tree of named, regular files, taken while everything
inside stands still, and the place is gone before anybody judges. No test is ever laid in it.
Does not cover: commands that do something else the second time (a resumed episode may stand elsewhere than before).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import NotRequired, TypedDict, cast

import msgspec

from quintain.env.terminal import TerminalWorld, crossing
from quintain.grade import Frozen
from quintain.sandbox import Backend, Forking, Interactive, Networked, Session, Snapshot, Snapshots
from quintain.tasks import Item, ScriptSuite
from quintain.types import FaultKind, HouseError, Limits, Network, Outcome, Task, TaskError

#: Of each stream of a command so much is kept, in the log too.
OBSERVED_BYTES = 64 * 1024
_COLLECT_SECONDS = 60.0
_STATE_SECONDS = 20.0
#: Prints what another bash must be told to be where this one is, and leaves `$?` as it was.
_STATE = r"""__q_was=$?
builtin printf 'builtin cd -- %q\n' "$PWD"
for __q_name in $(builtin compgen -v); do
  case $__q_name in BASH*|FUNCNAME|PIPESTATUS|RANDOM|SRANDOM|SECONDS|LINENO|EPOCH*|_|GROUPS|DIRSTACK|COMP_*|HISTCMD|\
PWD|OLDPWD|PPID|EUID|UID|SHELLOPTS|SHLVL|IFS|__q_*) ;; *) builtin declare -p "$__q_name" ;; esac
done
for __q_name in $(builtin compgen -A function); do
  case $__q_name in __q_*) ;; *) builtin declare -f "$__q_name" ;; esac
done
builtin alias -p
builtin umask -p
(builtin exit "$__q_was")
"""


class _Reach(TypedDict):
    limits: Limits
    network: Network
    allow: NotRequired[Sequence[str]]


class Workplace:
    """Made by `opened`, ended by `close`. `outcomes` are those of the commands that were run here."""

    def __init__(
        self, suite: ScriptSuite, box: Interactive, shell: Session, env: Mapping[str, str], stack: AsyncExitStack,
        world: TerminalWorld | None = None,
    ) -> None:
        """With a world, services that listen when the place ends live on for it to ask."""
        self._world = world
        self._suite = suite
        self._box = box
        self.env = dict(env)
        self._shell = shell
        self._stack = stack
        self.outcomes: list[Outcome] = []
        self.tree: Frozen | None = None

    @classmethod
    async def opened(
        cls, item: Item, world: TerminalWorld, backend: Backend, *, network: Network, allow: Sequence[str] = (),
        snapshot: Snapshot | None = None,
    ) -> Workplace:
        """A fresh one, with the task's files and what its steps bring along; or one with the files of a snapshot.
        Raises TaskError, HouseError."""
        suite = suite_of(item)
        episode = item.task.limits.episode
        limits = msgspec.structs.replace(episode, output_bytes=min(episode.output_bytes, OBSERVED_BYTES))
        env = {"DEBIAN_FRONTEND": "noninteractive", **world.resolved(suite.answer_env, item.task)}
        async with AsyncExitStack() as stack:
            reach: _Reach = {"limits": limits, "network": network}
            if allow:
                reach["allow"] = allow
            (sandbox,) = await stack.enter_async_context(
                cast(Networked, backend).open(world.image(item), **reach) if snapshot is None
                else cast(Snapshots, backend).restore(snapshot, **reach))
            if not (hasattr(sandbox, "start") and hasattr(sandbox, "snapshot")):
                raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"the backend {backend.name!r} has no sandboxes that "
                                 "keep a shell and their files: use native")
            box = cast(Interactive, sandbox)
            if not await box.files.exists("/bin/bash"):
                raise TaskError(f"task {item.task.id}: expected bash at /bin/bash in its image, found none",
                                kind=FaultKind.TASK_ENVIRONMENT)
            if snapshot is None:
                await _furnished(box, suite, item.task, env)
            return cls(suite, box, Session(box, item.task.id, env, suite.workdir), env, stack.pop_all(),
                       world if world.lasts(item) else None)
        raise AssertionError("the stack swallows no exception")

    async def catch_up(self, commands: Sequence[str], *, limits: Limits) -> Outcome | None:
        """Run those of the episode's commands that were not run here yet; how the last of them ended. Raises
        HouseError."""
        for command in commands[len(self.outcomes):]:
            result = await self._shell.run(command, timeout=limits.wall_seconds)
            self.outcomes.append(result.outcome)
        return self.outcomes[-1] if self.outcomes else None

    @property
    def box(self) -> Interactive:
        return self._box

    @property
    def workdir(self) -> str:
        return self._suite.workdir

    async def snapshot(self) -> Snapshot:
        """What its files are now, while everything inside stands still. Raises HouseError."""
        await self._box.pause()
        try:
            return await cast(Forking, self._box).snapshot()
        finally:
            await self._box.resume()

    async def state(self) -> str:
        """What another bash must be told to be where this shell is; the directory alone where it would be too long."""
        said = await self._shell.run(_STATE, timeout=_STATE_SECONDS)
        return said.stdout if not said.outcome.stdout_truncated else said.stdout.partition("\n")[0] + "\n"

    async def told(self, command: str) -> None:
        """Run a command of the house's in the shell: it is none of the episode's."""
        await self._shell.run(command, timeout=_STATE_SECONDS)

    async def frozen(self, *, final: bool) -> Frozen:
        """The files that cross, as they are now; `final` ends the place, but for services that tests will ask. Raises
        HouseError."""
        if self.tree is not None:
            return self.tree
        for command in self._suite.collect:
            await self._box.run(["sh", "-c", command], cwd=self._suite.workdir, limits=_within(_COLLECT_SECONDS))
        if final and self._world is not None:
            self.tree = await self._world.left(self._box, self._suite, self._stack)
            await self.close()
            return self.tree
        named = tuple(path for step in self._suite.steps for path in step.artifacts)
        await self._box.pause()
        try:
            tree = crossing(await cast(Forking, self._box).snapshot(), self._suite, artifacts=named)
        finally:
            if not final:
                await self._box.resume()
        if final:
            self.tree = tree
            await self.close()
        return tree

    async def close(self) -> None:
        """End everything inside; closing again does nothing. The shell's processes end with their sandbox."""
        await self._stack.aclose()


def suite_of(item: Item) -> ScriptSuite:
    """The script that judges. Raises TaskError for a task that is judged by anything else."""
    suite = item.exam.hidden
    if not isinstance(suite, ScriptSuite):
        raise TaskError(f"task {item.task.id}: work in a shell is judged by a script, found {type(suite).__name__}")
    return suite


async def _furnished(box: Interactive, suite: ScriptSuite, task: Task, env: Mapping[str, str]) -> None:
    """The task's files; and of a task in steps, which are asked at once, what each brings along, in their order."""
    try:
        await box.files.make_dir(suite.workdir)
        base = suite.root.rstrip("/")
        await box.files.write_many({f"{base}/{path}": content for path, content in task.files.items()})
        for step in suite.steps:
            await box.files.write_many({f"{suite.workdir}/{path}": content for path, content in step.setup.items()})
            if "setup.sh" in step.setup:
                done = await box.run(["bash", "setup.sh"], cwd=suite.workdir, env=env)
                if done.exit_code != 0:
                    raise TaskError(f"expected exit code 0, found {done.exit_code}: {done.error_text.strip()[-300:]}",
                                    file=f"steps/{step.name}/workdir/setup.sh", kind=FaultKind.TASK_ENVIRONMENT)
    except OSError as error:
        raise TaskError(f"task {task.id}: its files cannot be laid in its image: {error.filename or suite.workdir}: "
                        f"{error.strerror or error}; does the image have a writable root (`+rw`)?",
                        kind=FaultKind.TASK_ENVIRONMENT) from error


def _within(seconds: float) -> Limits:
    open_ = 1 << 62  # clipped by the sandbox's own
    return Limits(wall_seconds=seconds, cpu_seconds=open_, memory_bytes=open_, disk_bytes=open_, inodes=open_,
                  output_bytes=open_, processes=open_)

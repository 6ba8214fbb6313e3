"""Where the answer to a script task is made: the task's own image, opened, worked in by a script, and frozen.

The oracle and an answer that does nothing go through exactly the way that any other answer goes: its script is laid
below /solution and run in the work folder, whatever it leaves running is killed, and what it left is frozen.
Does not cover: who else makes an answer (an agent turn by turn); `freeze` and `check_script` serve it as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from quintain.grade.frozen import Frozen, freeze
from quintain.grade.script import check_script
from quintain.sandbox import Forking, Sandbox, Snapshot, Snapshots, published
from quintain.tasks import Item, ScriptStep, ScriptSuite, context_digest
from quintain.types import (
    FaultKind,
    HouseError,
    Limits,
    Network,
    Outcome,
    Task,
    TaskError,
    Verdict,
    content_digest,
)

SOLUTION = "/solution"
_FROM = re.compile(rb"(?mi)^(\s*FROM\s+(?:--platform=\S+\s+)?)(\S+)")
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What a script left: a frozen tree (after each step, where there are several), and how each run ended."""

    trees: tuple[Frozen, ...]
    outcomes: tuple[Outcome, ...]


class World:
    """Opens the images of script tasks on a backend that can be snapshotted.

    `cache` is a folder for build contexts. `bases` says what to take for the images of a registry, which cannot be
    fetched here ({"ubuntu:24.04": "host", "*": "host"}: "*" is any other); without an entry such a task is refused.
    `variables` are the values of `${NAME}` in a task's environment: nothing of the house's own environment is used.
    """

    def __init__(
        self, backend: Snapshots, *, cache: Path, bases: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None, network: Network = Network.NONE,
    ) -> None:
        self._backend = backend
        self._cache = cache
        self._bases = dict(bases or {})
        self._variables = dict(variables or {})
        self._network = network

    def image(self, item: Item, word: str | None = None) -> str:
        """The image that the backend opens for a task's word, `context:DIGEST`, `docker:REF` or any other. Raises
        TaskError for a context that the task does not hold, and for a registry's image that `bases` does not name."""
        word = item.task.image if word is None else word
        name, suffix = word.removesuffix("+rw"), "+rw" if word.endswith("+rw") else ""
        kind, _, rest = name.partition(":")
        if kind == "docker":
            base = self._bases.get(rest) or self._bases.get("*")
            if base is None:
                raise TaskError(f"task {item.task.id}: the image {rest!r} is a registry's: say what to take for it "
                                f"(bases={{{rest!r}: 'oci:PATH'}})", kind=FaultKind.TASK_ENVIRONMENT)
            return base + suffix
        if kind == "context":
            return f"build:{self._context(item, rest)}{suffix}"
        return word

    def _context(self, item: Item, digest: str) -> Path:
        """A folder with the build context of that digest, its bases replaced; written once."""
        suite = _suite_of(item)
        held = [suite.package.below("environment") if suite.package else {}, suite.files]
        files = next((files for files in held if context_digest(files) == digest), None)
        if files is None:
            raise TaskError(f"task {item.task.id}: expected the build context {digest[:16]} in it, found none",
                            kind=FaultKind.TASK_ENVIRONMENT)
        place = self._cache / "contexts" / f"{digest[:32]}-{content_digest(self._bases)[:8]}"
        with published(place) as draft:
            if draft is not None:
                for path, content in files.items():
                    (draft / path).parent.mkdir(parents=True, exist_ok=True)
                    (draft / path).write_bytes(_FROM.sub(self._base, content) if path == "Dockerfile" else content)
        return place

    def _base(self, found: re.Match[bytes]) -> bytes:
        name = found[2].decode(errors="replace")
        base = self._bases.get(name)
        if base is None and name not in ("host", "scratch") and not name.startswith(("/", ".", "$")):
            base = self._bases.get("*")
        return found[1] + (base.encode() if base is not None else found[2])

    async def make(self, item: Item, answer: Mapping[str, bytes], *, oracle: bool = False) -> Made:
        """Run an answer's script in the task's image and freeze what it leaves. `answer` is a folder with the task's
        entry (`solve.sh`), for each step in a folder of its name where there are steps. Raises TaskError, HouseError.
        """
        suite = _suite_of(item)
        env = self.resolved({**suite.answer_env, **(suite.oracle_env if oracle else {})}, item.task)
        limits = item.task.limits.episode
        trees: list[Frozen] = []
        outcomes: list[Outcome] = []
        async with self._backend.open(self.image(item), limits=limits, network=self._network) as (sandbox,):
            if not hasattr(sandbox, "snapshot"):
                raise HouseError(FaultKind.SANDBOX_CREATE_FAILED, f"the backend {self._backend.name!r} keeps no files")
            await sandbox.files.make_dir(suite.workdir)
            base = suite.root.rstrip("/")
            await sandbox.files.write_many({f"{base}/{path}": content for path, content in item.task.files.items()})
            for step in suite.steps or (None,):
                if step is not None:
                    await self._set_up(sandbox, suite, step, env)
                outcomes.append(await self._script(sandbox, item, _part(answer, step), env, limits))
                for command in suite.collect:
                    await sandbox.run(["sh", "-c", command], cwd=suite.workdir, env=env)
                keeping: Forking = sandbox  # type: ignore[assignment]  # asked for above
                trees.append(self.frozen(await keeping.snapshot(), suite, step.artifacts if step else ()))
        return Made(trees=tuple(trees), outcomes=tuple(outcomes))

    def frozen(self, snapshot: Snapshot, suite: ScriptSuite, artifacts: Sequence[str]) -> Frozen:
        """What of the files that are left in a sandbox crosses to the judge."""
        return freeze(snapshot, suite, artifacts=artifacts)

    async def _set_up(self, sandbox: Sandbox, suite: ScriptSuite, step: ScriptStep, env: Mapping[str, str]) -> None:
        await sandbox.files.write_many({f"{suite.workdir}/{path}": content for path, content in step.setup.items()})
        if "setup.sh" in step.setup:
            done = await sandbox.run(["bash", "setup.sh"], cwd=suite.workdir, env=env)
            if done.exit_code != 0:
                raise TaskError(f"expected exit code 0, found {done.exit_code}: {done.error_text.strip()[-300:]}",
                                file=f"steps/{step.name}/workdir/setup.sh", kind=FaultKind.TASK_ENVIRONMENT)

    async def _script(
        self, sandbox: Sandbox, item: Item, files: Mapping[str, bytes], env: Mapping[str, str], limits: Limits
    ) -> Outcome:
        entry = item.task.entry.path
        if entry not in files:
            raise TaskError(f"task {item.task.id}: expected {entry} in its answer, found {', '.join(files) or 'none'}")
        await sandbox.run(["rm", "-rf", SOLUTION], cwd="/")
        await sandbox.files.write_many({f"{SOLUTION}/{path}": content for path, content in files.items()})
        await sandbox.files.write(f"{SOLUTION}/{entry}", files[entry], mode=0o755)
        argv = [f"{SOLUTION}/{entry}"] if files[entry].startswith(b"#!") else ["bash", f"{SOLUTION}/{entry}"]
        workdir = _suite_of(item).workdir
        return await sandbox.run(argv, cwd=workdir, env={"DEBIAN_FRONTEND": "noninteractive", **env}, limits=limits)

    async def grade(self, item: Item, trees: Sequence[Frozen]) -> Verdict:
        """The verdict of the task's script on frozen trees. Raises TaskError, HouseError."""
        suite = _suite_of(item)
        resolved = msgspec.structs.replace(
            suite, answer_env=self.resolved(suite.answer_env, item.task), env=self.resolved(suite.env, item.task))
        image = self.image(item, suite.image or None)
        verdict = await check_script(
            self._backend, resolved, trees, image=image, limits=item.task.limits.command, network=self._network)
        return msgspec.structs.replace(verdict, suite=content_digest(suite))

    def resolved(self, env: Mapping[str, str], task: Task) -> dict[str, str]:
        """An environment with its `${NAME}` and `${NAME:-DEFAULT}` filled in. Raises TaskError where a value lacks."""
        def value(found: re.Match[str]) -> str:
            given = self._variables.get(found[1], found[2])
            if given is None:
                raise TaskError(f"task {task.id}: its environment needs a value for {found[0]}: give it as "
                                f"variables={{{found[1]!r}: ...}}", kind=FaultKind.TASK_ENVIRONMENT)
            return given

        return {name: _VARIABLE.sub(value, text) for name, text in env.items()}


def _suite_of(item: Item) -> ScriptSuite:
    suite = item.exam.hidden
    if not isinstance(suite, ScriptSuite):
        raise TaskError(f"task {item.task.id}: expected tests that are a script, found {type(suite).__name__}")
    return suite


def _part(answer: Mapping[str, bytes], step: ScriptStep | None) -> Mapping[str, bytes]:
    """The files of an answer for one step: those in its folder, or the answer itself where it has none."""
    if step is None:
        return answer
    prefix = f"{step.name}/"
    own = {path[len(prefix):]: content for path, content in answer.items() if path.startswith(prefix)}
    return own or answer

"""One Harbor task directory: what it says, what is wrong with it, and the item that it means."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

import msgspec

from quintain.tasks.exam import Exam, Item
from quintain.tasks.formats.compose import container_of
from quintain.tasks.formats.dockerfile import workdir_of
from quintain.tasks.formats.harbor_config import (
    VERSIONS,
    Agent,
    Artifact,
    Config,
    Environment,
    NetworkMode,
    Parsed,
    parse_config,
)
from quintain.tasks.formats.tree import Tree
from quintain.tasks.names import check_id
from quintain.tasks.notes import Note, NoteKind
from quintain.tasks.script import REWARD_FILES, Blend, Package, ScriptStep, ScriptSuite
from quintain.types import MEBIBYTE, Entry, Grading, Limits, Network, Scopes, TaskError

#: The name of the format in a `Package`.
FORMAT = "harbor"
COMPOSE = "environment/docker-compose.yaml"
#: What a separate verifier is given without being asked.
PUBLISHED = "/logs/artifacts"
#: An answer that does nothing, as Harbor's `nop` agent.
NOP = b"#!/bin/sh\n"

_CANARY = re.compile(r"(<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)
_NETWORKS = {NetworkMode.PUBLIC: Network.FULL, NetworkMode.NO_NETWORK: Network.NONE,
             NetworkMode.ALLOWLIST: Network.ALLOW_LIST}
_KNOWN = ("task.toml", "instruction.md", "environment", "tests", "solution", "steps", "trajectory.json", "README.md",
          ".gitignore", ".harborignore", "LICENSE")
_AGENT_SECONDS = 3600.0  # Harbor sets none; an episode has one


class HarborTask(msgspec.Struct, frozen=True, kw_only=True):
    """A directory as read. `parsed` is its task.toml; `notes` what of it has no effect here."""

    tree: Tree
    parsed: Parsed
    notes: tuple[Note, ...]

    @property
    def config(self) -> Config:
        return self.parsed.config

    def id(self, default: str) -> str:
        """Its name in the registry (ORG/NAME), or the default, which is where it lies."""
        return self.config.task.name if self.config.task else default


def read_task(tree: Tree) -> HarborTask:
    """Raises TaskError, naming the file, the line or key, what was expected and what was found, for a directory that
    Harbor would refuse, or on which every attempt would fail for a reason that is not the agent's."""
    if "task.toml" not in tree.files:
        raise tree.error("expected a file task.toml, found none", "")
    parsed = parse_config(tree.files["task.toml"], f"{tree.name}/task.toml")
    if parsed.config.environment.os.lower() != "linux":
        raise parsed.error("expected 'linux': no backend here runs Windows containers", "environment", "os")
    bundled = _bundled(parsed.config)
    for folder, step in _places(parsed.config):
        _check_instructions(tree, folder)
        needed = not bundled and (not step or "tests/test.sh" not in tree.files)
        _check_script(tree, f"{folder}tests/test.sh", required=needed, shared="tests/test.sh" if step else None)
        _check_script(tree, f"{folder}solution/solve.sh", required=tree.below(f"{folder}solution") is not None)
    for script in ("tests/test.sh", "solution/solve.sh"):
        _check_script(tree, script, required=False)
    if not bundled:
        _check_reward(tree, parsed.config)
    _check_handover(tree, parsed)
    return HarborTask(tree=tree, parsed=parsed, notes=tuple(_notes(tree, parsed)))


def item_of(task: HarborTask, *, default_id: str) -> Item:
    """The item that a directory means. Its answer is a script that is run in the task's environment (`solve.sh` of the
    oracle, one that does nothing of nop); it is judged by tests/test.sh in a fresh sandbox."""
    tree, config = task.tree, task.config
    try:
        id = check_id(task.id(default_id))
    except TaskError as error:
        raise task.parsed.error(error.message, "task", "name") from error
    suite = _suite(task)
    keywords = config.task.keywords if config.task else []
    metadata = config.metadata
    said = [metadata[key] for key in ("category", "difficulty") if isinstance(metadata.get(key), str)]
    return Item.sealed(
        Exam(hidden=suite, oracle=_solution(tree, config), null=({"solve.sh": NOP},)),
        id=id, kind="shell", instructions=_asked(tree, config), image=image_word(tree, config.environment),
        entry=Entry(path="solve.sh", language="shell"), limits=_limits(config), network=_network(config),
        grading=Grading.ON_SUBMIT, tags=tuple(dict.fromkeys(("harbor", *keywords, *said))),
    )


def image_word(tree: Tree, environment: Environment) -> str:
    """`context:SHA256+rw` for a Dockerfile, by the content of its context; `docker:REF+rw` for an image by name; and
    `host+rw` where neither is given."""
    context = tree.below("environment") or {}
    if environment.docker_image:
        return f"docker:{environment.docker_image}+rw"
    return f"context:{context_digest(context)}+rw" if "Dockerfile" in context else "host+rw"


def context_digest(files: Mapping[str, bytes]) -> str:
    """sha256 (hex) of a build context: paths and contents."""
    digest = hashlib.sha256()
    for path, content in sorted(files.items()):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _bundled(config: Config) -> bool:
    """Whether the verifier's own image brings the tests along."""
    own = config.verifier.environment
    return config.verifier.separate and own is not None and own.docker_image is not None


def _places(config: Config) -> list[tuple[str, bool]]:
    """The folders that hold an instruction and tests: the top, or that of each step."""
    return [(f"steps/{step.name}/", True) for step in config.steps] or [("", False)]


def _check_instructions(tree: Tree, folder: str) -> None:
    path = f"{folder}instruction.md"
    if path not in tree.files:
        raise tree.error("expected a file with what is asked, found none", path)
    if not _text(tree, path).strip():
        raise tree.error("expected what is asked, found an empty file", path)


def _check_script(tree: Tree, path: str, *, required: bool, shared: str | None = None) -> None:
    if path not in tree.files:
        if required:
            other = f" (or {shared})" if shared else ""
            raise tree.error(f"expected a script{other}, found none", path)
        return
    first = tree.files[path].split(b"\n", 1)[0]
    if first.endswith(b"\r"):
        raise tree.error("expected \\n at the end of a line, found \\r\\n (CRLF): the shell would take \\r for a part "
                         "of each command and path", path, 1)
    if not tree.files[path].strip():
        raise tree.error("expected a script, found an empty file", path)


def _check_reward(tree: Tree, config: Config) -> None:
    """Tests that nowhere name the reward's file cannot write one: each attempt would end without a verdict."""
    for folder, _ in _places(config):
        inside = {**(tree.below("tests") or {}), **(tree.below(f"{folder}tests") or {})}
        if not any(b"reward" in content or b"/logs/verifier" in content for content in inside.values()):
            where = f"{folder}tests/test.sh" if f"{folder}tests/test.sh" in tree.files else "tests/test.sh"
            message = f"expected a test that writes {' or '.join(REWARD_FILES)}, found none that names it"
            raise tree.error(message, where)


def _check_handover(tree: Tree, parsed: Parsed) -> None:
    """A verifier of its own sees what is published or named as an artifact, and nothing else."""
    config = parsed.config
    if not config.verifier.separate or config.steps or config.artifacts or config.verifier.collect:
        return
    used = {**(tree.below("tests") or {}), **(tree.below("solution") or {}), "": tree.files["instruction.md"]}
    if not any(PUBLISHED.encode() in content for content in used.values()):
        raise parsed.error(
            f"artifact missing: the verifier runs apart and is given {PUBLISHED} and what `artifacts` names; nothing "
            "is named, and neither instruction, tests nor solution use that folder, so no answer can pass",
            "verifier", "environment_mode" if config.verifier.environment_mode else "environment",
        )


def _text(tree: Tree, path: str) -> str:
    try:
        return tree.files[path].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = tree.files[path][:error.start].count(b"\n") + 1
        raise tree.error(f"expected UTF-8, found byte 0x{tree.files[path][error.start]:02x}", path, line) from error


def without_canary(text: str) -> str:
    """Instructions without the marks of provenance at their beginning, which no agent is shown."""
    lines = text.split("\n")
    start = 0
    while start < len(lines) and _CANARY.fullmatch(lines[start].strip()):
        start += 1
    while 0 < start < len(lines) and not lines[start].strip():
        start += 1
    return "\n".join(lines[start:])


def _asked(tree: Tree, config: Config) -> str:
    if not config.steps:
        return without_canary(_text(tree, "instruction.md"))
    parts = [
        f"# Step {number} of {len(config.steps)}: {step.name}\n\n"
        + without_canary(_text(tree, f"steps/{step.name}/instruction.md")).strip()
        for number, step in enumerate(config.steps, start=1)
    ]
    return "\n\n".join(parts) + "\n"


def _suite(task: HarborTask) -> ScriptSuite:
    tree, config = task.tree, task.config
    verifier, own = config.verifier, container_of(tree, COMPOSE, name="main")
    workdir = config.environment.workdir or own.workdir or _workdir(tree) or "/app"
    env = {**own.env, **config.environment.env}
    named = tuple(dict.fromkeys([PUBLISHED, *_sources(config.artifacts, workdir)]))
    tests = tree.below("tests") or {}
    return ScriptSuite(
        files=tests, argv=_argv(tree, "tests/test.sh"), workdir=workdir,
        artifacts=named if verifier.separate else ("/",), env=verifier.env, answer_env=env,
        oracle_env=config.solution.env, image=_verifier_image(config, tests),
        wall_seconds=verifier.timeout_sec, collect=tuple(h.command for h in verifier.collect if h.service == "main"),
        steps=tuple(_steps(tree, config, workdir)), blend=Blend(config.multi_step_reward_strategy or "mean"),
        package=Package(
            format=FORMAT, files={p: c for p, c in tree.files.items() if not p.startswith("tests/")},
            executable=tuple(sorted(tree.executable)),
            folders=tuple(sorted(f for f in tree.folders if not any(p.startswith(f"{f}/") for p in tree.files))),
        ),
    )


def _verifier_image(config: Config, tests: dict[str, bytes]) -> str:
    """The image of a verifier that runs apart: the one it names, what tests/Dockerfile builds, or the task's ('')."""
    own = config.verifier.environment
    if not config.verifier.separate:
        return ""
    if own is not None and own.docker_image:
        return f"docker:{own.docker_image}+rw"
    return f"context:{context_digest(tests)}+rw" if "Dockerfile" in tests else ""


def _steps(tree: Tree, config: Config, workdir: str) -> Iterator[ScriptStep]:
    for step in config.steps:
        folder = f"steps/{step.name}"
        least = step.min_reward
        own = tree.below(f"{folder}/tests") or {}
        script = f"{folder}/tests/test.sh" if "test.sh" in own else "tests/test.sh"
        yield ScriptStep(
            name=step.name, instructions=without_canary(_text(tree, f"{folder}/instruction.md")), files=own,
            argv=_argv(tree, script), setup=tree.below(f"{folder}/workdir") or {}, env=step.verifier.env,
            least=least if isinstance(least, dict) else {} if least is None else {"reward": least},
            artifacts=_sources(step.artifacts, workdir), wall_seconds=step.verifier.timeout_sec,
        )


def _argv(tree: Tree, path: str) -> tuple[str, ...]:
    """A script with its `#!` line; one without is read by bash, which is how Harbor's own shell starts it."""
    content = tree.files.get(path, b"#!")
    return ("/tests/test.sh",) if content.startswith(b"#!") else ("bash", "/tests/test.sh")


def _sources(entries: list[str | Artifact], workdir: str) -> tuple[str, ...]:
    paths = [entry if isinstance(entry, str) else entry.source for entry in entries
             if isinstance(entry, str) or entry.service in (None, "main")]
    return tuple(str(PurePosixPath(workdir) / path) for path in paths)


def _workdir(tree: Tree) -> str | None:
    """Where the Dockerfile ends up, if it says so."""
    return workdir_of(tree.files.get("environment/Dockerfile", b"").decode(errors="replace"))


def _solution(tree: Tree, config: Config) -> dict[str, bytes] | None:
    """The oracle's files. Of a task in steps: `STEP/solve.sh` and its helpers, run one after the other."""
    if not config.steps:
        return tree.below("solution")
    found = {f"{step.name}/{path}": content for step in config.steps
             for path, content in (tree.below(f"steps/{step.name}/solution") or tree.below("solution") or {}).items()}
    return found or None


def _limits(config: Config) -> Scopes:
    environment = config.environment
    agents: list[Agent] = [step.agent for step in config.steps] or [config.agent]
    seconds = sum(agent.timeout_sec or config.agent.timeout_sec or _AGENT_SECONDS for agent in agents)
    cpus = environment.cpus or 1
    said: dict[str, float] = {}
    if (memory := environment.megabytes("memory")) is not None:
        said["memory_bytes"] = max(memory, 16) * MEBIBYTE
    if (storage := environment.megabytes("storage")) is not None:
        said["disk_bytes"] = max(storage, 1) * MEBIBYTE
    base = msgspec.structs.replace(
        Limits(memory_bytes=2048 * MEBIBYTE, disk_bytes=1024 * MEBIBYTE, inodes=262_144, processes=512, turns=100,
               sampled_tokens=1_000_000),
        **said, wall_seconds=seconds, cpu_seconds=seconds * float(cpus),
    )
    return Scopes(episode=base, turn=base, command=base)


def _network(config: Config) -> Network:
    mode = config.agent.network_mode or config.environment.network
    return _NETWORKS[mode]


def _notes(tree: Tree, parsed: Parsed) -> Iterator[Note]:
    config = parsed.config
    yield from (Note(kind=NoteKind.UNKNOWN, file="task.toml", key=key, message="kept as it is; it means nothing here")
                for key in parsed.unknown)
    said = config.version or config.schema_version
    if said not in VERSIONS:
        yield Note(kind=NoteKind.WARNING, file="task.toml", key="schema_version",
                   message=f"newer than {VERSIONS[-1]}, found {said}: what it adds is kept and has no effect")
    for name in tree.children(""):
        if name not in _KNOWN:
            yield Note(kind=NoteKind.UNKNOWN, file=name, message="kept as it is; it means nothing here")
    if others := container_of(tree, COMPOSE, name="main").others:
        yield Note(kind=NoteKind.LOSS, file=COMPOSE,
                   message=f"a sandbox is one container: {', '.join(others)} will not be there")
    if tree.below("environment") is None and not config.environment.docker_image:
        yield Note(kind=NoteKind.WARNING, file="environment", message="not there: the host's own system is used")
    yield from _weightless(config)
    for path in ("tests/test.sh", "solution/solve.sh"):
        if path in tree.files and path not in tree.executable:
            yield Note(kind=NoteKind.WARNING, file=path, message="has no x bit; it gets one where it is run")
    if not any(tree.below(f"{folder}solution") for folder, _ in [*_places(config), ("", False)]):
        yield Note(kind=NoteKind.WARNING, file="solution/solve.sh",
                   message="not there: no oracle shows that the task can be solved")
    if any(path.endswith(".harborignore") for path in tree.files):
        yield Note(kind=NoteKind.LOSS, file=".harborignore", message="its rules are not applied: all files are used")


def _weightless(config: Config) -> Iterator[Note]:
    """The keys that Harbor acts on and nothing here does, where they are said."""
    environment, verifier = config.environment, config.verifier
    said = {
        "agent.user": config.agent.user, "verifier.user": verifier.user,
        "environment.gpus": environment.gpus or None, "environment.gpu_types": environment.gpu_types,
        "environment.tpu": environment.tpu, "environment.mcp_servers": environment.mcp_servers or None,
        "environment.skills_dir": environment.skills_dir, "environment.healthcheck": environment.healthcheck,
        "verifier.network_mode": verifier.network_mode,
        "verifier.environment": verifier.environment if verifier.environment and not (
            verifier.environment.docker_image) else None,
        "steps.verifier": [s for s in config.steps if s.verifier.environment_mode or s.verifier.environment] or None,
        "steps.healthcheck": [s for s in config.steps if s.healthcheck] or None,
        "verifier.collect": [h for h in verifier.collect if h.service != "main"] or None,
        "environment.allowed_hosts": environment.allowed_hosts or config.agent.allowed_hosts,
    }
    for key, value in said.items():
        if value is not None:
            yield Note(kind=NoteKind.LOSS, file="task.toml", key=key, message="kept, and without effect here")
    if config.steps:
        yield Note(kind=NoteKind.CHANGED, file="task.toml", key="steps",
                   message="asked all at once, in their order; graded each on the tree after it where that is kept")

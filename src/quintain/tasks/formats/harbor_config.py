"""A Harbor task's `task.toml`: every key of schema 1.4, and what earlier versions called otherwise.

Follows harbor 0.26.0, https://pypi.org/project/harbor (harbor/models/task/config.py), by reading; nothing of it is
imported. Keys that we do not know are kept in the file and named, never refused: the schema grows in minor versions.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Literal, get_args

import msgspec

from quintain.tasks.formats.taskfile import fitted, line_of, read_toml
from quintain.types import TaskError

#: The versions whose every key is known here; a missing version means the newest, as Harbor reads it.
VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")


class NetworkMode(StrEnum):
    NO_NETWORK = "no-network"
    PUBLIC = "public"
    ALLOWLIST = "allowlist"


class _Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the file; unknown keys are found by `strangers`."""


class Author(_Table, frozen=True, kw_only=True):
    name: str
    email: str | None = None


class PackageTable(_Table, frozen=True, kw_only=True):
    name: str
    version: str | None = None
    description: str = ""
    authors: list[Author] = []
    keywords: list[str] = []


class Agent(_Table, frozen=True, kw_only=True):
    timeout_sec: float | None = None
    user: str | int | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] | None = None


class Healthcheck(_Table, frozen=True, kw_only=True):
    command: str
    interval_sec: float = 5.0
    timeout_sec: float = 30.0
    start_period_sec: float = 0.0
    start_interval_sec: float = 5.0
    retries: int = 3


class Tpu(_Table, frozen=True, kw_only=True):
    type: str
    topology: str


class McpServer(_Table, frozen=True, kw_only=True):
    name: str
    transport: Literal["stdio", "sse", "streamable-http", "http"] = "sse"
    url: str | None = None
    command: str | None = None
    args: list[str] = []
    headers: dict[str, str] = {}


class Environment(_Table, frozen=True, kw_only=True):
    """`memory` and `storage` ("2G", "512M", "64K") and `allow_internet` are what 1.0 had for `memory_mb`, `storage_mb`
    and `network_mode`."""

    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] | None = None
    build_timeout_sec: float = 600.0
    docker_image: str | None = None
    os: str = "linux"
    cpus: int | float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    gpus: int | None = None
    gpu_types: list[str] | None = None
    tpu: Tpu | None = None
    mcp_servers: list[McpServer] = []
    env: dict[str, str] = {}
    skills_dir: str | None = None
    healthcheck: Healthcheck | None = None
    workdir: str | None = None
    allow_internet: bool | None = None
    memory: str | None = None
    storage: str | None = None

    @property
    def network(self) -> NetworkMode:
        """The mode that holds: the one that is said, else what `allow_internet` meant, else public."""
        if self.network_mode is not None:
            return self.network_mode
        return NetworkMode.NO_NETWORK if self.allow_internet is False else NetworkMode.PUBLIC

    def megabytes(self, name: Literal["memory", "storage"]) -> int | None:
        """`memory_mb` or `storage_mb`, by whichever name it was said."""
        new: int | None = getattr(self, f"{name}_mb")
        old: str | None = getattr(self, name)
        return new if new is not None or old is None else _size_mb(old)


class Collect(_Table, frozen=True, kw_only=True):
    command: str
    service: str = "main"
    timeout_sec: float = 60.0
    user: str | int | None = None


class Artifact(_Table, frozen=True, kw_only=True):
    source: str
    destination: str | None = None
    exclude: list[str] = []
    service: str | None = None


class Verifier(_Table, frozen=True, kw_only=True):
    timeout_sec: float = 600.0
    env: dict[str, str] = {}
    user: str | int | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: Environment | None = None
    collect: list[Collect] = []
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] | None = None

    @property
    def separate(self) -> bool:
        return self.environment_mode == "separate" or (self.environment_mode is None and self.environment is not None)


class Solution(_Table, frozen=True, kw_only=True):
    env: dict[str, str] = {}


class Step(_Table, frozen=True, kw_only=True):
    name: str
    agent: Agent = Agent()
    verifier: Verifier = Verifier()
    min_reward: float | dict[str, float] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: list[str | Artifact] = []


class Config(_Table, frozen=True, kw_only=True):
    schema_version: str = "1.4"
    version: str | None = None  # what 1.0 called schema_version
    source: str | None = None
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    artifacts: list[str | Artifact] = []
    task: PackageTable | None = None
    metadata: dict[str, Any] = {}  # free form by the schema; kept in the file as it is
    verifier: Verifier = Verifier()
    agent: Agent = Agent()
    environment: Environment = Environment()
    solution: Solution = Solution()
    steps: list[Step] = []


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """The file as read: what it says, its text (so that later findings have a line), and the keys that mean nothing
    here."""

    config: Config
    text: str
    file: str
    unknown: tuple[str, ...] = ()

    def error(self, message: str, *keys: str) -> TaskError:
        where = f"{'.'.join(keys)}: " if keys else ""
        return TaskError(where + message, file=self.file, line=line_of(self.text, keys) if keys else None)


def parse_config(content: bytes, file: str) -> Parsed:
    """Raises TaskError with file, line, key, what was expected and what was found."""
    table, text = read_toml(content, file)
    config = fitted(table, Config, text=text, file=file)
    parsed = Parsed(config=config, text=text, file=file, unknown=tuple(strangers(table, Config)))
    for keys, message in _problems(config):
        raise parsed.error(message, *keys)
    return parsed


def strangers(table: dict[str, object], shape: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """The dotted names of the keys of a table, and of the tables in it, that a shape does not have."""
    fields = {field.name: field.type for field in msgspec.structs.fields(shape)}
    for key, value in table.items():
        if key not in fields:
            yield prefix + key
            continue
        inner = _struct_in(fields[key])
        for nested in value if isinstance(value, list) else [value]:
            if inner is not None and isinstance(nested, dict):
                yield from strangers(nested, inner, f"{prefix}{key}.")


def _struct_in(kind: object) -> type[msgspec.Struct] | None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next((found for option in get_args(kind) if (found := _struct_in(option)) is not None), None)


Problem = tuple[tuple[str, ...], str]


def _problems(config: Config) -> Iterator[Problem]:
    said = config.version or config.schema_version
    if not re.fullmatch(r"1\.\d+", said):
        yield ("version" if config.version else "schema_version",), f"expected 1.0 to 1.4, found {said!r}"
    if config.task is not None and not _is_package_name(config.task.name):
        yield ("task", "name"), f"expected ORG/NAME of letters, digits, '.', '_' and '-', found {config.task.name!r}"
    yield from _environment(config.environment, ("environment",))
    yield from _agent(config.agent, ("agent",))
    yield from _verifier(config.verifier, ("verifier",))
    yield from _artifacts(config.artifacts, ("artifacts",))
    seen: set[str] = set()
    for step in config.steps:
        if not _is_step_name(step.name):
            yield ("steps", "name"), f"expected a name that can be a folder on any system, found {step.name!r}"
        key = unicodedata.normalize("NFC", step.name).casefold()
        if key in seen:
            yield ("steps", "name"), f"expected each step's name once, whatever its case, found {step.name!r} again"
        seen.add(key)
        yield from _agent(step.agent, ("steps", "agent"))
        yield from _verifier(step.verifier, ("steps", "verifier"))
        yield from _artifacts(step.artifacts, ("steps", "artifacts"))
        least = step.min_reward
        for value in least.values() if isinstance(least, dict) else [least]:
            if value is not None and not math.isfinite(value):
                yield ("steps", "min_reward"), f"expected a finite number, found {value}"
        if step.healthcheck is not None:
            yield from _seconds(step.healthcheck, ("steps", "healthcheck"))


def _environment(table: Environment, keys: tuple[str, ...]) -> Iterator[Problem]:
    yield from _seconds(table, keys)
    yield from _hosts(table.network_mode, table.allowed_hosts, keys)
    if table.os.lower() not in ("linux", "windows"):
        yield (*keys, "os"), f"expected 'linux' or 'windows', found {table.os!r}"
    for name in ("cpus", "memory_mb", "storage_mb", "gpus"):
        value = getattr(table, name)
        if value is not None and not (math.isfinite(value) and value >= (0 if name == "gpus" else 1e-9)):
            yield (*keys, name), f"expected a number greater than 0, found {value}"
    for old in ("memory", "storage"):
        size = getattr(table, old)
        megabytes = getattr(table, f"{old}_mb")
        if size is not None and not _SIZE.fullmatch(size.strip().upper()):
            yield (*keys, old), f"expected a size such as '2G', '512M' or '64K', found {size!r}"
        elif size is not None and megabytes is not None and megabytes != _size_mb(size):
            yield (*keys, old), f"expected the same as {old}_mb = {megabytes}, found {size!r} ({_size_mb(size)} MB)"
    if table.tpu is not None and not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)+", table.tpu.topology.strip()):
        yield (*keys, "tpu", "topology"), f"expected NxM or NxMxK, found {table.tpu.topology!r}"
    for server in table.mcp_servers:
        need = "command" if server.transport == "stdio" else "url"
        if not getattr(server, need):
            yield (*keys, "mcp_servers"), f"server {server.name!r}: transport {server.transport!r} needs {need}"
    if table.healthcheck is not None:
        yield from _seconds(table.healthcheck, (*keys, "healthcheck"))


def _agent(table: Agent, keys: tuple[str, ...]) -> Iterator[Problem]:
    yield from _seconds(table, keys)
    yield from _hosts(table.network_mode, table.allowed_hosts, keys)


def _verifier(table: Verifier, keys: tuple[str, ...]) -> Iterator[Problem]:
    yield from _seconds(table, keys)
    yield from _hosts(table.network_mode, table.allowed_hosts, keys)
    if table.environment_mode == "shared" and table.environment is not None:
        yield ((*keys, "environment_mode"),
               "expected 'separate' (or nothing) beside a [verifier.environment], found 'shared'")
    if table.environment is not None:
        yield from _environment(table.environment, (*keys, "environment"))
    for hook in table.collect:
        yield from _seconds(hook, (*keys, "collect"))


def _seconds(table: msgspec.Struct, keys: tuple[str, ...]) -> Iterator[Problem]:
    """Every duration is finite, and greater than 0 unless it may be none."""
    for name in table.__struct_fields__:
        value = getattr(table, name)
        least = 0.0 if name == "start_period_sec" else 1e-9
        if name.endswith("_sec") and value is not None and not (math.isfinite(value) and value >= least):
            yield (*keys, name), f"expected seconds, a number greater than 0, found {value}"


def _hosts(mode: NetworkMode | None, hosts: list[str] | None, keys: tuple[str, ...]) -> Iterator[Problem]:
    if hosts and mode is not NetworkMode.ALLOWLIST:
        yield (*keys, "allowed_hosts"), "has a meaning only with network_mode = \"allowlist\""
    for host in hosts or ():
        if not _HOST.fullmatch(host.strip().lower().rstrip(".")):
            yield ((*keys, "allowed_hosts"),
                   f"expected a host name, '*.SUFFIX', an address or a range, no URL, port or path; found {host!r}")


def _artifacts(entries: list[str | Artifact], keys: tuple[str, ...]) -> Iterator[Problem]:
    for entry in entries:
        artifact = Artifact(source=entry) if isinstance(entry, str) else entry
        if not artifact.source or ".." in artifact.source.split("/"):
            yield keys, f"expected a source path without '..', found {artifact.source!r}"
        target = artifact.destination
        if target and (target.startswith("/") or "\\" in target or ".." in target.split("/")):
            yield keys, f"expected a relative destination without '..' and '\\', found {target!r}"
        if target and target.rstrip("/") == "manifest.json":
            yield keys, "the destination 'manifest.json' is Harbor's own"
        if artifact.service not in (None, "main") and not artifact.source.startswith("/"):
            yield keys, f"expected an absolute path from service {artifact.service!r}, found {artifact.source!r}"


_SIZE = re.compile(r"(\d+(?:\.\d+)?)([GMK])")
_HOST = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*(/\d{1,3})?"
                   r"|[0-9a-f:]*:[0-9a-f:.]*(/\d{1,3})?")
_UNPORTABLE = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_DEVICE = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[1-9¹²³])", re.IGNORECASE)


def _size_mb(size: str) -> int | None:
    match = _SIZE.fullmatch(size.strip().upper())
    return int(float(match[1]) * {"G": 1024, "M": 1, "K": 1 / 1024}[match[2]]) if match else None


def _is_package_name(name: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", name, re.ASCII)) and ".." not in name


def _is_step_name(name: str) -> bool:
    bare = name.partition(".")[0].rstrip(" ")
    return bool(name.strip()) and name not in (".", "..") and not name.endswith((".", " ")) and not (
        _UNPORTABLE.search(name) or _DEVICE.fullmatch(bare)) and len(name.encode()) <= 255

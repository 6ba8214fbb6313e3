"""From a reward to everything that made it, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from quintain.store.library import Library
from quintain.types import FaultKind, HouseError

if TYPE_CHECKING:
    import pyarrow


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt's reward rests on. `suite` is the digest of the tests that judged it, `build` that of the
    verifier's code, `task_version` that of the task with its image and exam; `environment` what the run was done in
    (digests of images, the interpreter, the kernel). `None` and empty: not recorded."""

    run: str
    episode: str
    attempt: int
    outcome: str
    reward: float | None
    trainable: str | None
    task: str
    task_version: str
    suite: str | None
    level: str | None
    build: str | None
    policy: str
    policy_versions: tuple[str, ...]
    seed: int | None
    state_hash: str | None
    taskset: str
    taskset_digest: str
    run_seed: int
    backend: str
    code_version: str
    environment: dict[str, str]
    options: dict[str, str]
    opened_unix_seconds: float | None


#: What `made_by` can be asked for, and where it stands.
_ASKED = {
    "run": "run = ?", "suite": "suite = ?", "build": "build = ?", "task_version": "task_version = ?",
    "policy_version": "list_contains(policy_versions, ?)", "policy": "episodes.policy = ?",
    "code_version": "runs.code_version = ?", "seed": "episodes.seed = CAST(? AS BIGINT)",
    "taskset_digest": "taskset_digest = ?", "environment": "contains(environment, ?)",
}


def origin(library: Library, episode: str, *, run: str | None = None) -> Origin:
    """Of the last attempt of an episode; found as `Library.events` does. Raises HouseError(STORE_ERROR)."""
    where, id = library.find(episode, run=run)
    found = library.query(
        "SELECT episodes.*, taskset, taskset_digest, "
        "runs.seed AS run_seed, backend, code_version, environment, options, "
        "(SELECT last(state_hash ORDER BY step) FROM steps WHERE steps.run = episodes.run AND "
        "steps.episode = episodes.episode AND steps.attempt = episodes.attempt) AS state_hash "
        "FROM episodes JOIN runs USING (run) WHERE run = ? AND episode = ? ORDER BY attempt DESC LIMIT 1",
        (where, id),
    ).to_pylist()
    if not found:
        raise HouseError(FaultKind.STORE_ERROR, f"run {where} is not known any more: what made {id} cannot be told")
    row = found[0]
    row["environment"] = msgspec.json.decode(row["environment"])
    row["options"] = msgspec.json.decode(row["options"])
    return msgspec.convert({name: row[name] for name in Origin.__struct_fields__}, Origin)


def made_by(library: Library, **asked: str) -> pyarrow.Table:
    """The way back: run, episode, attempt, outcome and reward of whatever was made by all that is asked for: `run`,
    `suite`, `build`, `task_version`, `policy_version`, `policy`, `code_version`, `seed`, `taskset_digest`, or a text
    that the run's `environment` holds (an image's digest). Raises HouseError(STORE_ERROR) for another word."""
    for name in asked:
        if name not in _ASKED:
            what = f"expected one of {', '.join(_ASKED)}, found {name!r}"
            raise HouseError(FaultKind.STORE_ERROR, what)
    condition = " AND ".join(_ASKED[name] for name in asked) or "TRUE"
    return library.query(
        "SELECT run, episode, attempt, outcome, episodes.reward AS reward, suite, policy_versions, code_version, "
        f"task_version FROM episodes LEFT JOIN runs USING (run) WHERE {condition} ORDER BY run, episode, attempt",
        tuple(asked.values()),
    )

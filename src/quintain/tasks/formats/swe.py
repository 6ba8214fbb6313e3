"""Repairs of real repositories as rows, in the manner of SWE-bench: a commit, a patch, and the tests that turn.

A row has repo, base_commit, problem_statement, patch, test_patch, FAIL_TO_PASS and PASS_TO_PASS. The repositories are
clones beside the file, at `repos/ORG__NAME` or `repos/ORG/NAME` (bare or not); of one, only the files of the base
commit become the task's. Jimenez et al. 2024, https://arxiv.org/abs/2310.06770.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from quintain.tasks.base import PublicSet
from quintain.tasks.exam import Exam, Item
from quintain.tasks.formats.git import base_tree, patched
from quintain.tasks.formats.rows import RowSource, has_keys
from quintain.tasks.script import ScriptSuite
from quintain.tasks.taskset import Taskset
from quintain.types import MEBIBYTE, Entry, Grading, Limits, Scopes, TaskError

_REWARD = "/tmp/verifier/reward.json"
_FOLDER = "/tmp/tests"
_SECONDS = 900.0


class SweRow(msgspec.Struct, frozen=True, kw_only=True):
    instance_id: str
    repo: str
    base_commit: str
    problem_statement: str
    test_patch: str
    patch: str = ""
    FAIL_TO_PASS: str | list[str] = []
    PASS_TO_PASS: str | list[str] = []


class SweFormat:
    """Rows of repository, commit, patches and test ids; read only."""

    name = "swe"
    about = "JSONL rows with instance_id, repo, base_commit, test_patch (SWE-bench), clones in repos/ beside them"
    sets: tuple[PublicSet, ...] = ()

    def recognises(self, path: Path) -> bool:
        return has_keys(path, "instance_id", "repo", "base_commit", "test_patch")

    def read(self, path: Path) -> Taskset:
        def build(row: SweRow) -> Item:
            return _item(row, _clone(path.parent / "repos", row.repo))

        return Taskset(RowSource(path, SweRow, name=str(path), id_of=lambda row: row.instance_id, build=build))


def _clone(folder: Path, repo: str) -> Path:
    org, _, name = repo.partition("/")
    if not org or not name or "/" in name or ".." in (org, name):
        raise TaskError(f"repo: expected ORG/NAME, found {repo!r}")
    places = [folder / f"{org}__{name}", folder / org / name, folder / f"{name}.git", folder / name]
    for place in places:
        if place.is_dir():
            return place
    raise TaskError(f"expected a clone of {repo} at {places[0]} or {places[1]}, found none", file=str(folder))


def _item(row: SweRow, repository: Path) -> Item:
    """Raises ValueError for ids that are none, a commit that is not in the repository, patches that do not apply."""
    fail, keep = (ids_of(getattr(row, key), key) for key in ("FAIL_TO_PASS", "PASS_TO_PASS"))
    if not fail:
        raise ValueError("FAIL_TO_PASS: expected at least one test that the repair makes pass, found none")
    if both := sorted(set(fail) & set(keep)):
        raise ValueError(f"expected each id in one list, found {both[0]!r} in FAIL_TO_PASS and PASS_TO_PASS")
    try:
        base = base_tree(repository, row.base_commit)
    except TaskError as error:
        raise ValueError(f"base_commit: {error}") from None
    tests, removed = patched(base.files, row.test_patch, key="test_patch")
    fixed, gone = patched(base.files, row.patch, key="patch") if row.patch.strip() else ({}, ())
    source = [path for path in (*fixed, *gone) if path not in tests]
    path = next((p for p in source if p in base.files), next(iter(base.files), "README.md"))
    return Item.sealed(
        Exam(hidden=_suite((*fail, *keep), tests, removed), oracle=fixed or None,
             null=({path: base.files.get(path, b"")},)),
        files=base.files, id=row.instance_id, instructions=_instructions(row), entry=Entry(path=path),
        limits=_limits(), grading=Grading.ON_SUBMIT, tags=("python", "repository", row.repo),
    )


def _suite(ids: tuple[str, ...], tests: Mapping[str, bytes], removed: Iterable[str]) -> ScriptSuite:
    told = {"ids": ids, "files": sorted({id.partition("::")[0] for id in ids}), "removed": list(removed),
            "workdir": "/work", "reward_file": _REWARD}
    files = {f"tree/{path}": content for path, content in tests.items()}
    return ScriptSuite(
        files={"run.py": Path(__file__).with_name("swe_runner.py").read_bytes(),
               "suite.json": json.dumps(told).encode(), **files},
        argv=("python3", "-B", f"{_FOLDER}/run.py"), folder=_FOLDER, root="/work", workdir="/work",
        artifacts=("/work",), reward_files=(_REWARD,), required=ids, wall_seconds=_SECONDS,
    )


def _limits() -> Scopes:
    command = Limits(wall_seconds=_SECONDS, cpu_seconds=2 * _SECONDS, memory_bytes=2048 * MEBIBYTE,
                     disk_bytes=1024 * MEBIBYTE, inodes=131_072, processes=256)
    episode = msgspec.structs.replace(command, wall_seconds=2 * 3600.0, cpu_seconds=4 * 3600.0)
    return Scopes(episode=episode, turn=command, command=command)


def _instructions(row: SweRow) -> str:
    if not row.problem_statement.strip():
        raise ValueError("problem_statement: expected what is wrong, found nothing")
    return (f"The repository {row.repo} has the problem described below. Change its files so that it is solved, and "
            f"keep everything else working. Answer with a unified diff.\n\n{row.problem_statement.strip()}\n")


def ids_of(value: str | list[str], key: str) -> tuple[str, ...]:
    """The test ids of a row, each once, in order; a list, or one as JSON text. Raises ValueError for anything else, for
    what is no `FILE::TEST`, and for an id whose brackets are not closed: it was cut, and would match its siblings."""
    found: object = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError(f"{key}: expected a list, or one as JSON text, found {value[:60]!r}") from None
    if not isinstance(found, list) or not all(isinstance(id, str) for id in found):
        raise ValueError(f"{key}: expected a list of test ids, found {found!r}"[:200])
    for id in found:
        file, _, test = id.partition("::")
        if not test or not file.endswith(".py") or file.startswith("/") or ".." in file.split("/"):
            raise ValueError(f"{key}: expected FILE.py::TEST, found {id!r}")
        if "[" in test and not test.endswith("]"):
            raise ValueError(f"{key}: the brackets of {id!r} are not closed: it was cut, and its siblings cannot be "
                             "told apart")
    return tuple(dict.fromkeys(found))


class Told(StrEnum):
    """What a list of statuses says of one id. AMBIGUOUS: only ids that it is the beginning of are there."""

    PASSED = "passed"
    FAILED = "failed"
    MISSING = "missing"
    AMBIGUOUS = "ambiguous"


def told_of(id: str, statuses: Mapping[str, str]) -> Told:
    """Exact matches only: a beginning is never taken for the whole. Skips and expected failures are no pass."""
    if id in statuses:
        return Told.PASSED if statuses[id].upper() == "PASSED" else Told.FAILED
    return Told.AMBIGUOUS if any(other.startswith(id) for other in statuses) else Told.MISSING

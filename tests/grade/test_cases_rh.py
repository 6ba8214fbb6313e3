"""The handed cases of reward hacking: none is paid, each is laid on whom it belongs to.

RH16 (replay in a timed loop) is in test_performance_and_memory.py, RH20 (coverage) in test_coverage.py, RH21
(instructions to a judge) in test_judge_model.py.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from quintain.grade import (
    SealedOracle,
    as_frozen,
    check_script,
    close,
    export,
    headline,
    reward_of,
    sanitise,
    warm_sealed,
)
from quintain.sandbox import NativeBackend
from quintain.tasks import PythonSuite, ScriptSuite
from quintain.tasks.formats.git import base_tree, later_objects
from quintain.types import CLASS_OF, FaultKind, HouseError, Limits, Owner, Passed, Program, TaskError, Verdict
from tests.grade.ground import LIMITS, SHARED, Case, grade_all, needs_native, needs_shared, tree, verdict_of

CASES = SHARED / "cases"
SITE = (Path(pytest.__file__).parent.parent,)
NAMES = ["RH04", "RH05", "RH07", "RH08", "RH10", "RH12", "RH14", "RH19", "RH23"]

pytestmark = [needs_shared, pytest.mark.shared]


def right(name: str) -> dict[str, object]:
    found = json.loads((CASES / name / "expected.json").read_text())
    assert isinstance(found, dict)
    return found


def suite_of(name: str, folder: str = "tests") -> PythonSuite:
    required = right(name)["required"]
    assert isinstance(required, list)
    ids = tuple(required) if folder == "tests" else ()
    return PythonSuite(files=tree(CASES / name / folder, below=f"{folder}/"), required=ids)


def workspace(name: str) -> dict[str, bytes]:
    """The tree as it is handed in: what a case runs before is run in a sandbox, and what it left is exported."""
    files, before = tree(CASES / name / "workspace"), (right(name)["run"] or {})
    assert isinstance(before, dict)
    return asyncio.run(after(files, before["before"])) if "before" in before else files


async def after(files: dict[str, bytes], argv: list[str]) -> dict[str, bytes]:
    async with NativeBackend() as backend, backend.open(limits=LIMITS) as (sandbox,):
        await sandbox.files.write_many(files)
        await sandbox.run(["python3", *argv[1:]])
        return (await export(sandbox)).files


async def sealed(limits: Limits) -> dict[str, Verdict]:
    async with NativeBackend(warm=warm_sealed(site=SITE)) as backend:
        oracle = SealedOracle(backend, site=SITE)
        trees = {name: await asyncio.to_thread(workspace, name) for name in NAMES}
        return {name: await oracle.grade(suite_of(name), Program(files=files), limits=limits)
                for name, files in trees.items()}


@pytest.fixture(scope="module")
def inside() -> dict[str, Verdict]:
    return asyncio.run(sealed(Limits(wall_seconds=3.0, cpu_seconds=3.0)))


@pytest.fixture(scope="module")
def outside() -> dict[str, Verdict | HouseError]:
    limits = Limits(wall_seconds=3.0, cpu_seconds=3.0)
    return grade_all([
        Case(name=name, suite=suite_of(name), limits=limits, program=Program(
            files=sanitise(workspace(name), trusted=tuple(suite_of(name).files)).files))
        for name in NAMES
    ])


def check(name: str, verdict: Verdict | HouseError) -> None:
    assert isinstance(verdict, Verdict), verdict
    counts = right(name)["counts"]
    assert isinstance(counts, dict)
    assert not verdict.solved
    assert sum(t.passed is Passed.PASSED for t in verdict.tests) <= counts["passed"]
    fault = headline(verdict)
    assert fault is not None
    assert fault.owner is Owner.POLICY
    reward = reward_of(verdict)
    assert reward is not None
    assert reward.total <= 0.0


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_case_is_not_paid_outside_its_process(name: str, outside: dict[str, Verdict | HouseError]) -> None:
    check(name, outside[name])


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_case_is_not_paid_in_a_sealed_run(name: str, inside: dict[str, Verdict]) -> None:
    check(name, inside[name])


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize("name", ["RH05", "RH23"])
def test_what_replaces_the_runner_is_called_tampering(name: str, inside: dict[str, Verdict]) -> None:
    fault = headline(inside[name])
    assert fault is not None
    assert CLASS_OF[fault.kind] == "G", fault


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize(("name", "path"), [
    ("RH04", "sitecustomize.py"), ("RH10", "helpers.cpython-311.pyc"), ("RH19", "tests/test_solution.py")])
def test_what_was_planted_does_not_cross_and_is_told(name: str, path: str) -> None:
    clean = sanitise(workspace(name), trusted=tuple(suite_of(name).files))
    if name == "RH10" and not any(p.endswith(path) for p in clean.dropped):
        path = ".pyc"  # another interpreter, another name
    assert any(p.endswith(path) for p in clean.dropped)
    assert path in clean.evidence[0].text
    assert "solution.py" in clean.files


@needs_native
@pytest.mark.slow
def test_rh09_a_table_of_the_visible_cases_fails_where_it_was_never_seen() -> None:
    files = Program(files=workspace("RH09"))
    visible = verdict_of(Case(name="visible", suite=suite_of("RH09"), program=files))
    hidden = verdict_of(Case(name="hidden", suite=suite_of("RH09", "heldout"), program=files))
    assert visible.solved
    assert hidden.share == 0.0
    reward = reward_of(hidden)
    assert reward is not None
    assert not reward.solved


@needs_native
@pytest.mark.slow
def test_rh14_to_hang_is_never_better_than_to_be_wrong(inside: dict[str, Verdict]) -> None:
    wrong = Program(files={"solution.py": b"def add(a, b):\n    return a + b if a <= 10 else 0\n"})
    honest = reward_of(verdict_of(Case(name="wrong", suite=suite_of("RH14"), program=wrong)))
    hanging = reward_of(inside["RH14"])
    assert honest is not None
    assert hanging is not None
    assert hanging.total < honest.total
    fault = headline(inside["RH14"])
    assert fault is not None
    assert fault.kind is FaultKind.TIMEOUT


@needs_native
@pytest.mark.slow
def test_rh11_a_reward_that_the_agent_wrote_is_gone_when_the_verifier_crashes() -> None:
    script = (CASES / "RH11" / "verifier.sh").read_bytes()
    suite = ScriptSuite(files={"test.sh": script}, folder="/tmp/tests", argv=("sh", "/tmp/tests/test.sh"), root="/work",
                        reward_files=("/work/logs/verifier/reward.json", "/work/logs/verifier/reward.txt"))

    async def judged() -> Verdict:
        async with NativeBackend() as backend:
            async with backend.open(limits=LIMITS) as (sandbox,):
                await sandbox.files.write("agent.sh", (CASES / "RH11" / "agent.sh").read_bytes())
                await sandbox.run(["sh", "agent.sh"])
                files = (await export(sandbox)).files
            assert files["logs/verifier/reward.txt"] == b"1.0\n"
            return await check_script(backend, suite, [as_frozen(files, suite)], limits=LIMITS)

    verdict = asyncio.run(judged())
    assert not verdict.solved
    assert reward_of(verdict) is None
    fault = headline(verdict)
    assert fault is not None
    assert fault.owner is not Owner.POLICY


@pytest.mark.parametrize("row", json.loads((CASES / "RH17" / "pairs.json").read_text()) if SHARED.is_dir() else [])
def test_rh17_a_tolerance_is_finite_and_nan_is_like_nothing(row: dict[str, object]) -> None:
    found, wanted, tolerance = (float(str(row[key])) for key in ("got", "want", "tol"))
    if row["equal"] == "task_error":
        with pytest.raises(TaskError):
            close(found, wanted, tolerance=tolerance)
    else:  # "policy": 1e400 is read as an infinity here, as Python's float does
        assert close(found, wanted, tolerance=tolerance) is (row["equal"] in (True, "policy"))


def test_rh18_a_fix_in_the_history_is_found_and_a_base_tree_has_none(tmp_path: Path) -> None:
    script = (CASES / "RH18" / "make_repo.sh").read_text()
    subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    repository = tmp_path / "repo"
    base = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, check=True, capture_output=True, text=True)
    assert later_objects(repository, base.stdout.strip())
    assert base_tree(repository, base.stdout.strip()).files == {"solution.py": b"def add(a, b):\n    return a - b\n"}


@needs_native
@pytest.mark.slow
def test_rh24_links_and_pipes_do_not_cross() -> None:
    async def exported() -> tuple[dict[str, bytes], dict[str, str]]:
        async with NativeBackend() as backend, backend.open(limits=LIMITS) as (sandbox,):
            await sandbox.files.write("agent.sh", (CASES / "RH24" / "agent.sh").read_bytes())
            await sandbox.run(["sh", "agent.sh"])
            found = await export(sandbox, folder="/work/workspace")
            return found.files, found.left_out

    files, left_out = asyncio.run(exported())
    assert files == {}
    kinds = {path: why.split(",")[0] for path, why in left_out.items()}
    assert kinds == {"reports": "symlink", "result.txt": "symlink", "loop_a": "symlink", "loop_b": "symlink",
                     "pipe": "other"}

"""The handed cases of error classification: each answer gets the right class, owner and place."""

from __future__ import annotations

import json

import pytest

from quintain.grade import headline, reward_of
from quintain.program import Patched, apply_patch
from quintain.tasks import PythonSuite
from quintain.types import HouseError, Owner, Passed, Program, Verdict
from tests.grade.ground import LIMITS, SHARED, Case, grade_all, needs_native, needs_shared, tree

NAMES = sorted(p.name for p in (SHARED / "cases").glob("EC*")) if SHARED.is_dir() else []

pytestmark = [needs_native, needs_shared, pytest.mark.shared]


def expected(name: str) -> dict[str, object]:
    found = json.loads((SHARED / "cases" / name / "expected.json").read_text())
    assert isinstance(found, dict)
    return found


def case_of(name: str) -> Case:
    folder = SHARED / "cases" / name
    required = expected(name)["required"]
    assert isinstance(required, list)
    suite = PythonSuite(files=tree(folder / "tests", below="tests/"), required=tuple(required))
    return Case(name=name, suite=suite, program=Program(files=tree(folder / "workspace")), limits=LIMITS)


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict | HouseError]:
    return grade_all([case_of(name) for name in NAMES])


@pytest.mark.parametrize("name", NAMES)
def test_a_case_gets_its_class_and_owner(name: str, verdicts: dict[str, Verdict | HouseError]) -> None:
    verdict, right = verdicts[name], expected(name)
    assert isinstance(verdict, Verdict), verdict
    fault = headline(verdict)
    assert (fault.kind.value if fault else "none") == right["error_class"]
    assert verdict.solved is (right["verdict"] == "pass")
    assert [t.id for t in verdict.tests] == right["required"]
    counts = right["counts"]
    assert isinstance(counts, dict)
    assert sum(t.passed is Passed.PASSED for t in verdict.tests) == counts["passed"]
    if fault is not None:
        assert fault.owner is (Owner.TASK if right["attribution"] == "task" else Owner.POLICY)
    if "exception" in counts:
        assert fault is not None
        assert fault.exception == counts["exception"]


@pytest.mark.parametrize("name", [n for n in NAMES if n in ("EC01", "EC15")])
def test_a_syntax_error_names_its_file_and_line(name: str, verdicts: dict[str, Verdict | HouseError]) -> None:
    verdict = verdicts[name]
    assert isinstance(verdict, Verdict)
    assert verdict.fault is not None
    assert verdict.fault.file == "solution.py"
    assert verdict.fault.line == {"EC01": 1, "EC15": 3}[name]


@pytest.mark.parametrize("name", NAMES)
def test_only_the_policys_own_failures_have_a_reward(name: str, verdicts: dict[str, Verdict | HouseError]) -> None:
    verdict = verdicts[name]
    assert isinstance(verdict, Verdict)
    reward, right = reward_of(verdict), expected(name)
    assert (reward is None) is (right["reward"] is None)
    if reward is not None:
        assert reward.solved is (right["reward"] == 1.0)


@pytest.mark.parametrize("name", [n for n in NAMES if n == "EC13"])
def test_the_leaves_of_an_exception_group_are_listed(name: str, verdicts: dict[str, Verdict | HouseError]) -> None:
    verdict = verdicts[name]
    assert isinstance(verdict, Verdict)
    fault = headline(verdict)
    assert fault is not None
    assert all(leaf in fault.message for leaf in ("ValueError", "KeyError", "AssertionError"))


def test_a_patch_is_scored_with_the_real_tests_whatever_it_did_to_them() -> None:
    """PA11: a right fix, a weakened test and a conftest that ignores all tests."""
    folder = SHARED / "cases" / "PA11"
    base = tree(folder / "base")
    real = PythonSuite(files={p: c for p, c in base.items() if p.startswith("tests/")})
    patched = apply_patch(base, (folder / "patch.diff").read_bytes())
    assert isinstance(patched, Patched)
    assert patched.tree["tests/test_solution.py"] != base["tests/test_solution.py"]
    unfixed = {**patched.tree, "solution.py": base["solution.py"]}
    verdicts = grade_all([
        Case(name="fixed", suite=real, program=Program(files=patched.tree)),
        Case(name="unfixed", suite=real, program=Program(files=unfixed)),
    ])
    fixed, not_fixed = verdicts["fixed"], verdicts["unfixed"]
    assert isinstance(fixed, Verdict)
    assert isinstance(not_fixed, Verdict)
    assert fixed.solved
    assert not_fixed.share == 0.0

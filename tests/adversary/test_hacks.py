"""Every hack of the corpus is up against the same suite on the native backend, and none of them is paid.

The files of a hack end in .txt, so that nothing on this side of the wall ever takes one for code.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from quintain.grade import headline, reward_of
from quintain.tasks import PythonSuite
from quintain.types import HouseError, Owner, Program, Verdict
from tests.grade.ground import LIMITS, Case, grade_all, needs_native, tree

HERE = Path(__file__).parent


def stored(folder: Path) -> dict[str, bytes]:
    return {path.removesuffix(".txt"): content for path, content in tree(folder).items()}


SUITE = PythonSuite(files=stored(HERE / "suite"))
NAMES = sorted(path.parent.name for path in (HERE / "hacks").glob("*/hack.toml"))

pytestmark = [needs_native, pytest.mark.slow]


class Hack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """hack.toml. `number` is its place in the catalogue of docs/rooms/grade.md."""

    name: str
    number: int
    mechanism: str
    expect: str
    wall_seconds: float = LIMITS.wall_seconds


def read(name: str) -> Hack:
    text = (HERE / "hacks" / name / "hack.toml").read_text()
    return msgspec.convert(tomllib.loads(text), Hack)


def case_of(name: str) -> Case:
    limits = msgspec.structs.replace(LIMITS, wall_seconds=read(name).wall_seconds)
    files = stored(HERE / "hacks" / name / "files")
    return Case(name=name, suite=SUITE, program=Program(files=files), limits=limits)


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict | HouseError]:
    honest = Case(name="honest", suite=SUITE, program=Program(files=stored(HERE / "honest")))
    return grade_all([honest, *map(case_of, NAMES)])


def test_an_honest_answer_passes_the_same_suite(verdicts: dict[str, Verdict | HouseError]) -> None:
    honest = verdicts["honest"]
    assert isinstance(honest, Verdict)
    assert honest.solved, headline(honest)


def test_the_corpus_has_at_least_thirty_mechanisms() -> None:
    assert len(NAMES) >= 30
    assert len({read(name).mechanism for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_hack_is_not_paid(name: str, verdicts: dict[str, Verdict | HouseError]) -> None:
    verdict = verdicts[name]
    assert read(name).expect == "not_paid"
    assert isinstance(verdict, Verdict), f"the hack was laid on the house: {verdict}"
    assert [t.id for t in verdict.tests if t.fault is None] == [], "not one test of the suite may pass"
    assert not verdict.solved
    fault = headline(verdict)
    assert fault is not None
    assert fault.owner is Owner.POLICY, f"the hack was laid on somebody else: {fault}"
    reward = reward_of(verdict)
    assert reward is not None
    assert reward.total <= 0.0


@pytest.mark.parametrize("name", ["forged_answers", "forged_report_on_pipe"])
def test_forged_frames_are_evidence_of_tampering(name: str, verdicts: dict[str, Verdict | HouseError]) -> None:
    verdict = verdicts[name]
    assert isinstance(verdict, Verdict)
    reward = reward_of(verdict)
    assert reward is not None
    assert reward.total == -1.0, verdict.fault

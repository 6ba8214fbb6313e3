"""The adaptive hacks of the corpus, and a sample of the others, against tests that share their interpreter."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from quintain.grade import SealedOracle, headline, warm_sealed
from quintain.sandbox import NativeBackend
from quintain.tasks import PythonSuite
from quintain.testing import Trial, read_corpus
from quintain.types import Owner, Verdict
from tests.grade.ground import needs_native

SITE = (Path(pytest.__file__).parent.parent,)
CORPUS = read_corpus(Path(__file__).parent / "hacks")
#: Families are taken in turn, so that each is there.
SHARING = [t for t in CORPUS.trials() if isinstance(t.item.exam.hidden, PythonSuite) and t.hack and not t.hack.before]
ADAPTIVE = {t.hack.name: t for n, t in enumerate(SHARING) if t.hack and t.hack.adaptive and n % 2 == 0}
OTHERS = {t.hack.name: t for n, t in enumerate(SHARING) if t.hack and not t.hack.adaptive and n % 23 == 0}
TRIALS: dict[str, Trial] = {t.name: t for t in (*ADAPTIVE.values(), *OTHERS.values())}

pytestmark = [needs_native, pytest.mark.slow]


async def judged() -> dict[str, Verdict]:
    room = asyncio.Semaphore(2)
    found: dict[str, Verdict] = {}
    async with NativeBackend(warm=warm_sealed(site=SITE)) as backend, asyncio.TaskGroup() as group:
        oracle = SealedOracle(backend, site=SITE)

        async def one(trial: Trial) -> None:
            suite = trial.item.exam.hidden
            assert isinstance(suite, PythonSuite)
            limits = msgspec.structs.replace(trial.limits, memory_bytes=256 << 20)
            async with room:
                found[trial.name] = await oracle.grade(
                    suite, trial.program, limits=limits, reference=trial.family.honest)

        for trial in TRIALS.values():
            group.create_task(one(trial))
    return found


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    return asyncio.run(judged())


def test_the_sample_has_adaptive_hacks_in_it() -> None:
    assert len(ADAPTIVE) >= 8
    assert len(OTHERS) >= 12


@pytest.mark.parametrize("name", sorted(TRIALS))
def test_a_hack_is_not_paid_in_a_sealed_run(name: str, verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts[name]
    fault = headline(verdict)
    assert not verdict.solved, fault
    assert verdict.level == "L3"
    assert fault is not None
    assert fault.owner is Owner.POLICY

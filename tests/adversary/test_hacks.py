"""Every hack of the corpus is up against a trusted suite on the native backend, and none of them is paid.

The files of a hack end in .txt, so that nothing on this side of the wall ever takes one for code.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from quintain.grade import headline, reward_of, sanitise
from quintain.testing import Corpus, Trial, read_corpus
from quintain.types import HouseError, Owner, TaskError, Verdict
from tests.grade.ground import Case, grade_all, needs_native

HERE = Path(__file__).parent
CORPUS = read_corpus(HERE / "hacks")


def one_for_each(corpus: Corpus) -> dict[str, Trial]:
    """Each hack at one of its tasks, another for each hack; bench/hack_matrix.py runs them all."""
    trials: dict[str, list[Trial]] = {}
    for trial in corpus.trials():
        assert trial.hack is not None
        trials.setdefault(trial.hack.name, []).append(trial)
    return {
        found[int(hashlib.sha256(name.encode()).hexdigest(), 16) % len(found)].name:
        found[int(hashlib.sha256(name.encode()).hexdigest(), 16) % len(found)] for name, found in trials.items()
    }


TRIALS = one_for_each(CORPUS)
HONEST = {trial.name: trial for trial in CORPUS.honest()}


def case_of(trial: Trial) -> Case:
    files = sanitise(trial.program.files, given=trial.item.task.files).files
    program = msgspec.structs.replace(trial.program, files=files)
    return Case(name=trial.name, suite=trial.item.exam.hidden, program=program, limits=trial.limits)


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict | HouseError]:
    return grade_all([case_of(trial) for trial in (*HONEST.values(), *TRIALS.values())])


def test_the_corpus_has_at_least_eighty_mechanisms_in_three_languages() -> None:
    assert len({hack.mechanism for hack in CORPUS.hacks}) == len(CORPUS.hacks) >= 80
    languages = [hack.language for hack in CORPUS.hacks]
    assert all(languages.count(language) >= 12 for language in ("python", "javascript", "shell"))
    assert sum(hack.adaptive for hack in CORPUS.hacks) >= 10
    assert len(list(CORPUS.trials())) >= 300


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(HONEST))
def test_an_honest_answer_passes_the_same_suite(name: str, verdicts: dict[str, Verdict | HouseError]) -> None:
    honest = verdicts[name]
    assert isinstance(honest, Verdict)
    assert honest.solved, headline(honest)


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TRIALS))
def test_a_hack_is_not_paid(name: str, verdicts: dict[str, Verdict | HouseError]) -> None:
    verdict = verdicts[name]
    assert isinstance(verdict, Verdict), f"the hack was laid on the house: {verdict}"
    assert not verdict.solved
    fault = headline(verdict)
    assert fault is not None
    assert fault.owner is Owner.POLICY, f"the hack was laid on somebody else: {fault}"
    reward = reward_of(verdict)
    assert reward is not None
    assert reward.total < 0.35


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in TRIALS if n.startswith(("forged_answers/", "forged_report_on_pipe/"))])
def test_forged_frames_are_evidence_of_tampering(name: str, verdicts: dict[str, Verdict | HouseError]) -> None:
    verdict = verdicts[name]
    assert isinstance(verdict, Verdict)
    reward = reward_of(verdict)
    assert reward is not None
    assert reward.total == -1.0, verdict.fault


def put(folder: Path, **files: str) -> Path:
    for path, text in files.items():
        target = folder / "mine" / path.replace("__", "/").replace("_toml", ".toml").replace("_py", ".py.txt")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder


RIGHT = 'name = "mine"\nmechanism = "says so"\n'
OWN = {"suite__test_it_py": "from solution import f\ndef test_f():\n    assert f() == 1\n",
       "honest__solution_py": "def f():\n    return 1\n"}


def test_a_corpus_from_elsewhere_brings_its_own_tasks(tmp_path: Path) -> None:
    corpus = read_corpus(put(tmp_path, hack_toml=RIGHT, files__solution_py="@@stub@@\n", **OWN))
    assert [trial.name for trial in corpus.trials()] == ["mine/mine"]


@pytest.mark.parametrize(("toml", "solution", "told"), [
    ('name = "other"\nmechanism = "x"\n', "x", "name: expected mine, found 'other'"),
    ('name = "mine"\n', "x", "mechanism"),
    (RIGHT + "colour = 1\n", "x", "colour"),
    (RIGHT + 'language = "cobol"\n', "x", "language: expected python or javascript or shell, found 'cobol'"),
    (RIGHT + 'families = ["nowhere"]\n', "x", "families: expected nothing, found 'nowhere'"),
    (RIGHT + "wall_seconds = 0\n", "x", "wall_seconds: expected more than 0"),
    ("name = ", "x", "hack.toml"),
    (RIGHT, "@@body@@", "solution.py:1: expected one of"),
    (RIGHT, "@@define@@\nreturn 1\n", "expected @@end@@ after @@define@@"),
])
def test_a_corpus_that_is_not_in_the_form_is_refused_by_file_and_key(
    tmp_path: Path, toml: str, solution: str, told: str
) -> None:
    put(tmp_path, hack_toml=toml, files__solution_py=solution, **OWN)
    with pytest.raises(TaskError) as refused:
        read_corpus(tmp_path)
    assert told in str(refused.value)
    assert "mine" in str(refused.value)

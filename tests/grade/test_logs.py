"""Signals from what a program wrote: bounded, and nothing where nothing is said."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.grade import LogGrader, Rule, signal_of
from quintain.tasks import Exam, Item, PythonSuite
from quintain.types import Attempt, Outcome, Status


def outcome(stdout: str = "", stderr: str = "") -> Outcome:
    return Outcome(status=Status.OK, stdout=stdout.encode(), stderr=stderr.encode())


def test_a_number_in_a_line_is_worth_its_place_between_worst_and_best() -> None:
    rule = Rule(name="latency", pattern=r"p95=(\d+(?:\.\d+)?)ms", worst=200, best=50)
    assert signal_of(rule, outcome("p95=999ms\np95=125ms\n")).value == 0.5
    assert signal_of(rule, outcome("p95=10ms")).value == 1.0
    assert signal_of(rule, outcome("p95=900ms")).value == 0.0


def test_a_pattern_without_a_group_counts_lines() -> None:
    rule = Rule(name="warnings", pattern="WARN", stream="stderr", worst=4, best=0)
    assert signal_of(rule, outcome(stderr="WARN a\nok\nWARN b\n")).value == 0.5
    assert signal_of(rule, outcome()).value == 1.0


def test_a_path_leads_into_json_lines() -> None:
    rule = Rule(name="recall", path="metrics.0.recall")
    lines = '{"metrics": [{"recall": 0.25}]}\nnot json {\n{"other": 1}\n{"metrics": [{"recall": 0.75}]}\n'
    assert signal_of(rule, outcome(lines)).value == 0.75
    assert signal_of(Rule(name="ok", path="done"), outcome('{"done": true}')).value == 1.0


@pytest.mark.parametrize("said", [
    "", "recall", '{"metrics": []}', '{"metrics": [{"recall": "high"}]}', '{"metrics": [{"recall": null}]}', "[" * 9999,
    '{"metrics": [{"recall": NaN}]}', "{" * 9999,
])
def test_what_is_not_said_is_not_measured(said: str) -> None:
    assert signal_of(Rule(name="recall", path="metrics.0.recall"), outcome(said)).value is None


@given(st.binary(max_size=300), st.floats(allow_nan=False, allow_infinity=False), st.floats(-5, 5))
def test_no_output_breaks_a_rule(written: bytes, best: float, worst: float) -> None:
    if best == worst:
        return
    for rule in (Rule(name="n", pattern=r"(-?[\d.]+|nan|inf)", worst=worst, best=best),
                 Rule(name="j", path="a", worst=worst, best=best)):
        for content in (written, b'{"a": ' + written + b"}"):
            score = signal_of(rule, Outcome(status=Status.OK, stdout=content))
            assert score.value is None or 0.0 <= score.value <= 1.0


@pytest.mark.parametrize(("broken", "told"), [
    ({}, "pattern or a path"), ({"pattern": "a", "path": "b"}, "pattern or a path"), ({"pattern": "("}, "pattern"),
    ({"pattern": "(a)(b)"}, "one group"), ({"pattern": "a", "stream": "both"}, "stdout or stderr"),
    ({"pattern": "a", "best": 0.0}, "must differ"),
])
def test_a_rule_that_cannot_be_one_is_refused(broken: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Rule(name="r", **broken)  # type: ignore[arg-type]


def test_the_grader_reads_the_last_run() -> None:
    suite = PythonSuite(files={"test_s.py": b"def test_a(): pass\n"})
    item = Item.sealed(Exam(hidden=suite), id="a", instructions="do")
    grader = LogGrader([Rule(name="hits", pattern=r"hits=(\d+)", best=10)])
    ran = Attempt(task=item.task, outcomes=(outcome("hits=1"), outcome("hits=5")))
    assert asyncio.run(grader.grade(ran, item))[0].value == 0.5
    assert asyncio.run(grader.grade(Attempt(task=item.task), item))[0].value is None
    with pytest.raises(ValueError, match="names of their own"):
        LogGrader([Rule(name="a", path="x"), Rule(name="a", path="y")])

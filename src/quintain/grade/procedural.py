"""Answers to questions that a program made, scored by that program, in a sandbox: some scorers evaluate what they read.

Covers: the question is made anew from its recipe and must be the one that was asked; the score is a finite number in
[0, 1] on a line that ends with a word made for this run; time and memory are bounded from outside.
Does not cover: an answer that takes over its scorer (L2): both are in one interpreter.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from pathlib import Path

import msgspec

from quintain.grade import evidence
from quintain.grade.build import verifier_build
from quintain.sandbox import Backend, Warm
from quintain.tasks import AnswerKind, AnswerSuite
from quintain.types import (
    MEBIBYTE,
    Evidence,
    Fault,
    FaultKind,
    HouseError,
    Limits,
    Outcome,
    Owner,
    Passed,
    Status,
    TaskError,
    TestResult,
    Verdict,
    content_digest,
)

LEVEL = "L2"
MAX_CHARS = 20_000
LIMITS = Limits(wall_seconds=60.0, cpu_seconds=60.0, memory_bytes=1024 * MEBIBYTE)

_LIBRARY = "reasoning_gym"
_MARK = re.compile(r"(?im)^[ \t>*_]*(?:final )?answer\s*:[ \t*_]*")
_SCORE = '''
import hashlib, json, sys
told = json.load(sys.stdin)
from reasoning_gym.factory import create_dataset
made = create_dataset(told["generator"], seed=told["seed"], size=told["size"])
entry = made[told["index"]]
if hashlib.sha256(str(entry["question"]).encode()).hexdigest() != told["question_sha256"]:
    print("another question", told["word"])
else:
    print(float(made.score_answer(told["answer"], entry)), told["word"])
'''


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How a question is made again."""

    generator: str
    seed: int
    size: int
    index: int
    question_sha256: str


def warm_scorer(*, site: Path, preload: bool = True) -> Warm:
    """What `NativeBackend(warm=...)` needs so that its sandboxes find the scorers: `site` is the folder of installed
    packages in which reasoning_gym is."""
    return Warm(site=(site,), preload=(_LIBRARY,) if preload else ())


async def check_procedural(backend: Backend, suite: AnswerSuite, reply: str) -> Verdict:
    """The verdict of a reply: passed where its scorer gives 1; a part of that is evidence. Raises TaskError for a suite
    of another kind, a recipe that is none, and a question that is not made again; HouseError where the scorer cannot be
    run in this backend's sandboxes."""
    if suite.kind is not AnswerKind.PROCEDURAL or not suite.scorer.startswith(f"{_LIBRARY}:"):
        raise TaskError(f"expected a scorer reasoning_gym:GENERATOR, found {suite.scorer or suite.kind.value!r}")
    try:
        recipe = msgspec.json.decode(suite.entry, type=Recipe)
    except msgspec.MsgspecError as error:
        raise TaskError(f"entry: expected how the question is made: {error}") from None
    answer = answer_in(reply)
    if not answer or len(answer) > MAX_CHARS:
        kind = FaultKind.FORMAT_ERROR if answer else FaultKind.NO_ANSWER
        said = f"the reply gives no answer of at most {MAX_CHARS} characters"
        return _verdict(suite, None, Fault(owner=Owner.POLICY, kind=kind, message=said))
    word = secrets.token_hex(16)
    told = json.dumps({**msgspec.to_builtins(recipe), "answer": answer, "word": word}).encode()
    async with backend.open(limits=LIMITS) as (sandbox,):
        warm = backend.probe().warm
        argv = ["-c", _SCORE] if warm else ["python3", "-c", _SCORE]
        outcome = await sandbox.run(argv, stdin=told, env={"PYTHONPATH": "/opt/site/0"}, warm=warm)
    return _read(suite, outcome, word)


def answer_in(reply: str) -> str:
    """What stands after the last `Answer:` that begins a line, over as many lines as there are; else the whole reply. A
    fence around it is not a part of it."""
    marks = list(_MARK.finditer(reply))
    said = (reply[marks[-1].end():] if marks else reply).strip()
    fenced = re.fullmatch(r"```\w*\n(.*?)\n?```", said, re.DOTALL)
    return (fenced[1] if fenced else said).strip()


def _read(suite: AnswerSuite, outcome: Outcome, word: str) -> Verdict:
    lines = [line.removesuffix(word).strip() for line in outcome.text.splitlines() if line.endswith(f" {word}")]
    if outcome.status in (Status.TIMED_OUT, Status.CPU_LIMIT, Status.OUT_OF_MEMORY):
        said = f"its scorer did not end by itself on this answer ({outcome.status.value})"
        return _verdict(suite, outcome, Fault(owner=Owner.POLICY, kind=FaultKind.TIMEOUT, message=said))
    if lines == ["another question"]:
        raise TaskError("its recipe makes another question here: another version of reasoning-gym?",
                        kind=FaultKind.TASK_ENVIRONMENT)
    if b"No module named 'reasoning_gym'" in outcome.stderr:
        said = "reasoning_gym is not in this backend's sandboxes: open NativeBackend(warm=warm_scorer(site=...))"
        raise HouseError(FaultKind.VERIFIER_ERROR, said)
    value = _number(lines[0]) if len(lines) == 1 else None
    if value is None:
        said = f"its scorer gave no score for this answer: {outcome.error_text.strip()[-200:]}"
        return _verdict(suite, outcome, Fault(owner=Owner.POLICY, kind=FaultKind.FORMAT_ERROR, message=said))
    if value == 1.0:
        return _verdict(suite, outcome, None, value)
    wrong = Fault(owner=Owner.POLICY, kind=FaultKind.WRONG_ANSWER, message=f"its scorer gives {value:g}")
    return _verdict(suite, outcome, wrong, value)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return min(1.0, max(0.0, value)) if math.isfinite(value) else None


def _verdict(suite: AnswerSuite, outcome: Outcome | None, fault: Fault | None, value: float | None = None) -> Verdict:
    seen = (Evidence(source="reward", text=f"score = {value:g}"),) if value is not None else ()
    passed = Passed.PASSED if fault is None else Passed.FAILED
    return Verdict(
        suite=content_digest(suite), level=LEVEL, tests=(TestResult(id="answer", passed=passed, fault=fault),),
        wall_seconds=outcome.wall_seconds if outcome else 0.0, cpu_seconds=outcome.cpu_seconds if outcome else None,
        evidence=(*seen, *(evidence.of_outcome("scorer", outcome) if outcome else ())), build=verifier_build(),
    )

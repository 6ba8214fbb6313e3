"""What every detector must do, for authors of detectors: `check_detector` says what is wrong with one."""

from __future__ import annotations

from collections.abc import Sequence

from quintain.guard import Detector
from quintain.tasks import Exam, Item, PythonSuite
from quintain.types import (
    Attempt,
    Entry,
    Flag,
    Outcome,
    Passed,
    Program,
    Severity,
    Status,
    TestResult,
    Turn,
    Verdict,
)

_TESTS = {"test_it.py": b"from solution import double\n\ndef test_double():\n    assert double(21) == 42\n"}
_HONEST = b"def double(number):\n    return 2 * number\n"
#: Files that a careless reader breaks on; none of them may raise.
_ODD = {
    "empty": b"", "no text": b"\xff\xfe\x00\x01", "no Python": b"def (:\n", "deep": b"(" * 5_000 + b")" * 5_000,
    "long": b"x = 1\n" * 20_000, "NUL": b"a = '\x00'\n", "carriage returns": b"def f(a):\r    return a\r",
}


def detector_item() -> Item:
    """The task that `check_detector` asks about."""
    exam = Exam(hidden=PythonSuite(files=_TESTS), oracle={"solution.py": _HONEST})
    return Item.sealed(exam, id="conformance/double", instructions="Write double(number).", entry=Entry())


def check_detector(detector: Detector) -> None:
    """Raises AssertionError, naming what was expected and found, for a detector that is not fit for the house: it has
    no name, is not pure, raises on odd files, flags an honest answer or an attempt without files, or calls something
    HARD for which there is no evidence from the verifier's side."""
    assert isinstance(detector.name, str), f"expected a name, found {detector.name!r}"
    assert detector.name, "expected a name, found an empty one"
    item = detector_item()
    nothing = Attempt(task=item.task)
    assert not list(detector.inspect(nothing, item)), f"{detector.name}: flags an attempt that has no files"
    verdict = Verdict(suite="s", level="L4", tests=(TestResult(id="test_it.py::test_double", passed=Passed.PASSED),))
    honest = Attempt(task=item.task, program=Program(files={"solution.py": _HONEST}), verdict=verdict,
                     turns=(Turn(text="Here it is."),), outcomes=(Outcome(status=Status.OK, exit_code=0),))
    found = list(detector.inspect(honest, item))
    assert not found, f"{detector.name}: flags an honest answer: {found[0].evidence}"
    for what, content in _ODD.items():
        for path in ("solution.py", "solution.js", "run.sh", "notes.txt"):
            odd = Attempt(task=item.task, program=Program(files={"solution.py": _HONEST, path: content}))
            _check_flags(detector, odd, item, f"{what} as {path}")


def _check_flags(detector: Detector, attempt: Attempt, item: Item, what: str) -> None:
    try:
        first: Sequence[Flag] = list(detector.inspect(attempt, item))
    except Exception as error:  # whatever a stranger's detector raises is the finding
        raise AssertionError(f"{detector.name}: raises {type(error).__name__} on {what}: {error}") from error
    assert first == list(detector.inspect(attempt, item)), f"{detector.name}: says two things of {what}"
    for flag in first:
        assert flag.severity is Severity.SOFT, f"{detector.name}: HARD without evidence, on {what}: {flag.evidence}"
        assert flag.evidence.strip(), f"{detector.name}: a flag without evidence, on {what}"

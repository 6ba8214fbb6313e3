"""The same work done by the answer and by the reference, each time in sandboxes of its own, measured from outside.

What is done: a file `workload.py` of the hidden suite, trusted, that defines `inputs(seed)`: the argument tuples of the
entry function, new ones for each seed; and, if it likes, `check(arguments, output)`, whose False or exception rejects.
Without `check` the outputs are compared with the reference's, made on the trusted side. Without `workload.py` the tests
of the suite are the work: fresh processes, but the same inputs each time. Programs are run on the cases of their suite.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from quintain.grade import bundle
from quintain.grade._subject import is_visible_test
from quintain.grade.oracle import Oracle
from quintain.grade.stdio import check_outcome
from quintain.sandbox import Backend
from quintain.tasks import Item, PythonSuite, StdioSuite
from quintain.types import Attempt, Limits, Outcome, Program, Status

WORKLOAD = "workload.py"
_TEST = "test_quintain_work.py"
_REFERENCE = "quintain_reference"

#: Work by a workload: each input is made, copied, handed over, and its output checked, in this order.
_WORKED = """
import copy, importlib.util, os, sys
import workload
from {module} import {entry} as answer

def reference():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), {folder!r})
    sys.path.append(folder)
    spec = importlib.util.spec_from_file_location({folder!r}, os.path.join(folder, {path!r}))
    module = importlib.util.module_from_spec(spec)
    sys.modules[{folder!r}] = module
    spec.loader.exec_module(module)
    return getattr(module, {entry!r})

check = getattr(workload, "check", None)
known = None if check else reference()

def test_work():
    for _ in range({repeats}):
        for arguments in workload.inputs({seed}):
            kept = copy.deepcopy(arguments)
            output = answer(*arguments)
            if check:
                assert check(kept, output) is not False, "the workload rejects an output"
            else:
                assert output == known(*kept), "an output is not that of the reference"
"""

#: Work by the tests that there are; those that need pytest's parameters are left out.
_TESTED = """
import importlib, sys, types
{imports}
def tests_of(module):
    case = getattr(sys.modules.get("unittest"), "TestCase", ())
    for name, value in list(vars(module).items()):
        if name.startswith("test") and isinstance(value, types.FunctionType) and not value.__code__.co_argcount:
            yield value
        elif case and isinstance(value, type) and issubclass(value, case) and value.__module__ == module.__name__:
            loader = sys.modules["unittest"].TestLoader()
            for each in loader.getTestCaseNames(value):
                yield value(each).debug

def test_work():
    for _ in range({repeats}):
        for module in ({modules}):
            for test in tests_of(module):
                test()
"""
_IDLE = "{imports}\n\ndef test_work():\n    pass\n"
_TAKING = """
import workload
from {module} import {entry} as answer

def test_work():
    for arguments in workload.inputs({seed}):
        answer(*arguments)
"""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `right` says that all outputs were; `overrun` that it was cut off by its limits; `why` is the first
    reason. CPU is what the answer's own sandbox used, by its control group; None where the backend does not measure."""

    right: bool
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    overrun: bool = False
    why: str = ""


class Contest(msgspec.Struct, frozen=True, kw_only=True):
    """Two programs for the same work. `fresh` says that each seed brings new inputs."""

    item: Item
    answer: Program
    reference: Program
    fresh: bool
    repeatable: bool


def contest(attempt: Attempt, item: Item) -> Contest | str:
    """What can be measured of an attempt against the task's own solution, or why nothing can."""
    if attempt.program is None:
        return "there is no program"
    if not item.exam.oracle:
        return "the task has no reference solution to compare with"
    hidden = item.exam.hidden
    if not isinstance(hidden, PythonSuite | StdioSuite):
        return f"work of a {type(hidden).__name__} cannot be measured"
    given = {p: c for p, c in item.task.files.items() if not is_visible_test(p)}
    answer = {p: c for p, c in attempt.program.files.items() if not is_visible_test(p)}
    return Contest(
        item=item, answer=msgspec.structs.replace(attempt.program, files=answer),
        reference=msgspec.structs.replace(attempt.program, files={**given, **item.exam.oracle}),
        fresh=isinstance(hidden, PythonSuite) and WORKLOAD in hidden.files and item.task.entry.name is not None,
        repeatable=isinstance(hidden, PythonSuite),
    )


class Trials:
    """Runs the two programs of a contest."""

    def __init__(self, backend: Backend, oracle: Oracle, contest: Contest) -> None:
        self._backend = backend
        self._oracle = oracle
        self._contest = contest

    async def answer(self, limits: Limits, *, seed: int = 0, repeats: int = 1) -> Trial:
        return await self._run(self._contest.answer, limits, seed, repeats)

    async def reference(self, limits: Limits, *, seed: int = 0, repeats: int = 1) -> Trial:
        return await self._run(self._contest.reference, limits, seed, repeats)

    async def idle(self, limits: Limits, *, seed: int = 0) -> Trial:
        """What a run costs beside the work: an entry that takes the inputs and does nothing, an empty program started.
        Without a workload the reference is loaded and asked for nothing."""
        entry = self._contest.item.task.entry
        reference = self._contest.reference
        if not self._contest.repeatable or self._contest.fresh:
            stub = b"def %s(*a, **k):\n    return None\n" % (entry.name or "").encode() if self._contest.fresh else b""
            reference = msgspec.structs.replace(reference, files={**reference.files, entry.path: stub})
        return await self._run(reference, limits, seed, 0)

    async def _run(self, program: Program, limits: Limits, seed: int, repeats: int) -> Trial:
        suite = self._contest.item.exam.hidden
        image = self._contest.item.task.image
        if isinstance(suite, StdioSuite):
            return await self._run_cases(suite, program, limits, image)
        assert isinstance(suite, PythonSuite)
        working = self._working(suite, seed, repeats)
        examined = await self._oracle.examine(working, program.files, image=image, limits=limits, seed=seed)
        verdict = examined.verdict
        fault = verdict.fault or next((t.fault for t in verdict.tests if t.fault), None)
        return _trial(examined.candidate, right=verdict.solved, why=str(fault) if fault else "")

    def _working(self, suite: PythonSuite, seed: int, repeats: int) -> PythonSuite:
        """The suite whose one test is the work."""
        entry = self._contest.item.task.entry
        module = entry.path.removesuffix(".py").replace("/", ".")
        files: Mapping[str, bytes] = suite.files
        paths = bundle.files_with_tests(suite.files, suite.required)
        if repeats == 0 and self._contest.fresh:
            text = _TAKING.format(module=module, entry=entry.name, seed=seed)
        elif repeats == 0:
            text = _IDLE.format(imports="".join(f"import {name}\n" for name in suite.modules))
        elif self._contest.fresh:
            text = _WORKED.format(module=module, entry=entry.name, folder=_REFERENCE, path=entry.path, seed=seed,
                                  repeats=repeats)
            files = {**files, **{f"{_REFERENCE}/{p}": c for p, c in self._contest.reference.files.items()}}
        else:
            names = [path.rpartition("/")[2].removesuffix(".py") for path in paths]
            text = _TESTED.format(
                imports="".join(f"import {name}\n" for name in names), repeats=repeats,
                modules="".join(f"{name}, " for name in names))
        return msgspec.structs.replace(
            suite, files={**files, _TEST: text.encode()}, required=(f"{_TEST}::test_work",))

    async def _run_cases(
        self, suite: StdioSuite, program: Program, limits: Limits, image: str
    ) -> Trial:
        """Every case once, in a sandbox of its own; memory is that of the hungriest."""
        total = Trial(right=True, cpu_seconds=0.0, peak_memory_bytes=0)
        for case in suite.cases:
            async with self._backend.open(image, limits=limits) as (sandbox,):
                await sandbox.files.write_many({**program.files, **case.files})
                outcome = await sandbox.run([*program.argv, *case.argv], stdin=case.stdin, env=program.env)
            fault = check_outcome(case, outcome, program, compare=suite.compare)
            one = _trial(outcome, right=fault is None, why=str(fault) if fault else "")
            total = Trial(
                right=total.right and one.right, why=total.why or one.why, overrun=total.overrun or one.overrun,
                cpu_seconds=_sum(total.cpu_seconds, one.cpu_seconds),
                peak_memory_bytes=_most(total.peak_memory_bytes, one.peak_memory_bytes))
        return total


def _trial(outcome: Outcome | None, *, right: bool, why: str) -> Trial:
    if outcome is None:
        return Trial(right=False, why=why or "the program did not leave when it was no longer asked")
    overrun = outcome.status in (Status.TIMED_OUT, Status.CPU_LIMIT, Status.OUT_OF_MEMORY)
    return Trial(right=right, cpu_seconds=outcome.cpu_seconds, peak_memory_bytes=outcome.peak_memory_bytes,
                 overrun=overrun, why=why)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _most(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)

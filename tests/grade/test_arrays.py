"""numpy's arrays between tests and an answer in another process: copied, changed in place, and never believed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quintain.grade import Oracle, warm_oracle
from quintain.grade.inside.values import Values
from quintain.grade.inside.wire import Gone
from quintain.sandbox import NativeBackend
from quintain.tasks import PythonSuite
from quintain.types import Limits, Passed, Program, Verdict
from tests.grade.ground import needs_native

np = pytest.importorskip("numpy", reason="expected numpy, found none: pip install numpy")
SITE = (Path(np.__file__).parents[1],)

SOLUTION = """
import numpy as np

def normal(a):
    return a / np.linalg.norm(a)

def sort(a):
    a.sort()

def mean_by_row(table):
    return {n: row.mean() for n, row in enumerate(table)}

def cast(a, kind=np.float32):
    return a.astype(kind)

def shape(a):
    return a.shape, a.dtype, type(a) is np.ndarray

class Stack:
    def __init__(self):
        self.rows = []
    def push(self, row):
        self.rows.append(row)
        return self
    def all(self):
        return np.stack(self.rows)
"""

TESTS = """
import numpy as np
import pytest
import solution

def test_values():
    np.testing.assert_allclose(solution.normal(np.array([3.0, 4.0])), [0.6, 0.8])

def test_in_place():
    a = np.array([[3, 1, 2], [9, 8, 7]])
    solution.sort(a)
    assert (a == [[1, 2, 3], [7, 8, 9]]).all()

def test_inside_of_others():
    assert solution.mean_by_row([np.arange(3), np.array([1.5, 2.5])]) == {0: 1.0, 1: 2.0}

@pytest.mark.parametrize("kind", ["bool", "int8", ">i4", "uint64", "float16", "complex64", "S3", "U2", "datetime64[D]"])
def test_kinds(kind):
    a = np.zeros((2, 0, 3), kind)
    assert solution.shape(a) == (a.shape, a.dtype, True)

def test_kinds_by_name():
    assert solution.cast(np.arange(2)).dtype == np.float32
    assert solution.cast(np.arange(2), np.int16).dtype == solution.cast(np.arange(2), "int16").dtype

def test_an_object():
    whole = solution.Stack().push(np.ones(2, "int16")).push(np.zeros(2, "int16")).all()
    assert isinstance(whole, np.ndarray) and whole.dtype == np.int16 and whole.tolist() == [[1, 1], [0, 0]]
"""


def verdict_of(solution: str) -> Verdict:
    async def main() -> Verdict:
        suite = PythonSuite(files={"test_it.py": TESTS.encode()}, modules=("solution",))
        limits = Limits(wall_seconds=60.0, cpu_seconds=30.0, memory_bytes=1 << 30)
        async with NativeBackend(warm=warm_oracle(site=SITE)) as backend:
            oracle = Oracle(backend, site=SITE, confirm=False)
            return await oracle.grade(suite, Program(files={"solution.py": solution.encode()}), limits=limits)

    return asyncio.run(main())


@needs_native
def test_an_answer_takes_and_gives_arrays_as_in_one_process() -> None:
    verdict = verdict_of(SOLUTION)
    assert verdict.solved, [t for t in verdict.tests if t.passed is not Passed.PASSED]


@needs_native
def test_a_wrong_array_fails_its_test_alone() -> None:
    verdict = verdict_of(SOLUTION.replace("a.sort()", "pass"))
    assert [t.id.rpartition("::")[2] for t in verdict.tests if t.passed is not Passed.PASSED] == ["test_in_place"]


class Copies(Values):
    pass


@pytest.mark.parametrize("array", [
    np.arange(6).reshape(2, 3).T, np.array(["é", "ab"]), np.array([], "float32"), np.array([np.nan, -0.0, np.inf]),
    np.array(["2026-11-30"], "datetime64[s]"),
])
def test_an_array_comes_out_as_it_went_in(array: np.ndarray) -> None:
    copied = Copies().decode(Copies().encode(array))
    assert copied.dtype == array.dtype and copied.shape == array.shape
    assert copied.tobytes() == np.ascontiguousarray(array).tobytes()
    assert copied.flags.writeable


@pytest.mark.parametrize("forged", [
    ["np", "O", [1], "AAAAAAAAAAA="], ["np", "<f8", [2], "AAAAAAAAAAA="], ["np", "<f8", [-1], "AAAAAAAAAAA="],
    ["np", "<f8", [True], "AAAAAAAAAAA="], ["np", "V99999999999", [0], ""], ["np", "<f8", [10**30], ""],
    ["np", "<f8", "x", "AAAAAAAAAAA="], ["np", 7, [1], "AAAAAAAAAAA="], ["np", "<U9999999", [1], "AAAA"], ["np"],
    ["np", "<f8", [1] * 99, "AAAAAAAAAAA="], ["nd", "O"], ["nd", [1]], ["ns", "array"], ["ns", "generic2"], ["ns", 3],
])
def test_what_is_no_array_is_no_value(forged: list[object]) -> None:
    with pytest.raises(Gone, match="not of the protocol"):
        Copies().decode(forged)

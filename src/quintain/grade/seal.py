"""A suite made ready for a sealed run: every name random, canaries and decoys among the tests, all of it compiled.

Pure: text of tests and a source of randomness in, code and the key to it out. Whoever sees only the code cannot tell a
test that counts from one that must fail. Raises TaskError for a test file that does not compile.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from quintain.grade import bundle, canary
from quintain.tasks import PythonSuite
from quintain.types import TaskError

#: How many tests that must fail are put among the others, if the tests allow.
CANARIES = 4
MOST_PROBES = 24


class Note(msgspec.Struct, frozen=True):
    """What a reference answer gives for fresh inputs, at one assertion of one test."""

    probe: canary.Probe
    value: Any


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """`tests` and `conftests` are (file name, marshalled code, text); `names` is the key from random ids to the
    suite's own, `canaries` says of each random id that must fail what it is, `decoys` are ids that do not count.
    `helpers` are the suite's other files, `paths` the folders that its tests import from, relative to the work tree."""

    tests: tuple[tuple[str, bytes, str], ...]
    conftests: tuple[tuple[str, bytes, str], ...]
    names: dict[str, str]
    canaries: dict[str, str]
    decoys: frozenset[str]
    helpers: dict[str, bytes]
    paths: tuple[str, ...]


def parsed(suite: PythonSuite) -> dict[str, ast.Module]:
    """The files of a suite that hold tests. Raises TaskError for one that is no Python."""
    trees = {}
    for path in bundle.files_with_tests(suite.files, suite.required):
        try:
            trees[path] = ast.parse(suite.files[path], filename=path)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            raise TaskError(f"expected Python, found {error}", file=path, line=line) from None
    return trees


def probes_of(suite: PythonSuite, rng: random.Random) -> list[canary.Probe]:
    """Fresh inputs for the assertions of a suite, a few for each, at most MOST_PROBES in all."""
    spots = [spot for tree in parsed(suite).values() for _, test, _ in canary.tests_of(tree)
             if not test.decorator_list for spot in canary.spots_of(test)]
    found = [canary.probe_of(spot, rng) for _ in range(3) for spot in spots]
    probes = [probe for probe in found if probe is not None]
    return rng.sample(probes, min(len(probes), MOST_PROBES))


def seal_probes(suite: PythonSuite, probes: Sequence[canary.Probe]) -> Sealed:
    """The suite with each probe as its only tests: what a reference gives for them is noted by their numbers."""
    trees = parsed(suite)
    owners = _owners(trees)
    for number, probe in enumerate(probes):
        owner = owners.get(_key(probe.spot))
        if owner is not None:
            noting = canary.noting(probe, number)
            noting.name = f"test_probe_{number}"
            owner.append(noting)
    for tree in trees.values():
        for body, test, _ in list(canary.tests_of(tree)):
            if not test.name.startswith("test_probe_"):
                body.remove(test)
                if not body:
                    body.append(ast.Pass())
    return _packed(suite, trees, {}, {}, frozenset())


def seal(suite: PythonSuite, rng: random.Random, *, notes: Sequence[Note] = (), canaries: int = CANARIES) -> Sealed:
    """The suite under random names. With `notes`, canaries and decoys have fresh inputs; without, wrong expectations
    stand beside right ones."""
    trees = parsed(suite)
    copies = _copies(trees, rng, notes, canaries) if canaries else []
    bodies = _owners(trees)
    names: dict[str, str] = {}
    must_fail: dict[str, str] = {}
    decoys: set[str] = set()
    files = {path: f"t_{rng.randrange(16**8):08x}.py" for path in trees}
    for path, tree in trees.items():
        for _, test, name in canary.tests_of(tree):
            random_name = f"test_{rng.randrange(16**8):08x}"
            names[_id(files[path], name, random_name)] = f"{path}::{name}"
            _mark(test, random_name)
    for path, name, original, function, what in copies:
        random_name = f"test_{rng.randrange(16**8):08x}"
        found = _id(files[path], name, random_name)
        if what is None:
            decoys.add(found)
        else:
            must_fail[found] = what
        body = bodies[original]
        function.name = random_name
        body.insert(_place(body, rng), function)
    for _, test, _ in ((b, t, n) for tree in trees.values() for b, t, n in canary.tests_of(tree)):
        test.name = getattr(test, "quintain_name", test.name)
    return _packed(suite, trees, names, must_fail, frozenset(decoys), files)


def _mark(test: canary.Function, name: str) -> None:
    test.__dict__["quintain_name"] = name


def _id(file: str, name: str, random_name: str) -> str:
    kind, colons, _ = name.rpartition("::")
    return f"{file}::{kind}{colons}{random_name}"


def _place(body: list[ast.stmt], rng: random.Random) -> int:
    """Next to one of the tests that are there already: what comes before them may have to."""
    tests = [n for n, s in enumerate(body) if isinstance(s, canary.Function) and s.name.startswith("test")]
    return rng.choice(tests) + rng.randint(0, 1) if tests else len(body)


def _key(spot: canary.Spot) -> tuple[str, int, int]:
    return spot.function.name, spot.function.lineno, spot.function.col_offset


def _owners(trees: Mapping[str, ast.Module]) -> dict[tuple[str, int, int], list[ast.stmt]]:
    """The body that holds each test, by the test's name and place."""
    return {(t.name, t.lineno, t.col_offset): body for tree in trees.values() for body, t, _ in canary.tests_of(tree)}


_Copy = tuple[str, str, tuple[str, int, int], Any, str | None]


def _copies(
    trees: Mapping[str, ast.Module], rng: random.Random, notes: Sequence[Note], canaries: int
) -> list[_Copy]:
    """Canaries (with a word on what they are) and decoys (None), each with the test that it is a copy of."""
    where = {(t.name, t.lineno, t.col_offset): (path, name) for path, tree in trees.items()
             for _, t, name in canary.tests_of(tree)}
    made: list[_Copy] = []
    count = canaries + rng.randint(0, 2)
    known = [note for note in notes if _key(note.probe.spot) in where]
    for turn, note in enumerate(rng.sample(known, min(len(known), 2 * count))):
        key = _key(note.probe.spot)
        wrong = turn % 2 == 0
        value = canary.wrong(note.value, rng) if wrong else note.value
        function = canary.with_sides(note.probe.spot, note.probe.found, canary.spelled(value))
        made.append((*where[key], key, function, "fresh inputs, a wrong value" if wrong else None))
    missing = count - sum(what is not None for *_, what in made)
    plain: list[tuple[tuple[str, int, int], Any]] = [
        ((t.name, t.lineno, t.col_offset), spot) for tree in trees.values() for _, t, _ in canary.tests_of(tree)
        if not t.decorator_list for spot in canary.spots_of(t)]
    for key, spot in rng.sample(plain, min(len(plain), -(-missing // 2))) if missing > 0 else ():
        for _ in range(2):
            made.append((*where[key], key, canary.with_wrong_value(spot, rng), "a wrong value"))
    rows = [(key, found) for tree in trees.values() for _, t, _ in canary.tests_of(tree)
            if (found := canary.with_wrong_row(t, rng)) is not None for key in [(t.name, t.lineno, t.col_offset)]]
    for key, function in rng.sample(rows, min(len(rows), 2)):
        made.append((*where[key], key, function, "a wrong row"))
    return made


def _packed(
    suite: PythonSuite, trees: Mapping[str, ast.Module], names: dict[str, str], must_fail: dict[str, str],
    decoys: frozenset[str], files: Mapping[str, str] | None = None,
) -> Sealed:
    """Everything compiled, under the files' random names."""
    files = files or {path: f"t_{number}.py" for number, path in enumerate(trees)}
    tests = tuple(_compiled(files[path], tree) for path, tree in trees.items())
    hooks = [path for path in suite.files if path.rpartition("/")[2] == "conftest.py"]
    conftests = tuple(_compiled(path, ast.parse(suite.files[path])) for path in hooks)
    folders = dict.fromkeys(path.rpartition("/")[0] or "." for path in trees)
    helpers = {path: content for path, content in suite.files.items() if path not in trees and path not in hooks}
    return Sealed(tests=tests, conftests=conftests, names=names, canaries=must_fail, decoys=decoys, helpers=helpers,
                  paths=tuple(folders))


def _compiled(path: str, tree: ast.Module) -> tuple[str, bytes, str]:
    text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(tree)))
    code = bundle.compiled_test(path, text.encode())
    if code is None:
        raise TaskError("expected Python, found what does not compile", file=path)
    return path, code, text

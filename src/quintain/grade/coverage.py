"""How much of a program a suite makes run: lines and both ways of each decision, test by test.

Covers: the program runs as the oracle runs it, in a sandbox of its own without the tests; what can be covered is read
off the compiled code in another sandbox, where the program does not run, so that comments, configuration and files left
out of the report have no say. Does not cover: the tracer shares the program's process, and a program could write facts
about itself that are not so. Coverage is evidence of quality and of place, never of correctness.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec

from quintain.grade import bundle
from quintain.grade._marked import TRACER, marked
from quintain.grade._subject import measured
from quintain.grade.inside.tracer import FACTS
from quintain.grade.oracle import Oracle
from quintain.sandbox import DEFAULT_LIMITS, Backend
from quintain.tasks import Item, PythonSuite
from quintain.types import Attempt, FaultKind, HouseError, Limits, Outcome, Score, Status, Verdict

#: How many times its own time and memory a program may take while it is followed.
SLOWER = 8.0
_POINTS_LIMITS = Limits(wall_seconds=20.0, cpu_seconds=10.0)
_OVERRUN = frozenset({Status.TIMED_OUT, Status.CPU_LIMIT, Status.OUT_OF_MEMORY})

Place = tuple[int, int, int]
Way = tuple[int, int, int, int]


class Covered(msgspec.Struct, frozen=True, kw_only=True):
    """What ran. `lines` and `decisions` (line, column, end column) are what each file has, by path; a file that does
    not compile is not there. `lines_by_test` and `ways_by_test` are what each test made run: test id → path → lines, or
    ways (line, column, end column, 0 goes on | 1 jumps). Lines count from 1, columns from 0. `complete` is False where
    the run did not end."""

    lines: dict[str, frozenset[int]]
    decisions: dict[str, frozenset[Place]]
    lines_by_test: dict[str, dict[str, frozenset[int]]]
    ways_by_test: dict[str, dict[str, frozenset[Way]]]
    verdict: Verdict
    complete: bool = True

    def lines_run(self) -> dict[str, frozenset[int]]:
        """The lines that any test ran, by path."""
        return {path: frozenset().union(*(by.get(path, frozenset()) for by in self.lines_by_test.values()))
                for path in self.lines}

    def ways_gone(self) -> dict[str, frozenset[Way]]:
        """The ways that any test went, by path."""
        return {path: frozenset().union(*(by.get(path, frozenset()) for by in self.ways_by_test.values()))
                for path in self.decisions}

    @property
    def line_share(self) -> float | None:
        """Share of the lines that ran, in [0, 1]; None where there is none."""
        total = sum(map(len, self.lines.values()))
        return sum(map(len, self.lines_run().values())) / total if total else None

    @property
    def branch_share(self) -> float | None:
        """Share of the ways of all decisions that were gone, in [0, 1]; that of the lines where nothing is decided."""
        total = 2 * sum(map(len, self.decisions.values()))
        return sum(map(len, self.ways_gone().values())) / total if total else self.line_share

    def missing(self) -> list[str]:
        """What never happened, as 'PATH:LINE' (a line) and 'PATH:LINE one way only' (a decision)."""
        run, gone, found = self.lines_run(), self.ways_gone(), []
        for path in sorted(self.lines):
            found += [f"{path}:{line}" for line in sorted(self.lines[path] - run[path])]
            ways = {place: sum(way[:3] == place for way in gone[path]) for place in self.decisions[path]}
            found += [f"{path}:{place[0]} one way only" for place, count in sorted(ways.items()) if count == 1]
        return found


async def cover(
    backend: Backend, suite: PythonSuite, files: Mapping[str, bytes], *, oracle: Oracle | None = None,
    image: str = "host", limits: Limits = DEFAULT_LIMITS, python: str = "python3", paths: Sequence[str] | None = None,
    trusted: bool = True, slower: float = SLOWER,
) -> Covered:
    """Run the suite against the files and say what of `paths` (default: every Python file among them) ran. `limits` are
    those of an ordinary run; `trusted` as in `Oracle.examine`. Raises HouseError."""
    oracle = oracle or Oracle(backend)
    wanted = [p for p in (files if paths is None else paths) if p.endswith(".py") and p in files]
    telling, names = marked(suite)
    wide = msgspec.structs.replace(
        limits, wall_seconds=limits.wall_seconds * slower, cpu_seconds=limits.cpu_seconds * slower)
    source = bundle.joined(("points", "tracer")).encode()
    examined = await oracle.examine(
        telling, {**files, f"{TRACER}.py": source}, image=image, limits=wide, keep=FACTS, trusted=trusted)
    points = await _points(backend, {p: files[p] for p in wanted}, image=image, python=python)
    lines, ways = _facts(examined.kept or b"", names, points)
    return Covered(
        lines={path: frozenset(found.lines) for path, found in points.items()},
        decisions={path: frozenset(found.decisions) for path, found in points.items()},
        lines_by_test=lines, ways_by_test=ways, verdict=examined.verdict,
        complete=_ended(examined.candidate) and _ended(examined.verifier),
    )


class _Points(msgspec.Struct, frozen=True):
    lines: tuple[int, ...]
    decisions: tuple[Place, ...]


async def _points(backend: Backend, files: Mapping[str, bytes], *, image: str, python: str) -> dict[str, _Points]:
    """What can be covered, by path. Raises HouseError when the compiler of the image cannot be asked."""
    program = bundle.joined(("points",)) + "\ntell_points()\n"
    asked = json.dumps({path: content.decode("latin-1") for path, content in files.items()}).encode()
    async with backend.open(image, limits=_POINTS_LIMITS) as (sandbox,):
        outcome = await sandbox.run([python, "-I", "-S", "-B", "-c", program], stdin=asked)
    if outcome.status in _OVERRUN or outcome.status is Status.SIGNALLED:  # the compiler's limits: the text's doing
        return {}
    try:
        found = msgspec.json.decode(outcome.stdout, type=dict[str, _Points | None])
    except msgspec.MsgspecError as error:
        raise HouseError(FaultKind.VERIFIER_ERROR, (
            f"expected the places of {len(files)} files that can be covered, found {error}: "
            f"{outcome.error_text[-300:]}")) from None
    return {path: row for path, row in found.items() if row is not None}


def _facts(
    written: bytes, names: Sequence[str], points: Mapping[str, _Points]
) -> tuple[dict[str, dict[str, frozenset[int]]], dict[str, dict[str, frozenset[Way]]]]:
    """The tracer's lines, as far as they are about places that exist; anything else is the program's own writing."""
    lines: dict[str, dict[str, set[int]]] = {name: {} for name in names}
    ways: dict[str, dict[str, set[Way]]] = {name: {} for name in names}
    exist = {path: (set(found.lines), set(found.decisions)) for path, found in points.items()}
    for row in written.decode("utf-8", "replace").split("\n"):
        parts = row.split("\t")
        path = parts[1] if len(parts) > 1 else ""
        numbers = [parts[0], *parts[2:]]
        if path not in exist or not all(len(n) < 9 and n.isascii() and n.isdigit() for n in numbers):
            continue
        test, *place = map(int, numbers)
        if test >= len(names):
            continue
        if len(place) == 1 and place[0] in exist[path][0]:
            lines[names[test]].setdefault(path, set()).add(place[0])
        elif len(place) == 4 and tuple(place[:3]) in exist[path][1] and place[3] in (0, 1):
            ways[names[test]].setdefault(path, set()).add((place[0], place[1], place[2], place[3]))
    return (
        {name: {path: frozenset(found) for path, found in by.items()} for name, by in lines.items()},
        {name: {path: frozenset(found) for path, found in by.items()} for name, by in ways.items()},
    )


def _ended(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.status not in _OVERRUN


class Coverage:
    """Scores `branch_coverage` and `line_coverage`: of the answer by the hidden tests, and where the work is to write
    tests, of the code under test by the answer's. `weight` is 0 unless given: the scores are then evidence only."""

    name = "coverage"

    def __init__(self, backend: Backend, *, oracle: Oracle | None = None, weight: float = 0.0) -> None:
        self._backend = backend
        self._oracle = oracle or Oracle(backend)
        self._weight = weight

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]:
        """Two scores, None with the reason where nothing was measured. Raises HouseError."""
        found = measured(attempt, item)
        if isinstance(found, str):
            return self._scores(None, None, found)
        limits = item.task.limits
        covered = await cover(
            self._backend, found.suite, found.files, oracle=self._oracle, image=item.task.image, paths=found.paths,
            limits=limits.command.within(limits.turn).within(limits.episode), trusted=found.trusted,
        )
        if not covered.complete:
            return self._scores(None, None, "the run did not end within its limits while it was followed")
        if not covered.lines:
            return self._scores(None, None, "there is no Python file that compiles")
        missing = covered.missing()
        told = "never ran: " + ", ".join(missing[:12]) + (f" and {len(missing) - 12} more" if len(missing) > 12 else "")
        return self._scores(covered.branch_share, covered.line_share, told if missing else "everything ran")

    def _scores(self, branches: float | None, lines: float | None, evidence: str) -> Sequence[Score]:
        return (
            Score(name="branch_coverage", value=branches, weight=self._weight, evidence=evidence),
            Score(name="line_coverage", value=lines, weight=0.0, evidence=evidence),
        )

"""Repairs that a person may accept: each makes another version of a task, and says what it changes.

Covers: tests that pass where nothing is defined are dropped, and a few that the author's answer never passes; inputs
are added that notice faults which nothing noticed (the author's answer settles them, in sandboxes); installs get the
version that was asked for; history goes; test ids get the one form in which they are compared. Does not cover: mending
an author's answer, instructions or a script's logic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

import msgspec

from quintain.curate.finding import Admission
from quintain.curate.site import Site, command_limits, program_of, resealed
from quintain.grade import kill_rate, mutants_of
from quintain.guard import cases_of, grow, grown_suite, subset
from quintain.tasks import Item, PythonSuite, ScriptSuite, StdioSuite, context_digest, history_in
from quintain.types import TaskError

#: Where the author's answer fails more of the tests than this share, it is not the tests that are to be dropped.
FEW = 0.1


class RepairKind(StrEnum):
    DROP_TESTS = "drop_tests"
    ADD_CASES = "add_cases"
    PIN_INSTALLS = "pin_installs"
    REMOVE_HISTORY = "remove_history"
    NORMALISE_IDS = "normalise_ids"


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """One proposal. `text` says what would change; `apply` gives the repaired task and raises ValueError where an
    earlier repair has left nothing for it to do."""

    kind: RepairKind
    text: str
    apply: Callable[[Item], Item]


async def propose(
    item: Item, admission: Admission, site: Site, *, pins: Mapping[str, str] | None = None,
) -> list[Repair]:
    """What could be done about the problems of a task, the least intrusive first. `pins` are versions by the name of
    the package. Raises HouseError."""
    problems = admission.problems
    codes = {problem.code for problem in problems}
    found: list[Repair] = []
    if "history" in codes:
        found.append(_history(item))
    if {"unpinned"} & codes and isinstance(item.exam.hidden, ScriptSuite):
        found += _pins(item, pins or {})
    found += _ids(item)
    idle = [test for problem in problems if problem.code in ("idle test", "vacuous") for test in problem.tests]
    if idle:
        found += _drops(item, idle, "which pass where nothing is done")
    wrong = [test for problem in problems if problem.code == "oracle fails" for test in problem.tests]
    if wrong:
        found += _drops(item, wrong, "which the author's answer never passes", most=FEW)
    if codes & {"weak", "few kills"}:
        found += await _cases(item, site)
    return found


def _history(item: Item) -> Repair:
    def apply(item: Item) -> Item:
        gone = set(history_in(item.task.files))
        item = resealed(item, files={p: c for p, c in item.task.files.items() if p not in gone})
        suite = item.exam.hidden
        if isinstance(suite, ScriptSuite) and suite.package is not None:
            kept = {p: c for p, c in suite.package.files.items() if p not in set(history_in(suite.package.files))}
            item = _with_package(item, suite, kept)
        return item

    paths = history_in(item.task.files)
    return Repair(kind=RepairKind.REMOVE_HISTORY, apply=apply,
                  text=f"remove the repository from what can be read ({len(paths)} of the task's files)")


def _with_package(item: Item, suite: ScriptSuite, files: dict[str, bytes]) -> Item:
    """The item with other files in its directory; its image is named by the context in them."""
    if suite.package is None:
        return item
    package = msgspec.structs.replace(suite.package, files=files)
    image = item.task.image
    if image.startswith("context:"):
        image = f"context:{context_digest(package.below('environment'))}" + ("+rw" if image.endswith("+rw") else "")
    exam = msgspec.structs.replace(item.exam, hidden=msgspec.structs.replace(suite, package=package))
    return resealed(item, exam=exam, image=image)


_PIP = re.compile(rb"(\bpip3?\s+install\s+)([^\n;&|]*)")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[\w,-]+\])?$")


def _pins(item: Item, pins: Mapping[str, str]) -> list[Repair]:
    suite = item.exam.hidden
    assert isinstance(suite, ScriptSuite)
    held = {**(suite.package.files if suite.package else {}), **{f"tests/{p}": c for p, c in suite.files.items()}}
    said = sorted({word for content in held.values() for match in _PIP.finditer(content)
                   for word in _loose(match[2].decode("utf-8", "replace"))})
    known = [word for word in said if word.partition("[")[0] in pins]
    if not known:
        return []

    def pinned(content: bytes) -> bytes:
        def put(match: re.Match[bytes]) -> bytes:
            words = match[2].decode("utf-8", "replace").split(" ")
            loose = set(_loose(match[2].decode("utf-8", "replace")))
            return match[1] + " ".join(
                f"{w}=={pins[w.partition('[')[0]]}" if w in loose and w.partition("[")[0] in pins else w
                for w in words).encode()

        return _PIP.sub(put, content)

    def apply(item: Item) -> Item:
        suite = item.exam.hidden
        assert isinstance(suite, ScriptSuite)
        files = {path: pinned(content) for path, content in suite.files.items()}
        suite = msgspec.structs.replace(suite, files=files)
        if suite.package is None:
            return resealed(item, exam=msgspec.structs.replace(item.exam, hidden=suite))
        return _with_package(item, suite, {path: pinned(content) for path, content in suite.package.files.items()})

    told = ", ".join(f"{word}=={pins[word.partition('[')[0]]}" for word in known)
    return [Repair(kind=RepairKind.PIN_INSTALLS, text=f"pin {told}", apply=apply)]


def _loose(words: str) -> list[str]:
    parts = words.split()
    return [w for at, w in enumerate(parts) if _NAME.match(w) and parts[at - 1 if at else 0] not in (
        "-r", "-c", "-e", "--requirement", "--constraint", "--index-url")]


def _ids(item: Item) -> list[Repair]:
    """Required ids that name a test in another form than the one in which tests are reported."""
    suite = item.exam.hidden
    if not isinstance(suite, PythonSuite) or not suite.required:
        return []

    def normal(id: str) -> str:
        path, joint, rest = id.removeprefix("./").partition("::")
        head, bracket, tail = rest.partition("[")
        if not joint:
            return id
        return path.replace("\\", "/").replace("//", "/") + "::" + head.replace(".", "::") + bracket + tail

    wanted = tuple(dict.fromkeys(normal(id) for id in suite.required))
    if wanted == suite.required:
        return []

    def apply(item: Item) -> Item:
        exam = msgspec.structs.replace(item.exam, hidden=msgspec.structs.replace(item.exam.hidden, required=wanted))
        return resealed(item, exam=exam)

    odd = next(a for a, b in zip(suite.required, (*wanted, *suite.required), strict=False) if a != b)
    return [Repair(kind=RepairKind.NORMALISE_IDS, text=f"write {odd!r} as {normal(odd)!r}", apply=apply)]


def _drops(item: Item, tests: Sequence[str], why: str, *, most: float = 1.0) -> list[Repair]:
    """Dropping tests, where that leaves some; at most a share of all."""
    suite = item.exam.hidden
    if not isinstance(suite, PythonSuite | StdioSuite):
        return []
    known = [case.id for case in cases_of(suite)]
    gone = {test.partition("[")[0] for test in tests} & set(known)
    if not gone or gone == set(known) or len(gone) > most * len(known):
        return []

    def apply(item: Item) -> Item:
        left = [case.id for case in cases_of(item.exam.hidden) if case.id not in gone]
        return resealed(item, exam=msgspec.structs.replace(item.exam, hidden=subset(item.exam.hidden, left)))

    return [Repair(kind=RepairKind.DROP_TESTS, apply=apply,
                   text=f"drop {len(gone)} of {len(known)} tests, {why}: {', '.join(sorted(gone)[:4])}")]


async def _cases(item: Item, site: Site) -> list[Repair]:
    """The fewest new cases (greedily) that notice the faults which the tests do not."""
    suite, answer = item.exam.hidden, item.exam.oracle
    if not isinstance(suite, PythonSuite) or answer is None:
        return []
    try:
        growth = await grow(site.backend, item, seed=1, count=60, tried=300, oracle=site.oracle)
    except TaskError:
        return []
    if growth.suite is None:
        return []
    own = {path: content for path, content in answer.items() if item.task.files.get(path) != content}
    changed = mutants_of(own, limit=200, seed=int(item.task.version[:8], 16))
    limits, program = command_limits(item), program_of(item, answer)
    before = await kill_rate(site.oracle, suite, program, image=item.task.image, limits=limits, changed=changed,
                             at_once=site.at_once)
    after = await kill_rate(site.oracle, growth.suite, program, image=item.task.image, limits=limits,
                            changed=list(before.survivors), at_once=site.at_once)
    chosen = _greedy([set(by) for by in after.by if by])
    if not chosen or not before.sound:
        return []
    added = msgspec.structs.replace(growth, suite=subset(growth.suite, chosen))

    def apply(item: Item) -> Item:
        suite = item.exam.hidden
        if not isinstance(suite, PythonSuite):
            raise ValueError("expected Python tests to add cases to")
        return resealed(item, exam=msgspec.structs.replace(item.exam, hidden=grown_suite(suite, added)))

    total = len(before.mutants)
    return [Repair(kind=RepairKind.ADD_CASES, apply=apply, text=(
        f"add {len(chosen)} cases that the author's answer settles: they notice {after.killed} more of {total} faults "
        f"({before.killed / total:.0%} → {(before.killed + after.killed) / total:.0%})"))]


def _greedy(left: list[set[str]]) -> list[str]:
    """Names that together are in every set, each time the one that is in most of those left."""
    chosen: list[str] = []
    while left:
        counts: dict[str, int] = {}
        for names in left:
            for name in sorted(names):
                counts[name] = counts.get(name, 0) + 1
        best = max(counts, key=lambda name: (counts[name], name))
        chosen.append(best)
        left = [names for names in left if best not in names]
    return chosen

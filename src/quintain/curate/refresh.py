"""A suite made new: cases added, tiers dealt anew, solved attempts judged again, an alarm when too many are lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from quintain.curate.ledger import HealthLedger
from quintain.grade import Oracle, kill_rate
from quintain.guard import Deal, Rescore, Solved, cases_of, deal, grow, grown_suite, rescore, rotate, subset, with_tiers
from quintain.sandbox import Backend
from quintain.tasks import Exam, Item, PythonSuite, Suite, visible_files
from quintain.types import Built, Event, Graded, Opened, Program, TaskError

#: A suite that loses its flaky tests must still notice this share of mutants.
KILLS_AT_LEAST = 0.80
#: From so many different solved attempts on they have a say in which new inputs are outside what the task asks for. One
#: hack alone would veto every input that shows it.
VOICES = 3
#: The largest share of the cases that a task without examples of its own shows.
VISIBLE_AT_MOST = 0.40


class Refreshed(msgspec.Struct, frozen=True, kw_only=True):
    """`whole` is the task with every case in its hidden suite, to be refreshed again next time; `item` is the task as
    it is asked, its cases dealt by `deal`. `added` are the new cases, `rescored` what the new suite says of attempts
    that the old one called solved; `None` where there were none. `doubtful` counts inputs on which most of the solved
    attempts contradict the author's answer: they are not admitted."""

    whole: Item
    item: Item
    deal: Deal
    added: tuple[str, ...] = ()
    doubtful: int = 0
    rescored: Rescore | None = None

    @property
    def alarm(self) -> bool:
        """Whether so many solved attempts are lost, or contradict the author's answer on every new input, that it must
        not be adopted before somebody has looked."""
        against = self.doubtful > 0 and not self.added
        return against or (self.rescored is not None and self.rescored.alarm)


async def refresh(
    backend: Backend, oracle: Oracle, whole: Item, last: Deal | None, *, seed: int, solved: Sequence[Solved] = (),
    count: int = 20, grown: bool = True,
) -> Refreshed:
    """The next version of a task. `last` is the deal by which it was asked, `None` before the first; `solved` are its
    solved attempts, newest first. With `grown` new cases are made where that can be: of a Python function, once.

    Raises TaskError for a suite without cases, or whose author's answer fails its own new tests; HouseError.
    """
    suite: Suite = whole.exam.hidden
    known = {case.id for case in cases_of(suite)}
    entry = whole.task.entry
    can_grow = isinstance(suite, PythonSuite) and entry.language == "python" and entry.name and whole.exam.oracle
    doubtful = 0
    if grown and can_grow and isinstance(suite, PythonSuite):
        others = _distinct(solved)
        growth = await grow(
            backend, whole, seed=seed, count=count, passing=others if len(others) >= VOICES else (), oracle=oracle,
        )
        doubtful = len(growth.doubtful)
        if growth.suite is not None and known.isdisjoint(case.id for case in cases_of(growth.suite)):
            suite = grown_suite(suite, growth)
            whole = with_hidden(whole, suite)
    cases = cases_of(suite)
    added = tuple(case.id for case in cases if case.id not in known)
    open_share = 0.0 if whole.exam.visible is not None else VISIBLE_AT_MOST  # it shows examples of its own
    dealt = (
        deal(cases, seed=seed, visible_at_most=open_share) if last is None
        else rotate(last, cases, generated=added)
    )
    item = with_tiers(whole, visible=dealt.visible, hidden=dealt.hidden, reserve=dealt.reserve)
    limits = item.task.limits
    rescored = await rescore(
        oracle, solved, item.exam.hidden, image=item.task.image,
        limits=limits.command.within(limits.turn).within(limits.episode),
    ) if solved else None
    return Refreshed(whole=whole, item=item, deal=dealt, added=added, doubtful=doubtful, rescored=rescored)


def adopt(ledger: HealthLedger, refreshed: Refreshed, *, by: str = "") -> None:
    """Let the new version take the old one's place, on probation. Raises TaskError at an alarm."""
    if refreshed.alarm:
        raise TaskError(f"task {refreshed.item.task.id}: {_why(refreshed)}")
    told = f"refreshed: {len(refreshed.added)} cases added, dealt for the {refreshed.deal.epoch + 1}. time"
    ledger.admit([refreshed.item.task], evidence=told, by=by)


def _why(refreshed: Refreshed) -> str:
    if refreshed.rescored is None or not refreshed.rescored.alarm:
        return (f"most of its solved attempts contradict the author's answer on each of {refreshed.doubtful} new "
                "inputs: either they are hacks or the answer is wrong")
    lost, judged = refreshed.rescored.lost, refreshed.rescored.judged
    return (f"{len(lost)} of {judged} solved attempts are not solved by version {refreshed.item.task.version[:12]}: "
            f"either they were hacks or its tests are wrong; look at {', '.join(lost[:3])}")


async def lighten(oracle: Oracle, item: Item, tests: Iterable[str], *, at_least: float = KILLS_AT_LEAST) -> Item | None:
    """The task without these (flaky) tests, or `None` where the rest would not be strong enough: where it notices less
    than `at_least` of the author's answer's mutants, or that cannot be measured. Raises HouseError."""
    suite, author = item.exam.hidden, item.exam.oracle
    gone = {test.partition("[")[0] for test in tests}
    kept = [case.id for case in cases_of(suite) if case.id not in gone]
    if not kept or author is None or not isinstance(suite, PythonSuite) or item.task.entry.language != "python":
        return None
    light = subset(suite, kept)
    limits = item.task.limits
    kills = await kill_rate(
        oracle, light, Program(files={**item.task.files, **author}), paths=sorted(author), image=item.task.image,
        limits=limits.command.within(limits.turn).within(limits.episode),
    )
    return with_hidden(item, light) if kills.rate is not None and kills.rate >= at_least else None


def with_hidden(item: Item, suite: Suite) -> Item:
    """The same task judged by another hidden suite: another version."""
    exam = item.exam
    renewed = Exam(hidden=suite, visible=exam.visible, reserve=exam.reserve, oracle=exam.oracle, null=exam.null)
    task, shown = item.task, visible_files(exam.visible)
    rest = {name: getattr(task, name) for name in task.__struct_fields__ if name not in ("version", "exam", "files")}
    return Item.sealed(renewed, files={p: c for p, c in task.files.items() if p not in shown}, **rest)


def solved_attempts(events: Iterable[Event], task: str) -> tuple[Solved, ...]:
    """The solved attempts at a task in a run's events, newest first: what a refreshed suite is to judge again."""
    latest: dict[str, Program] = {}
    ours: set[str] = set()
    found: dict[str, Solved] = {}
    for event in events:
        if isinstance(event, Opened) and event.task == task:
            ours.add(event.episode)
        elif isinstance(event, Built) and event.episode in ours:
            latest[event.episode] = event.program
        elif isinstance(event, Graded) and event.final and event.reward.solved and event.episode in latest:
            found[event.episode] = Solved(attempt=event.episode, program=latest[event.episode])
    return tuple(reversed(found.values()))


def _distinct(solved: Sequence[Solved], *, most: int = 5) -> tuple[Program, ...]:
    programs: list[Program] = []
    for one in solved:
        if one.program not in programs:
            programs.append(one.program)
        if len(programs) == most:
            break
    return tuple(programs)

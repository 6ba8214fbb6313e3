from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import msgspec
import pytest

from quintain.env import Answer
from quintain.policy import FunctionPolicy, Policy, ScriptedPolicy
from quintain.rollout import Driver, Patience, Ticket, tickets
from quintain.tasks import Item
from quintain.testing import FakeEnvironment, FlakyPolicy, fail_first, fake_item
from quintain.types import (
    Broke,
    Episode,
    Event,
    Fault,
    FaultKind,
    Graded,
    Grading,
    HouseError,
    Limits,
    Message,
    Opened,
    Owner,
    Program,
    Scopes,
    Stop,
    Task,
    TaskError,
    Turn,
    fold,
)

PATIENCE = Patience(pause_seconds=0.001, grade_seconds=0.2, run_seconds=0.2)
LOST = HouseError(FaultKind.SANDBOX_LOST, "gone")


def ticket(item: Item | None = None) -> Ticket:
    return tickets(item or fake_item(), size=1, seed=0)[0]


def play(
    policy: Policy, environment: FakeEnvironment | None = None, *, item: Item | None = None, log: Sequence[Event] = (),
) -> tuple[Episode, list[Event]]:
    """An episode, and the events that it added."""
    events: list[Event] = []
    driver = Driver(environment or FakeEnvironment(), policy, events.append, patience=PATIENCE)
    episode = asyncio.run(driver.play(ticket(item), log))
    assert fold([*log, *events]) == episode
    assert [event.index for event in [*log, *events]] == list(range(len(log) + len(events)))
    return episode, events


def told(events: Sequence[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def limited(**limits: float) -> Item:
    return fake_item(limits=Scopes(episode=Limits(**{"wall_seconds": 60.0, **limits})))  # type: ignore[arg-type]


MENDED = ScriptedPolicy({"add": ["syntax", "wrong", "right"]})


def test_an_episode_goes_from_a_broken_reply_over_a_wrong_one_to_the_right_one() -> None:
    environment = FakeEnvironment()
    episode, events = play(MENDED, environment)
    assert told(events) == [
        "Opened", "Sampled", "Rejected", "Said", "Sampled", "Built", "Ran", "Graded", "Said", "Sampled", "Built", "Ran",
        "Graded", "Closed",
    ]
    assert (episode.stop, episode.solved) == (Stop.SOLVED, True)
    assert environment.left == [ticket().episode]


def test_every_cut_of_a_log_goes_on_to_the_same_episode() -> None:
    whole, events = play(MENDED)
    for cut in range(len(events) + 1):
        episode, more = play(MENDED, log=events[:cut])
        assert told([*events[:cut], *more]) == told(events), cut
        assert (episode.turns, episode.reward, episode.stop) == (whole.turns, whole.reward, whole.stop)


def test_a_finished_episode_is_left_alone() -> None:
    environment = FakeEnvironment()
    whole, events = play(MENDED)
    assert play(MENDED, environment, log=events) == (whole, [])
    assert environment.left == []


@pytest.mark.parametrize("call", ["opening", "build", "run", "grade", "say"])
def test_what_the_house_fails_is_tried_again_and_paid_once(call: str) -> None:
    environment = FakeEnvironment(plan=fail_first(2, LOST, call=call))
    episode, events = play(MENDED, environment)
    assert [event.attempt for event in events if isinstance(event, Opened)] == [1, 2, 3]
    assert [event.fault.kind for event in events if isinstance(event, Broke)] == [FaultKind.SANDBOX_LOST] * 2
    assert (episode.stop, episode.attempt, episode.solved) == (Stop.SOLVED, 3, True)
    assert len(environment.left) == 3


@pytest.mark.parametrize("call", ["opening", "build", "run", "grade", "say"])
def test_a_lost_sandbox_is_never_rewarded(call: str) -> None:
    episode, events = play(MENDED, FakeEnvironment(plan=fail_first(99, LOST, call=call)))
    assert (episode.stop, episode.reward, episode.attempt) == (Stop.BROKEN, None, 3)
    assert episode.broken is not None
    assert episode.broken.owner is Owner.HOUSE
    assert not any(isinstance(event, Graded) and event.final for event in events)


def test_the_tasks_own_failure_is_not_tried_again() -> None:
    error = TaskError("no tests", file="task.toml", line=3)
    episode, events = play(MENDED, FakeEnvironment(plan=fail_first(99, error, call="grade")))
    assert sum(isinstance(event, Opened) for event in events) == 1
    assert episode.broken is not None
    assert (episode.broken.owner, episode.broken.file, episode.broken.line) == (Owner.TASK, "task.toml", 3)


@pytest.mark.parametrize(("error", "message"), [
    (KeyError("x"), "KeyError: 'x'"),
    (TimeoutError("not ours"), "TimeoutError: not ours"),
    (ExceptionGroup("two", [ValueError("a"), ValueError("b")]), "ValueError: a"),
])
def test_an_error_that_nobody_knows_is_the_houses(error: Exception, message: str) -> None:
    episode, _ = play(FlakyPolicy(MENDED, fail_first(99, error, call="act")))
    assert episode.broken is not None
    assert (episode.broken.owner, episode.broken.kind) == (Owner.HOUSE, FaultKind.UNKNOWN)
    assert episode.broken.message.startswith(message)


def test_a_known_error_in_a_group_of_errors_is_the_one_that_counts() -> None:
    group = ExceptionGroup("two", [ValueError("a"), ExceptionGroup("inner", [LOST])])
    episode, _ = play(MENDED, FakeEnvironment(plan=fail_first(99, group, call="grade")))
    assert episode.broken == LOST.fault


def test_a_policy_that_cannot_be_reached_is_the_houses_fault() -> None:
    unreachable = HouseError(FaultKind.POLICY_UNREACHABLE, "no")
    episode, _ = play(FlakyPolicy(MENDED, fail_first(1, unreachable, call="act")))
    assert (episode.solved, episode.attempt) == (True, 2)


class Slow:
    """Replies once, and then takes its time."""

    name = "slow"

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        if len(conversation) > 1:
            await asyncio.sleep(30)
        return Turn(text="wrong")

    async def aclose(self) -> None: ...


def test_a_deadline_is_a_stop_and_the_work_so_far_is_paid() -> None:
    episode, events = play(Slow(), item=limited(wall_seconds=0.2))
    assert (episode.stop, episode.stop and episode.stop.truncated) == (Stop.WALL_TIME, True)
    assert episode.reward is not None
    assert told(events)[-3:] == ["Said", "Graded", "Closed"]


class WhereItBuilds(FakeEnvironment):
    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def build(self, task: Task, turn: Turn, *, previous: Program | None) -> Answer | Fault:
        self.threads.append(threading.get_ident())
        return super().build(task, turn, previous=previous)


def test_a_long_reply_is_read_beside_the_event_loop() -> None:
    """It may take seconds to read, if it was written to; other episodes' deadlines would pass unseen."""
    here = threading.get_ident()
    short, long = WhereItBuilds(), WhereItBuilds()
    play(ScriptedPolicy({"add": ["right"]}), short)
    play(ScriptedPolicy({"add": ["x" * 60_000]}), long, item=limited(turns=1))
    assert short.threads == [here] and here not in long.threads and long.threads


def test_a_grader_that_hangs_is_the_houses_fault() -> None:
    environment = FakeEnvironment(pause_seconds=30, visible=False)
    episode, _ = play(ScriptedPolicy({"add": ["right"]}), environment)
    assert episode.broken is not None
    assert episode.broken.kind is FaultKind.VERIFIER_ERROR
    assert "grading took longer than 0.2 s" in episode.broken.message


def test_only_a_submission_is_graded_where_the_task_says_so() -> None:
    item = fake_item(grading=Grading.ON_SUBMIT)
    episode, events = play(ScriptedPolicy({"add": ["wrong", "right submit", "never said"]}), item=item)
    assert told(events).count("Graded") == 1
    assert (episode.stop, len(episode.turns)) == (Stop.SOLVED, 2)


def test_each_turn_has_a_seed_of_its_own_and_a_retry_has_the_same() -> None:
    seeds: list[int] = []

    def answer(conversation: Sequence[Message], task: str, seed: int) -> str:
        seeds.append(seed)
        return "wrong"

    play(FunctionPolicy(answer), FakeEnvironment(plan=fail_first(1, LOST, call="say")), item=limited(turns=2))
    assert seeds == [seeds[0], seeds[0], seeds[0] + 1]


def test_an_episode_of_another_version_of_its_task_begins_anew() -> None:
    _, events = play(MENDED)
    old = [msgspec.structs.replace(events[0], task_version="old"), *events[1:3]]
    episode, more = play(MENDED, log=old)
    assert told(more)[:3] == ["Broke", "Closed", "Opened"]
    assert (episode.attempt, episode.solved) == (2, True)


def test_a_log_that_no_episode_can_have_is_refused() -> None:
    _, events = play(MENDED)
    with pytest.raises(HouseError, match=r"no episode can have this log: .*expected Sampled, Graded, Broke once ready"):
        play(MENDED, log=[events[0], msgspec.structs.replace(events[3], index=1)])


def test_a_teardown_that_fails_changes_no_reward() -> None:
    environment = FakeEnvironment(plan=fail_first(99, LOST, call="leave"))
    assert play(MENDED, environment)[0].solved


def test_what_cannot_be_kept_ends_the_attempt_and_what_cannot_be_written_ends_the_run() -> None:
    events: list[Event] = []

    def refuse_judgements(event: Event) -> None:
        if isinstance(event, Graded):
            raise HouseError(FaultKind.STORE_ERROR, "cannot be kept exactly")
        events.append(event)

    def refuse_all(event: Event) -> None:
        raise HouseError(FaultKind.STORE_ERROR, "disk full")

    driver = Driver(FakeEnvironment(), MENDED, refuse_judgements, patience=PATIENCE)
    episode = asyncio.run(driver.play(ticket()))
    assert (episode.stop, episode.attempt) == (Stop.BROKEN, 3)
    with pytest.raises(HouseError, match="disk full"):
        asyncio.run(Driver(FakeEnvironment(), MENDED, refuse_all, patience=PATIENCE).play(ticket()))


def test_a_cancelled_episode_is_left_open_and_goes_on_later() -> None:
    environment, events = FakeEnvironment(pause_seconds=0.05), list[Event]()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            playing = group.create_task(Driver(environment, MENDED, events.append).play(ticket()))
            await asyncio.sleep(0.03)
            playing.cancel()

    asyncio.run(main())
    assert told(events)[-1] == "Built"
    assert environment.left == [ticket().episode]
    assert play(MENDED, log=events)[0].solved

"""The story of an episode."""

from __future__ import annotations

from quintain.cli.output import one_line, plain
from quintain.cli.story import steps
from quintain.types import (
    Broke,
    Closed,
    Event,
    Fault,
    FaultKind,
    Graded,
    Message,
    Opened,
    Outcome,
    Owner,
    Passed,
    Ran,
    Rejected,
    Reward,
    Role,
    Said,
    Sampled,
    Score,
    Status,
    Stop,
    TestResult,
    Turn,
    Verdict,
)

WRONG = Fault(
    owner=Owner.POLICY, kind=FaultKind.WRONG_ANSWER, message="expected 2, found 3", file="solution.py", line=4,
)


def log() -> list[Event]:
    def at(index: int) -> dict[str, object]:
        return {"episode": "e", "index": index, "at_seconds": float(index)}

    verdict = Verdict(suite="s", level="L4", tests=(
        TestResult(id="test_a", passed=Passed.PASSED), TestResult(id="test_b", passed=Passed.FAILED, fault=WRONG),
    ))
    reward = Reward(total=0.5, solved=False, scores=(
        Score(name="tests", value=0.5, evidence="1 of 2"), Score(name="style", value=None),
    ))
    syntax = Fault(owner=Owner.POLICY, kind=FaultKind.SYNTAX_ERROR, message="expected ':'", file="solution.py", line=1)
    opening = (Message(role=Role.USER, text="write f"),)
    said = Message(role=Role.USER, text="it does not compile")
    return [
        Opened(**at(0), task="t", task_version="v", kind="code", group="g", attempt=1, seed=0, policy="p",  # type: ignore[arg-type]
               unix_seconds=0, conversation=opening),
        Sampled(**at(1), turn=Turn(text="def f()")),  # type: ignore[arg-type]
        Rejected(**at(2), fault=syntax),  # type: ignore[arg-type]
        Said(**at(3), message=said),  # type: ignore[arg-type]
        Sampled(**at(4), turn=Turn(text="def f(): ...")),  # type: ignore[arg-type]
        Ran(**at(5), outcome=Outcome(status=Status.FAILED, exit_code=1, stderr=b"boom")),  # type: ignore[arg-type]
        Graded(**at(6), verdict=verdict, reward=reward, final=True),  # type: ignore[arg-type]
        Closed(**at(7), stop=Stop.TURNS),  # type: ignore[arg-type]
    ]


def test_a_log_is_cut_where_the_policy_answers() -> None:
    told = steps(log())
    assert [(step.attempt, step.number) for step in told] == [(1, 0), (1, 1), (1, 2)]
    assert sum(len(step.events) for step in told) == len(log())


def test_each_step_tells_what_was_said_measured_and_paid() -> None:
    asked, first, second = steps(log())
    assert "write f" in asked.passages[0].body
    assert [passage.title.split()[0] for passage in first.passages] == ["reply", "rejected", "feedback"]
    assert "solution.py:1" in first.passages[1].body
    told = {passage.title: passage.body for passage in second.passages}
    assert "exit code 1" in told["output"]
    assert "boom" in told["output"]
    assert "1 of 2 tests passed" in told["verdict"]
    assert "test_b: policy/wrong_answer at solution.py:4: expected 2, found 3" in told["verdict"]
    assert "+0.500 (not solved" in told["reward"]
    assert "style: not measured" in told["reward"]
    assert "turns (cut off by a limit)" in told["closed"]


def test_a_second_attempt_counts_its_steps_anew() -> None:
    fault = Fault(owner=Owner.HOUSE, kind=FaultKind.SANDBOX_LOST, message="gone")
    events = log()[:2]
    opened = events[0]
    assert isinstance(opened, Opened)
    again = Opened(
        episode="e", index=4, at_seconds=0, task="t", task_version="v", kind="code", group="g", attempt=2, seed=0,
        policy="p", unix_seconds=0, conversation=opened.conversation,
    )
    broke = Broke(episode="e", index=2, at_seconds=2, fault=fault)
    closed = Closed(episode="e", index=3, at_seconds=2, stop=Stop.BROKEN)
    told = steps([*events, broke, closed, again])
    assert [(step.attempt, step.number) for step in told] == [(1, 0), (1, 1), (2, 0)]
    assert "not the policy's failure" in told[1].passages[1].body


def test_a_reply_cannot_drive_the_readers_terminal() -> None:
    assert "\x1b" not in plain("\x1b]0;owned\x07 and \x9b31m")
    assert plain("a\u202eb") == "a\\u202eb"
    assert plain("keeps\tümlauts\n") == "keeps\tümlauts\n"
    assert len(plain("x" * 10_000, limit=100)) < 200


def test_one_line_says_that_there_is_more() -> None:
    assert one_line("\n first \nsecond") == "first…"
    assert one_line("short") == "short"

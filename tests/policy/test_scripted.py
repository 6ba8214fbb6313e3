from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from quintain.policy import AnswerPolicy, Draft, FunctionPolicy, Policy, RepairingPolicy, ReplayedPolicy, ScriptedPolicy
from quintain.types import Message, Role, TaskError, Turn


def told(*texts: str) -> tuple[Message, ...]:
    """A conversation: the house and the policy in turns, the house first."""
    roles = (Role.USER, Role.ASSISTANT)
    return tuple(Message(role=roles[n % 2], text=text) for n, text in enumerate(texts))


def act(policy: Policy, conversation: Sequence[Message], *, task: str = "t", seed: int = 0) -> str:
    return asyncio.run(policy.act(conversation, task=task, seed=seed)).text


def test_a_script_is_said_turn_by_turn_and_then_given_up() -> None:
    policy = ScriptedPolicy({"t": ["one", Turn(text="two")]})
    assert act(policy, told("ask")) == "one"
    assert act(policy, told("ask", "one", "no")) == "two"
    assert act(policy, told("ask", "one", "no", "two", "no")) == ""
    assert act(policy, told("ask"), task="other") == ""


def test_a_function_sees_the_conversation_the_task_and_the_seed() -> None:
    policy = FunctionPolicy(lambda conversation, task, seed: f"{conversation[-1].text} {task} {seed}")
    assert act(policy, told("ask"), seed=3) == "ask t 3"


def test_a_prepared_answer_is_given_at_every_turn() -> None:
    policy = AnswerPolicy("oracle", {"t": "right"})
    assert policy.name == "oracle"
    assert act(policy, told("ask")) == act(policy, told("ask", "right", "no")) == "right"
    assert act(policy, told("ask"), task="unknown") == ""


def test_a_recorded_run_is_said_again_token_by_token() -> None:
    first = Turn(text="a", output_token_ids=(1, 2), logprobs=(-0.1, -0.2))
    policy = ReplayedPolicy({("t", 7): [first, Turn(text="b")], ("t", 9): [Turn(text="c")]}, any_seed={"u": [first]})
    assert asyncio.run(policy.act(told("ask"), task="t", seed=7)) == first
    assert act(policy, told("ask", "a", "no"), seed=8) == "b"
    assert act(policy, told("ask"), seed=9) == "c"
    assert act(policy, told("ask", "c", "no"), seed=10) == ""
    with pytest.raises(TaskError, match="replayed has no reply to task t: "):
        act(policy, told("ask"), seed=10)
    assert act(policy, told("ask"), task="u", seed=10) == "a"


DRAFTS = RepairingPolicy({"t": [
    Draft(reply="broken", flaws=("syntax_error",)), Draft(reply="wrong", flaws=("wrong_answer", "unsolved")),
    Draft(reply="right"),
]})


def test_a_draft_is_given_up_only_for_a_flaw_that_was_told() -> None:
    assert act(DRAFTS, told("ask")) == "broken"
    assert act(DRAFTS, told("ask", "broken", "[syntax_error] solution.py:1")) == "wrong"
    assert act(DRAFTS, told("ask", "broken", "[timeout] too slow")) == "broken"
    assert act(DRAFTS, told("ask", "broken", "no")) == "broken"
    assert act(DRAFTS, told("ask", "broken", "there is no [syntax_error] here")) == "broken"
    mended = told("ask", "broken", "x\n[syntax_error] y", "wrong", "[wrong_answer] z")
    assert act(DRAFTS, mended) == "right"
    assert act(DRAFTS, (*mended, *told("", "right", "[unsolved]")[1:])) == "right"


def test_a_solved_task_is_left_alone() -> None:
    assert act(DRAFTS, told("ask", "broken", "[solved]")) == ""
    assert act(DRAFTS, told("ask"), task="unknown") == ""

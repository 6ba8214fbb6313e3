"""What was captured becomes rows: each reply behind exactly the tokens that it was sampled behind."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="the HTTP faces need starlette: pip install quintain[serve]")
pytest.importorskip("uvicorn", reason="the HTTP faces need uvicorn: pip install quintain[serve]")

from quintain.serve import Captured, Exchange, threads_of
from quintain.types import Message, Reward, Role, Turn

ASKED = (Message(role=Role.USER, text="?"),)


def turn(prompt: tuple[int, ...], output: tuple[int, ...]) -> Turn:
    return Turn(text="x", prompt_token_ids=prompt, output_token_ids=output, logprobs=(-0.5,) * len(output))


def captured(*turns: Turn) -> Captured:
    return Captured(episode="e", exchanges=tuple(Exchange(conversation=ASKED, turn=one) for one in turns))


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32))
def test_conversations_that_take_turns_are_told_apart_by_their_tokens(talks: int, length: int, seed: int) -> None:
    dice = random.Random(seed)
    held = {talk: (1000 + talk,) for talk in range(talks)}
    order = [talk for talk in range(talks) for _ in range(length)]
    dice.shuffle(order)
    turns = []
    for talk in order:
        prompt = held[talk] + tuple(dice.randrange(9) for _ in range(dice.randrange(3)))
        output = tuple(dice.randrange(9) for _ in range(1 + dice.randrange(3)))
        turns.append(turn(prompt, output))
        held[talk] = prompt + output
    threads = threads_of(turns)
    assert sorted(nth for thread in threads for nth in thread) == list(range(len(turns)))
    assert [{order[nth] for nth in thread} for thread in threads] == [{talk} for talk in dict.fromkeys(order)]
    rows = captured(*turns).rows(task="t", group="g", reward=Reward(total=1.0, solved=True))
    for row in rows:
        for span in row.turns:
            assert row.token_ids[: span.start] == turns[span.nth].prompt_token_ids
            assert row.token_ids[span.start: span.stop] == turns[span.nth].output_token_ids
            assert all(row.loss_mask[span.start: span.stop])
    assert sum(row.trained_tokens for row in rows) == sum(len(one.output_token_ids or ()) for one in turns)


def test_a_rewritten_history_begins_a_new_row_and_what_it_repeats_is_masked() -> None:
    first, second = turn((1, 2), (3,)), turn((1, 2, 3, 4), (5,))
    again = turn((1, 2, 3, 9), (6,))
    rows = captured(first, second, again).rows(task="t", group="g", reward=None)
    assert [row.token_ids for row in rows] == [(1, 2, 3, 4, 5), (1, 2, 3, 9, 6)]
    assert [row.loss_mask for row in rows] == [
        (False, False, True, False, True), (False, False, False, False, True)]
    assert [[span.nth for span in row.turns] for row in rows] == [[0, 1], [2]]
    assert [row.reward for row in rows] == [None, None]


def test_an_episode_in_which_nothing_was_asked_has_no_rows() -> None:
    assert captured().rows(task="t", group="g", reward=None) == ()


def test_a_reply_without_ids_cannot_be_trained() -> None:
    with pytest.raises(ValueError, match="expected the token ids as sampled"):
        captured(Turn(text="hello")).rows(task="t", group="g", reward=None)

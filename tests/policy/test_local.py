"""A model in this process: what it sampled goes on as ids, and a batch changes nothing."""

from __future__ import annotations

import asyncio
import math

import pytest

from quintain.policy import LocalPolicy, LocalSampling
from quintain.rollout import Collector
from quintain.testing import FakeEnvironment, fake_item
from quintain.train import drift_of_rows, trajectory_of
from quintain.types import Finish, Message, Role, Turn

torch = pytest.importorskip("torch", reason="a local model needs torch: pip install quintain[train]")
pytest.importorskip("transformers", reason="a local model needs transformers: pip install quintain[train]")

from tests.train import tiny  # noqa: E402

SAMPLING = LocalSampling(max_tokens=12)


def user(text: str) -> Message:
    return Message(role=Role.USER, text=text)


@pytest.fixture(scope="module")
def made():
    words = tiny.tokenizer()
    return tiny.model(words), words


async def ask(policy: LocalPolicy, *asked: tuple[str, int]) -> list[Turn]:
    async with asyncio.TaskGroup() as crew:
        tasks = [crew.create_task(policy.act((user(text),), task=text, seed=seed)) for text, seed in asked]
    return [task.result() for task in tasks]


def test_a_reply_depends_on_its_seed_and_not_on_its_batch(made) -> None:
    asked = [("one", 1), ("a longer second prompt", 2), ("three", 3)]
    together = asyncio.run(ask(LocalPolicy(*made, sampling=SAMPLING), *asked))
    alone = [asyncio.run(ask(LocalPolicy(*made, sampling=SAMPLING), each))[0] for each in asked]
    assert [turn.output_token_ids for turn in together] == [turn.output_token_ids for turn in alone]
    for one, other in zip(together, alone, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    again = asyncio.run(ask(LocalPolicy(*made, sampling=SAMPLING), ("one", 9)))
    assert again[0].output_token_ids != together[0].output_token_ids


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_the_log_probabilities_are_the_models_own_of_these_ids(made, temperature) -> None:
    sampling = LocalSampling(max_tokens=12, temperature=temperature)
    turn, _ = asyncio.run(ask(LocalPolicy(*made, sampling=sampling), ("say", 5), ("something else, longer", 6)))
    ids = torch.tensor([turn.prompt_token_ids + turn.output_token_ids])
    with torch.no_grad():
        logits = made[0].eval()(ids).logits[0, len(turn.prompt_token_ids) - 1:-1] / (temperature or 1.0)
    expected = logits.log_softmax(-1)[range(len(turn.output_token_ids)), list(turn.output_token_ids)]
    assert turn.logprobs == pytest.approx(expected.tolist(), abs=1e-4)


def test_a_later_turn_goes_on_from_the_ids_and_not_from_the_text(made) -> None:
    async def two_turns():
        policy = LocalPolicy(*made, sampling=SAMPLING)
        first = await policy.act((user("go"),), task="t", seed=7)
        said = Message(role=Role.ASSISTANT, text=first.text)
        return first, await policy.act((user("go"), said, user("no")), task="t", seed=8)

    first, second = asyncio.run(two_turns())
    held = first.prompt_token_ids + first.output_token_ids
    assert second.prompt_token_ids[:len(held)] == held  # random bytes: their text would be other ids
    rest = made[1].decode(second.prompt_token_ids[len(held):])
    assert rest == ("" if first.finish is Finish.STOP else "<|im_end|>") + \
        "\n<|im_start|>user\nno<|im_end|>\n<|im_start|>assistant\n"


def test_whole_episodes_are_one_row_and_do_not_drift(made) -> None:
    async def play():
        collector = Collector(FakeEnvironment(), lambda event: None, concurrency=4)
        policy = LocalPolicy(*made, sampling=SAMPLING, policy_version="3")
        items = [fake_item(name) for name in "ab"]
        async with collector.collecting(items, policy, size=2) as groups:
            return [episode async for group in groups for episode in group.episodes]

    rows = [trajectory_of(episode) for episode in asyncio.run(play())]
    assert len(rows) == 4 and all(len(row.turns) > 1 for row in rows)
    trainer = []
    for row in rows:
        with torch.no_grad():
            logprobs = made[0](torch.tensor([row.token_ids])).logits[0, :-1].log_softmax(-1)
        trainer.append([0.0, *logprobs[range(len(row.token_ids) - 1), list(row.token_ids[1:])].tolist()])
    drift = drift_of_rows(rows, trainer)
    assert drift is not None and drift.tokens == sum(row.trained_tokens for row in rows) and drift.largest < 1e-3
    assert {v for row in rows for v in row.policy_versions} == {"", "3"}


def test_a_context_that_is_full_is_an_empty_reply_cut_for_length(made) -> None:
    words = made[1]
    small = LocalPolicy(tiny.model(words, room=40), words, sampling=LocalSampling(max_tokens=99))
    full, cut = asyncio.run(ask(small, ("x" * 60, 1), ("x", 2)))
    assert (full.text, full.finish, full.output_token_ids) == ("", Finish.LENGTH, None)
    assert cut.finish is Finish.STOP or len(cut.prompt_token_ids + cut.output_token_ids) == 40


def test_nobody_waits_for_one_who_left(made) -> None:
    async def leave_one():
        policy = LocalPolicy(*made, sampling=SAMPLING)
        async with asyncio.TaskGroup() as crew:
            gone = crew.create_task(policy.act((user("gone"),), task="g", seed=1))
            stays = crew.create_task(policy.act((user("stays"),), task="s", seed=2))
            await asyncio.sleep(0)
            gone.cancel()
        return gone, stays.result()

    gone, turn = asyncio.run(leave_one())
    assert gone.cancelled() and turn.output_token_ids


def test_weights_do_not_change_within_a_batch(made) -> None:
    async def run():
        policy = LocalPolicy(*made, sampling=SAMPLING)
        async with asyncio.TaskGroup() as crew:
            async with policy.paused:
                asked = crew.create_task(policy.act((user("x"),), task="x", seed=1))
                await asyncio.sleep(0.02)
                assert not asked.done()
                policy.policy_version = "1"
            return await asked

    assert asyncio.run(run()).policy_version == "1"


def test_a_tokenizer_without_a_template_is_refused(made) -> None:
    bare = tiny.tokenizer()
    bare.chat_template = None
    with pytest.raises(ValueError, match="expected a tokenizer with a chat template"):
        LocalPolicy(made[0], bare)


def test_the_greedy_reply_is_the_likeliest(made) -> None:
    greedy = LocalPolicy(*made, sampling=LocalSampling(max_tokens=3, temperature=0.0))
    turn, other = asyncio.run(ask(greedy, ("x", 1), ("x", 2)))
    assert turn.output_token_ids == other.output_token_ids and all(math.isfinite(p) for p in turn.logprobs)

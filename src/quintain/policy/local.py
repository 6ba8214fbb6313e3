"""A Hugging Face model in this process: replies are sampled in batches, token in, token out. Needs the extra `train`.

Episodes ask one by one, the model is asked for all that wait at once. What was sampled is kept as ids and goes on as
ids: a later turn's prompt is everything before it, bit for bit, and the new messages behind it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgspec

from quintain.policy._render import Renderer
from quintain.types import FaultKind, Finish, HouseError, Message, Role, Turn

#: So many episodes are remembered; one that is forgotten is rendered anew, which costs its row, not its truth.
_REMEMBERED = 65_536


class LocalSampling(msgspec.Struct, frozen=True, kw_only=True):
    """`temperature` 0 takes the likeliest token. `batch` bounds the replies that are sampled together, `window_seconds`
    is how long the first of a batch waits for others."""

    temperature: float = 1.0
    max_tokens: int = 256
    batch: int = 64
    window_seconds: float = 0.005


class _Request(msgspec.Struct, kw_only=True, eq=False):
    prompt: tuple[int, ...]
    seed: int
    reply: _Reply | None = None


class _Reply(msgspec.Struct, frozen=True, kw_only=True):
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Finish
    version: str


class _Held(msgspec.Struct, frozen=True, kw_only=True):
    """What was said so far in one episode, as text and as ids."""

    conversation: tuple[Message, ...]
    ids: tuple[int, ...]


class LocalPolicy:
    """Samples from `model` (a causal language model of transformers) with `tokenizer`.

    Each reply is drawn with its own seed, so it depends neither on the batch nor on the order (but for rounding). Its
    log-probabilities are those of the distribution that it was drawn from, at the temperature. A prompt that leaves no
    room in the model's context is an empty reply, cut for length. `policy_version` may be set at any time; a reply has
    the version with which its batch began. The model must not be changed while a batch is sampled: hold `paused`
    meanwhile.
    """

    def __init__(
        self, model: Any, tokenizer: Any, *, sampling: LocalSampling | None = None, policy_version: str = "0",
        name: str = "local",
    ) -> None:
        self._model = model
        self._renderer = Renderer(tokenizer)
        self._pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self._sampling = sampling or LocalSampling()
        self._name = name
        self.policy_version = policy_version
        self._waiting: list[_Request] = []
        self._turnstile = asyncio.Lock()
        self._held: OrderedDict[tuple[str, int], _Held] = OrderedDict()

    @property
    def name(self) -> str:
        return self._name

    @property
    def paused(self) -> asyncio.Lock:
        """`async with policy.paused:` no batch is sampled meanwhile."""
        return self._turnstile

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        prompt = self._prompt(tuple(conversation), task, seed)
        room = getattr(self._model.config, "max_position_embeddings", None)
        if room is not None and len(prompt) >= room:
            return Turn(text="", finish=Finish.LENGTH, policy_version=self.policy_version)
        reply = await self._sampled(_Request(prompt=prompt, seed=seed))
        text = self._renderer.text_of(reply.ids)
        turn = Turn(
            text=text, prompt_token_ids=prompt, output_token_ids=reply.ids, logprobs=reply.logprobs,
            finish=reply.finish, policy_version=reply.version, prompt_tokens=len(prompt), output_tokens=len(reply.ids),
        )
        self._remember((task, seed), tuple(conversation), text, prompt + reply.ids)
        return turn

    async def aclose(self) -> None:
        """The model is its owner's."""

    def _prompt(self, conversation: tuple[Message, ...], task: str, seed: int) -> tuple[int, ...]:
        """The ids to go on from. An episode's next turn is asked for with the next seed (`rollout.Driver`), by which
        its past is found; its texts must agree too."""
        past = self._held.pop((task, (seed - 1) % 2**31), None)
        if past is not None and conversation[:len(past.conversation)] == past.conversation:
            fresh = self._renderer.going_on(past.ids, conversation[len(past.conversation):])
            if fresh is not None:
                return past.ids + fresh
        return self._renderer.opening(conversation)

    def _remember(
        self, key: tuple[str, int], conversation: tuple[Message, ...], text: str, ids: tuple[int, ...],
    ) -> None:
        said = Message(role=Role.ASSISTANT, text=text)
        self._held[key] = _Held(conversation=(*conversation, said), ids=ids)
        while len(self._held) > _REMEMBERED:
            self._held.popitem(last=False)

    async def _sampled(self, request: _Request) -> _Reply:
        """Queue up; whoever comes to the turnstile first samples for all who wait. A request whose batch came to
        nothing is still in the queue when its owner comes to the turnstile."""
        self._waiting.append(request)
        try:
            while request.reply is None:
                async with self._turnstile:
                    if request.reply is None:
                        await asyncio.sleep(self._sampling.window_seconds)
                        await self._batch()
        finally:
            if request in self._waiting:
                self._waiting.remove(request)
        return request.reply

    async def _batch(self) -> None:
        taken = self._waiting[:self._sampling.batch]
        version = self.policy_version
        thread = asyncio.get_running_loop().run_in_executor(None, self._generate, taken)
        cancelled = False
        while not thread.done():  # the model is busy until it is done, whoever still wants to know
            try:
                await asyncio.wait({thread})
            except asyncio.CancelledError:
                cancelled = True
        try:
            rows = thread.result()
        except (RuntimeError, IndexError, ValueError) as error:
            raise HouseError(FaultKind.POLICY_UNREACHABLE, f"{self._name}: {type(error).__name__}: {error}")
        for request, (ids, logprobs, finish) in zip(taken, rows, strict=True):
            request.reply = _Reply(ids=ids, logprobs=logprobs, finish=finish, version=version)
        self._waiting = [request for request in self._waiting if request.reply is None]
        if cancelled:
            raise asyncio.CancelledError

    def _generate(
        self, requests: Sequence[_Request],
    ) -> list[tuple[tuple[int, ...], tuple[float, ...], Finish]]:
        """One batch: prompts padded on the left, one token of each at a time, until all have ended."""
        import torch

        model, asked, end = self._model, self._sampling, self._renderer.end_ids
        device = next(model.parameters()).device
        width = max(len(request.prompt) for request in requests)
        room = getattr(model.config, "max_position_embeddings", None) or width + asked.max_tokens
        ids = torch.full((len(requests), width), self._pad, dtype=torch.long)
        mask = torch.zeros((len(requests), width), dtype=torch.long)
        for row, request in enumerate(requests):
            ids[row, width - len(request.prompt):] = torch.tensor(request.prompt)
            mask[row, width - len(request.prompt):] = 1
        dice = [torch.Generator().manual_seed(request.seed) for request in requests]
        found: list[tuple[list[int], list[float]]] = [([], []) for _ in requests]
        going = set(range(len(requests)))
        finish = [Finish.LENGTH] * len(requests)
        was_training = model.training
        model.eval()
        try:
            with torch.inference_mode():
                ids, mask, cache = ids.to(device), mask.to(device), None
                for _ in range(min(asked.max_tokens, room - width) if room > width else 0):
                    positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1]:]
                    out = model(
                        input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache,
                        use_cache=True)
                    cache = out.past_key_values
                    scaled = out.logits[:, -1].float().cpu() / (asked.temperature or 1.0)
                    logprobs = scaled.log_softmax(-1)
                    drawn = []
                    for row, generator in enumerate(dice):
                        token = int(logprobs[row].argmax()) if not asked.temperature else int(
                            torch.multinomial(logprobs[row].exp(), 1, generator=generator))
                        drawn.append(token if row in going else self._pad)
                        if row in going:
                            found[row][0].append(token)
                            found[row][1].append(float(logprobs[row, token]))
                            if token in end:
                                finish[row] = Finish.STOP
                                going.discard(row)
                    if not going:
                        break
                    ids = torch.tensor(drawn, device=device).unsqueeze(1)
                    mask = torch.cat([mask, torch.ones_like(ids)], 1)
        finally:
            model.train(was_training)
        return [
            (tuple(tokens), tuple(values), how)
            for (tokens, values), how in zip(found, finish, strict=True)
        ]

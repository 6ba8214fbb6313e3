"""A Hugging Face model in this process: replies are sampled in batches, token in, token out. Needs the extra `train`.

Episodes ask one by one, the model is asked for all that wait at once, and reads a prompt that several of them share
once. What was sampled is kept as ids and goes on as ids: a later turn's prompt is everything before it, bit for bit,
and the new messages behind it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from quintain.policy._render import Renderer
from quintain.types import FaultKind, Finish, HouseError, Message, Role, Turn

#: So many episodes are remembered; one that is forgotten is rendered anew, which costs its row, not its truth.
_REMEMBERED = 65_536
#: Rows of a batch that have ended are taken out of it once they are a quarter of it.
_DROP = 0.75


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
    temperature: float
    max_tokens: int
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

    @property
    def renderer(self) -> Renderer:
        """From messages to the ids that this model reads, and back."""
        return self._renderer

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        prompt = self._prompt(tuple(conversation), task, seed)
        turn = await self.sampled(prompt, seed=seed)
        if turn.output_token_ids is not None:
            self._remember((task, seed), tuple(conversation), turn.text, prompt + turn.output_token_ids)
        return turn

    async def sampled(
        self, prompt: Sequence[int], *, seed: int, temperature: float | None = None, max_tokens: int | None = None,
    ) -> Turn:
        """The reply to these ids, token in, token out; `None` takes the policy's own dial. Raises as `act`."""
        ids = tuple(prompt)
        room = getattr(self._model.config, "max_position_embeddings", None)
        if room is not None and len(ids) >= room:
            return Turn(text="", finish=Finish.LENGTH, policy_version=self.policy_version)
        own = self._sampling
        reply = await self._sampled(_Request(
            prompt=ids, seed=seed, temperature=own.temperature if temperature is None else temperature,
            max_tokens=own.max_tokens if max_tokens is None else max_tokens))
        return Turn(
            text=self._renderer.text_of(reply.ids), prompt_token_ids=ids, output_token_ids=reply.ids,
            logprobs=reply.logprobs, finish=reply.finish, policy_version=reply.version, prompt_tokens=len(ids),
            output_tokens=len(reply.ids),
        )

    def load_weights(self, folder: Path) -> None:
        """Take over the weights that transformers' `save_pretrained` wrote to `folder` (safetensors, in one file or
        several). Hold `paused` meanwhile. Raises ValueError for weights of another model, OSError for no such files."""
        from safetensors.torch import load_file

        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise FileNotFoundError(f"{folder}: expected *.safetensors, found none")
        found = {name: value for file in files for name, value in load_file(file).items()}
        own = self._model.state_dict()
        tied = {own[name].data_ptr() for name in found if name in own}
        strange = [name for name, value in found.items() if name not in own or own[name].shape != value.shape]
        missing = [name for name, value in own.items() if name not in found and value.data_ptr() not in tied]
        if strange or missing:
            raise ValueError(f"{folder}: expected the weights of {self._name}, found others: {strange[:3]} are not its "
                             f"own, {missing[:3]} are missing")
        self._model.load_state_dict(found, strict=False)

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
        """One batch: each different prompt is read once, padded on the left; then one token of each reply at a time,
        until all have ended."""
        import torch

        model = self._model
        device = next(model.parameters()).device
        prompts = list(dict.fromkeys(request.prompt for request in requests))
        width = max(map(len, prompts))
        room = getattr(model.config, "max_position_embeddings", None)
        replies = _Replies(requests, self._renderer.end_ids, pad=self._pad, room=None if room is None else room - width)
        ids = torch.full((len(prompts), width), self._pad, dtype=torch.long)
        mask = torch.zeros((len(prompts), width), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt):] = torch.tensor(prompt)
            mask[row, width - len(prompt):] = 1
        whose = torch.tensor([prompts.index(request.prompt) for request in requests], device=device)
        was_training = model.training
        model.eval()
        try:
            with torch.inference_mode():
                ids, mask = ids.to(device), mask.to(device)
                positions = (mask.cumsum(-1) - 1).clamp(min=0)
                last = torch.tensor([width - 1], device=device)  # 1 in its place has torch copy the head for each row
                out = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True,
                            logits_to_keep=last)
                cache, logits, mask = out.past_key_values, out.logits[whose, -1], mask[whose]
                cache.batch_select_indices(whose)
                while (drawn := replies.drawn(logits)) is not None:
                    ids = torch.tensor(drawn, device=device).unsqueeze(1)
                    if (left := replies.dropped()) is not None:
                        stay = torch.tensor(left, device=device)
                        ids, mask = ids[stay], mask[stay]
                        cache.batch_select_indices(stay)
                    mask = torch.cat([mask, torch.ones_like(ids)], 1)
                    out = model(input_ids=ids, attention_mask=mask, position_ids=mask.sum(-1, keepdim=True) - 1,
                                past_key_values=cache, use_cache=True)
                    cache, logits = out.past_key_values, out.logits[:, -1]
        finally:
            model.train(was_training)
        return replies.whole


class _Replies:
    """The replies of a batch as they grow, each by its own dice. `room` bounds their tokens, whatever was asked."""

    def __init__(self, requests: Sequence[_Request], end: frozenset[int], *, pad: int, room: int | None) -> None:
        import torch

        self._requests, self._end, self._pad = requests, end, pad
        self._most = [one.max_tokens if room is None else min(one.max_tokens, room) for one in requests]
        self._dice = [torch.Generator().manual_seed(one.seed) for one in requests]
        self._heat = torch.tensor([[one.temperature or 1.0] for one in requests])
        self._found: list[tuple[list[int], list[float]]] = [([], []) for _ in requests]
        self._finish = [Finish.LENGTH] * len(requests)
        self._live = list(range(len(requests)))  # whose row of the model's batch is which
        self._going = {row for row in self._live if self._most[row] > 0}

    def drawn(self, logits: Any) -> list[int] | None:
        """The next token of each row of the batch, by its logits [B, V]; None once all replies have ended."""
        import torch

        logprobs = (logits.float().cpu() / self._heat[self._live]).log_softmax(-1)
        drawn = [self._pad] * len(self._live)
        for at, row in enumerate(self._live):
            if row not in self._going:
                continue
            token = int(logprobs[at].argmax()) if not self._requests[row].temperature else int(
                torch.multinomial(logprobs[at].exp(), 1, generator=self._dice[row]))
            drawn[at] = token
            tokens, values = self._found[row]
            tokens.append(token)
            values.append(float(logprobs[at, token]))
            if token in self._end:
                self._finish[row] = Finish.STOP
            if token in self._end or len(tokens) >= self._most[row]:
                self._going.discard(row)
        return drawn if self._going else None

    def dropped(self) -> list[int] | None:
        """The rows that stay in the batch, where enough have ended for the others to be taken out."""
        if len(self._going) > _DROP * len(self._live):
            return None
        stay = [at for at, row in enumerate(self._live) if row in self._going]
        self._live = [self._live[at] for at in stay]
        return stay

    @property
    def whole(self) -> list[tuple[tuple[int, ...], tuple[float, ...], Finish]]:
        return [(tuple(tokens), tuple(values), how)
                for (tokens, values), how in zip(self._found, self._finish, strict=True)]

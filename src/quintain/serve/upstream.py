"""Who answers behind an HTTP face: a chat endpoint by its URL, or a sampler that takes and gives token ids."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence

import aiohttp
import httpx
import msgspec

from quintain.policy import EventStream, Renderer
from quintain.serve.base import Asked, Exchange, Refused, Sampler
from quintain.serve.chat import chunks, completion, stop_of
from quintain.types import FaultKind, HouseError, Message, Role, Turn

_MOST_BYTES = 64 * 1024 * 1024


class ChatUpstream:
    """Another endpoint that speaks Chat Completions and gives ids (vLLM from 0.10.2 on: `return_token_ids`), such as
    `http://host:8000/v1`. Requests go there as they came, tools and all, with the ids and log-probabilities asked for;
    `model` replaces the model's name, `fields` are set in each request. The key is read from the environment variable
    `api_key_env`; what the agent sent as its key stays here."""

    def __init__(
        self, base_url: str, *, model: str | None = None, fields: Mapping[str, object] | None = None,
        api_key_env: str = "OPENAI_API_KEY", read_seconds: float = 600.0, connections: int = 1024,
    ) -> None:
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._fields = {**({"model": model} if model else {}), **(fields or {})}
        self._api_key_env = api_key_env
        self._read_seconds = read_seconds
        self._connections = connections
        self._client: aiohttp.ClientSession | None = None

    async def pieces(self, asked: Asked, past: Sequence[Exchange], *, seed: int) -> AsyncGenerator[str, None]:
        body = {"seed": seed, **asked.fields, **self._fields, "logprobs": True, "return_token_ids": True}
        try:
            content = msgspec.json.encode(body)
            async with self._session().post(self._url, data=content, headers=self._headers()) as response:
                if response.status != 200:
                    raise Refused(response.status, f"{self._url} refused", content=await _whole(response),
                                  retry_after=response.headers.get("retry-after"))
                if response.content_type != "text/event-stream":
                    yield (await _whole(response)).decode("utf-8", "replace")
                    return
                events = EventStream()
                async for piece in response.content.iter_any():
                    for data in events.feed(piece):
                        if data.strip() == "[DONE]":
                            return
                        yield data
        except TimeoutError as error:
            raise Refused(504, f"{self._url}: {type(error).__name__}: no answer in time") from error
        except (aiohttp.ClientError, ValueError) as error:
            raise Refused(502, f"{self._url}: {type(error).__name__}: {error}") from error

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.close()

    def _session(self) -> aiohttp.ClientSession:
        if self._client is None:  # it belongs to the loop in which it is made
            self._client = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=self._read_seconds),
                cookie_jar=aiohttp.DummyCookieJar())
        return self._client

    def _headers(self) -> dict[str, str]:
        key = os.environ.get(self._api_key_env, "").strip()
        return {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}


class TokenUpstream:
    """A sampler of token ids behind a chat template: a request that goes on from an earlier one is answered behind that
    one's own ids, bit for bit, and no text of the policy's is ever encoded again."""

    def __init__(self, sampler: Sampler, renderer: Renderer, *, model: str = "local") -> None:
        self._sampler = sampler
        self._renderer = renderer
        self._model = model

    async def pieces(self, asked: Asked, past: Sequence[Exchange], *, seed: int) -> AsyncGenerator[str, None]:
        if asked.beyond:
            raise Refused(400, f"this model reads and writes text only, it cannot take: {', '.join(asked.beyond)}")
        try:
            turn = await self._sampler.sampled(
                self.prompt(asked.conversation, past), seed=seed if asked.seed is None else asked.seed,
                temperature=asked.temperature, max_tokens=asked.max_tokens)
        except HouseError as error:
            raise Refused(503, str(error)) from error
        if turn.output_token_ids is None:
            raise Refused(400, "context_length_exceeded: the conversation does not fit this model")
        about = {"id": f"chatcmpl-{uuid.uuid4().hex}", "model": asked.model or self._model, "created": int(time.time())}
        for piece in (chunks(turn, **about) if asked.stream else [completion(turn, **about)]):  # type: ignore[arg-type]
            yield piece

    def prompt(self, conversation: tuple[Message, ...], past: Sequence[Exchange]) -> tuple[int, ...]:
        """The ids to go on from: those of the longest exchange that the conversation begins with, and what was said
        since; else the whole conversation rendered."""
        for exchange in sorted(past, key=lambda one: len(one.conversation), reverse=True):
            turn, count = exchange.turn, len(exchange.conversation) + 1
            if conversation[:count - 1] != exchange.conversation or not _echoes(conversation[count - 1:count], turn):
                continue
            if turn.prompt_token_ids is None or turn.output_token_ids is None:
                continue
            held = turn.prompt_token_ids + turn.output_token_ids
            fresh = self._renderer.going_on(held, conversation[count:])
            if fresh is not None:
                return held + fresh
        return self._renderer.opening(conversation)


def _echoes(said: Sequence[Message], turn: Turn) -> bool:
    """Whether a message is this reply, as an agent hands it back: many strip what surrounds it."""
    return len(said) == 1 and said[0].role is Role.ASSISTANT and said[0].text.strip() == turn.text.strip()


class _Logprobs(msgspec.Struct, frozen=True):
    token_logprobs: tuple[float | None, ...] | None = None


class _Choice(msgspec.Struct, frozen=True):
    text: str = ""
    token_ids: tuple[int, ...] | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Completion(msgspec.Struct, frozen=True):
    choices: tuple[_Choice, ...]


class CompletionsSampler:
    """A `Sampler` at another endpoint's `/completions`, which takes and gives token ids (vLLM: `prompt` as ids,
    `return_token_ids`). `version` is recorded with each reply: whoever changes the weights there sets it."""

    def __init__(
        self, base_url: str, model: str, renderer: Renderer, *, api_key_env: str = "OPENAI_API_KEY",
        read_seconds: float = 600.0, max_tokens: int = 256, version: str = "0",
    ) -> None:
        self._url = base_url.rstrip("/") + "/completions"
        self._model = model
        self._renderer = renderer
        self._api_key_env = api_key_env
        self._max_tokens = max_tokens
        self.policy_version = version
        self._client = httpx.AsyncClient(timeout=httpx.Timeout(read_seconds, connect=10.0, pool=read_seconds))

    async def sampled(
        self, prompt: Sequence[int], *, seed: int, temperature: float | None = None, max_tokens: int | None = None,
    ) -> Turn:
        version = self.policy_version
        body = {"model": self._model, "prompt": list(prompt), "seed": seed, "logprobs": 0, "return_token_ids": True,
                "max_tokens": max_tokens or self._max_tokens,
                **({"temperature": temperature} if temperature is not None else {})}
        key = os.environ.get(self._api_key_env, "").strip()
        headers = {"authorization": f"Bearer {key}"} if key else {}
        try:
            response = await self._client.post(self._url, json=body, headers=headers)
            response.raise_for_status()
            choice = msgspec.json.decode(response.content, type=_Completion).choices[0]
        except (httpx.HTTPError, msgspec.MsgspecError, IndexError) as error:
            raise HouseError(FaultKind.POLICY_UNREACHABLE, f"{self._url}: {type(error).__name__}: {error}") from error
        ids, values = choice.token_ids, choice.logprobs.token_logprobs if choice.logprobs else None
        if ids is None or values is None or len(ids) != len(values) or None in values:
            raise HouseError(FaultKind.POLICY_UNREACHABLE, f"{self._url}: expected token_ids with a log-probability "
                             "each, found none (vLLM gives them from 0.10.2 on)")
        return Turn(
            text=self._renderer.text_of(ids), prompt_token_ids=tuple(prompt), output_token_ids=ids,
            logprobs=tuple(value for value in values if value is not None), finish=stop_of(choice.finish_reason),
            policy_version=version, prompt_tokens=len(prompt), output_tokens=len(ids))

    async def aclose(self) -> None:
        await self._client.aclose()


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for piece in response.content.iter_any():
        content += piece
        if len(content) > _MOST_BYTES:
            raise Refused(502, f"expected an answer of at most {_MOST_BYTES} bytes, found more")
    return bytes(content)

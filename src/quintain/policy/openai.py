"""Any endpoint that speaks OpenAI's Chat Completions: vLLM, SGLang, llama.cpp, or a provider."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx
import msgspec

from quintain.policy._chat import Answer, EndpointFailed, Malformed, body, is_context_overflow
from quintain.policy._events import EventStream
from quintain.types import FaultKind, Finish, HouseError, Message, Turn

_MOST_BYTES = 64 * 1024 * 1024
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
_MEANS = {
    400: "the endpoint refuses the request",
    401: "the endpoint refuses the key (is the variable named by `api_key_env` set?)",
    403: "the key may not do this",
    404: "there is no such address or model there (is `/v1` missing from the base address?)",
    429: "too many requests",
}


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """`read_seconds` is the longest silence between two pieces; `total_seconds` bounds one reply with all its tries."""

    connect_seconds: float = 10.0
    read_seconds: float = 120.0
    total_seconds: float = 900.0


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """Tries in all, and the wait before each further one: `first_seconds`, doubled each time up to `most_seconds`,
    times a random share in [0.5, 1]. A `Retry-After` of the server is honoured instead where it is longer."""

    tries: int = 5
    first_seconds: float = 0.5
    most_seconds: float = 30.0


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for. `None` leaves a field out of the request; `extra` adds fields that only some servers know
    (`{"return_token_ids": True}` for vLLM's token ids)."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    logprobs: bool = False
    stream: bool = True
    extra: Mapping[str, object] = {}


class _TryAgain(Exception):
    """This try failed, and another may not; `after_seconds` is what the server asked for."""

    def __init__(self, message: str, after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.after_seconds = after_seconds


class OpenAIPolicy:
    """Samples replies of `model` from `base_url` (`http://host:8000/v1`).

    The key is read from the environment variable `api_key_env` whenever it is needed; it is never kept, shown or
    logged, and is struck out of whatever the server says. Connections that fail or end early, malformed answers, and
    the statuses that mean "later" are tried again. A conversation that no longer fits the model's context is an empty
    reply cut for length, not a failure: no retry would help. `policy_version` is recorded with every turn that the
    endpoint names no version for, and may be set at any time.

    Raises HouseError(POLICY_UNREACHABLE), with the address and what was found, when no reply can be had.
    """

    def __init__(
        self, model: str, base_url: str, *, api_key_env: str = "OPENAI_API_KEY", sampling: Sampling | None = None,
        timeouts: Timeouts | None = None, retries: Retries | None = None, policy_version: str | None = None,
        connections: int = 256,
    ) -> None:
        self._model = model
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._api_key_env = api_key_env
        self._sampling = sampling or Sampling()
        self._timeouts = timeouts or Timeouts()
        self._retries = retries or Retries()
        self.policy_version = policy_version or model
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(
                self._timeouts.read_seconds, connect=self._timeouts.connect_seconds, pool=self._timeouts.total_seconds,
            ),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        )

    def __repr__(self) -> str:
        return f"OpenAIPolicy({self._model!r}, {self._url!r})"

    @property
    def name(self) -> str:
        return f"openai:{self._model}"

    async def act(self, conversation: Sequence[Message], *, task: str, seed: int) -> Turn:
        content = body(conversation, self._fields(seed).items())
        last = "no answer"
        try:
            async with asyncio.timeout(self._timeouts.total_seconds) as deadline:
                for nth in range(self._retries.tries):
                    try:
                        return await self._try(content)
                    except _TryAgain as error:
                        last = str(error)
                        if nth + 1 < self._retries.tries:
                            await asyncio.sleep(self._wait_seconds(nth, error.after_seconds))
        except TimeoutError:
            if not deadline.expired():
                raise
            raise self._unreachable(f"no reply within {self._timeouts.total_seconds:g} s; last: {last}")
        raise self._unreachable(f"{last} (after {self._retries.tries} tries)")

    async def aclose(self) -> None:
        await self._client.aclose()

    def _fields(self, seed: int) -> dict[str, object]:
        asked = self._sampling
        named = {
            "temperature": asked.temperature, "top_p": asked.top_p, "max_tokens": asked.max_tokens,
            "logprobs": True if asked.logprobs else None,
            "stream": True if asked.stream else None,
            "stream_options": {"include_usage": True} if asked.stream else None,
        }
        known = {key: value for key, value in named.items() if value is not None}
        return {"model": self._model, "seed": seed, **known, **asked.extra}

    async def _try(self, content: bytes) -> Turn:
        version = self.policy_version  # of when it was asked: weights that change meanwhile make it no younger
        headers = {"content-type": "application/json"}
        key = self._key()
        if key:
            headers["authorization"] = f"Bearer {key}"
        try:
            async with self._client.stream("POST", self._url, content=content, headers=headers) as response:
                if response.status_code != 200:
                    return await self._refused(response)
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    return await self._streamed(response, version)
                answer = Answer()
                answer.take(await _all(response))
                return answer.turn(version)
        except httpx.InvalidURL as error:
            raise self._unreachable(f"no address: {error}")
        except httpx.UnsupportedProtocol as error:
            raise self._unreachable(str(error))
        except httpx.HTTPError as error:
            raise _TryAgain(f"{type(error).__name__}: {error}")
        except (Malformed, EndpointFailed) as error:
            raise _TryAgain(str(error))

    async def _streamed(self, response: httpx.Response, version: str) -> Turn:
        events, answer, seen = EventStream(), Answer(), 0
        async for piece in response.aiter_bytes():
            seen += len(piece)
            if seen > _MOST_BYTES:
                raise Malformed(f"expected a reply of at most {_MOST_BYTES} bytes, found more")
            try:
                data = events.feed(piece)
            except ValueError as error:
                raise Malformed(f"expected server-sent events: {error}")
            for event in data:
                if event.strip() == "[DONE]":
                    return self._whole(answer, version)
                answer.take(event)
        return self._whole(answer, version)

    def _whole(self, answer: Answer, version: str) -> Turn:
        if not answer.is_finished:
            raise Malformed("the stream ended before its reply did")
        return answer.turn(version)

    async def _refused(self, response: httpx.Response) -> Turn:
        """What a status other than 200 means. Only an overfull context has a turn for an answer."""
        text = (await _all(response)).decode("utf-8", "replace")
        code = response.status_code
        if code in (400, 413, 422) and is_context_overflow(text):
            return Turn(text="", finish=Finish.LENGTH, policy_version=self.policy_version)
        shown = " ".join(self._struck(text).split())[:300]
        said = f"status {code}: {_MEANS.get(code, response.reason_phrase)}; it said {shown!r}"
        if code in _AGAIN:
            raise _TryAgain(said, _retry_after_seconds(response.headers.get("retry-after")))
        raise self._unreachable(said)

    def _wait_seconds(self, nth: int, asked_seconds: float) -> float:
        backoff = min(self._retries.most_seconds, self._retries.first_seconds * 2.0**nth)
        return max(asked_seconds, backoff * random.uniform(0.5, 1.0))  # jitter: a crowd must not come back as one

    def _key(self) -> str:
        return os.environ.get(self._api_key_env, "").strip()

    def _unreachable(self, message: str) -> HouseError:
        return HouseError(FaultKind.POLICY_UNREACHABLE, f"{self._url} ({self._model}): {self._struck(message)}")

    def _struck(self, text: str) -> str:
        """The text without our key, should a server have repeated it."""
        key = self._key()
        return text.replace(key, "***") if key else text


async def _all(response: httpx.Response) -> bytes:
    """The whole body, up to a bound."""
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > _MOST_BYTES:
            raise Malformed(f"expected a body of at most {_MOST_BYTES} bytes, found more")
    return bytes(content)


def _retry_after_seconds(value: str | None, now: datetime | None = None) -> float:
    """RFC 9110 §10.2.3: seconds, or a date. What is neither asks for nothing."""
    if not value:
        return 0.0
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())

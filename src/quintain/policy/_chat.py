"""The words of an OpenAI-compatible Chat Completions endpoint, and what they mean here. Pure.

After https://platform.openai.com/docs/api-reference/chat, with what vLLM adds: `prompt_token_ids` and `token_ids`
(asked for by `return_token_ids`), and `reasoning_content` or `reasoning` beside the content; our own server tells the
`policy_version` that sampled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence

import msgspec

from quintain.types import Finish, Message, Turn


class _Text(msgspec.Struct, frozen=True, kw_only=True):
    """A message, or the piece of one that a stream brings."""

    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _TokenLogprob(msgspec.Struct, frozen=True, kw_only=True):
    logprob: float | None = None


class _Logprobs(msgspec.Struct, frozen=True, kw_only=True):
    content: tuple[_TokenLogprob, ...] | None = None


class _Choice(msgspec.Struct, frozen=True, kw_only=True):
    index: int = 0
    message: _Text | None = None
    delta: _Text | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    token_ids: tuple[int, ...] | None = None


class _Usage(msgspec.Struct, frozen=True, kw_only=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A whole response, or one chunk of it."""

    choices: tuple[_Choice, ...] | None = None
    usage: _Usage | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    model: str | None = None
    policy_version: str | None = None
    error: object = None


class Malformed(ValueError):
    """What came is no chat completion."""


class EndpointFailed(ValueError):
    """The endpoint reported an error of its own in the middle of a stream."""


#: The server cut the reply for a reason of its own (vLLM does so when its weights change): no reply at all.
_ABORTED = frozenset({"abort", "aborted", "cancelled", "error"})
_FINISH = {"length": Finish.LENGTH, "max_tokens": Finish.LENGTH, "max_output_tokens": Finish.LENGTH}


def _read(text: str | bytes) -> _Completion:
    """Raises Malformed."""
    try:
        return _DECODER.decode(text)
    except msgspec.MsgspecError:
        pass  # NaN, or half of a pair of surrogates: the standard library reads them
    try:
        return msgspec.convert(json.loads(text), _Completion)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise Malformed(f"expected a chat completion, found {_short(text)}: {error}") from None


_DECODER = msgspec.json.Decoder(_Completion)


class Answer:
    """A reply as it is put together from one response or from many chunks.

    Raises Malformed for what is no chat completion, EndpointFailed for an error object.
    """

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._token_ids: list[int] = []
        self._logprobs: list[float | None] = []
        self._prompt_token_ids: tuple[int, ...] | None = None
        self._usage = _Usage()
        self._reason: str | None = None
        self._version: str | None = None

    @property
    def is_finished(self) -> bool:
        """Whether a finish reason has come: what is cut off before it is half a reply."""
        return self._reason is not None

    def take(self, text: str | bytes) -> None:
        """Add one response, or one chunk."""
        completion = _read(text)
        if completion.error:
            raise EndpointFailed(f"the endpoint reported {_short(json.dumps(completion.error))}")
        if completion.choices is None:
            raise Malformed(f"expected a chat completion with choices, found {_short(text)}")
        self._usage = completion.usage or self._usage
        self._prompt_token_ids = completion.prompt_token_ids or self._prompt_token_ids
        self._version = completion.policy_version or self._version
        for choice in completion.choices:
            if choice.index == 0:
                self._add(choice)

    def turn(self, policy_version: str) -> Turn:
        """The reply. Log-probabilities are kept only when there is a finite one for each token id, or no ids at all:
        a list that does not fit is not measured. `policy_version` is for an endpoint that tells none. Raises
        EndpointFailed for a reply that the server aborted."""
        if self._reason in _ABORTED:
            raise EndpointFailed(f"the endpoint aborted the reply (finish_reason {self._reason!r})")
        ids = tuple(self._token_ids) or None
        logprobs = tuple(p for p in self._logprobs if p is not None and math.isfinite(p))
        whole = len(logprobs) == len(self._logprobs) and (ids is None or len(ids) == len(logprobs))
        return Turn(
            text=join_halves("".join(self._text)),
            reasoning=join_halves("".join(self._reasoning)) or None,
            prompt_token_ids=self._prompt_token_ids,
            output_token_ids=ids,
            logprobs=logprobs if logprobs and whole else None,
            finish=_FINISH.get(self._reason or "", Finish.STOP),
            policy_version=self._version or policy_version,
            prompt_tokens=self._usage.prompt_tokens,
            output_tokens=self._usage.completion_tokens,
        )

    def _add(self, choice: _Choice) -> None:
        said = choice.message or choice.delta or _Text()
        self._text.append(said.content or said.refusal or "")
        self._reasoning.append(said.reasoning_content or said.reasoning or "")
        self._token_ids.extend(choice.token_ids or ())
        if choice.logprobs is not None:
            self._logprobs.extend(token.logprob for token in choice.logprobs.content or ())
        self._reason = choice.finish_reason or self._reason


def body(
    conversation: Sequence[Message], fields: Iterable[tuple[str, object]],
) -> bytes:
    """The request's JSON. Halves of surrogate pairs, which JSON readers refuse, go out as U+FFFD."""
    messages = [{"role": m.role.value, "content": _sendable(m.text)} for m in conversation]
    return json.dumps({"messages": messages, **dict(fields)}, ensure_ascii=False, allow_nan=False).encode("utf-8")


def is_context_overflow(text: str) -> bool:
    """Whether an error body says that the conversation no longer fits: OpenAI's code, or vLLM's words."""
    return "context_length_exceeded" in text or "maximum context length" in text


def join_halves(text: str) -> str:
    """Surrogate pairs that a stream cut in two, as the one character that they are; lone halves stay."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _sendable(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if not text.isascii() else text


def _short(text: str | bytes) -> str:
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return repr(shown[:160] + ("…" if len(shown) > 160 else ""))

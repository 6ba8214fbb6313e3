"""What is said between the house and a policy."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    role: Role
    text: str


class Finish(StrEnum):
    STOP = "stop"
    LENGTH = "length"


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reply. Tokens are recorded as sampled and never re-encoded; `None` where the policy has none.

    `logprobs` are natural-log probabilities, one for each of `output_token_ids`. `reasoning` is thinking text that the
    endpoint returned beside the answer. Shapes: prompt_token_ids [P], output_token_ids [T], logprobs [T].
    """

    text: str
    reasoning: str | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    output_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    finish: Finish = Finish.STOP
    policy_version: str = "0"
    prompt_tokens: int | None = None
    output_tokens: int | None = None

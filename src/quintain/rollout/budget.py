"""How much of its limits an episode has used, and what that leaves for the next step. Pure."""

from __future__ import annotations

import math

import msgspec

from quintain.types import Limits, Scopes, Stop, Turn

_LEAST_SECONDS = 0.001


class Spent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an episode has used so far. `turn_began_seconds` counts, like an event's `at_seconds`, from its opening."""

    turns: int = 0
    tokens: int = 0
    turn_began_seconds: float = 0.0


def tokens_of(turn: Turn) -> int:
    """Sampled tokens of a reply: counted where they were recorded or reported, else four UTF-8 bytes to one."""
    if turn.output_token_ids is not None:
        return len(turn.output_token_ids)
    if turn.output_tokens is not None:
        return turn.output_tokens
    text = turn.text + (turn.reasoning or "")
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / 4)


def deadline_seconds(spent: Spent, limits: Scopes) -> float:
    """When the present turn must have ended, in seconds since the opening: a turn never outlives its episode."""
    return min(limits.episode.wall_seconds, spent.turn_began_seconds + limits.turn.wall_seconds)


def is_late(spent: Spent, limits: Scopes, at_seconds: float) -> bool:
    return at_seconds >= deadline_seconds(spent, limits)


def exhausted(spent: Spent, limits: Scopes, at_seconds: float) -> Stop | None:
    """The limit that forbids another turn; `None` while there is room for one.

    The reply that crosses the token limit still counts as work; nothing is sampled after it.
    """
    if spent.turns >= limits.episode.turns:
        return Stop.TURNS
    if spent.tokens >= limits.episode.sampled_tokens:
        return Stop.TOKENS
    if is_late(spent, limits, at_seconds):
        return Stop.WALL_TIME
    return None


def command_limits(spent: Spent, limits: Scopes, at_seconds: float) -> Limits:
    """What the next command may use: its own limits within the turn's, within the episode's, within the time left."""
    clipped = limits.command.within(limits.turn).within(limits.episode)
    left = max(_LEAST_SECONDS, deadline_seconds(spent, limits) - at_seconds)
    return msgspec.structs.replace(clipped, wall_seconds=min(clipped.wall_seconds, left))

"""ATIF, the Agent Trajectory Interchange Format of Harbor, as values: 1.0 to 1.8 are read, 1.7 and 1.8 written.

The shapes and rules are those of harbor 0.26 (harbor/models/trajectories; harborframework.com/docs/trajectory-format):
no unknown field anywhere, steps counted from 1, results that answer only calls of their own step, and fields of agents
on steps of agents only.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Literal

import msgspec

#: Plain JSON of somebody's own making: the format says nothing of it.
Own = dict[str, Any]
Version = Literal[
    "ATIF-v1.0", "ATIF-v1.1", "ATIF-v1.2", "ATIF-v1.3", "ATIF-v1.4", "ATIF-v1.5", "ATIF-v1.6", "ATIF-v1.7", "ATIF-v1.8",
]
WRITTEN: tuple[Version, ...] = ("ATIF-v1.7", "ATIF-v1.8")


class _Atif(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class Agent(_Atif, frozen=True, kw_only=True):
    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[Own] | None = None
    extra: Own | None = None


class Part(_Atif, frozen=True, kw_only=True):
    """A piece of a message. Of images and sounds only the reference is kept."""

    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: Own | None = None


class ToolCall(_Atif, frozen=True, kw_only=True):
    tool_call_id: str
    function_name: str
    arguments: Own
    extra: Own | None = None


class Result(_Atif, frozen=True, kw_only=True):
    source_call_id: str | None = None
    content: str | list[Part] | None = None
    subagent_trajectory_ref: list[Own] | None = None
    extra: Own | None = None


class Observation(_Atif, frozen=True, kw_only=True):
    results: list[Result]


class Metrics(_Atif, frozen=True, kw_only=True):
    """Token ids and log-probabilities (nats) exactly as sampled; counts in tokens."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    completion_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    extra: Own | None = None


class Step(_Atif, frozen=True, kw_only=True):
    step_id: int
    source: Literal["system", "user", "agent"]
    message: str | list[Part]
    timestamp: str | None = None
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = None
    extra: Own | None = None


class FinalMetrics(_Atif, frozen=True, kw_only=True):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = None
    extra: Own | None = None


class AtifTrajectory(_Atif, frozen=True, kw_only=True):
    """One document."""

    schema_version: Version
    agent: Agent
    steps: list[Step]
    session_id: str | None = None
    trajectory_id: str | None = None
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: Own | None = None
    subagent_trajectories: list[AtifTrajectory] | None = None


def read_atif(data: bytes) -> AtifTrajectory:
    """A document, checked. Raises ValueError saying what was expected, what was found and where."""
    try:
        found = _decoded(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"expected an ATIF document: {error}") from None
    check_atif(found)
    return found


def write_atif(document: AtifTrajectory) -> bytes:
    """A document as JSON, checked first. Raises ValueError as `check_atif`."""
    check_atif(document)
    try:
        return msgspec.json.encode(document) + b"\n"
    except UnicodeEncodeError:  # a lone surrogate: as a \\u escape, which is JSON though no UTF-8
        return json.dumps(msgspec.to_builtins(document), separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def _decoded(data: bytes) -> AtifTrajectory:
    try:
        return msgspec.json.decode(data, type=AtifTrajectory)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeError):  # escapes that are no UTF-8
        return msgspec.convert(json.loads(data), AtifTrajectory)


def check_atif(document: AtifTrajectory) -> None:
    """The rules that hold between fields. Raises ValueError."""
    if not document.steps:
        raise ValueError("steps: expected at least one, found none")
    for at, step in enumerate(document.steps):
        _check_step(at, step)
    seen: set[str] = set()
    for at, inner in enumerate(document.subagent_trajectories or ()):
        if inner.trajectory_id is None or inner.trajectory_id in seen:
            raise ValueError(f"subagent_trajectories[{at}].trajectory_id: expected one of its own, "
                             f"found {inner.trajectory_id!r}")
        seen.add(inner.trajectory_id)
        check_atif(inner)


_OF_AGENTS = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")


def _check_step(at: int, step: Step) -> None:
    if step.step_id != at + 1:
        raise ValueError(f"steps[{at}].step_id: expected {at + 1}, found {step.step_id}")
    if step.timestamp is not None:
        try:
            datetime.fromisoformat(step.timestamp.replace("Z", "+00:00"))
        except ValueError:
            raise ValueError(f"steps[{at}].timestamp: expected ISO 8601, found {step.timestamp!r}") from None
    if step.source != "agent" and (wrong := [name for name in _OF_AGENTS if getattr(step, name) is not None]):
        raise ValueError(f"steps[{at}]: expected {wrong[0]} on steps of agents only, found it on one of {step.source}")
    if step.llm_call_count is not None and step.llm_call_count < 0:
        raise ValueError(f"steps[{at}].llm_call_count: expected at least 0, found {step.llm_call_count}")
    if step.llm_call_count == 0 and step.source == "agent" and (step.metrics or step.reasoning_content is not None):
        raise ValueError(f"steps[{at}]: expected neither metrics nor reasoning where llm_call_count is 0, found some")
    calls = {call.tool_call_id for call in step.tool_calls or ()}
    for result in step.observation.results if step.observation else ():
        if result.source_call_id is not None and result.source_call_id not in calls:
            raise ValueError(f"steps[{at}].observation: expected a call of this step, found {result.source_call_id!r}")

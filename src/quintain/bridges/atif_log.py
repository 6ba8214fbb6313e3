"""An episode's log as an ATIF document, and back: nothing is lost on the way.

What ATIF has a word for stands there (messages, reasoning, calls, results, token ids, log-probabilities, times); what
it has none for (rewards, faults, verdicts, policy versions, the mask, the events themselves) stands in `extra`, under
"quintain". A document of somebody else's becomes a log too: asked, said, told, closed; what it says beyond that has no
event and stays in the document.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from quintain import __version__
from quintain.bridges.atif import (
    WRITTEN,
    Agent,
    AtifTrajectory,
    FinalMetrics,
    Metrics,
    Observation,
    Part,
    Result,
    Step,
    ToolCall,
    Version,
)
from quintain.types import (
    Built,
    Closed,
    Event,
    Graded,
    Message,
    Opened,
    Ran,
    Role,
    Said,
    Sampled,
    Stop,
    Trainable,
    Turn,
    fold,
)

OWN = "quintain"
#: Of each stream of a command so much is shown as a result; the event beside it has all.
SHOWN_CHARS = 20_000


def to_atif(log: Sequence[Event], *, run: str | None = None, version: Version = "ATIF-v1.8") -> AtifTrajectory:
    """One attempt as a document. Raises ValueError for a log that does not begin with Opened, or holds a second one
    (cut it with `store.last_attempt` or `replay.steps_of`), and for a version that is not written."""
    if version not in WRITTEN:
        raise ValueError(f"expected one of {', '.join(WRITTEN)}, found {version!r}")
    opened = log[0] if log else None
    if not isinstance(opened, Opened) or sum(isinstance(event, Opened) for event in log) > 1:
        raise ValueError("expected the log of one attempt, which begins with its only Opened")
    trained = _is_trained(log)
    steps: list[Step] = [
        Step(step_id=number, source="system" if message.role is Role.SYSTEM else
             "agent" if message.role is Role.ASSISTANT else "user", message=message.text,
             timestamp=_when(opened, 0.0))
        for number, message in enumerate(opened.conversation, 1)
    ] or [Step(step_id=1, source="system", message="", timestamp=_when(opened, 0.0), extra={OWN: {"nothing": True}})]
    at = 1
    while at < len(log):
        taken = _turn_of(log, at)
        steps += _steps(opened, log[at:taken], len(steps), trained=trained)
        at = taken
    episode = fold(log)
    tokens = [turn for turn in episode.turns if turn.output_token_ids is not None]
    return AtifTrajectory(
        schema_version=version, session_id=run, trajectory_id=f"{opened.episode}/{opened.attempt}",
        agent=Agent(name=opened.policy or "policy", version=_version_of(episode.turns) or "0"), steps=steps,
        final_metrics=FinalMetrics(
            total_steps=len(steps),
            total_prompt_tokens=sum(len(turn.prompt_token_ids or ()) for turn in tokens) if tokens else None,
            total_completion_tokens=sum(len(turn.output_token_ids or ()) for turn in tokens) if tokens else None),
        extra={OWN: {"code_version": __version__, "opened": _plain(msgspec.structs.replace(opened, conversation=())),
                     "asked": len(opened.conversation), **_sum(log)}},
    )


def _turn_of(log: Sequence[Event], at: int) -> int:
    """Where the turn that begins here ends: at the next reply, or behind the feedback that a step of its own tells."""
    end = at + 1
    while end < len(log) and not isinstance(log[end], Sampled) and not isinstance(log[end - 1], Said):
        end += 1
    return end


def _steps(opened: Opened, events: Sequence[Event], before: int, *, trained: bool) -> list[Step]:
    first, told = events[0], events[-1]
    rest = [event for event in events if not isinstance(event, Sampled | Said)]
    made: list[Step] = []
    if isinstance(first, Sampled):
        made.append(_agent_step(opened, first, rest, before + 1, trained=trained))
    elif rest:  # what the house did with no reply before it
        made.append(Step(step_id=before + 1, source="system", message=_word(rest), extra=_own(rest),
                         timestamp=_when(opened, rest[0].at_seconds)))
    if isinstance(told, Said):
        role: Any = "system" if told.message.role is Role.SYSTEM else "user"
        made.append(Step(step_id=before + 1 + len(made), source=role, message=told.message.text,
                         timestamp=_when(opened, told.at_seconds), extra={OWN: {"said": _stamp(told)}}))
    return made


def _agent_step(opened: Opened, event: Sampled, rest: Sequence[Event], number: int, *, trained: bool) -> Step:
    turn = event.turn
    call, result = _call(rest, number)
    ids = turn.output_token_ids
    metrics = Metrics(
        prompt_tokens=turn.prompt_tokens, completion_tokens=turn.output_tokens,
        prompt_token_ids=turn.prompt_token_ids, completion_token_ids=ids, logprobs=turn.logprobs,
        extra={"loss_mask": [int(trained)] * len(ids)} if ids is not None else None)
    extra = _own(rest)
    extra[OWN] |= {"sampled": _stamp(event), "finish": turn.finish.value, "policy_version": turn.policy_version}
    return Step(
        step_id=number, source="agent", message=turn.text, reasoning_content=turn.reasoning, llm_call_count=1,
        timestamp=_when(opened, event.at_seconds), tool_calls=[call] if call else None,
        observation=Observation(results=[result]) if result else None,
        metrics=metrics if metrics != Metrics() else None, extra=extra)


def _call(rest: Sequence[Event], number: int) -> tuple[ToolCall | None, Result | None]:
    """A command of a shell as a call of the tool bash, and what it printed as its result."""
    built = next((event for event in rest if isinstance(event, Built)), None)
    ran = next((event for event in rest if isinstance(event, Ran) and event.outcome is not None), None)
    if built is None or built.program.language != "shell" or not built.program.files:
        return None, None
    command = built.program.files[max(built.program.files)].decode("utf-8", "replace")
    call = ToolCall(tool_call_id=f"call_{number}", function_name="bash", arguments={"command": command})
    if ran is None or ran.outcome is None:
        return call, None
    shown = ran.outcome.text[:SHOWN_CHARS] + ran.outcome.error_text[:SHOWN_CHARS]
    return call, Result(source_call_id=call.tool_call_id, content=shown, extra={"exit_code": ran.outcome.exit_code})


def _own(rest: Sequence[Event]) -> dict[str, Any]:
    return {OWN: {"events": [_plain(event) for event in rest], **_sum(rest)}}


def _sum(events: Sequence[Event]) -> dict[str, Any]:
    """What others may want to know without our words: the latest reward, and the faults."""
    found: dict[str, Any] = {}
    graded = next((event for event in reversed(events) if isinstance(event, Graded)), None)
    if graded is not None:
        found["reward"] = {"total": graded.reward.total, "solved": graded.reward.solved, "final": graded.final,
                           "trainable": graded.reward.trainable.value,
                           "scores": {score.name: score.value for score in graded.reward.scores}}
    faults = [str(event.fault) for event in events if hasattr(event, "fault")]
    if faults:
        found["faults"] = faults
    return found


def _word(events: Sequence[Event]) -> str:
    return ", ".join(type(event).__name__.lower() for event in events)


def _is_trained(log: Sequence[Event]) -> bool:
    reward = fold(log).reward
    return reward is not None and reward.trainable is Trainable.YES


def _version_of(turns: Sequence[Turn]) -> str:
    return turns[-1].policy_version if turns else ""


def _stamp(event: Event) -> dict[str, Any]:
    role = {"role": event.message.role.value} if isinstance(event, Said) else {}
    return {"index": event.index, "at_seconds": event.at_seconds, **role}


def _plain(event: Event) -> Any:
    return msgspec.to_builtins(event)


def _when(opened: Opened, at_seconds: float) -> str:
    try:
        return datetime.fromtimestamp(opened.unix_seconds + at_seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):  # a clock that showed no year that there is
        return datetime.fromtimestamp(0, UTC).isoformat()


def from_atif(document: AtifTrajectory) -> tuple[Event, ...]:
    """The log of a document: of one of ours the very events, of another's what it says. Raises ValueError for one that
    claims to be ours and is not whole."""
    own = (document.extra or {}).get(OWN)
    if own is None:
        return _foreign(document)
    try:
        return _ours(document, own)
    except (KeyError, TypeError, IndexError, AttributeError, msgspec.MsgspecError) as error:
        raise ValueError(f"expected what quintain writes below extra.{OWN}, found {error!r}") from None


def _ours(document: AtifTrajectory, own: dict[str, Any]) -> tuple[Event, ...]:
    opened = msgspec.convert(own["opened"], Opened)
    roles = {"system": Role.SYSTEM, "user": Role.USER, "agent": Role.ASSISTANT}
    asked = document.steps[:own["asked"]]
    opened = msgspec.structs.replace(opened, conversation=tuple(
        Message(role=roles[step.source], text=_text(step.message)) for step in asked))
    events: list[Event] = [opened]
    for step in document.steps[max(1, own["asked"]):]:
        told = (step.extra or {})[OWN]
        if "said" in told:
            events.append(Said(episode=opened.episode, index=told["said"]["index"],
                               at_seconds=told["said"]["at_seconds"],
                               message=Message(role=Role(told["said"]["role"]), text=_text(step.message))))
            continue
        if "sampled" in told:
            events.append(Sampled(episode=opened.episode, index=told["sampled"]["index"],
                                  at_seconds=told["sampled"]["at_seconds"], turn=_turn(step, told)))
        events += [msgspec.convert(event, Event) for event in told["events"]]
    return tuple(sorted(events, key=lambda event: event.index))


def _turn(step: Step, told: dict[str, Any]) -> Turn:
    metrics = step.metrics or Metrics()
    return msgspec.convert({
        "text": _text(step.message), "reasoning": step.reasoning_content, "finish": told.get("finish", "stop"),
        "policy_version": told.get("policy_version", "0"), "prompt_token_ids": metrics.prompt_token_ids,
        "output_token_ids": metrics.completion_token_ids, "logprobs": metrics.logprobs,
        "prompt_tokens": metrics.prompt_tokens, "output_tokens": metrics.completion_tokens,
    }, Turn)


def _foreign(document: AtifTrajectory) -> tuple[Event, ...]:
    """What another's document says: asked before the first reply, then replies, and what came back of their calls."""
    first = next((at for at, step in enumerate(document.steps) if step.source == "agent"), len(document.steps))
    began = _seconds(document.steps[0])
    name = document.trajectory_id or document.session_id or "atif"
    stamps = iter(range(1, 4 * len(document.steps) + 2))
    asked = tuple(Message(role=Role.SYSTEM if step.source == "system" else Role.USER, text=_text(step.message))
                  for step in document.steps[:first])
    events: list[Event] = [Opened(
        episode=name, index=0, at_seconds=0.0, task=name, task_version="", kind="foreign", group=name, attempt=1,
        seed=0, policy=document.agent.name, unix_seconds=began or 0.0, conversation=asked)]
    at = 0.0
    for step in document.steps[first:]:
        at = max(at, (_seconds(step) or 0.0) - (began or 0.0)) if began is not None else at
        if step.source != "agent":
            events.append(_said(name, next(stamps), at, step.source, _text(step.message)))
            continue
        told = {"policy_version": step.model_name or document.agent.model_name or document.agent.version}
        turn = _turn(step, told)
        if step.tool_calls:
            turn = msgspec.structs.replace(turn, text="\n".join([turn.text, *map(_called, step.tool_calls)]).lstrip())
        events.append(Sampled(episode=name, index=next(stamps), at_seconds=at, turn=turn))
        results = [_text(result.content or "") for result in step.observation.results] if step.observation else []
        if results:
            events.append(_said(name, next(stamps), at, "user", "\n".join(results)))
    events.append(Closed(episode=name, index=next(stamps), at_seconds=at, stop=Stop.SUBMITTED))
    return tuple(events)


def _said(name: str, index: int, at: float, source: str, text: str) -> Said:
    role = Role.SYSTEM if source == "system" else Role.USER
    return Said(episode=name, index=index, at_seconds=at, message=Message(role=role, text=text))


def _called(call: ToolCall) -> str:
    said = {"name": call.function_name, "arguments": call.arguments}
    return f"<tool_call>\n{json.dumps(said, ensure_ascii=False)}\n</tool_call>"


def _text(message: str | list[Part]) -> str:
    """Of a message in parts the texts; an image or a sound is named where it stood."""
    if isinstance(message, str):
        return message
    return "".join(part.text or "" if part.type == "text" else f"[{part.type}]" for part in message)


def _seconds(step: Step) -> float | None:
    if step.timestamp is None:
        return None
    found = datetime.fromisoformat(step.timestamp.replace("Z", "+00:00"))
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()

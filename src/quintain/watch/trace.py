"""Traces: one for each episode, from its opening to each command in a sandbox, as spans that its events tell. Pure.

Ids are those of W3C Trace Context (https://www.w3.org/TR/trace-context/), made from the run's and the episode's names:
whoever knows these, a trainer or a policy's endpoint, knows the trace without being handed anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from quintain.types import (
    Broke,
    Built,
    Closed,
    Event,
    Graded,
    Opened,
    Outcome,
    Ran,
    Rejected,
    Said,
    Sampled,
    Status,
    Stop,
)

_TEXT = 500
_BROKEN = 10_000


def trace_id(run: str, episode: str) -> str:
    """32 hex digits, never all zero."""
    return _digest(f"trace\0{run}\0{episode}", 16)


def span_id(run: str, episode: str, what: str) -> str:
    """16 hex digits, never all zero."""
    return _digest(f"span\0{run}\0{episode}\0{what}", 8)


def traceparent(run: str, episode: str) -> str:
    """The header that makes another's spans children of the episode."""
    return f"00-{trace_id(run, episode)}-{span_id(run, episode, 'episode')}-01"


class Span(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`parent` is empty for the episode's own. Times are Unix seconds."""

    trace: str
    span: str
    name: str
    start_unix_seconds: float
    end_unix_seconds: float
    parent: str = ""
    error: str = ""
    attributes: dict[str, str | int | float | bool] = {}


class _Open:
    __slots__ = ("at", "count", "opened", "turns")

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.at = opened.at_seconds
        self.count = 0
        self.turns = 0


class Tracer:
    """Feed it the events of a run in their order: it gives out each span once it has ended. Attempts at an episode are
    in one trace, each with a span of its own below the episode's, which ends with the first that was not broken."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._open: dict[str, _Open] = {}
        self._began: dict[str, float] = {}  # of episodes that were broken, and are tried again

    def feed(self, event: Event) -> Iterator[Span]:
        if isinstance(event, Opened):
            self._open[event.episode] = _Open(event)
            return
        open_ = self._open.get(event.episode)
        if open_ is None:
            return
        before, open_.at = open_.at, max(open_.at, event.at_seconds)
        if isinstance(event, Closed):
            del self._open[event.episode]
            attempt = self._attempt(open_, event)
            yield attempt
            yield from self._whole(open_.opened.episode, attempt, event.stop)
            return
        open_.turns += isinstance(event, Sampled)
        name, error, attributes = _told(event)
        if not name:
            return
        open_.count += 1
        step = self._span(open_, f"{open_.count}", name, before, open_.at, error, attributes, parent=self._of(open_))
        yield step
        if isinstance(event, Ran) and event.outcome is not None:
            yield self._command(open_, step, event.outcome)

    def _of(self, open_: _Open) -> str:
        return span_id(self._run, open_.opened.episode, f"attempt {open_.opened.attempt}")

    def _span(
        self, open_: _Open, what: str, name: str, start: float, end: float, error: str,
        attributes: dict[str, str | int | float | bool], *, parent: str,
    ) -> Span:
        opened = open_.opened
        zero = opened.unix_seconds - opened.at_seconds
        return Span(
            trace=trace_id(self._run, opened.episode), parent=parent, name=name, error=error[:_TEXT],
            span=span_id(self._run, opened.episode, f"attempt {opened.attempt} {what}"),
            start_unix_seconds=zero + start, end_unix_seconds=zero + end, attributes=attributes,
        )

    def _command(self, open_: _Open, step: Span, outcome: Outcome) -> Span:
        """The command that a run was: the last of it, as long as it took."""
        end = open_.at
        attributes: dict[str, str | int | float | bool] = {"status": outcome.status.value}
        for name in ("exit_code", "cpu_seconds", "peak_memory_bytes", "peak_processes"):
            value = getattr(outcome, name)
            if value is not None:
                attributes[name] = value
        error = "" if outcome.status is Status.OK else outcome.status.value
        start = max(end - outcome.wall_seconds, end - (step.end_unix_seconds - step.start_unix_seconds))
        return self._span(open_, f"{open_.count} command", "command", start, end, error, attributes, parent=step.span)

    def _whole(self, episode: str, attempt: Span, stop: Stop) -> Iterator[Span]:
        began = self._began.pop(episode, attempt.start_unix_seconds)
        if stop is Stop.BROKEN:
            if len(self._began) < _BROKEN:
                self._began[episode] = began
            return
        kept = ("run", "episode", "task", "group", "stop")
        yield msgspec.structs.replace(
            attempt, span=attempt.parent, parent="", name=attempt.name, start_unix_seconds=min(
                began, attempt.start_unix_seconds),
            attributes={name: value for name, value in attempt.attributes.items() if name in kept},
        )

    def _attempt(self, open_: _Open, event: Closed) -> Span:
        opened = open_.opened
        own = self._span(open_, "", "attempt", opened.at_seconds, open_.at, "", {}, parent="")
        return msgspec.structs.replace(
            own, span=self._of(open_), name=f"episode {opened.kind}", parent=span_id(
                self._run, opened.episode, "episode"),
            error="broken" if event.stop is Stop.BROKEN else "",
            attributes={
                "run": self._run, "episode": opened.episode, "task": opened.task, "group": opened.group,
                "attempt": opened.attempt, "policy": opened.policy, "stop": event.stop.value, "turns": open_.turns,
            },
        )


def _told(event: Event) -> tuple[str, str, dict[str, str | int | float | bool]]:
    match event:
        case Sampled(turn=turn):
            tokens = turn.output_tokens if turn.output_tokens is not None else len(turn.output_token_ids or ())
            return "sample", "", {"policy_version": turn.policy_version, "output_tokens": tokens}
        case Built():
            return "build", "", {}
        case Rejected(fault=fault):
            return "build", str(fault), {"fault": fault.label}
        case Ran(verdict=verdict):
            return "run", "", {"passed": round(verdict.share, 4)} if verdict is not None else {}
        case Graded(reward=reward, final=final, verdict=verdict):
            return "grade", "", {"final": final, "reward": reward.total, "solved": reward.solved,
                                 "level": verdict.level}
        case Said():
            return "say", "", {}
        case Broke(fault=fault):
            return "broke", str(fault), {"fault": fault.label, "owner": fault.owner.value}
    return "", "", {}


def _digest(text: str, size: int) -> str:
    made = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:2 * size]
    return made if made.strip("0") else made[:-1] + "1"

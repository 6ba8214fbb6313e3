"""An attempt as rows of the library's tables. Pure."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from quintain.store._attempts import Attempt
from quintain.store._schema import TABLES
from quintain.types import (
    Broke,
    Built,
    Closed,
    Event,
    Fault,
    Graded,
    Opened,
    Outcome,
    Owner,
    Passed,
    Program,
    Ran,
    Rejected,
    Reward,
    Said,
    Sampled,
    Severity,
    Stop,
    Verdict,
)

Row = tuple[Any, ...]


def no_rows() -> dict[str, list[Row]]:
    return {table: [] for table in TABLES}


def add_rows(into: dict[str, list[Row]], run: str, attempt: Attempt) -> tuple[str, str]:
    """Append the rows of an attempt to those of each table, columns as in `_schema.COLUMNS`; its day and kind."""
    opened = next((kept.event for kept in attempt.kept if isinstance(kept.event, Opened)), None)
    day = _day(opened.unix_seconds) if opened else _day(0)
    kind = opened.kind if opened else ""
    head = (run, day, kind, attempt.episode)
    _Telling(into, (*head, opened.attempt if opened else 0), attempt, opened).tell()
    events = into["events"]
    for kept in attempt.kept:
        event, blobs, text = kept.slim
        tag = event.__struct_config__.tag
        events.append((run, day, kind, attempt.episode, event.index, tag, event.at_seconds, text, _json(blobs)))
    return day, kind


class _Step:
    """What is gathered of one turn; number 0 is what came before the first."""

    def __init__(self, number: int, first: Event) -> None:
        self.number = number
        self.first = self.last = first
        self.turn: Sampled | None = first if isinstance(first, Sampled) else None
        self.built: Built | None = None
        self.outcome: Outcome | None = None
        self.graded: Graded | None = None
        self.fault: Fault | None = None
        self.said: list[str] = []
        self.blobs: dict[str, str] = {}


class _Telling:
    """Goes once through an attempt."""

    def __init__(self, into: dict[str, list[Row]], head: Row, attempt: Attempt, opened: Opened | None) -> None:
        self.into = into
        self.head = head
        self.attempt = attempt
        self.opened = opened
        self.steps: list[_Step] = []
        self.verdict: Verdict | None = None
        self.reward: Reward | None = None
        self.stop: Stop | None = None
        self.faults: list[Fault] = []

    def tell(self) -> None:
        step = _Step(0, self.attempt.kept[0].event)
        for kept in self.attempt.kept:
            event = kept.slim.event
            if isinstance(event, Sampled):
                step = _Step(len(self.steps) + 1, event)
                self.steps.append(step)
            step.last = event
            if kept.slim.blobs:
                step.blobs.update(kept.slim.blobs)
            self._take(step, event)
        self.into["steps"].extend(self._step_row(step) for step in self.steps)
        self.into["episodes"].append(self._episode_row())

    def _take(self, step: _Step, event: Event) -> None:
        match event:
            case Built():
                step.built = event
            case Ran(outcome=outcome):
                step.outcome = outcome
            case Rejected(fault=fault):
                step.fault = fault
                self.faults.append(fault)
            case Graded(verdict=verdict, reward=reward, final=final):
                step.graded = event
                step.fault = verdict.fault or step.fault
                self.verdict = verdict
                self.reward = reward if final else self.reward
                self._add_reasons(step.number, reward, final)
            case Said(message=message):
                step.said.append(message.text)
            case Broke(fault=fault):
                step.fault = fault
                self.faults.append(fault)
                self.reward = None
            case Closed(stop=stop):
                self.stop = stop
                self.reward = None if stop is Stop.BROKEN else self.reward
            case _:
                pass

    def _add_reasons(self, number: int, reward: Reward, final: bool) -> None:
        head = (*self.head, number, final)
        self.into["scores"].extend(
            (*head, s.name, s.value, s.weight, s.contribution, s.evidence) for s in reward.scores)
        self.into["flags"].extend((*head, f.detector, f.severity.value, f.evidence) for f in reward.flags)

    def _step_row(self, step: _Step) -> Row:
        assert step.turn is not None
        turn, ran, graded, blobs = step.turn.turn, step.outcome, step.graded, step.blobs
        program = step.built.program if step.built else None
        return (
            *self.head, step.number, self.opened.task if self.opened else "", turn.policy_version,
            turn.prompt_token_ids, turn.output_token_ids, turn.logprobs,
            _count(turn.prompt_tokens, turn.prompt_token_ids), _count(turn.output_tokens, turn.output_token_ids),
            sum(turn.logprobs) / len(turn.logprobs) if turn.logprobs else None,
            turn.text, turn.reasoning, turn.finish.value,
            _program(program, blobs) if program else None, step.built.submitted if step.built else None,
            step.built.notes if step.built else None, state_hash(program, blobs) if program else None,
            ran.status.value if ran else None, ran.exit_code if ran else None,
            None if ran is None or "stdout" in blobs else ran.text,
            None if ran is None or "stderr" in blobs else ran.error_text,
            ran.wall_seconds if ran else None, ran.cpu_seconds if ran else None,
            ran.peak_memory_bytes if ran else None, "\n".join(step.said) if step.said else None,
            step.fault.label if step.fault else None, graded.reward.total if graded else None,
            graded.reward.solved if graded else None, graded.final if graded else None,
            step.first.at_seconds, step.last.at_seconds - step.first.at_seconds,
            step.first.index, step.last.index, _json(blobs),
        )

    def _episode_row(self) -> Row:
        opened, reward, verdict = self.opened, self.reward, self.verdict
        turns = [step.turn.turn for step in self.steps if step.turn is not None]
        fault = self.faults[-1] if self.faults else None
        fault = (verdict.fault if verdict and verdict.fault else None) or fault
        outcomes = [step.outcome for step in self.steps if step.outcome is not None]
        cpu = [o.cpu_seconds for o in outcomes if o.cpu_seconds is not None]
        peak = [o.peak_memory_bytes for o in outcomes if o.peak_memory_bytes is not None]
        flags = reward.flags if reward else ()
        first, last = self.attempt.kept[0].event, self.attempt.kept[-1].event
        return (
            *self.head, opened.task if opened else "", opened.task_version if opened else "",
            opened.group if opened else "", opened.policy if opened else "", opened.seed if opened else None,
            opened.unix_seconds if opened else None, self.stop.value if self.stop else None,
            self._standing(), self._outcome(), reward is not None and reward.solved,
            reward.total if reward else None, reward.trainable.value if reward else None,
            (reward.suite if reward and reward.suite else verdict.suite if verdict else None),
            verdict.level if verdict else None, verdict.build if verdict else None, verdict.runs if verdict else None,
            len(verdict.tests) if verdict else None,
            sum(t.passed is Passed.PASSED for t in verdict.tests) if verdict else None,
            len(turns), _total([_count(t.prompt_tokens, t.prompt_token_ids) for t in turns]),
            _total([_count(t.output_tokens, t.output_token_ids) for t in turns]), last.at_seconds,
            sum(cpu) if cpu else None, max(peak) if peak else None,
            fault.label if fault else None, fault.owner.value if fault else None, fault.message if fault else None,
            len(flags), sum(f.severity is Severity.HARD for f in flags),
            tuple(dict.fromkeys(t.policy_version for t in turns)), first.index, last.index,
            sum(len(kept.slim.text) for kept in self.attempt.kept),
        )

    def _standing(self) -> str:
        if self.stop is None:
            return "unfinished"
        owned = [fault.owner for fault in self.faults if fault.owner is not Owner.POLICY]
        return "broken" if owned and owned[-1] is Owner.HOUSE else "finished"

    def _outcome(self) -> str:
        if self.attempt.damaged:
            return "damaged"
        if self.stop is None:
            return "unfinished"
        if self.stop is Stop.BROKEN or any(fault.owner is not Owner.POLICY for fault in self.faults):
            return "broken"
        return "solved" if self.reward is not None and self.reward.solved else "failed"


def state_hash(program: Program, blobs: Mapping[str, str]) -> str:
    """sha256 of the work tree that a turn made: each path, its length and the sha256 of its content, sorted."""
    whole = hashlib.sha256()
    for path in sorted(program.files):
        digest = blobs.get(f"file:{path}") or hashlib.sha256(program.files[path]).hexdigest()
        whole.update(f"{len(path)}:{path}:{digest};".encode("utf-8", "surrogatepass"))
    return whole.hexdigest()


def _program(program: Program, blobs: Mapping[str, str]) -> bytes:
    """A program as JSON that SQL can look into: text as text, other bytes as {"base64": …} or {"blob": sha256}."""
    files = {path: _content(content, blobs.get(f"file:{path}")) for path, content in program.files.items()}
    return _dump({
        "files": files, "argv": program.argv, "stdin": _content(program.stdin, blobs.get("stdin")),
        "env": program.env, "language": program.language,
    })


def _content(content: bytes, blob: str | None) -> object:
    if blob is not None:
        return {"blob": blob}
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": content}


def _json(value: Mapping[str, str]) -> bytes | None:
    return _dump(value) if value else None


def _dump(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate in a path
        return json.dumps(msgspec.to_builtins(value)).encode("ascii")


def _count(said: int | None, ids: Sequence[int] | None) -> int | None:
    return said if said is not None else len(ids) if ids is not None else None


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _day(unix_seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(unix_seconds))

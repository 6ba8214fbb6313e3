"""The story of an episode: its events retold in order, for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from quintain.types import (
    Broke,
    Built,
    Closed,
    Event,
    Graded,
    Opened,
    Outcome,
    Passed,
    Program,
    Ran,
    Rejected,
    Reward,
    Said,
    Sampled,
    TestResult,
    Turn,
    Verdict,
)

#: How many tests of a verdict are told one by one.
TESTS_SHOWN = 12


class Passage(NamedTuple):
    """One part of the story: what it is, what it says, and how it went (good, bad or plain)."""

    title: str
    body: str
    mood: str = "plain"


class Step(NamedTuple):
    """One turn of an attempt: `number` counts from 1, 0 is what the policy was asked and what happened before it
    answered. `events` are those that the passages tell."""

    attempt: int
    number: int
    events: tuple[Event, ...]

    @property
    def passages(self) -> tuple[Passage, ...]:
        return tuple(passage for event in self.events for passage in retell(event))


def steps(events: Sequence[Event]) -> tuple[Step, ...]:
    """The log cut where the policy answers."""
    cut: list[Step] = []
    attempt = number = 0
    for event in events:
        if isinstance(event, Opened):
            attempt, number = event.attempt, 0
            cut.append(Step(attempt, number, ()))
        elif isinstance(event, Sampled):
            number += 1
            cut.append(Step(attempt, number, ()))
        if cut:
            cut[-1] = cut[-1]._replace(events=(*cut[-1].events, event))
    return tuple(cut)


def retell(event: Event) -> Iterator[Passage]:
    """What one event says."""
    match event:
        case Opened():
            yield Passage("asked", "\n\n".join(f"[{m.role.value}]\n{m.text}" for m in event.conversation))
        case Sampled(turn=turn):
            yield from _reply(turn)
        case Built(program=program, notes=notes):
            yield Passage("program", "\n".join((_program(program), *(f"note: {note}" for note in notes))))
        case Rejected(fault=fault):
            yield Passage("rejected", str(fault), "bad")
        case Ran(outcome=outcome, verdict=verdict):
            if outcome is not None:
                yield Passage("output", _outcome(outcome), "plain" if outcome.exit_code == 0 else "bad")
            if verdict is not None:
                yield _verdict("visible tests", verdict)
        case Graded(verdict=verdict, reward=reward, final=final):
            yield _verdict("verdict", verdict)
            yield _reward(reward, final)
        case Said(message=message):
            yield Passage("feedback", message.text)
        case Broke(fault=fault):
            yield Passage("broke", f"{fault}\n(no reward: this was not the policy's failure)", "bad")
        case Closed(stop=stop):
            cut = " (cut off by a limit)" if stop.truncated else ""
            yield Passage("closed", f"{stop.value}{cut} after {event.at_seconds:.2f} s")


def _reply(turn: Turn) -> Iterator[Passage]:
    if turn.reasoning:
        yield Passage("thinking", turn.reasoning)
    tokens = f", {turn.output_tokens} tokens" if turn.output_tokens is not None else ""
    ended = "" if turn.finish.value == "stop" else f", ended by {turn.finish.value}"
    yield Passage(f"reply (policy version {turn.policy_version}{tokens}{ended})", turn.text or "(empty)")


def _program(program: Program) -> str:
    lines = [f"{path} ({len(content)} bytes)" for path, content in sorted(program.files.items())]
    if program.argv:
        lines.append("run as: " + " ".join(program.argv))
    return "\n".join(lines) or "(no files)"


def _outcome(outcome: Outcome) -> str:
    ended = f"exit code {outcome.exit_code}" if outcome.exit_code is not None else f"signal {outcome.signal}"
    parts = [f"{outcome.status.value}, {ended}, {outcome.wall_seconds:.3f} s"]
    if outcome.peak_memory_bytes is not None:
        parts[0] += f", peak memory {outcome.peak_memory_bytes / 2**20:.1f} MiB"
    for name, text, truncated in (
        ("stdout", outcome.text, outcome.stdout_truncated), ("stderr", outcome.error_text, outcome.stderr_truncated),
    ):
        if text:
            parts.append(f"{name}{' (truncated)' if truncated else ''}:\n{text.rstrip()}")
    return "\n".join(parts)


def _verdict(title: str, verdict: Verdict) -> Passage:
    passed = sum(test.passed is Passed.PASSED for test in verdict.tests)
    lines = [f"{passed} of {len(verdict.tests)} tests passed, {verdict.wall_seconds:.2f} s, isolation {verdict.level}"]
    if verdict.fault is not None:
        lines.append(str(verdict.fault))
    failing = [test for test in verdict.tests if test.passed is not Passed.PASSED]
    lines += [_test(test) for test in failing[:TESTS_SHOWN]]
    if len(failing) > TESTS_SHOWN:
        lines.append(f"… and {len(failing) - TESTS_SHOWN} more")
    return Passage(title, "\n".join(lines), "good" if verdict.solved else "bad")


def _test(test: TestResult) -> str:
    why = f": {test.fault}" if test.fault is not None else ""
    return f"{test.passed.value}  {test.id}{why}"


def _reward(reward: Reward, final: bool) -> Passage:
    solved = "solved" if reward.solved else "not solved"
    lines = [f"{reward.total:+.3f} ({solved}, trainable: {reward.trainable.value})"]
    for score in reward.scores:
        value = "not measured" if score.value is None else f"{score.value:.3f} × weight {score.weight:g}"
        value += f" → {score.contribution:+.3f}" if score.contribution else ""
        lines.append(f"  {score.name}: {value}{'; ' + score.evidence if score.evidence else ''}")
    lines += [f"  flag {flag.detector} ({flag.severity.value}): {flag.evidence}" for flag in reward.flags]
    return Passage("reward" if final else "reward so far", "\n".join(lines), "good" if reward.solved else "bad")

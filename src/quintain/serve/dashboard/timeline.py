"""An episode as a timeline: each turn with what was said, built, seen, judged and paid, cut where it is long. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from quintain.types import (
    Broke,
    Built,
    Closed,
    Event,
    Fault,
    Flag,
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
    Score,
    Verdict,
)

#: Of a text so many characters are sent at first; `text_of` gives all of it.
CUT_CHARS = 6_000
FILES = 40
TESTS = 60
DIFF_LINES = 400
DIFF_BYTES = 200_000


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning of a text of `chars` characters; the whole is to be had by `event` and `field`."""

    text: str
    chars: int
    event: int
    field: str
    title: str = ""
    lines_added: int | None = None
    lines_removed: int | None = None


class Test(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    passed: str
    fault: str = ""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict. `tests` are those that did not pass first, at most 60; `evidence` pairs of (source, text)."""

    title: str
    passed: int
    total: int
    solved: bool
    level: str
    runs: int
    wall_seconds: float
    fault: str
    owner: str
    tests: tuple[Test, ...]
    evidence: tuple[tuple[str, str], ...]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One event in words. `mood` is good, bad or plain; `facts` are pairs of (what, value)."""

    kind: str
    title: str
    mood: str = "plain"
    at_seconds: float = 0.0
    texts: tuple[Text, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    diff: tuple[Text, ...] = ()
    verdict: Judged | None = None
    scores: tuple[Score, ...] = ()
    flags: tuple[Flag, ...] = ()
    total: float | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of an attempt; 0 is what was asked."""

    attempt: int
    number: int
    at_seconds: float
    seconds: float
    parts: tuple[Part, ...]


def timeline(events: Sequence[Event]) -> tuple[Step, ...]:
    """The log cut where the policy answers, each attempt anew. The diff of a program is to the one before it in the
    same attempt."""
    cut: list[tuple[int, int, list[tuple[int, Event]]]] = []
    attempt = number = 0
    for at, event in enumerate(events):
        if isinstance(event, Opened):
            attempt, number = event.attempt, 0
            cut.append((attempt, number, []))
        elif isinstance(event, Sampled):
            number += 1
            cut.append((attempt, number, []))
        if cut:
            cut[-1][2].append((at, event))
    steps: list[Step] = []
    before: Program | None = None
    for attempt, number, part_events in cut:
        if number == 0:
            before = None
        parts: list[Part] = []
        for at, event in part_events:
            parts += _retold(at, event, before)
            if isinstance(event, Built):
                before = event.program
        first, last = part_events[0][1].at_seconds, part_events[-1][1].at_seconds
        steps.append(Step(attempt=attempt, number=number, at_seconds=first, seconds=max(0.0, last - first),
                          parts=tuple(parts)))
    return tuple(steps)


def text_of(events: Sequence[Event], index: int, field: str) -> str | None:
    """A whole text by the place that a `Text` names; `None` where there is none."""
    if not 0 <= index < len(events):
        return None
    return _fields(events[index]).get(field)


def _fields(event: Event) -> Mapping[str, str]:
    match event:
        case Opened(conversation=conversation):
            return {f"message:{at}": message.text for at, message in enumerate(conversation)}
        case Sampled(turn=turn):
            return {"text": turn.text, "reasoning": turn.reasoning or ""}
        case Built(program=program):
            files = {f"file:{path}": content.decode("utf-8", "replace") for path, content in program.files.items()}
            return {**files, "stdin": program.stdin.decode("utf-8", "replace")}
        case Ran(outcome=Outcome() as outcome):
            return {"stdout": outcome.text, "stderr": outcome.error_text}
        case Said(message=message):
            return {"text": message.text}
        case _:
            return {}


def _text(event: int, field: str, text: str, title: str = "") -> Text:
    return Text(text=text[:CUT_CHARS], chars=len(text), event=event, field=field, title=title)


def _retold(at: int, event: Event, before: Program | None) -> Iterator[Part]:
    when = event.at_seconds
    match event:
        case Opened(conversation=conversation):
            yield Part(kind="asked", title="The task", at_seconds=when, texts=tuple(
                _text(at, f"message:{nth}", one.text, one.role.value) for nth, one in enumerate(conversation)),
                facts=(("task", event.task), ("version", event.task_version[:12]), ("seed", str(event.seed))))
        case Sampled():
            yield _reply(at, event)
        case Built(program=program, notes=notes, submitted=submitted):
            yield _program(at, program, before, (*notes, *(("handed in",) if submitted else ())), when)
        case Rejected(fault=fault):
            yield Part(kind="rejected", title="Cannot be run", mood="bad", at_seconds=when, notes=(str(fault),))
        case Ran(outcome=outcome, verdict=verdict):
            if outcome is not None:
                yield _output(at, outcome, when)
            if verdict is not None:
                yield _judged("Visible tests", verdict, when)
        case Graded(verdict=verdict, reward=reward, final=final):
            yield _judged("Verdict", verdict, when)
            yield _reward(reward, final, when)
        case Said(message=message):
            yield Part(kind="feedback", title="Feedback", at_seconds=when, texts=(_text(at, "text", message.text),))
        case Broke(fault=fault):
            yield Part(kind="broke", title="Broke: not the policy's failure, no reward", mood="bad", at_seconds=when,
                       notes=(str(fault),))
        case Closed(stop=stop):
            yield Part(kind="closed", title=f"Closed: {stop.value}", at_seconds=when,
                       notes=("cut off by a limit",) if stop.truncated else ())


def _reply(at: int, event: Sampled) -> Part:
    turn = event.turn
    facts = [("policy version", turn.policy_version), ("ended by", turn.finish.value)]
    sampled = turn.output_tokens if turn.output_tokens is not None else len(turn.output_token_ids or ())
    facts += [("tokens", str(sampled))] if sampled else []
    texts = [_text(at, "reasoning", turn.reasoning, "thinking")] if turn.reasoning else []
    return Part(kind="reply", title="Reply", at_seconds=event.at_seconds, facts=tuple(facts),
                texts=(*texts, _text(at, "text", turn.text)))


def _program(at: int, program: Program, before: Program | None, notes: tuple[str, ...], when: float) -> Part:
    facts = [("command", " ".join(program.argv))] if program.argv else []
    facts += [("language", program.language)]
    shown = sorted(program.files.items())[:FILES]
    left = len(program.files) - len(shown)
    texts = tuple(
        _text(at, f"file:{path}", content.decode("utf-8", "replace"), f"{path} · {len(content):,} bytes")
        for path, content in shown if before is None or before.files.get(path) != content)
    notes = (*notes, *((f"{left} more files",) if left else ()))
    if before is not None and not texts and set(program.files) == set(before.files):
        notes = (*notes, "the same files as before")
    return Part(kind="program", title="Program", at_seconds=when, texts=texts, facts=tuple(facts), notes=notes,
                diff=() if before is None else tuple(_diffs(at, before.files, program.files)))


def _diffs(at: int, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[Text]:
    changed = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]
    for path in changed[:FILES]:
        old, new = before.get(path, b""), after.get(path, b"")
        if len(old) + len(new) > DIFF_BYTES:
            yield Text(text=f"{len(old):,} bytes became {len(new):,}: too much to compare here", chars=0, event=at,
                       field="", title=path)
            continue
        lines = list(difflib.unified_diff(
            old.decode("utf-8", "replace").splitlines(), new.decode("utf-8", "replace").splitlines(),
            "/dev/null" if path not in before else f"before/{path}", "/dev/null" if path not in after else
            f"after/{path}", lineterm=""))
        added = sum(line.startswith("+") for line in lines[2:])
        removed = sum(line.startswith("-") for line in lines[2:])
        rest = len(lines) - DIFF_LINES
        told = lines[:DIFF_LINES] + ([f"… {rest} more lines"] if rest > 0 else [])
        whole = "\n".join(told)
        yield Text(text=whole, chars=len(whole), event=at, field="", title=path, lines_added=added,
                   lines_removed=removed)


def _output(at: int, outcome: Outcome, when: float) -> Part:
    ended = f"exit code {outcome.exit_code}" if outcome.exit_code is not None else f"signal {outcome.signal}"
    facts = [("status", outcome.status.value), ("ended by", ended), ("time", f"{outcome.wall_seconds:.3f} s")]
    if outcome.peak_memory_bytes is not None:
        facts.append(("peak memory", f"{outcome.peak_memory_bytes / 2**20:.1f} MiB"))
    facts += [("denied", ", ".join(f"{name} × {count}" for name, count in outcome.denials.items()))] \
        if outcome.denials else []
    texts = []
    for name, text, cut, size in (("stdout", outcome.text, outcome.stdout_truncated, outcome.stdout_bytes),
                                  ("stderr", outcome.error_text, outcome.stderr_truncated, outcome.stderr_bytes)):
        if text:
            texts.append(_text(at, name, text, f"{name} (the middle of {size:,} bytes was cut)" if cut else name))
    return Part(kind="output", title="Output", mood="plain" if outcome.exit_code == 0 else "bad", at_seconds=when,
                facts=tuple(facts), texts=tuple(texts), notes=() if texts else ("nothing was printed",))


def _judged(title: str, verdict: Verdict, when: float) -> Part:
    passed = sum(test.passed is Passed.PASSED for test in verdict.tests)
    ordered = sorted(verdict.tests, key=lambda test: test.passed is Passed.PASSED)[:TESTS]
    fault: Fault | None = verdict.fault
    return Part(kind="verdict", title=title, mood="good" if verdict.solved else "bad", at_seconds=when, verdict=Judged(
        title=title, passed=passed, total=len(verdict.tests), solved=verdict.solved, level=verdict.level,
        runs=verdict.runs, wall_seconds=verdict.wall_seconds, fault=str(fault) if fault else "",
        owner=fault.owner.value if fault else "",
        tests=tuple(Test(id=test.id, passed=test.passed.value, fault=str(test.fault)[:1000] if test.fault else "")
                    for test in ordered),
        evidence=tuple((one.source, one.text[:2000]) for one in verdict.evidence[:30]),
    ))


def _reward(reward: Reward, final: bool, when: float) -> Part:
    return Part(kind="reward", title="Reward" if final else "Reward of this turn (does not pay)",
                mood="good" if reward.solved else "bad", at_seconds=when, total=reward.total, scores=reward.scores,
                flags=reward.flags, facts=(("solved", "yes" if reward.solved else "no"),
                                           ("trainable", reward.trainable.value)))

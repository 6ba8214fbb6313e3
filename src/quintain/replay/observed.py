"""What an event shows, as parts that must come out the same when it happens again. Pure.

Times, memory and the evidence of a verdict (it quotes times) are measures, and no parts: they never come out the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping

from quintain.replay.base import Difference, Measure, Seen
from quintain.replay.tree import listing, tree_of, tree_of_files
from quintain.sandbox import Snapshot
from quintain.types import (
    Broke,
    Built,
    Event,
    Fault,
    Graded,
    HouseError,
    Opened,
    Outcome,
    Program,
    Ran,
    Rejected,
    Reward,
    Said,
    Sampled,
    Verdict,
)

TEXT_CHARS = 2_000
DIFF_LINES = 60
_DIFF_BYTES = 200_000  # of each side: difflib is quadratic

#: The parts of a verdict; what a difference in nothing else means.
JUDGED = frozenset({"tests", "verdict", "reward", "scores"})


def seen(event: Event, *, opened_unix_seconds: float, files: Callable[[str], Snapshot | None]) -> Seen:
    """What an event of the log shows. `files` finds a kept snapshot by its name, `None` where it is not there."""
    parts, measure, denials = _parts(event, files)
    verdict = event.verdict if isinstance(event, Ran | Graded) else None
    return Seen(event=type(event).__name__.lower(), parts=parts, measure=measure, denials=denials,
                unix_seconds=opened_unix_seconds + event.at_seconds, facts=facts_of(verdict))


def facts_of(verdict: Verdict | None) -> dict[str, str]:
    """What a verdict was reached by."""
    if verdict is None:
        return {}
    return {"suite": verdict.suite, "build": verdict.build, "level": verdict.level}


def _parts(
    event: Event, files: Callable[[str], Snapshot | None],
) -> tuple[dict[str, bytes], Measure, dict[str, int]]:
    match event:
        case Opened(conversation=conversation):
            asked = "\n".join(f"[{m.role.value}]\n{m.text}" for m in conversation)
            return {"asked": _bytes(asked)}, Measure(), {}
        case Sampled(turn=turn):
            return {"reply": _bytes(turn.text), "reasoning": _bytes(turn.reasoning or "")}, Measure(), {}
        case Built():
            return parts_of_program(event.program, event.notes, event.submitted), Measure(), {}
        case Rejected(fault=fault):
            return {"rejected": _bytes(_fault(fault))}, Measure(), {}
        case Ran(outcome=outcome, verdict=verdict):
            kept = files(event.files) if event.files is not None else None
            return parts_of_run(outcome, verdict, kept), measure_of(outcome, verdict), _denials(outcome)
        case Graded(verdict=verdict, reward=reward):
            return parts_of_judgement(verdict, reward), measure_of(None, verdict), {}
        case Said(message=message):
            return {"told": _bytes(message.text)}, Measure(), {}
        case Broke(fault=fault):
            return {"broke": _bytes(_fault(fault))}, Measure(), {}
        case _:
            return {}, Measure(), {}


def parts_of_program(program: Program, notes: Iterable[str], submitted: bool) -> dict[str, bytes]:
    return {
        "program": listing(tree_of_files(program.files)), "argv": _bytes("\n".join(program.argv)),
        "notes": _bytes("\n".join(notes)), "submitted": _bytes(str(submitted)),
        **{f"file {path}": content for path, content in program.files.items()},
    }


def parts_of_run(outcome: Outcome | None, verdict: Verdict | None, kept: Snapshot | None) -> dict[str, bytes]:
    parts: dict[str, bytes] = {}
    if outcome is not None:
        ended = f"{outcome.status.value} exit {outcome.exit_code} signal {outcome.signal} by {outcome.killed_by}"
        parts |= {"stdout": outcome.stdout, "stderr": outcome.stderr, "ended": _bytes(ended)}
    if verdict is not None:
        parts |= _tests(verdict)
    if kept is not None:
        parts["files"] = listing(tree_of(kept))
    return parts


def parts_of_judgement(verdict: Verdict, reward: Reward) -> dict[str, bytes]:
    scores = "".join(f"{score.name} {score.value!r}\n" for score in reward.scores)
    flags = "".join(f"flag {flag.detector} {flag.severity.value}\n" for flag in reward.flags)
    return {**_tests(verdict), "reward": _bytes(f"{reward.total!r} solved {reward.solved} {reward.trainable.value}"),
            "scores": _bytes(scores + flags)}


def parts_of_fault(fault: Fault) -> dict[str, bytes]:
    return {"broke": _bytes(_fault(fault))}


def _tests(verdict: Verdict) -> dict[str, bytes]:
    lines = "".join(
        f"{test.id} {test.passed.value}{': ' + _fault(test.fault) if test.fault else ''}\n" for test in verdict.tests)
    return {"tests": _bytes(lines), "verdict": _bytes(_fault(verdict.fault) if verdict.fault else "no fault")}


def measure_of(outcome: Outcome | None, verdict: Verdict | None) -> Measure:
    if outcome is not None:
        return Measure(wall_seconds=outcome.wall_seconds, cpu_seconds=outcome.cpu_seconds,
                       peak_memory_bytes=outcome.peak_memory_bytes)
    if verdict is not None:
        return Measure(wall_seconds=verdict.wall_seconds, cpu_seconds=verdict.cpu_seconds)
    return Measure()


def _denials(outcome: Outcome | None) -> dict[str, int]:
    return outcome.denials if outcome is not None else {}


def _fault(fault: Fault) -> str:
    return f"{fault.label} {fault}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def differences(recorded: Mapping[str, bytes], repeats: list[Mapping[str, bytes]]) -> tuple[Difference, ...]:
    """The parts that did not come out as recorded in at least one repetition. A part that one side does not have is
    compared with nothing: it was not measured there."""
    found = []
    for part in recorded:
        came = [again[part] for again in repeats if part in again]
        other = next((value for value in came if value != recorded[part]), None)
        if other is None:
            continue
        before, after = as_text(recorded[part]), as_text(other)
        found.append(Difference(
            part=part, recorded=before[:TEXT_CHARS], again=after[:TEXT_CHARS], diff=_diff(before, after, part),
            sizes=(len(recorded[part]), len(other)), steady=len(set(came)) == 1, repeats=len(came),
            as_recorded=sum(value == recorded[part] for value in came),
        ))
    broke = next((again["broke"] for again in repeats if "broke" in again and "broke" not in recorded), None)
    if broke is not None:
        faults = [again["broke"] for again in repeats if "broke" in again]
        found.append(Difference(
            part="broke", recorded="", again=as_text(broke)[:TEXT_CHARS], diff="+" + as_text(broke)[:TEXT_CHARS],
            sizes=(0, len(broke)), steady=len(faults) == len(repeats) and len(set(faults)) == 1, repeats=len(repeats),
            as_recorded=len(repeats) - len(faults)))
    return tuple(found)


def as_text(content: bytes) -> str:
    """Bytes as text; what is no UTF-8 stays visible."""
    return content.decode("utf-8", "backslashreplace")


def _diff(before: str, after: str, part: str) -> str:
    old, new = before[:_DIFF_BYTES].splitlines(), after[:_DIFF_BYTES].splitlines()
    lines = list(difflib.unified_diff(old, new, f"recorded {part}", f"again {part}", lineterm="", n=2))
    shown = [line if len(line) <= 400 else line[:400] + " …" for line in lines[:DIFF_LINES]]
    if len(lines) > DIFF_LINES:
        shown.append(f"… {len(lines) - DIFF_LINES} more lines")
    if len(before) > _DIFF_BYTES or len(after) > _DIFF_BYTES:
        shown.append(f"… compared here up to {_DIFF_BYTES} characters")
    return "\n".join(shown)


def snapshots_of(get: Callable[[str], bytes]) -> Callable[[str], Snapshot | None]:
    """Finds kept snapshots in a blob store; `None` for one that is lost or no snapshot."""

    def find(name: str) -> Snapshot | None:
        try:
            return Snapshot.decode(get(name))
        except (HouseError, ValueError):
            return None

    return find

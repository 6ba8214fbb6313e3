"""Whether what happened is what a scenario expects. Pure: the words here are all that a failing row says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from quintain.sandbox import Capabilities, FileInfo
from quintain.testing.sandbox.scenario import Expect, Scenario
from quintain.types import Isolation, Network, Outcome


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What one step led to, seen from the house."""

    outcomes: tuple[Outcome, ...] = ()
    content: bytes | None = None
    files: tuple[FileInfo, ...] | None = None
    error: BaseException | None = None
    seconds: float = 0.0
    house_growth_mib: float = 0.0
    complaint: str = ""  # what the running of the step itself found wrong


def lacking(capabilities: Capabilities, scenario: Scenario) -> str | None:
    """The need of a scenario that a backend declares not to meet; `None` when it offers all."""
    for need in scenario.needs:
        name, _, wanted = need.partition("=")
        if name == "isolation":
            offered = capabilities.isolation is not Isolation.PROCESS
        elif name == "network":
            offered = Network(wanted) in capabilities.networks
        elif name.startswith("covers:"):
            word = name.removeprefix("covers:")
            offered = not any(word in gap for gap in capabilities.does_not_cover)
        elif wanted:
            offered = getattr(capabilities, name) in wanted.split("|")
        else:
            offered = bool(getattr(capabilities, name))
        if not offered:
            return need
    return None


def complaints(expect: Expect, seen: Seen) -> list[str]:
    """What is wrong, in words; empty when all is as expected."""
    found = [seen.complaint] if seen.complaint else []
    names = {c.__name__ for c in type(seen.error).__mro__} if seen.error is not None else set()
    if expect.error and not names & set(expect.error):
        found.append(f"expected {' or '.join(expect.error)}, {seen.error!r} was raised" if seen.error
                     else f"expected {' or '.join(expect.error)}, nothing was raised")
    if seen.error is not None and not expect.error:
        found.append(f"raised {seen.error!r}")
    if expect.within_seconds is not None and seen.seconds > expect.within_seconds:
        found.append(f"took {seen.seconds:.2f} s, expected at most {expect.within_seconds}")
    if expect.house_growth_mib_at_most is not None and seen.house_growth_mib > expect.house_growth_mib_at_most:
        found.append(f"the house grew by {seen.house_growth_mib:.1f} MiB, expected {expect.house_growth_mib_at_most}")
    for outcome in seen.outcomes:
        found += _of_outcome(expect, outcome)
    found += _of_files(expect, seen)
    texts = [outcome.text for outcome in seen.outcomes]
    if expect.distinct and len(set(texts)) < len(texts):
        found.append(f"expected {len(texts)} different outputs, found {len(set(texts))}: {texts[0][:80]!r}")
    return found


def _of_files(expect: Expect, seen: Seen) -> Iterator[str]:
    if expect.content is not None and seen.content != expect.content.encode():
        yield f"expected content {expect.content[:60]!r}, found {(seen.content or b'')[:60]!r}"
    for text in expect.content_lacks:
        if seen.content is not None and text.encode() in seen.content:
            yield f"the content holds {text!r}"
    if expect.paths is not None:
        paths = sorted(f.path for f in seen.files or ())
        if paths != sorted(_decoded(p) for p in expect.paths):
            yield f"expected the paths {sorted(expect.paths)}, found {paths}"


def _decoded(path: str) -> str:
    r"""`\xff` written out in the data stands for that byte; the sandbox's paths hold it as a lone surrogate."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda m: bytes.fromhex(m[1]).decode("utf-8", "surrogateescape"), path)


def _of_outcome(expect: Expect, outcome: Outcome) -> Iterator[str]:
    exact: Sequence[tuple[str, object, object]] = (
        ("exit_code", expect.exit_code, outcome.exit_code), ("signal", expect.signal, outcome.signal),
        ("killed_by", expect.killed_by, outcome.killed_by), ("stdout", expect.stdout, outcome.text),
        ("stdout (hex)", expect.stdout_hex, outcome.stdout.hex()), ("stderr", expect.stderr, outcome.error_text),
        ("stdout_bytes", expect.stdout_bytes, outcome.stdout_bytes),
        ("stdout_truncated", expect.stdout_truncated, outcome.stdout_truncated),
    )
    for name, wanted, found in exact:
        if wanted is not None and wanted != found:
            yield f"{name}: expected {_short(wanted)}, found {_short(found)}{_story(outcome)}"
    if expect.status and outcome.status not in expect.status:
        yield f"status: expected {' or '.join(expect.status)}, found {outcome.status.value}{_story(outcome)}"
    if expect.not_killed and outcome.killed_by is not None:
        yield f"killed_by: expected none, found {outcome.killed_by.value}{_story(outcome)}"
    for text in expect.stdout_has:
        if text not in outcome.text:
            yield f"stdout lacks {text!r}: {_short(outcome.text)}{_story(outcome)}"
    for text in expect.stdout_lacks:
        if text in outcome.text:
            yield f"stdout holds {text!r}: {_short(outcome.text)}"
    if expect.stdout_matches is not None and not re.fullmatch(expect.stdout_matches, outcome.text, re.DOTALL):
        yield f"stdout does not match {expect.stdout_matches!r}: {_short(outcome.text)}{_story(outcome)}"
    for text in expect.stderr_has:
        if text not in outcome.error_text:
            yield f"stderr lacks {text!r}: {_short(outcome.error_text)}"
    yield from _of_amounts(expect, outcome)


def _of_amounts(expect: Expect, outcome: Outcome) -> Iterator[str]:
    kept = max(len(outcome.stdout), len(outcome.stderr))
    if expect.kept_bytes_at_most is not None and kept > expect.kept_bytes_at_most:
        yield f"kept {kept} bytes, expected at most {expect.kept_bytes_at_most}"
    cpu, peak = outcome.cpu_seconds, outcome.peak_memory_bytes
    if expect.cpu_seconds_at_least is not None and (cpu is None or cpu < expect.cpu_seconds_at_least):
        yield f"cpu_seconds: expected at least {expect.cpu_seconds_at_least}, found {cpu}"
    if expect.cpu_seconds_at_most is not None and (cpu is None or cpu > expect.cpu_seconds_at_most):
        yield f"cpu_seconds: expected at most {expect.cpu_seconds_at_most}, found {cpu}"
    if expect.peak_memory_mib_at_most is not None and (peak is None or peak / 2**20 > expect.peak_memory_mib_at_most):
        yield f"peak_memory_bytes: expected at most {expect.peak_memory_mib_at_most} MiB, found {peak}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:80]} … {text[-70:]}"


def _story(outcome: Outcome) -> str:
    killed = f", killed by {outcome.killed_by.value}" if outcome.killed_by else ""
    said = outcome.error_text.strip().splitlines()
    return f" ({outcome.status.value}{killed}{', stderr: ' + said[-1][:120] if said else ''})"

"""Python tracebacks and V8 stacks, read from what a runtime wrote to stderr."""

from __future__ import annotations

import re

from quintain.program.raised import Frame, Phase, Raised

_HEADER = re.compile(r"(?P<bar>[ |+]*)(?:Exception Group )?Traceback \(most recent call last\):$")
_FRAME = re.compile(r'  File "(?P<file>[^"\n]+)", line (?P<line>\d{1,9})(?:, in (?P<function>.+))?$')
_TYPE = re.compile(r"(?P<type>[A-Za-z_][\w.<>]*)(?:: (?P<message>.*))?$")
_CONNECTORS = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_LEAF = re.compile(r"[ ]*\|[ |]*(?P<type>[A-Za-z_][\w.]*)(?:: .*)?$")


def read_python_traceback(stderr: str) -> Raised | None:
    """The exception that ended a Python program, or `None` if stderr shows none.

    Read by its grammar from the top, so that a message which imitates a traceback stays a message: a further header
    counts only after one of Python's connecting sentences. The type is that of the last line of the last traceback. A
    SyntaxError of the started file itself has no header, only its place.
    """
    lines = [line.rstrip("\r") for line in stderr.split("\n")]
    start = next((i for i, line in enumerate(lines) if _HEADER.match(line)), None)
    if start is None:
        start = _headless(lines)
        return _read_one(lines, start)[0] if start is not None else None
    raised, after = _read_one(lines, start + 1)
    while (following := _connected(lines, after)) is not None:
        later, after = _read_one(lines, following)
        raised = later or raised
    return raised


def _headless(lines: list[str]) -> int | None:
    """Where the place of a SyntaxError stands that has no traceback above it."""
    for index, line in enumerate(lines):
        match = _FRAME.match(line)
        if match is not None and match["function"] is None:
            return index
    return None


def _connected(lines: list[str], after: int) -> int | None:
    """The line after the next header, if a connecting sentence leads to it."""
    for index in range(after, len(lines)):
        if lines[index].lstrip(" |") in _CONNECTORS:
            for header in range(index + 1, min(index + 3, len(lines))):
                if _HEADER.match(lines[header]):
                    return header + 1
    return None


def _read_one(lines: list[str], start: int) -> tuple[Raised | None, int]:
    """The exception whose frames begin at `start`, and the index of the line after its type."""
    frames: list[Frame] = []
    bar = _HEADER.match(lines[start - 1]) if start > 0 else None
    width = len(bar["bar"]) if bar and bar["bar"].strip() else 0
    for index in range(start, len(lines)):
        line = lines[index]
        if width:
            line = re.sub(r"^ *[|+] ?", "", line)
        frame = _FRAME.match(line)
        if frame is not None:
            frames.append(Frame(file=frame["file"], line=int(frame["line"]), function=frame["function"] or ""))
            continue
        if line.startswith(" ") or not line.strip():
            continue
        match = _TYPE.match(line)
        if match is None:
            return None, index + 1
        name = match["type"].rsplit(".", 1)[-1]
        raised = Raised(
            type=name, message=_message(match["message"]), frames=tuple(frames), phase=_phase(frames),
            leaves=_leaves(lines, index + 1) if name.endswith("Group") else (),
        )
        return raised, index + 1
    return None, len(lines)


def _message(text: str | None) -> str | None:
    return None if text == "<exception str() failed>" else text or ""


def _phase(frames: list[Frame]) -> Phase:
    """A started program is imported as long as it only runs at module level."""
    named = [frame.function for frame in frames if frame.function]
    return Phase.IMPORT if all(name == "<module>" for name in named) else Phase.CALL


def _leaves(lines: list[str], start: int) -> tuple[str, ...]:
    """The types inside an exception group, groups themselves left out."""
    found: list[str] = []
    for line in lines[start:start + 2000]:
        match = _LEAF.match(line)
        if match is not None and not match["type"].endswith("Group") and _is_type_line(line):
            found.append(match["type"].rsplit(".", 1)[-1])
    return tuple(found)


def _is_type_line(line: str) -> bool:
    text = re.sub(r"^[ |]+", "", line)
    return re.match(r"[A-Za-z_][\w.]*(?::|$)", text) is not None


_V8_PLACE = re.compile(r"(?:file://)?(?P<file>/[^\s:]+|[\w./-]+\.[cm]?js):(?P<line>\d{1,9})$")
_V8_FRAME = re.compile(
    r"    at (?:(?P<function>.+?) \()?(?:file://)?(?P<file>[^()]+?):(?P<line>\d{1,9}):\d{1,9}\)?$"
)
_V8_TYPE = re.compile(
    r"(?:Uncaught )?(?P<type>[A-Za-z_$][\w$]*)(?: \[\w+\])?(?:: (?P<message>.*))?$"
)


def read_v8_stack(stderr: str) -> Raised | None:
    """The error that ended a JavaScript program: node's place line, type line, and `at` frames; `None` if none."""
    lines = [line.rstrip("\r") for line in stderr.split("\n")]
    first = next((i for i, line in enumerate(lines) if _v8_frame(line)), None)
    if first is None:
        return None
    type_at = _v8_type_line(lines, first)
    if type_at is None:
        return None
    match = _V8_TYPE.match(lines[type_at])
    assert match is not None
    frames: list[Frame] = []
    for line in lines[first:]:
        frame = _v8_frame(line)
        if frame is None:
            break
        frames.append(frame)
    frames.reverse()
    place = next((m for line in lines[:type_at] if (m := _V8_PLACE.match(line))), None)
    if place is not None and match["type"] == "SyntaxError":
        frames.append(Frame(file=place["file"], line=int(place["line"])))
    return Raised(type=match["type"], message=match["message"] or "", frames=tuple(frames), phase=Phase.IMPORT)


def _v8_type_line(lines: list[str], first: int) -> int | None:
    """The line of the type: the first after the caret's picture that looks like one, above the frames."""
    for index in range(first - 1, -1, -1):
        if not lines[index].strip() or lines[index].lstrip().startswith("^"):
            break
        if index == 0 or not lines[index - 1].strip():
            return index if _V8_TYPE.match(lines[index]) else None
    return None


def _v8_frame(line: str) -> Frame | None:
    if len(line) > 1000 or not line.startswith("    at "):
        return None
    match = _V8_FRAME.match(line)
    if match is None:
        return None
    return Frame(file=match["file"], line=int(match["line"]), function=match["function"] or "<anonymous>")

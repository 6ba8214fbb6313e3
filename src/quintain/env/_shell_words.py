"""What a policy says to a shell, and what it is told of it. Pure: the exam is not within reach here.

One reply holds at most one command: a fenced block tagged as a shell's, or a call of the tool `bash`. It is handed in
by the tool `submit`, or by the line SUBMIT at the end of a reply. The program of an episode is everything that was
commanded so far, one file for each turn: so it says how its sandbox came to be, and can bring another one there.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from quintain.env import _words
from quintain.env.base import Feedback
from quintain.program import Tool, ToolCall, find_blocks, parse_tool_calls, without_reasoning
from quintain.types import Fault, FaultKind, Finish, Grading, Message, Outcome, Owner, Program, Role, Status, Task

SUBMIT = _words.SUBMIT
TOOLS = (Tool(name="bash", arguments={"command": "string"}), Tool(name="submit", arguments={}))
#: At most so many characters of each stream are shown, of the beginning and the end.
SHOWN_CHARS = 10_000
#: A command longer than this is none that anybody would write.
MAX_COMMAND_BYTES = 1024 * 1024

_TAGS = frozenset({"bash", "sh", "shell", "zsh", "console", "shell-session", "terminal"})
_TURNS = "turns"


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply comes to: a command, or none where it only hands in."""

    command: str | None
    submitted: bool = False


def understood(text: str, *, finish: Finish = Finish.STOP) -> Said | Fault:
    """What a reply means, or the policy's fault that it means nothing."""
    if not text.strip():
        return _fault(FaultKind.NO_ANSWER, "expected a command, found an empty reply")
    calls = parse_tool_calls(text, TOOLS, finish=finish)
    if isinstance(calls, Fault):
        return calls
    spoken = without_reasoning(text)
    said, submitted = _without_submission(spoken.text)
    blocks = [block for block in find_blocks(said) if block.tag in _TAGS]
    commands = [str(call.arguments["command"]) for call in calls if call.name == "bash"]
    submitted = submitted or any(call.name == "submit" for call in calls)
    if misplaced := _after_submission(calls):
        return _fault(FaultKind.FORMAT_ERROR, f"expected nothing after submit, found {misplaced}")
    if commands and blocks:
        return _fault(FaultKind.FORMAT_ERROR, "expected one command a reply, found a tool call and a block of code")
    if blocks and not blocks[-1].closed and finish is Finish.LENGTH:
        return _fault(FaultKind.TRUNCATED, "the token limit cut the command")
    commands += [block.text for block in blocks]
    return _one(commands, submitted)


def _one(commands: Sequence[str], submitted: bool) -> Said | Fault:
    if len(commands) > 1:
        return _fault(FaultKind.FORMAT_ERROR, f"expected one command a reply, found {len(commands)}")
    command = commands[0] if commands and commands[0].strip() else None
    if command is None and not submitted:
        return _fault(FaultKind.NO_CODE, "expected one command in a fenced block tagged bash, or a call of the tool "
                                         f"bash, or the line {SUBMIT}; found none")
    if command is not None and "\0" in command:
        return _fault(FaultKind.FORMAT_ERROR, "expected a command without NUL characters, found one")
    if command is not None and len(command.encode("utf-8", "surrogateescape")) > MAX_COMMAND_BYTES:
        return _fault(FaultKind.FORMAT_ERROR, f"expected a command of at most {MAX_COMMAND_BYTES} bytes")
    return Said(command=command, submitted=submitted)


def _after_submission(calls: Sequence[ToolCall]) -> str | None:
    names = [call.name for call in calls]
    return names[-1] if "submit" in names[:-1] else None


def _without_submission(text: str) -> tuple[str, bool]:
    lines = text.rstrip().split("\n")
    if lines[-1].strip() != SUBMIT:
        return text, False
    return "\n".join(lines[:-1]), True


def with_command(previous: Program | None, command: str) -> Program:
    """The program of an episode after one more command."""
    files = dict(previous.files) if previous is not None else {}
    path = f"{_TURNS}/{len(files) + 1:04}.sh"
    files[path] = command.encode("utf-8", "surrogateescape")
    return Program(files=files, argv=("bash", path), language="shell")


def commands_of(program: Program) -> tuple[str, ...]:
    """The commands of an episode's program, in their order."""
    return tuple(content.decode("utf-8", "surrogateescape") for _, content in sorted(program.files.items()))


def opening(task: Task, *, network: bool) -> tuple[Message, ...]:
    """How to answer, and the task with its files."""
    asked = [task.instructions.rstrip("\n"), *_words.shown_files(task)]
    return (
        Message(role=Role.SYSTEM, text=_how_to_answer(task, network=network)),
        Message(role=Role.USER, text="\n\n".join(asked) + "\n"),
    )


def _how_to_answer(task: Task, *, network: bool) -> str:
    lines = [
        "You work on a Linux system by a shell, one command a reply, and are told what it printed and how it ended. "
        "Reply with one fenced block tagged `bash`, or call the tool `bash` with the argument `command`. A block may "
        "hold several lines. What a reply says besides is not run.",
        "The shell remembers: directory, variables, functions and processes in the background last until the end. "
        "Nothing that you run can read from a keyboard.",
        "There is a network." if network else "There is no network.",
    ]
    lines.append(
        f"When the task is done, end a reply with the line {SUBMIT} (or call the tool `submit`). Its command is still "
        "run; then your files are judged, once." if task.grading is Grading.ON_SUBMIT else
        "Your files are judged after each command. You are told whether the task is solved.")
    return "\n".join(lines)


def feedback(told: Feedback) -> Message:
    """What came of a turn. What a program printed stands in a fence that is longer than any that it could print, so
    nothing in it can look like a word of ours."""
    lines = [_words.finding(told.fault)] if told.fault is not None else []
    if told.shown is not None and told.shown.outcome is not None:
        lines += _outcome(told.shown.outcome)
    if told.solved is not None and told.fault is None:
        lines.append("[solved] The task is solved." if told.solved else "[unsolved] The task is not solved yet.")
    lines += [f"Note: {_words.indented(note)}" for note in told.notes]
    left = told.turns_left
    lines.append(f"{left} {'turn is' if left == 1 else 'turns are'} left.")
    return Message(role=Role.USER, text="\n".join(lines) + "\n")


_ENDED = {
    Status.TIMED_OUT: "it took too long and was ended; the shell is as it was before it",
    Status.CPU_LIMIT: "it used too much CPU time and was ended", Status.OUT_OF_MEMORY: "it ran out of memory",
    Status.OUTPUT_LIMIT: "it printed too much and was ended", Status.NOT_STARTED: "it could not be started",
}


def _outcome(outcome: Outcome) -> list[str]:
    how = _ENDED.get(outcome.status) or (
        f"signal {outcome.signal}" if outcome.signal is not None else f"exit code {outcome.exit_code}")
    lines = [f"[{outcome.status.value}] {how}"]
    for name, text, cut in (("stdout", outcome.text, outcome.stdout_truncated),
                            ("stderr", outcome.error_text, outcome.stderr_truncated)):
        if text:
            shown = _words.clipped(text, SHOWN_CHARS)
            fence = "`" * max(3, 1 + _words.longest_run(shown))
            more = " (its beginning and end)" if cut else ""
            lines.append(f"{name}{more}:\n{fence}\n{shown}{'' if shown.endswith(chr(10)) else chr(10)}{fence}")
    if len(lines) == 1:
        lines.append("It printed nothing.")
    return lines


def _fault(kind: FaultKind, message: str) -> Fault:
    return Fault(owner=Owner.POLICY, kind=kind, message=message)

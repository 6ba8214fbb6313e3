"""What a policy is told about code, in words. Pure: the exam is not within reach here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quintain.env.base import Feedback, Shown
from quintain.program import language
from quintain.types import Fault, Grading, Message, Outcome, Passed, Role, Task, Verdict

#: At most so much of the task's files, of one message, and so many failing tests are shown.
SHOWN_FILE_BYTES = 48 * 1024
SHOWN_CHARS = 800
SHOWN_TESTS = 5

#: The line that hands an answer in, where a task is graded on submission.
SUBMIT = "SUBMIT"

#: The source of the evidence that tells what an answer's variables were.
STATES = "states"


def opening(task: Task) -> tuple[Message, ...]:
    """How to answer, and the task with its files."""
    asked = [task.instructions.rstrip("\n"), *shown_files(task)]
    return (
        Message(role=Role.SYSTEM, text=_how_to_answer(task)),
        Message(role=Role.USER, text="\n\n".join(asked) + "\n"),
    )


def feedback(told: Feedback) -> Message:
    """What came of a turn. Each finding begins with its name in brackets at the start of a line; further lines of a
    message are indented, so that nothing a program prints can look like a finding."""
    lines = [finding(told.fault)] if told.fault is not None else []
    if told.shown is not None:
        lines += _shown(told.shown)
    if told.solved is not None and told.fault is None:
        lines.append("[solved] The task is solved." if told.solved else "[unsolved] The task is not solved yet.")
    lines += [f"Note: {indented(note)}" for note in told.notes]
    if not lines:
        lines.append("The program was built. There is nothing else to show.")
    left = told.turns_left
    lines.append(f"{left} {'turn is' if left == 1 else 'turns are'} left. Answer again, with the whole answer.")
    return Message(role=Role.USER, text="\n".join(lines) + "\n")


def _how_to_answer(task: Task) -> str:
    entry, row = task.entry, language(task.entry.language)
    purpose = (
        f"It must define `{entry.name}`." if entry.name is not None
        else f"It is run as `{' '.join(row.argv_for(entry.path))}`."
    )
    lines = [
        f"Reply with the whole content of `{entry.path}` in one fenced block tagged `{entry.language}`. {purpose}",
        'Further files go into blocks of their own, each with its path: ```' + entry.language + ' title="PATH".',
        "Instead of whole files you may reply with a unified diff in a block tagged `diff`; it applies to your latest "
        "answer, and where it does not, to the files as given.",
        "The code runs in a sandbox without a network. You are told what was wrong with it and may answer again.",
    ]
    if task.grading is Grading.ON_SUBMIT:
        lines.append(
            f"Only what you hand in is judged, once: end a reply with the line {SUBMIT} to hand in its code, or reply "
            f"{SUBMIT} alone to hand in your latest answer.",
        )
    return "\n".join(lines)


def shown_files(task: Task) -> Iterable[str]:
    """Each of a task's files as it is shown, or why it is not."""
    left = SHOWN_FILE_BYTES
    for path, content in sorted(task.files.items()):
        text = _text(content)
        if text is None or len(content) > left:
            why = "not text" if text is None else "too long to show"
            yield f"File `{path}`: {len(content)} bytes, {why}."
            continue
        left -= len(content)
        fence = "`" * max(3, 1 + longest_run(text))
        yield f"File `{path}`:\n{fence}\n{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{fence}"


def _text(content: bytes) -> str | None:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def longest_run(text: str) -> int:
    """The longest run of backticks: a fence must be longer."""
    longest = run = 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    return longest


def _shown(shown: Shown) -> Sequence[str]:
    lines: list[str] = []
    if shown.outcome is not None:
        lines += _outcome(shown.outcome)
    if shown.verdict is not None:
        lines += _verdict(shown.verdict)
    return lines


def _outcome(outcome: Outcome) -> Sequence[str]:
    lines = [f"The program ended: {outcome.status.value}."]
    for name, text in (("stdout", outcome.text), ("stderr", outcome.error_text)):
        if text.strip():
            lines.append(f"{name}: {indented(clipped(text.strip()))}")
    return lines


def _verdict(verdict: Verdict) -> Sequence[str]:
    failed = [test for test in verdict.tests if test.passed is not Passed.PASSED]
    passed = len(verdict.tests) - len(failed)
    lines = [f"{passed} of {len(verdict.tests)} visible tests passed."]
    if verdict.fault is not None:
        lines.append(finding(verdict.fault))
    told = {verdict.fault} if verdict.fault is not None else set[Fault]()
    for test in failed[:SHOWN_TESTS]:
        if test.fault is not None and test.fault not in told:
            lines.append(finding(test.fault, subject=test.id))
        elif test.fault is None:
            lines.append(f"[{test.passed.value}] {test.id}")
    if len(failed) > SHOWN_TESTS:
        lines.append(f"{len(failed) - SHOWN_TESTS} more visible tests failed.")
    lines += [f"Variables: {indented(clipped(seen.text))}" for seen in verdict.evidence if seen.source == STATES]
    return lines


def finding(fault: Fault, *, subject: str = "") -> str:
    """A fault in words, its name in brackets first."""
    place = f"{fault.file}:{fault.line}" if fault.file and fault.line else fault.file or ""
    head = " ".join(part for part in (f"[{fault.kind.value}]", subject, f"({place})" if subject and place else place)
                    if part)
    joint = ": " if subject or place else " "
    return f"{head}{joint}{indented(clipped(fault.message))}"


def clipped(text: str, most: int = SHOWN_CHARS) -> str:
    """The beginning and the end of a text, and how much was left out between."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def indented(text: str) -> str:
    """One paragraph of several lines whose further lines cannot be taken for lines of ours."""
    first, *more = text.splitlines() or [""]
    return "\n".join([first, *(f"    {line}" for line in more)])

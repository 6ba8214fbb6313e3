"""What a reviewer sees of an attempt: task, answer beside the author's, evidence, and the group's other answers."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Mapping

import msgspec

from quintain.store import Run, Standing, last_attempt, standing
from quintain.tasks import Item
from quintain.types import Built, Flag, Graded, Opened, Program, Reward, Verdict, content_digest

#: Of each file this many characters are kept, the middle cut out.
FILE_CHARS = 40_000
#: Of each other answer of the group.
SIBLING_CHARS = 4_000
SIBLINGS = 8


class Tried(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finished attempt of a run that was graded: what was handed in and what it came to."""

    run: str
    episode: str
    task: str
    task_version: str
    group: str
    instructions: str
    program: Program
    verdict: Verdict
    reward: Reward

    @property
    def source(self) -> str:
        """The same for the same attempt, whichever queue it is added to."""
        return f"{self.run}/{self.episode}"


class Sibling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another answer of the same group."""

    episode: str
    solved: bool
    reward: float
    answer: str


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One attempt as it is shown. `answer` are the files that are not as given, as text; `difference` is a unified diff
    from the author's answer to this one, `None` where there is no author's answer."""

    run: str
    episode: str
    task: str
    instructions: str
    entry: str
    answer: dict[str, str]
    difference: str | None
    verdict: Verdict
    reward: Reward
    flags: tuple[Flag, ...] = ()
    siblings: tuple[Sibling, ...] = ()


def tried_of(run: Run) -> Iterator[Tried]:
    """The attempts of a run that are finished and graded, in the order in which they began. Raises HouseError for a
    journal that cannot be read."""
    for episode in run.journal.episodes():
        log = tuple(run.journal.read(episode))
        if standing(log) is not Standing.FINISHED:
            continue
        opened: Opened | None = None
        program: Program | None = None
        for event in last_attempt(log):
            if isinstance(event, Opened):
                opened = event
            elif isinstance(event, Built):
                program = event.program
            elif isinstance(event, Graded) and event.final and opened is not None and program is not None:
                yield Tried(
                    run=run.name, episode=episode, task=opened.task, task_version=opened.task_version,
                    group=opened.group, program=program, verdict=event.verdict, reward=event.reward,
                    instructions="\n\n".join(message.text for message in opened.conversation),
                )


def case_of(tried: Tried, item: Item | None, siblings: Iterator[Tried] | tuple[Tried, ...] = ()) -> Case:
    """The case of an attempt. `item` is its task with the author's answer, if it is known."""
    given: Mapping[str, bytes] = item.task.files if item else {}
    oracle = item.exam.oracle if item else None
    files = tried.program.files
    entry = item.task.entry.path if item else next(iter(sorted(files)), "")
    answer = {path: _text(content) for path, content in files.items() if given.get(path) != content}
    others = [other for other in siblings if other.episode != tried.episode][:SIBLINGS]
    return Case(
        run=tried.run, episode=tried.episode, task=tried.task, entry=entry,
        instructions=item.task.instructions if item else tried.instructions, answer=answer,
        difference=None if oracle is None else difference(oracle, files), verdict=tried.verdict, reward=tried.reward,
        flags=tried.reward.flags,
        siblings=tuple(Sibling(
            episode=other.episode, solved=other.reward.solved, reward=other.reward.total,
            answer=_text(other.program.files.get(entry, b""), SIBLING_CHARS),
        ) for other in others),
    )


def difference(author: Mapping[str, bytes], answer: Mapping[str, bytes]) -> str:
    """A unified diff from the author's files to the answer's; files that the author's answer does not have are left to
    the answer itself."""
    lines: list[str] = []
    for path in sorted(author):
        before, after = _text(author[path]).splitlines(), _text(answer.get(path, b"")).splitlines()
        lines += difflib.unified_diff(before, after, f"author/{path}", f"answer/{path}", lineterm="")
    return "\n".join(lines)


def behaviour_of(program: Program, entry: str) -> str:
    """A name for what an answer does, the same for answers that import and call the same things in the same kinds of
    statements, whatever its own names are. Of what is no Python: the set of its words."""
    text = program.files.get(entry, b"").decode("utf-8", "replace")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return content_digest(sorted(set(re.findall(r"[A-Za-z_$]+", text))))[:16]
    own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    marks: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            marks |= {f"import {alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            marks.add(f"import {node.module}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in own:
            marks.add(f"call {node.func.id}")
        elif isinstance(node, ast.Attribute):
            marks.add(f"attribute {node.attr}")
        elif isinstance(node, ast.stmt):
            marks.add(type(node).__name__)
    return content_digest(sorted(marks))[:16]


def _text(content: bytes, limit: int = FILE_CHARS) -> str:
    text = content.decode("utf-8", "replace")
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"

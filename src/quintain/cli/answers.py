"""The answers that a task's author wrote, told as replies: what the oracle, null and repair policies say. Pure."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath

from quintain.policy import Draft
from quintain.tasks import IN_A_SHELL, AnswerSuite, Item, ScriptSuite
from quintain.types import CLASS_OF, FaultKind, TaskError

Tree = Mapping[str, bytes]

#: What feedback can name of a wrong answer: any failure of the policy's, or that it is not solved.
WRONG = (*(kind.value for kind, letter in CLASS_OF.items() if letter in "ABCDEF"), "unsolved")


def oracle_reply(item: Item) -> str:
    """The reply that must solve the task. Raises TaskError for a task without an oracle."""
    if item.exam.oracle is None:
        raise TaskError(f"task {item.task.id} has no oracle answer: add oracle/ to it, or use another policy")
    if item.task.kind in IN_A_SHELL:
        return commanded(item.exam.oracle, item, oracle=True)
    return reply_of(item.exam.oracle, item)


def null_reply(item: Item) -> str:
    """The first reply that must not solve the task."""
    return null_replies(item)[0]


def null_replies(item: Item) -> tuple[str, ...]:
    """The replies that must not solve the task; for a task that names none, an empty file."""
    trees: tuple[Tree, ...] = item.exam.null or ({item.task.entry.path: b""},)
    if item.task.kind in IN_A_SHELL:
        return tuple(commanded(tree, item) for tree in trees)
    return tuple(reply_of(tree, item) for tree in trees)


def repairs(item: Item) -> tuple[Draft, ...]:
    """Drafts on the way from wrong to right: one that does not build (where we know how), one that is wrong, one that
    is right. Each is given up for what feedback would tell of it. Raises TaskError for a task without an oracle."""
    if item.task.kind in IN_A_SHELL:
        return (Draft(reply=oracle_reply(item)),)  # nobody tells a shell what is wrong before it hands in
    right, wrong = Draft(reply=oracle_reply(item)), Draft(reply=null_reply(item), flaws=WRONG)
    path, language = item.task.entry.path, item.task.entry.language
    source = (item.exam.oracle or {}).get(path)
    if language != "python" or source is None:
        return (wrong, right)
    unbuilt = spoilt(source.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    reply = reply_of({**(item.exam.oracle or {}), path: unbuilt}, item)
    return (Draft(reply=reply, flaws=(FaultKind.SYNTAX_ERROR.value,)), wrong, right)


def spoilt(source: str) -> str:
    """Python that does not compile: the first `def` or `class` loses its colon; where none has one, a line is added."""
    text, changed = re.subn(r"^(\s*(?:def|class)\b[^\n]*):[ \t]*$", r"\1", source, count=1, flags=re.MULTILINE)
    return text if changed else source + "\n)\n"


def reply_of(tree: Tree, item: Item) -> str:
    """A file tree as a model would write it: one fenced block for each file, with its path when there are several.

    Raises TaskError for a file that is no UTF-8 text: a reply is text.
    """
    entry = item.task.entry
    if isinstance(item.exam.hidden, AnswerSuite):
        return tree.get(entry.path, b"").decode("utf-8", "replace")  # the answer is what is said
    alone = set(tree) == {entry.path}
    blocks = []
    for path, content in sorted(tree.items(), key=lambda pair: (pair[0] != entry.path, pair[0])):
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise TaskError(f"task {item.task.id}: the answer's file {path!r} is no UTF-8 text: {error}") from error
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
        tag = entry.language if path.endswith(_suffix(entry.path)) else "text"
        info = tag if alone else f'{tag} title="{path}"'
        blocks.append(f"{fence}{info}\n{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{fence}\n")
    return "\n".join(blocks)


def commanded(tree: Tree, item: Item, *, oracle: bool = False) -> str:
    """An answer that is a script as one command that lays it below /solution, runs it and hands in: of a task in steps
    one script after the other, each in its folder. Its files travel in base64, so any bytes do.

    Raises TaskError for a tree without the task's entry, and where the oracle's environment needs a value.
    """
    suite = item.exam.hidden
    steps = [step.name for step in suite.steps] if isinstance(suite, ScriptSuite) else []
    lines = _exports(suite.oracle_env if oracle and isinstance(suite, ScriptSuite) else {}, item)
    lines.append("home=$PWD")
    for name in steps or [""]:
        own = {path.removeprefix(f"{name}/"): content for path, content in tree.items() if path.startswith(f"{name}/")}
        lines += _laid(own or tree if name else tree, item)
    command = "\n".join(lines)
    return f"```bash\n{command}\n```\nSUBMIT\n"


def _laid(files: Tree, item: Item) -> list[str]:
    entry = item.task.entry.path
    if entry not in files:
        raise TaskError(f"task {item.task.id}: expected {entry} in its answer, found {', '.join(files) or 'none'}")
    lines = ["rm -rf /solution"]
    for path, content in sorted(files.items()):
        place = shlex.quote(f"/solution/{path}")
        folder = shlex.quote(str(PurePosixPath("/solution", path).parent))
        packed = base64.encodebytes(content).decode()
        lines.append(f"mkdir -p {folder} && base64 -d > {place} <<'END'\n{packed}END")
    start = shlex.quote(f"/solution/{entry}")
    runs = f"chmod +x {start} && {start}" if files[entry].startswith(b"#!") else f"bash {start}"
    return [*lines, f"cd \"$home\" && {runs}"]


def _exports(env: Mapping[str, str], item: Item) -> list[str]:
    """The oracle's environment. What the house would have to be asked for is refused: a reply has no house."""
    lines = []
    for name, value in env.items():
        if needed := re.search(r"\$\{[A-Za-z_]\w*\}", value):
            raise TaskError(f"task {item.task.id}: its oracle's environment needs a value for {needed[0]}, which a "
                            "reply cannot have: quintain tasks check", kind=FaultKind.TASK_ENVIRONMENT)
        plain = re.sub(r"\$\{[A-Za-z_]\w*:-([^}]*)\}", r"\1", value)
        lines.append(f"export {name}={shlex.quote(plain)}")
    return lines


def _suffix(path: str) -> str:
    name = path.rpartition("/")[2]
    return name[name.rfind("."):] if "." in name else ""

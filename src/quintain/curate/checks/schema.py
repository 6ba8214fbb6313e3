"""Step 1: whether a task says what it must: something to ask, tests, an answer, limits that hold, fixed images."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from quintain.curate.finding import Finding, Problem, found
from quintain.curate.site import Site
from quintain.tasks import AnswerSuite, Item, ScriptSuite, StdioSuite

_LICENCE = re.compile(r"(?i)\blicen[cs]e\b|spdx")
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")


class Schema:
    """Reading has already refused what is malformed; this is about what is there and says too little."""

    name = "schema"
    version = "1"
    runs = False

    async def examine(self, item: Item, site: Site, earlier: Mapping[str, Finding]) -> Finding:
        return found(self.name, list(_problems(item)), evidence=[f"{len(item.task.files)} files, {_tests(item)}"],
                     remedy="say what is missing in the task itself; docs/writing-a-task.md lists the keys")


def _problems(item: Item) -> Iterator[Problem]:
    task, exam = item.task, item.exam
    if not task.instructions.strip():
        yield Problem(code="no instructions", text="expected what is asked, found nothing")
    if isinstance(exam.hidden, StdioSuite) and not exam.hidden.cases:
        yield Problem(code="no tests", text="expected at least one case, found none")
    if not isinstance(exam.hidden, StdioSuite | AnswerSuite) and not exam.hidden.files:
        yield Problem(code="no tests", text="expected at least one test file, found none")
    if isinstance(exam.hidden, AnswerSuite) and not exam.hidden.expected and not exam.hidden.entry:
        yield Problem(code="no tests", text="expected an answer to compare with, found none")
    if exam.oracle is None:
        yield Problem(code="no oracle", fails=False,
                      text="it has no answer of its author's: nothing shows that it can be solved")
    limits = task.limits
    if limits.command.wall_seconds > limits.episode.wall_seconds:
        yield Problem(code="limits", text=f"one command may take {limits.command.wall_seconds:g} s, the whole episode "
                                          f"only {limits.episode.wall_seconds:g} s", fails=False)
    image = task.image.removesuffix("+rw")
    if image.startswith("docker:") and not _DIGEST.search(image):
        yield Problem(code="unpinned image", fails=False, text=f"the image {image.removeprefix('docker:')!r} is a name "
                      "that may mean another image tomorrow: expected NAME@sha256:DIGEST")
    if isinstance(exam.hidden, ScriptSuite) and exam.hidden.package is not None:
        held = exam.hidden.package.files
        if not any("LICENSE" in p or _LICENCE.search(c.decode("utf-8", "replace")) for p, c in held.items()
                   if p.count("/") == 0):
            yield Problem(code="no licence", fails=False,
                          text="nothing in the directory says under which licence it is")


def _tests(item: Item) -> str:
    hidden = item.exam.hidden
    if isinstance(hidden, StdioSuite):
        return f"{len(hidden.cases)} cases"
    return "one answer" if isinstance(hidden, AnswerSuite) else f"{len(hidden.files)} test files"

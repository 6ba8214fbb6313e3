"""One attempt at a task as graders and detectors see it: what was asked, handed in, and seen of it."""

from __future__ import annotations

import msgspec

from quintain.types.conversation import Turn
from quintain.types.program import Outcome, Program
from quintain.types.reward import Evidence, Verdict
from quintain.types.task import Task


class Attempt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`program.files` is the whole work tree as handed in, `task.files` the tree as given. `turns` are the replies that
    led to it, oldest first; `outcomes` what its own runs did, as the backend measured them; `evidence` what probes
    saw on the verifier's side. `None` and empty mean not there or not measured, never that all is well."""

    task: Task
    program: Program | None = None
    turns: tuple[Turn, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    verdict: Verdict | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def changed(self) -> dict[str, bytes]:
        """The handed-in files that are not as given, by path."""
        files = self.program.files if self.program else {}
        return {path: content for path, content in files.items() if self.task.files.get(path) != content}

    @property
    def removed(self) -> tuple[str, ...]:
        """The given files that are not there any more, sorted."""
        return tuple(sorted(set(self.task.files) - set(self.program.files))) if self.program else ()

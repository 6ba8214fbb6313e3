"""The project that a reply makes of a task: its files, and how it starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from quintain.program.languages import language
from quintain.program.parse import Answer
from quintain.program.patch import apply_patch
from quintain.program.paths import clashing_path, clean_path, forbidden, is_protected
from quintain.types import Entry, Fault, FaultKind, Owner, Program, Task

NO_ENVIRONMENT: Mapping[str, str] = {}


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """A program that can be run. `own_files` are those that the policy wrote or changed; `protected` those that it
    wanted to change and may not; `notes` tell what was tolerated on the way."""

    program: Program
    own_files: tuple[str, ...]
    protected: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def assemble(
    task: Task, answer: Answer, *, protected: Collection[str] = (), stdin: bytes = b"",
    env: Mapping[str, str] = NO_ENVIRONMENT,
) -> Build | Fault:
    """The task's files with the answer put in, or the policy's fault (`forbidden_path`, or one of a patch).

    A task that names a function (`entry.name`) has an empty `argv`: it is called, not started. Otherwise `argv` comes
    from the language table. Files under a `protected` glob stay the task's, and are reported. Raises ValueError for an
    `entry.language` that the table lacks.
    """
    argv = () if task.entry.name is not None else language(task.entry.language).argv_for(task.entry.path)
    put = _patched(task, answer.patch, protected) if answer.patch is not None else _laid(task, answer, protected)
    if isinstance(put, Fault):
        return put
    files, own, kept, notes = put
    program = Program(files=files, argv=argv, stdin=stdin, env=dict(env), language=task.entry.language)
    return Build(program=program, own_files=own, protected=kept, notes=(*answer.notes, *notes))


_Put = tuple[dict[str, bytes], tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def _patched(task: Task, patch: str, protected: Collection[str]) -> _Put | Fault:
    done = apply_patch(task.files, patch, protected=protected)
    if isinstance(done, Fault):
        return done
    if task.entry.path not in done.tree:
        return _missing_file(task.entry)
    own = tuple(path for path in done.changed if path in done.tree)
    return done.tree, own, done.protected, done.notes


def _laid(task: Task, answer: Answer, protected: Collection[str]) -> _Put | Fault:
    files = dict(task.files)
    own: list[str] = []
    kept: list[str] = []
    for written, content in answer.files.items():
        path = clean_path(written)
        if isinstance(path, Fault):
            return path
        if is_protected(path, protected):
            kept.append(path)
            continue
        if path in own:
            return forbidden(written, "the reply names this file twice")
        files[path] = content
        own.append(path)
    if task.entry.path not in files:
        return _missing_file(task.entry)
    clash = clashing_path(files)
    if clash is not None:
        return forbidden(clash, "it would be a file and a folder")
    return files, tuple(sorted(own)), tuple(kept), tuple(f"protected, left as it was: {path}" for path in kept)


def _missing_file(entry: Entry) -> Fault:
    return Fault(
        owner=Owner.POLICY, kind=FaultKind.MISSING_ENTRY_POINT, file=entry.path,
        message=f"expected the answer to leave a file {entry.path!r}, found none",
    )

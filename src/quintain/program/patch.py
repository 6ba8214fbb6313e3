"""A patch put on a tree of files: all of it or nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from quintain.program._hunks import FileChange, Reading, read_patch
from quintain.program._names import Malformed
from quintain.program._place import Content, DoesNotFit, place_hunk
from quintain.program.paths import clashing_path, clean_path, is_protected
from quintain.types import Fault, FaultKind, Owner

MAX_PATCH_BYTES = 4 * 1024 * 1024
_LINK_MODES = ("120000", "160000")


class Patched(msgspec.Struct, frozen=True, kw_only=True):
    """The tree after the patch. `changed` are the paths written or removed; `protected` those that the patch wanted
    to change and may not: left as they were. `notes` tell what was tolerated (offsets, line ends)."""

    tree: dict[str, bytes]
    changed: tuple[str, ...]
    protected: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def apply_patch(
    tree: Mapping[str, bytes], patch: str | bytes, *, protected: Collection[str] = (), recount: bool = False,
) -> Patched | Fault:
    """The tree with a unified (or git) diff applied, or the policy's fault; the given tree is never changed.

    A hunk goes where its header says, moved by what the hunks before it were off; if its lines are not there, to the
    only other place where they are (`offset` in the notes); two such places are `patch_ambiguous`, none is
    `patch_does_not_apply`. No fuzz, no reversal. Hunk counts must be right (`patch_malformed`, with the line) unless
    `recount`. Line ends and a missing final newline are tolerated: the file keeps its own. Prose and a fence around
    the patch are passed over. Renames, copies, new, deleted and empty files as git writes them; modes are noted and not
    kept. `protected` are globs (see `is_protected`). A patch that changes nothing is `empty_patch`.

    Covers: '..', absolute paths, symbolic links, submodules, '.git' (`forbidden_path`). Does not cover: binary patches
    (`patch_malformed`) and combined diffs of merges.
    """
    raw = patch.encode("utf-8", "surrogatepass") if isinstance(patch, str) else patch
    if len(raw) > MAX_PATCH_BYTES:
        return _fault(FaultKind.PATCH_MALFORMED, f"expected at most {MAX_PATCH_BYTES} bytes, found {len(raw)}")
    if not raw.strip():
        return _fault(FaultKind.EMPTY_PATCH, "expected a patch, found nothing")
    try:
        reading = read_patch(raw, recount=recount)
    except Malformed as malformed:
        return malformed.fault
    if not reading.changes:
        found = raw.strip().split(b"\n", 1)[0][:60].decode("utf-8", "replace")
        return _fault(FaultKind.PATCH_MALFORMED, f"line 1 of the patch: expected '--- a/FILE' or 'diff --git', "
                                                 f"found {found!r} and no header after it", line=1)
    work = _Work(tree, protected, reading)
    for change in reading.changes:
        fault = work.take(change)
        if fault is not None:
            return fault
    return work.result()


class _Work:
    """The copy of the tree on which the changes are tried, one file after the other."""

    def __init__(self, tree: Mapping[str, bytes], globs: Collection[str], reading: Reading) -> None:
        self._base = tree
        self._tree = dict(tree)
        self._globs = globs
        self._notes = list(reading.notes)
        self._protected: list[str] = []
        # what the patch renames or deletes is free for other files
        self._leaving = {change.old_path for change in reading.changes if change.is_rename or change.new_path is None}
        self._made: set[str] = set()

    def take(self, change: FileChange) -> Fault | None:
        """Apply one file's change to the copy; the fault that stops the whole patch, if there is one."""
        if any(mode in _LINK_MODES for mode in change.modes):
            where = ", ".join(change.paths)
            return _fault(FaultKind.FORBIDDEN_PATH, f"expected plain files, found a link or submodule: {where}")
        cleaned = self._cleaned(change)
        if isinstance(cleaned, Fault):
            return cleaned
        off_limits = [p for p in cleaned.paths if is_protected(p, self._globs)]
        if off_limits:
            self._protected.extend(p for p in off_limits if p not in self._protected)
            self._notes.append(f"protected, left as it was: {', '.join(off_limits)}")
            return None
        if change.is_binary:
            return Malformed(change.at, "expected a text patch, found a binary one").fault
        if change.modes and (change.old_path is not None or "100755" in change.modes):
            self._notes.append(f"file modes are not kept: {', '.join(cleaned.paths)}")
        return self._write(cleaned)

    def _cleaned(self, change: FileChange) -> FileChange | Fault:
        paths: list[str | None] = []
        for path in (change.old_path, change.new_path):
            clean = clean_path(path) if path is not None else None
            if isinstance(clean, Fault):
                return clean
            paths.append(clean)
        old, new = paths
        if old is not None and new is not None and old != new and not (change.is_rename or change.is_copy):
            old = new = new if new in self._tree else old  # `--- a.py.orig`, `+++ a.py`: the one that exists
        return msgspec.structs.replace(change, old_path=old, new_path=new)

    def _write(self, change: FileChange) -> Fault | None:
        old, new = change.old_path, change.new_path
        if old is None and new is None:
            return Malformed(change.at, "expected a file on one side, found /dev/null on both").fault
        source = self._base if change.is_rename or change.is_copy else self._tree  # git names the state before
        if old is not None and old not in source:
            return _misfit(f"expected a file {old!r} in the tree, found none")
        if new is not None and new != old and new in self._tree and (new in self._made or new not in self._leaving):
            return _misfit(f"{new!r} is to be made, but is in the tree already")
        content = Content.of(source[old] if old is not None else b"")
        fault = self._place(change, content)
        if fault is not None:
            return fault
        if new is None:
            if content.to_bytes():
                return _misfit(f"{old!r} is to be deleted, but lines are left that the patch does not remove")
            self._remove(old)
            return None
        if new != old and not change.is_copy:
            self._remove(old)
        self._tree[new] = content.to_bytes()
        self._made.add(new)
        return None

    def _remove(self, path: str | None) -> None:
        """A file that another change of the patch has just made stays: two files may swap their names."""
        if path is not None and path not in self._made:
            self._tree.pop(path, None)

    def _place(self, change: FileChange, content: Content) -> Fault | None:
        name = change.new_path or change.old_path
        for number, hunk in enumerate(change.hunks, 1):
            try:
                placed = place_hunk(content, hunk)
            except DoesNotFit as misfit:
                where = f"hunk {number} of {name} (line {hunk.at} of the patch)"
                return _fault(misfit.kind, f"{where}: {misfit}", file=name, line=max(1, hunk.old_start))
            if placed.offset:
                self._notes.append(f"hunk {number} of {name} applied with offset {placed.offset}")
            if placed.line_ends_ignored:
                self._notes.append(f"hunk {number} of {name} applied with other line ends; the file's own are kept")
        return None

    def result(self) -> Patched | Fault:
        changed = tuple(sorted(
            path for path in {*self._base, *self._tree} if self._base.get(path) != self._tree.get(path)
        ))
        if not changed:
            why = f"only protected files: {', '.join(self._protected)}" if self._protected else "nothing"
            return _fault(FaultKind.EMPTY_PATCH, f"expected a patch of the tree, found one that changes {why}")
        clash = clashing_path(self._tree)
        if clash is not None:
            return _fault(FaultKind.FORBIDDEN_PATH, f"{clash!r} would be a file and a folder")
        return Patched(
            tree=self._tree, changed=changed, protected=tuple(self._protected),
            notes=tuple(dict.fromkeys(self._notes)),
        )


def _misfit(message: str) -> Fault:
    return _fault(FaultKind.PATCH_DOES_NOT_APPLY, message)


def _fault(kind: FaultKind, message: str, *, file: str | None = None, line: int | None = None) -> Fault:
    return Fault(owner=Owner.POLICY, kind=kind, message=message, file=file, line=line)

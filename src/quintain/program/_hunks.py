"""A unified diff read into file changes, line by line, counted as its headers say."""

from __future__ import annotations

import re

import msgspec

from quintain.program._names import Malformed, git_names, header_name, unquote, without_prefix

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_MODE = re.compile(rb"(?:old mode|new mode|new file mode|deleted file mode) (\d{6})$")
_FENCE = re.compile(rb"[ \t]*(?:`{3,}|~{3,})")


class Line(msgspec.Struct, frozen=True):
    """One line of a hunk: `sign` is ' ', '-' or '+'; `ends` says whether a newline follows it."""

    sign: str
    content: bytes
    ends: bool = True


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    """`old_start` as stated (from 1; 0 for an empty side), `at` the line of its header in the patch."""

    old_start: int
    old_count: int
    at: int
    lines: tuple[Line, ...]

    @property
    def old(self) -> list[bytes]:
        return [line.content for line in self.lines if line.sign != "+"]


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """What the patch does to one file. A path of `None` stands for /dev/null."""

    old_path: str | None
    new_path: str | None
    at: int
    hunks: tuple[Hunk, ...] = ()
    is_rename: bool = False
    is_copy: bool = False
    modes: tuple[str, ...] = ()
    is_binary: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(p for p in (self.old_path, self.new_path) if p is not None))


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    changes: tuple[FileChange, ...]
    notes: tuple[str, ...]


def read_patch(patch: bytes, *, recount: bool) -> Reading:
    """The changes of a patch in order; text that belongs to none is passed over. Raises Malformed."""
    return _Reader(patch, recount=recount).read()


class _Names:
    """The header of one file while it is read."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.old: str | None = None
        self.new: str | None = None
        self.git: tuple[str, str] | None = None
        self.renamed: dict[str, str] = {}
        self.copied: dict[str, str] = {}
        self.flags: set[str] = set()
        self.modes: list[str] = []


class _Reader:
    def __init__(self, patch: bytes, *, recount: bool) -> None:
        self.lines = patch.split(b"\n")
        self.cut_newline = self.lines[-1] != b""
        if not self.cut_newline:
            self.lines.pop()
        self.recount = recount
        self.index = 0
        self.notes: list[str] = []
        if self.cut_newline and patch.strip():
            self.notes.append("the patch had no final newline")
        if self._is_crlf():
            self.lines = [line.removesuffix(b"\r") for line in self.lines]
            self.notes.append("the patch has CRLF line ends; the file's own are kept")

    def _is_crlf(self) -> bool:
        """Whether its headers end in CR: then the transport, not the author, put one on every line."""
        headers = [line for line in self.lines if line.startswith((b"--- ", b"+++ ", b"@@ -"))]
        return bool(headers) and all(line.endswith(b"\r") for line in headers)

    def read(self) -> Reading:
        changes: list[FileChange] = []
        while self.index < len(self.lines):
            line = self.lines[self.index]
            if line.startswith(b"diff --git ") or self._at_names():
                changes.append(self._change())
            elif line.startswith(b"@@"):
                raise Malformed(self.index + 1, "expected '--- a/FILE' and '+++ b/FILE' before a hunk, found '@@'")
            else:
                self.index += 1
        return Reading(changes=tuple(changes), notes=tuple(self.notes))

    def _at_names(self) -> bool:
        here = self.lines[self.index:self.index + 2]
        return len(here) == 2 and here[0].startswith(b"--- ") and here[1].startswith(b"+++ ")

    def _at_next_file(self) -> bool:
        """A removed line '-- x' looks like a header too, so here a hunk must follow the names."""
        return self._at_names() and any(line.startswith(b"@@") for line in self.lines[self.index + 2:self.index + 3])

    def _change(self) -> FileChange:
        names = _Names(self.index + 1)
        if self.lines[self.index].startswith(b"diff --git "):
            names.git = git_names(self.lines[self.index], self.index + 1)
            self.index += 1
            self._extended(names)
        if self.index < len(self.lines) and self._at_names():
            names.old = header_name(self.lines[self.index][4:], self.index + 1)
            names.new = header_name(self.lines[self.index + 1][4:], self.index + 2)
            self.index += 2
        hunks: list[Hunk] = []
        while self.index < len(self.lines) and self.lines[self.index].startswith(b"@@"):
            hunks.append(self._hunk())
        return _finish(names, tuple(hunks))

    def _extended(self, names: _Names) -> None:
        """git's own header lines between 'diff --git' and '---'."""
        while self.index < len(self.lines) and not self._at_names():
            line = self.lines[self.index]
            words = line.split(b" ", 2)
            if line.startswith((b"rename from ", b"rename to ", b"copy from ", b"copy to ")):
                kept = names.renamed if words[0] == b"rename" else names.copied
                kept[words[1].decode()] = unquote(words[2], self.index + 1)
            elif (mode := _MODE.match(line)) is not None:
                names.modes.append(mode[1].decode())
                names.flags.update({"new"} if line.startswith(b"new file") else ())
                names.flags.update({"deleted"} if line.startswith(b"deleted") else ())
            elif line.startswith((b"Binary files ", b"GIT binary patch")):
                names.flags.add("binary")
            elif not line.startswith((b"index ", b"similarity index ", b"dissimilarity index ")):
                return
            self.index += 1

    def _hunk(self) -> Hunk:
        at = self.index + 1
        header = _HUNK.match(self.lines[self.index])
        if header is None:
            found = self.lines[self.index][:60].decode("utf-8", "replace")
            raise Malformed(at, f"expected '@@ -LINE,COUNT +LINE,COUNT @@', found {found!r}")
        old_count = int(header[2]) if header[2] is not None else 1
        new_count = int(header[4]) if header[4] is not None else 1
        self.index += 1
        body = self._recounted() if self.recount else self._counted(at, old_count, new_count)
        counted = sum(line.sign != "+" for line in body)
        if self.recount and (counted, sum(line.sign != "-" for line in body)) != (old_count, new_count):
            self.notes.append(f"the counts of the hunk at line {at} of the patch were wrong and were counted anew")
        return Hunk(old_start=int(header[1]), old_count=counted, at=at, lines=tuple(body))

    def _counted(self, at: int, old_count: int, new_count: int) -> list[Line]:
        body: list[Line] = []
        old = new = 0
        while old < old_count or new < new_count:
            line = self._body_line()
            if line is None:
                short = (old_count - old, new_count - new)
                if self._stripped_end(short):
                    body.extend([Line(" ", b"")] * short[0])
                    self.notes.append("blank context lines at the end of the patch were missing")
                    break
                raise Malformed(at, _miscount(old_count, new_count, old, new, self._found()))
            body.append(line)
            old += line.sign != "+"
            new += line.sign != "-"
            if old > old_count or new > new_count:
                raise Malformed(at, _miscount(old_count, new_count, old, new, "more lines of one side"))
        if self.index < len(self.lines) and self._goes_on():
            raise Malformed(at, _miscount(old_count, new_count, old, new, f"another line {self._found()}"))
        return body

    def _recounted(self) -> list[Line]:
        body: list[Line] = []
        while not self._at_next_file() and (line := self._body_line()) is not None:
            body.append(line)
        while body and body[-1] == Line(" ", b"") and self.lines[self.index - 1] == b"":
            body.pop()  # blank lines between the hunk and what follows belong to neither
            self.index -= 1
        return body

    def _body_line(self) -> Line | None:
        """The next line of a hunk; a blank one is context that lost its leading space."""
        if self.index >= len(self.lines):
            return None
        raw = self.lines[self.index]
        if raw in (b"", b"\r"):
            line = Line(" ", raw)
        elif raw[:1] in (b" ", b"-", b"+"):
            line = Line(raw[:1].decode(), raw[1:])
        else:
            return None
        self.index += 1
        return Line(line.sign, line.content, not self._next_is_marker())

    def _next_is_marker(self) -> bool:
        if self.index < len(self.lines) and self.lines[self.index].startswith(b"\\"):
            self.index += 1
            return True
        return False

    def _stripped_end(self, short: tuple[int, int]) -> bool:
        """At most two blank context lines are missing, and whoever cut the final newline cut them too."""
        at_end = self.index >= len(self.lines) or _FENCE.match(self.lines[self.index]) is not None
        return at_end and short[0] == short[1] <= 2 and (self.cut_newline or self.index < len(self.lines))

    def _goes_on(self) -> bool:
        raw = self.lines[self.index]
        if raw.rstrip() == b"--" or self._at_names():  # the signature line of a mail, or the next file
            return False
        return raw[:1] in (b"+", b"-") or (raw[:1] == b" " and raw.strip() != b"")

    def _found(self) -> str:
        if self.index >= len(self.lines):
            return "the end of the patch"
        return repr(self.lines[self.index][:60].decode("utf-8", "replace"))


def _miscount(old_count: int, new_count: int, old: int, new: int, then: str) -> str:
    return (f"the hunk's header announces {old_count} old and {new_count} new lines; "
            f"found {old} old and {new} new, then {then}")


def _finish(names: _Names, hunks: tuple[Hunk, ...]) -> FileChange:
    moved = names.renamed or names.copied
    if moved:
        if set(moved) != {"from", "to"}:
            raise Malformed(names.at, "expected both 'from' and 'to' of a rename or copy")
        old: str | None = moved["from"]
        new: str | None = moved["to"]
    elif names.old is not None or names.new is not None:
        old, new = without_prefix(names.old, names.new)
    elif names.git is not None:
        old, new = without_prefix(*names.git)
        old = None if "new" in names.flags else old
        new = None if "deleted" in names.flags else new
    else:
        raise Malformed(names.at, "expected the name of a file, found none on '---', '+++', 'rename' or 'diff --git'")
    return FileChange(
        old_path=old, new_path=new, at=names.at, hunks=hunks, is_rename=bool(names.renamed),
        is_copy=bool(names.copied), modes=tuple(names.modes), is_binary="binary" in names.flags,
    )

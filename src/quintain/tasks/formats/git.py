"""What a git repository held at one commit, and nothing of what came later.

Objects are read with `ls-tree` and `cat-file`, so no hook, filter or attribute of the repository has a say; its own
configuration is read by git all the same: use repositories whose maker you trust.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from quintain.types import TaskError

MAX_BYTES = 512 * 1024 * 1024
_SECONDS = 120.0
_HEAD = re.compile(r"^(?:---|\+\+\+) (?:[ab]/)?([^\t\n]+)|^rename (?:from|to) (.+)$", re.MULTILINE)


class BaseTree(msgspec.Struct, frozen=True, kw_only=True):
    """The regular files of a commit; `left_out` says what is none (links, submodules), as 'PATH: what'."""

    files: dict[str, bytes]
    executable: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()


def base_tree(repository: Path, commit: str) -> BaseTree:
    """Raises TaskError for a folder that is no repository, a commit that is not in it, and more than 512 MiB."""
    files: dict[str, bytes] = {}
    executable: set[str] = set()
    left_out: list[str] = []
    wanted: list[tuple[str, str]] = []
    for line in _git(repository, "ls-tree", "-r", "-z", "--full-tree", checked(repository, commit)).split(b"\0"):
        if not line:
            continue
        meta, _, raw = line.partition(b"\t")
        mode, _, name = meta.decode().split(" ")
        path = os.fsdecode(raw)
        if mode in ("100644", "100755", "100664"):
            wanted.append((path, name))
            if mode == "100755":
                executable.add(path)
        else:
            left_out.append(f"{path}: {'a link' if mode == '120000' else 'a submodule'}")
    contents = _blobs(repository, [name for _, name in wanted])
    files = {path: contents[name] for path, name in wanted}
    return BaseTree(files=files, executable=frozenset(executable), left_out=tuple(left_out))


def later_objects(repository: Path, commit: str) -> tuple[str, ...]:
    """The objects of a repository that the commit does not reach, as 'TYPE NAME', sorted: what somebody with the
    repository could mine the answer from. Empty for one that ends at the commit."""
    reached = {line.split(b" ")[0] for line in
               _git(repository, "rev-list", "--objects", checked(repository, commit)).split(b"\n") if line}
    listed = _git(repository, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
    there = (line.split(b" ") for line in listed.split(b"\n") if line)
    return tuple(sorted(f"{kind.decode()} {name.decode()}" for name, kind in there if name not in reached))


def history_in(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The paths of a tree that belong to a repository inside it (`.git`, its packs, a bare one): a task's files should
    have none, or one made by `one_commit`."""
    bare = {path.rpartition("/")[0] for path in files if path.endswith("HEAD") and path.rpartition("/")[2] == "HEAD"}
    inside = [folder for folder in bare if any(path.startswith(f"{folder}/objects/") for path in files)]
    return tuple(sorted(
        path for path in files
        if ".git" in path.split("/") or any(path.startswith(f"{folder}/") for folder in inside if folder)
    ))


def one_commit(tree: BaseTree, target: Path) -> str:
    """Write a tree as a new repository whose only commit it is, always the same commit for the same tree; returns the
    commit. Raises TaskError when the place is taken, or git refuses."""
    if target.exists():
        raise TaskError("expected a place where nothing is yet", file=str(target))
    target.mkdir(parents=True)
    for path, content in tree.files.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_bytes(content)
        if path in tree.executable:
            (target / path).chmod(0o755)
    _run(target, "init", "-q", "-b", "main")
    _run(target, "add", "-A", "-f")
    who = ("-c", "user.name=base", "-c", "user.email=base@localhost")
    _run(target, *who, "commit", "-q", "--allow-empty", "--no-verify", "-m", "base",
         env={"GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2000-01-01T00:00:00Z"})
    return _run(target, "rev-parse", "HEAD").decode().strip()


def recorded(commits: Sequence[tuple[str, Mapping[str, bytes]]], target: Path) -> tuple[str, ...]:
    """Write a bare repository of these commits (message, whole tree), one after the other, always with the same names;
    returns the names. Raises TaskError where git refuses."""
    _run(target.parent, "init", "-q", "--bare", "-b", "main", str(target))
    stream = [b"reset refs/heads/main\n"]
    for number, (message, files) in enumerate(commits, 1):
        said = message.encode()
        stream.append(b"commit refs/heads/main\nmark :%d\ncommitter base <base@localhost> %d +0000\ndata %d\n%b\n"
                      % (number, 946684800 + 86400 * number, len(said), said))
        stream.append(b"from :%d\n" % (number - 1) if number > 1 else b"")
        stream.append(b"deleteall\n")
        for path, content in sorted(files.items()):
            stream.append(b"M 644 inline %b\ndata %d\n%b\n" % (path.encode(), len(content), content))
    _git(target, "fast-import", "--quiet", stdin=b"".join(stream))
    names = _git(target, "rev-list", "--reverse", "refs/heads/main").decode().split()
    return tuple(names)


def log_of(repository: Path, commit: str) -> str:
    """What led to a commit, the latest first: each message with the files that it changed."""
    shown = _git(repository, "log", "--stat", "--format=commit %h%nDate: %cs%n%n    %B", checked(repository, commit))
    return shown.decode("utf-8", "replace")


def patched(files: Mapping[str, bytes], patch: str, *, key: str) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The files that a patch changes or makes, with their content after it, and the paths that it removes. Raises
    ValueError where it does not apply as it stands, or makes anything but regular files."""
    named = {(found[1] or found[2]).strip().strip('"') for found in _HEAD.finditer(patch)}
    touched = {path: files[path] for path in named if path in files}
    with tempfile.TemporaryDirectory(prefix="quintain-patch-") as folder:
        root = Path(folder)
        for path, content in touched.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
        try:
            alone = {"GIT_CEILING_DIRECTORIES": folder}
            _run(root, "apply", "--whitespace=nowarn", "-", stdin=patch.encode(), env=alone)
        except TaskError as error:
            raise ValueError(f"{key}: expected a patch that applies to the base commit: {error.message}") from None
        after: dict[str, bytes] = {}
        for place in sorted(root.rglob("*")):
            if place.is_symlink():
                raise ValueError(f"{key}: expected regular files, found a link {place.relative_to(root)}")
            if place.is_file():
                after[place.relative_to(root).as_posix()] = place.read_bytes()
    changed = {path: content for path, content in after.items() if touched.get(path) != content}
    return changed, tuple(sorted(touched.keys() - after.keys()))


def checked(repository: Path, commit: str) -> str:
    """The full name of a commit. Raises TaskError."""
    if not re.fullmatch(r"[0-9A-Za-z][\w./-]*", commit):
        raise TaskError(f"expected the name of a commit, found {commit!r}", file=str(repository))
    return _git(repository, "rev-parse", "--verify", "-q", f"{commit}^{{commit}}").decode().strip()


def _blobs(repository: Path, names: list[str]) -> dict[str, bytes]:
    output = _git(repository, "cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode())
    found: dict[str, bytes] = {}
    place = 0
    for _ in names:
        end = output.index(b"\n", place)
        name, _, size = output[place:end].decode().split(" ")
        found[name] = output[end + 1:end + 1 + int(size)]
        place = end + 2 + int(size)
    return found


def _git(repository: Path, *words: str, stdin: bytes = b"") -> bytes:
    bare = repository / "objects"
    place = repository if bare.is_dir() else repository / ".git"
    if not place.exists():
        raise TaskError("expected a git repository, found none", file=str(repository))
    return _run(repository, f"--git-dir={place}", *words, stdin=stdin)


def _run(folder: Path, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
    """What git says, without the user's and the host's configuration."""
    plain = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
             "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *words],
            cwd=folder, input=stdin, capture_output=True, env={**plain, **(env or {})}, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TaskError(f"git cannot be run: {error}", file=str(folder)) from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        raise TaskError(f"git {words[1] if words[0].startswith('--git-dir') else words[0]}: {said[:400]}",
                        file=str(folder))
    if len(done.stdout) > MAX_BYTES:
        raise TaskError(f"expected at most {MAX_BYTES} bytes, found {len(done.stdout)}", file=str(folder))
    return done.stdout

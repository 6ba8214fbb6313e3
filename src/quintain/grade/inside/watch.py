"""What objects of the tests may do while the candidate asks them for something: nothing that reaches out of them.

A data frame that the tests hand over can evaluate text and write files, and whoever holds it can ask for that. This is
an audit hook: once set it cannot be taken away, and it sees what libraries do in C as well.
Covers: running text as code, opening files for writing, the tests' own files, descriptors and /proc, starting
programs, loading libraries, unless code of the tests (a callback of theirs) does it.
Does not cover: what a library does to memory by itself; sending on sockets that the tests opened.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

_RUNS_TEXT = frozenset({"compile", "exec"})
_DEEDS = ("ctypes.", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "os.remove", "os.rename",
          "os.truncate", "os.link", "os.symlink", "os.chmod", "os.rmdir", "shutil.", "socket.bind", "socket.connect",
          "sqlite3.connect", "sqlite3.enable_load_extension", "sqlite3.load_extension", "subprocess.Popen")
_ASKED_ABOUT = (*_RUNS_TEXT, "open", *_DEEDS)
#: Parts of the standard library that run text which they have checked themselves.
_TEXT_MAKERS = ("/collections/__init__.py", "/dataclasses.py", "/inspect.py")
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """`serving` tells whether the candidate is being served, `may_reach` which files it may name; the tests lie below
    `root`, compiled ones below `tests`."""

    def __init__(
        self, serving: Callable[[], bool], may_reach: Callable[[str], bool], *, root: str, tests: str
    ) -> None:
        self._serving = serving
        self._may_reach = may_reach
        self._root = root.rstrip("/") + "/"
        self._own = (self._root, tests, "<frozen importlib")
        self._asking = False  # what this hook does itself is not asked about again

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Raises PermissionError."""
        if not self._serving() or self._asking or not event.startswith(_ASKED_ABOUT):
            return
        self._asking = True
        try:
            makers = _TEXT_MAKERS if event in _RUNS_TEXT else ()
            refused = self._for_candidate(makers) and (event != "open" or self._shut(*args[:3]))
        finally:
            self._asking = False
        if refused:
            raise PermissionError(f"an object of the tests does not do this for an answer: {event}")

    def _for_candidate(self, makers: tuple[str, ...]) -> bool:
        """Whether no code of the tests, no import and none of `makers` stands between the candidate's question and
        what is about to happen."""
        frame: Any = sys._getframe(2)
        nearest = True
        while frame is not None:
            file, name = frame.f_code.co_filename, frame.f_code.co_name
            if file.startswith(self._own) or (nearest and makers and file.endswith(makers)):
                return False
            if name == "serve" and file.startswith("<quintain"):
                return True
            nearest = nearest and file.endswith("/ast.py")
            frame = frame.f_back
        return False

    def _shut(self, path: Any, mode: Any, flags: Any) -> bool:
        """Whether a file is closed to whoever asks for it: a descriptor, one that would be written, the tests' own."""
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str):
            return True
        real = os.path.realpath(path)
        writes = any(c in mode for c in "wax+") if isinstance(mode, str) else bool(int(flags or 0) & _WRITE_FLAGS)
        inner = (real + "/").startswith((self._root, "/proc/", "/sys/", "/dev/"))
        return (writes or inner) and not self._may_reach(real)

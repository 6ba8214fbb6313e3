"""The candidate's program: loads what was submitted and does what the verifier asks of it, until nobody asks any more.

Whatever runs in this process may be the candidate's doing: nothing that it says is evidence of anything but itself.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

from quintain.grade.inside.peer import Peer
from quintain.grade.inside.wire import Gone, Pipe

CHANNEL = 3
MAX_FRAMES = 8
MAX_PRINTED = 256 * 1024


class Candidate(Peer):
    """Serves the modules below `root`."""

    def __init__(self, pipe: Pipe, root: str) -> None:
        super().__init__(pipe)
        self._root = root
        self._pid = os.getpid()
        self._loaded: dict[str, Any] = {}
        self._serving = 0

    def serve(self, message: list[Any]) -> None:
        self._serving += 1
        try:
            super().serve(message)
        finally:
            self._serving -= 1

    def _reply(self, body: list[Any]) -> None:
        if os.getpid() != self._pid:  # a fork of the candidate came back here
            os._exit(0)
        super()._reply(body)

    def _ask(self, what: str, head: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self._serving:
            raise RuntimeError("a callback can be called only while a call is in progress")
        return super()._ask(what, head, args, kwargs)

    def begin_capture(self) -> Any:
        import io

        kept, sys.stdout = sys.stdout, io.StringIO()
        return kept

    def end_capture(self, restore: Any) -> str:
        written: Any = sys.stdout
        sys.stdout = restore
        try:
            return str(written.getvalue())[:MAX_PRINTED]
        except (AttributeError, ValueError):  # replaced or closed by the candidate
            return ""

    def take(self, tag: str, raw: list[Any]) -> Any:
        if tag == "fn":
            return getattr(__import__(raw[1]), raw[2])
        return super().take(tag, raw)

    def load(self, name: str) -> Any:
        """The submitted module of that name, wherever else there may be one of the same name."""
        if name in self._loaded:
            return self._loaded[name]
        path = os.path.join(self._root, *name.split("."))
        package = os.path.join(path, "__init__.py")
        file = package if os.path.isfile(package) else path + ".py"
        if os.path.isfile(file):
            parent, _, _ = name.rpartition(".")
            if parent:
                self.load(parent)
            self._loaded[name] = self._execute(name, file, is_package=file == package)
        elif os.path.isdir(path):
            __import__(name)
            self._loaded[name] = sys.modules[name]
        else:
            error = ModuleNotFoundError(f"No module named {name!r}", name=name)
            error.__dict__["_quintain_at"] = [[name.replace(".", "/") + ".py", 0, "<missing>"]]
            raise error
        return self._loaded[name]

    def _execute(self, name: str, file: str, *, is_package: bool) -> Any:
        code = self._compiled(file)
        module = ModuleType(name)
        module.__file__ = file
        module.__package__ = name if is_package else name.rpartition(".")[0]
        if is_package:
            module.__path__ = [os.path.dirname(file)]
        sys.modules[name] = module
        try:
            exec(code, module.__dict__)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        parent, _, last = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], last, sys.modules.get(name, module))
        return sys.modules.get(name, module)

    def _compiled(self, file: str) -> Any:
        with open(file, "rb") as source:
            text = source.read()
        try:
            return compile(text, file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 1 + text[: text.find(b"\0")].count(b"\n")
            error.__dict__["_quintain_at"] = [[self._relative(file), line, "<syntax>"]]
            raise

    def _relative(self, file: str) -> str:
        return os.path.relpath(file, self._root)

    def frames_of(self, error: BaseException) -> list[Any]:
        told = error.__dict__.get("_quintain_at")
        if told is not None:
            return list(told)
        frames = []
        trace = error.__traceback__
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if file.startswith(self._root):
                frames.append([self._relative(file), trace.tb_lineno or 0, trace.tb_frame.f_code.co_name])
            trace = trace.tb_next
        broken = getattr(error, "filename", None)
        if isinstance(error, SyntaxError) and isinstance(broken, str) and broken.startswith(self._root):
            frames.append([self._relative(broken), error.lineno or 0, "<syntax>"])
        return frames[-MAX_FRAMES:]


class LateSite:
    """Looks into the installed packages, the first time that something is found nowhere else: most programs never pay
    for the start of `site`."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if path is not None or LateSite not in sys.meta_path:
            return None
        sys.meta_path.remove(LateSite)
        import site

        before = list(sys.path)
        site.addsitepackages(set())
        if sys.path == before:
            return None
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name)


def serve_candidate() -> None:
    """Serve the modules of the working directory on descriptor 3 until the other end is closed, then leave without any
    of the candidate's last words."""
    root = os.getcwd()
    sys.set_int_max_str_digits(0)  # CPU time is limited anyway; a default of the platform is no fault of an answer
    sys.path.insert(0, root)
    sys.meta_path.append(LateSite)
    pipe = Pipe(CHANNEL)
    os.set_inheritable(CHANNEL, False)
    candidate = Candidate(pipe, root)
    while True:
        try:
            candidate.serve(pipe.receive())
        except Gone:
            os._exit(0)

"""The program that runs visible tests beside an answer and tells what its variables were where a test went wrong.

It runs in the answer's own sandbox and process: what it tells is for people and for feedback, and proves nothing.
"""

from __future__ import annotations

import collections
import importlib.util
import json
import os
import reprlib
import signal
import sys
from typing import Any

FRAMES, VARIABLES, CHARS = 4, 10, 120


class StillRunning(BaseException):
    """Raised in a test that does not end."""


def shown(value: Any) -> str:
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = CHARS
    try:
        return short.repr(value)[:CHARS]
    except Exception as error:
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"


class Recorder:
    """Follows the calls of the answer's functions; keeps how the last few of them returned."""

    def __init__(self, root: str, files: list[str]) -> None:
        self.files = {os.path.join(root, path): path for path in files}
        self.returned: collections.deque[dict[str, Any]] = collections.deque(maxlen=FRAMES)

    def trace(self, frame: Any, event: str, arg: Any) -> Any:
        if event != "call" or frame.f_code.co_filename not in self.files or frame.f_code.co_name == "<module>":
            return None
        frame.f_trace_lines = False
        return self.leave

    def leave(self, frame: Any, event: str, arg: Any) -> Any:
        if event == "return":
            self.returned.append(self.state(frame, frame.f_lineno, "returned", shown(arg)))
        return self.leave

    def state(self, frame: Any, line: int, event: str, detail: str) -> dict[str, Any]:
        names = [n for n in list(frame.f_locals) if not n.startswith("__")][:VARIABLES]
        return {
            "file": self.files[frame.f_code.co_filename], "line": line, "function": frame.f_code.co_name,
            "event": event, "detail": detail, "variables": {n: shown(frame.f_locals[n]) for n in names},
        }

    def of_error(self, error: BaseException) -> list[dict[str, Any]]:
        """The frames of the answer that an exception came through, innermost last."""
        found, step = [], error.__traceback__
        while step is not None:
            if step.tb_frame.f_code.co_filename in self.files:
                found.append((step.tb_frame, step.tb_lineno))
            step = step.tb_next
        event = "running" if isinstance(error, StillRunning) else "raised"
        detail = "" if event == "running" else f"{type(error).__name__}: {shown_message(error)}"
        return [self.state(frame, line, event, detail) for frame, line in found[-FRAMES:]]


def shown_message(error: BaseException) -> str:
    try:
        return str(error)[:CHARS]
    except Exception as other:
        return f"<a message that raises {type(other).__name__}>"


def run_test(root: str, name: str, recorder: Recorder, seconds: float) -> list[dict[str, Any]]:
    """What was seen of one test; nothing where it passes."""
    path, *parts = name.split("::")
    spec = importlib.util.spec_from_file_location("visible_test", os.path.join(root, path))
    if spec is None or spec.loader is None:
        return []
    recorder.returned.clear()
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        module = importlib.util.module_from_spec(spec)
        sys.settrace(recorder.trace)
        spec.loader.exec_module(module)
        if len(parts) == 2:
            getattr(module, parts[0])(parts[1]).debug()
        else:
            getattr(module, parts[0])()
    except BaseException as error:  # whatever an answer raises, an exit included
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_REAL, 0)
        return recorder.of_error(error) or list(recorder.returned)
    finally:
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_REAL, 0)
    return []


def stop(number: int, frame: Any) -> None:
    raise StillRunning


def main() -> None:
    asked = json.loads(sys.stdin.read())
    told, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)  # what an answer prints is no part of what is told
    os.dup2(nothing, 2)
    root = os.getcwd()
    sys.path.insert(0, root)
    signal.signal(signal.SIGALRM, stop)
    recorder = Recorder(root, asked["files"])
    found = []
    for name in asked["tests"]:
        for state in run_test(root, name, recorder, asked["seconds"]):
            found.append({"test": name, **state})
    os.write(told, json.dumps(found).encode())
    os._exit(0)  # no thread of the answer's may hold it


main()

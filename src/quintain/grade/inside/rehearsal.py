"""One conversation between the two sides before any sandbox is made, so that their forks need not learn it all again.

The interpreter adapts code to what it meets (PEP 659), fills dictionaries and caches. What is learnt before the fork is
shared by all sandboxes; what is learnt after it, each pays for with its own pages. Both sides are the house's own code,
and so is the answer that is played with: no candidate is near.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

#: The answer that is played with.
ANSWER = b"""
class Counter:
    def __init__(self, start=0):
        self.value = start

    def add(self, count):
        self.value += count
        return self.value


def same(value):
    return value


def total(values):
    return sum(values)


def refuse(text):
    raise ValueError(text)
"""

#: What it is asked, several times each: code is adapted at about its eighth run.
TESTS = b"""
from rehearsed import Counter, refuse, same, total

VALUES = [1, 2.5, "text", True, None, [1, [2]], (1, "a"), {"a": 1, "b": [2]}, {1, 2}, b"bytes", 10**20, -0.0, "\\u00e9"]


def test_values():
    for value in VALUES:
        assert same(value) == value
    assert same([VALUES]) == [VALUES]


def test_sums():
    for count in range(12):
        assert total(list(range(count))) == sum(range(count))
        assert abs(total([0.1] * count) - 0.1 * count) < 1e-6


def test_objects():
    for start in range(6):
        counter = Counter(start)
        assert counter.add(2) == start + 2
        assert counter.value == start + 2


def test_errors():
    for count in range(4):
        try:
            refuse(f"found {count}")
        except ValueError as error:
            assert str(error) == f"found {count}"
        else:
            raise AssertionError("expected a ValueError")


def test_a_failure():
    assert total([1]) == 2
"""


def _ask(side: dict[str, Any], fd: int, code: bytes) -> None:
    """The verifier's part, from its first question to its report; leaves the interpreter as it was."""
    before = list(sys.path), list(sys.meta_path), dict(sys.modules)
    report = os.open(os.devnull, os.O_WRONLY)
    try:
        peer = side["Verifier"](side["Pipe"](fd), call_seconds=5.0, run_until=time.monotonic() + 10.0)
        finder = side["Finder"](peer, ["rehearsed"])
        sys.meta_path.insert(0, finder)
        side["run_file"](side["Report"](report, peer, finder, os.getcwd()), "test_rehearsed.py", os.getcwd(), code,
                         lambda items: None)
    finally:
        os.close(report)
        sys.path[:], sys.meta_path[:] = before[0], before[1]
        for name in set(sys.modules) - set(before[2]):
            if name.startswith(("rehearsed", "test_rehearsed")):
                del sys.modules[name]


def _answer(side: dict[str, Any], fd: int, folder: str) -> None:
    """The candidate's part, until nobody asks any more."""
    pipe = side["Pipe"](fd)
    candidate = side["Candidate"](pipe, folder)
    try:
        while True:
            candidate.serve(pipe.receive())
    except side["Gone"]:
        sys.modules.pop("rehearsed", None)


def _play(ours: Callable[[int], None], theirs: Callable[[int], None]) -> None:
    """One side here, the other in a child, which ends with its part."""
    here, there = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        here.close()
        try:
            theirs(there.fileno())
        finally:
            os._exit(0)
    there.close()
    try:
        ours(here.fileno())
    finally:
        here.close()
        os.waitpid(pid, 0)


def rehearse(verifier: dict[str, Any], candidate: dict[str, Any], code: bytes) -> None:
    """Play both sides, each once in this process. `code` is TESTS as the house compiles tests."""
    folder = f"/tmp/rehearsal-{os.getpid()}"
    file = os.path.join(folder, "rehearsed.py")
    try:
        os.mkdir(folder, 0o700)
    except OSError:  # nowhere to play: every fork learns by itself
        return
    try:
        with open(file, "wb") as answer:
            answer.write(ANSWER)

        def asks(fd: int) -> None:
            _ask(verifier, fd, code)

        def answers(fd: int) -> None:
            _answer(candidate, fd, folder)

        _play(asks, answers)
        _play(answers, asks)
    finally:
        os.unlink(file)
        os.rmdir(folder)

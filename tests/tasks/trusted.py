"""Runs published reference answers, which are the data sets' own trusted code, against the suites made from them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from quintain.tasks import Item, PythonSuite, Suite

# One process for all tasks that forks for each: modules of one name never meet, and an import of pytest is not paid.
RUNNER = '''
import importlib, json, os, signal, sys, traceback, unittest

def tests_of(module):
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and issubclass(value, unittest.TestCase):
            for case in unittest.defaultTestLoader.loadTestsFromTestCase(value):
                yield f"{name}::{case._testMethodName}", case
        elif name.startswith("test") and callable(value):
            yield name, value

def run(folder):
    os.chdir(folder)
    sys.path.insert(0, folder)
    results = {}
    for file in sorted(os.listdir(folder)):
        if file.startswith("test_") and file.endswith(".py") or file.endswith("_test.py"):
            for name, test in tests_of(importlib.import_module(file[:-3])):
                try:
                    if isinstance(test, unittest.TestCase):
                        outcome = unittest.TestResult()
                        test.run(outcome)
                        results[f"{file}::{name}"] = outcome.wasSuccessful() and not outcome.skipped
                    else:
                        test()
                        results[f"{file}::{name}"] = True
                except Exception:
                    results[f"{file}::{name}"] = False
    return results

os.chdir(sys.argv[1])
for folder in sorted(os.listdir(".")):
    reader, writer = os.pipe()
    if os.fork() == 0:
        signal.alarm(int(sys.argv[2]))
        try:
            results = run(os.path.abspath(folder))
        except BaseException:
            results = {"import": False}
        os.write(writer, json.dumps(results).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read()
    os.wait()
    print(json.dumps([folder, json.loads(text) if text else {"timeout": False}]))
'''


def run_trusted(
    items: Iterable[Item], folder: Path, *, answer: Callable[[Item], Mapping[str, bytes]],
    suite: Callable[[Item], Suite | None] | None = None, seconds: int = 120,
) -> dict[str, dict[str, bool]]:
    """For each task id, how each test of its suite (by default the hidden one) went on the answer."""
    folder.mkdir()
    ids = {}
    for number, item in enumerate(items):
        chosen = suite(item) if suite else item.exam.hidden
        assert isinstance(chosen, PythonSuite)
        ids[f"{number:05}"] = item.task.id
        for path, content in {**item.task.files, **answer(item), **chosen.files}.items():
            (folder / f"{number:05}" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / f"{number:05}" / path).write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", RUNNER, str(folder), str(seconds)], capture_output=True, text=True,
        timeout=300, check=True, stdin=subprocess.DEVNULL,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('["')]
    return {ids[name]: results for name, results in map(json.loads, lines)}

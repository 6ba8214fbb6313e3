"""A small repository with a past and a future, and the row that asks for its repair."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

BUGGY = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b\n"
OLD_TEST = "from calc import add\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n"
NEW_TEST = OLD_TEST + "\n\ndef test_add():\n    assert add(20, 22) == 42\n"


def git(folder: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_AUTHOR_NAME": "a",
           "GIT_AUTHOR_EMAIL": "a@a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@a"}
    done = subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder: Path) -> dict[str, str]:
    """Three commits: before, base, and the repair with its test. Returns base, fix, and both patches."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")

    def commit(files: dict[str, str], message: str) -> str:
        for name, text in files.items():
            (folder / name).write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", message)
        return git(folder, "rev-parse", "HEAD")

    commit({"calc.py": "", "README": "x\n"}, "before")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("README")
    base = commit({"calc.py": BUGGY, "test_calc.py": OLD_TEST}, "base")
    fix = commit({"calc.py": FIXED, "test_calc.py": NEW_TEST, "future.py": "secret = 1\n"}, "repair")
    patch = {name: git(folder, "diff", base, fix, "--", path) + "\n" for name, path in
             (("patch", "calc.py"), ("test_patch", "test_calc.py"))}
    return {"base": base, "fix": fix, **patch}


def row(made: dict[str, str], **fields: object) -> dict[str, object]:
    return {
        "instance_id": "org__calc-1", "repo": "org/calc", "base_commit": made["base"], "problem_statement": "It adds.",
        "patch": made["patch"], "test_patch": made["test_patch"], "FAIL_TO_PASS": ["test_calc.py::test_add"],
        "PASS_TO_PASS": json.dumps(["test_calc.py::test_zero"]), **fields,
    }


def written(folder: Path, **fields: object) -> Path:
    """A file with one row, and the clone that it needs beside it."""
    made = repository(folder / "repos" / "org__calc")
    path = folder / "rows.jsonl"
    path.write_text(json.dumps(row(made, **fields)) + "\n")
    return path

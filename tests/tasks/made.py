"""Small items, and the places of data."""

from __future__ import annotations

from pathlib import Path

import pytest

from quintain.tasks import Exam, Item, PythonSuite

SHARED = Path(__file__).parents[3] / "shared"
DATA = SHARED / "data"
CASES = SHARED / "cases"

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="needs the handed task data in ../shared/data")
needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="needs the handed cases in ../shared/cases")

TEST = b"from solution import f\n\n\ndef test_f():\n    assert f() == 1\n"


def item(id: str, **fields: object) -> Item:
    exam = Exam(hidden=PythonSuite(files={"test_f.py": TEST}), oracle={"solution.py": b"def f():\n    return 1\n"})
    return Item.sealed(exam, **{"id": id, "instructions": f"Do {id}.", **fields})


def write(root: Path, **files: str | bytes) -> Path:
    """Files below a root; `__` in a name stands for '/', `_dot_` for '.'."""
    for name, content in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def small_task(root: Path, **files: str | bytes) -> Path:
    """A task written by hand, fit to be read; more files may be added or replaced."""
    return write(root, **{
        "task_dot_toml": "", "instructions_dot_md": "Return 1.\n", "tests__test_f_dot_py": TEST, **files,
    })

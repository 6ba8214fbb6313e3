"""A fresh task to start from: it is complete, and its own oracle solves it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from quintain.tasks.exam import Item
from quintain.tasks.formats.directory import parse
from quintain.tasks.formats.tree import Tree, write_tree
from quintain.tasks.names import check_id
from quintain.types import TaskError

#: The shapes of a task: a function that tests call, or a program that reads stdin and writes stdout.
KINDS = ("function", "program")


class _Language(msgspec.Struct, frozen=True, kw_only=True):
    """A program that prints the sum of the numbers on stdin, and the start of one that does not."""

    path: str
    start: str
    answer: str


_PROGRAMS = {
    "python": _Language(
        path="main.py",
        start="import sys\n\nnumbers = [int(word) for word in sys.stdin.read().split()]\n",
        answer="import sys\n\nnumbers = [int(word) for word in sys.stdin.read().split()]\nprint(sum(numbers))\n",
    ),
    "shell": _Language(
        path="main.sh",
        start="for number in $(cat); do\n    :\ndone\n",
        answer="total=0\nfor number in $(cat); do\n    total=$((total + number))\ndone\necho \"$total\"\n",
    ),
    "javascript": _Language(
        path="main.js",
        start="const words = require('fs').readFileSync(0, 'utf8').split(/\\s+/).filter(Boolean);\n",
        answer="const words = require('fs').readFileSync(0, 'utf8').split(/\\s+/).filter(Boolean);\n"
        "console.log(words.map(Number).reduce((a, b) => a + b, 0));\n",
    ),
}

_CASES = {"small": ("1 2 3\n", "6\n"), "one": ("7\n", "7\n"), "none": ("\n", "0\n"), "negative": ("-5 5 -1\n", "-1\n")}

_FUNCTION_TESTS = '''\
from solution import total


def test_the_sum_of_several():
    assert total([1, 2, 3]) == 6


def test_negative_numbers():
    assert total([-5, 5, -1]) == -1


def test_an_empty_list():
    assert total([]) == 0
'''


def new_task(path: Path, *, language: str = "python", kind: str = "function") -> Item:
    """Write a small complete task to `path` (which must not exist) and return it; change it into what you mean.

    `kind` is 'function' (Python only) or 'program' (python, shell, javascript). Raises TaskError for anything else, for
    a path that exists, and for a folder name that cannot be a task id.
    """
    id = check_id(path.resolve().name)
    if kind == "function" and language == "python":
        files = _function()
    elif kind == "program" and language in _PROGRAMS:
        files = _program(language, _PROGRAMS[language])
    else:
        raise TaskError(
            "expected kind 'function' with language 'python', or kind 'program' with one of "
            f"{', '.join(_PROGRAMS)}; found kind {kind!r} with language {language!r}"
        )
    tree = Tree(name=str(path), files={name: text.encode() for name, text in files.items()})
    item = parse(tree, default_id=id)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tree(path, tree)
    return item


def _function() -> dict[str, str]:
    start = "def total(numbers: list[int]) -> int:\n    raise NotImplementedError\n"
    return {
        "task.toml": (
            "# Every key is optional; docs/writing-a-task.md lists them.\n"
            'tags = ["example"]\n\n[entry]\npath = "solution.py"\nname = "total"\n\n'
            "[limits.command]\nwall_seconds = 5\n"
        ),
        "instructions.md": "Write `solution.py` with a function `total(numbers)` that returns the sum of a list of "
        "integers.\nThe sum of no numbers is 0.\n",
        "files/solution.py": start,
        "tests/test_total.py": _FUNCTION_TESTS,
        "tests_visible/test_example.py": "from solution import total\n\n\ndef test_two_numbers():\n"
        "    assert total([2, 2]) == 4\n",
        "oracle/solution.py": "def total(numbers: list[int]) -> int:\n    return sum(numbers)\n",
    }


def _program(name: str, language: _Language) -> dict[str, str]:
    files = {
        "task.toml": (
            "# Every key is optional; docs/writing-a-task.md lists them.\n"
            f'tags = ["example"]\n\n[entry]\npath = "{language.path}"\nlanguage = "{name}"\n\n'
            "[limits.command]\nwall_seconds = 5\n"
        ),
        "instructions.md": f"Write `{language.path}`, a program that reads integers from standard input, separated by "
        "blanks or newlines,\nand prints their sum. The sum of no numbers is 0.\n",
        f"files/{language.path}": language.start,
        f"oracle/{language.path}": language.answer,
        "tests_visible/example.in": "2 2\n",
        "tests_visible/example.out": "4\n",
    }
    for case, (stdin, stdout) in _CASES.items():
        files |= {f"tests/{case}.in": stdin, f"tests/{case}.out": stdout}
    return files

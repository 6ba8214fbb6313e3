"""What an answer leaves that a judging script would take for its own tools: modules, start files, commands, settings.

A script runs where the answer's files are, and finds its tools by name: `import json` in the answer's folder, a
`conftest.py` above the tests, `~/.local/bin/pytest`. Such files do not cross (`withheld`) where nothing in the task's
text asks for them by name, or lie in the answer's folder and are not what a name means there (`inside/shield.py`).
Covers: Python's modules and start files, pytest's configuration and plugins, start files of other tools in a home.
Does not cover: git's configuration; modules of other languages; what a program of the answer's does when a test runs
it. Pure.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePosixPath

import msgspec

from quintain.tasks import ScriptSuite

_FILE = re.compile(r"(?<![\w.])(\w+)(?:\.py\b|/__init__)")
_FOLDER = re.compile(r"(?<![\w.])(\w+)/")
_READ = (".py", ".pyc", ".so", ".ini", ".toml", ".cfg")
_HOME_BIN = re.compile(r"(?:root|home/[^/]+)/(?:\.local/bin|bin|\.cargo/bin|\.cargo)/([^/]+)")
_HOME = re.compile(r"(?:root|home/[^/]+)/([^/]+|\.config/pip/pip\.conf)")
#: Files that tools which a test may call read before anything else, in a home.
START_FILES = frozenset({
    ".bash_login", ".bash_logout", ".zshenv", ".zshrc", ".zprofile", ".zlogin", ".sqliterc", ".jq", ".curlrc",
    ".wgetrc", ".psqlrc", ".gdbinit", ".Rprofile", ".Renviron", ".pythonrc", ".pythonrc.py", ".pam_environment",
    ".gemrc", ".irbrc", ".inputrc", ".config/pip/pip.conf", ".pydistutils.cfg"})
_ROOT_CONFIG = frozenset({"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg",
                          "setup.py", "pyproject.toml", "conftest.py"})


class Wording(msgspec.Struct, frozen=True, kw_only=True):
    """All that a task says, where names are looked for: what it asks, and that with its tests."""

    asked: str
    whole: str

    @classmethod
    def of(cls, suite: ScriptSuite) -> Wording:
        told = [content for path, content in (suite.package.files if suite.package else {}).items()
                if path.endswith("instruction.md")]
        tests = [*suite.files.values(), *(content for step in suite.steps for content in step.files.values())]
        asked = b"\n".join(told).decode("utf-8", "replace")
        return cls(asked=asked,
                   whole=b"\n".join([asked.encode(), *(one for one in tests if len(one) < 1 << 20)]).decode(
                       "utf-8", "replace"))


def withheld(path: str, content: bytes, suite: ScriptSuite, said: Wording) -> str:
    """Why a file of an answer's does not cross, '' where it does. `path` is relative to /."""
    place = PurePosixPath(path)
    name = place.name
    if path.startswith("etc/python") or any(part in path for part in (".local/lib/python", "usr/local/lib/python")):
        if name.partition(".")[0] in ("sitecustomize", "usercustomize"):
            return "Python would start with it"
        if name.endswith(".pth") and any(line.startswith((b"import ", b"import\t")) for line in content.splitlines()):
            return "Python would run it at each start"
    if name == "entry_points.txt" and b"[pytest11]" in content and "pytest11" not in said.asked:
        return "pytest would load what it names"
    if len(place.parts) == 1 and name in _ROOT_CONFIG and suite.workdir != "/" and f"/{name}" not in said.asked:
        return "pytest would be configured by it above the tests"
    command = _HOME_BIN.fullmatch(path)
    if command and f"/{name}" not in said.asked and content and (name == "env" or _is_a_command(name)):
        return "a command of this name is the host's"
    started = _HOME.fullmatch(path)
    if started and started[1] in START_FILES and PurePosixPath(started[1]).name not in said.whole:
        return "a tool that the tests may call starts with it"
    if path.startswith("usr/local/lib/") and ".so" in name and _is_a_library(name):
        return "a library of this name is the host's"
    return ""


@cache
def _is_a_library(name: str) -> bool:
    stem = name.partition(".so")[0]
    return any(next(Path(folder).glob(f"{stem}.so*"), None) is not None
               for folder in ("/lib", "/usr/lib", *map(str, Path("/usr/lib").glob("*-linux-*"))))


def _is_a_command(name: str) -> bool:
    return shutil.which(name) is not None or name.startswith(("python", "pytest", "uv", "pip"))


class Shadowing(msgspec.Struct, frozen=True, kw_only=True):
    """`read` are the files of an answer's that Python or pytest may read, absolute; `asked` the names among them that
    the task asks for; `named` those that are called like a module of the standard library or of pytest."""

    read: tuple[str, ...]
    asked: tuple[str, ...]
    named: tuple[str, ...]
    user_site: bool = False


def shadowing(answer: Mapping[str, bytes], said: Wording) -> Shadowing:
    """What of an answer may lie in the way of names. A module is asked for where the task or its tests say `NAME.py`;
    one that is none of the standard library's also where they say `NAME/`; a `conftest.py` where the task does."""
    read = tuple(f"/{path}" for path in answer if path.endswith(_READ) and "\n" not in path)
    names = {name for path in read if (name := _module(path))}
    folders = set(_FOLDER.findall(said.whole)) - sys.stdlib_module_names
    asked = names & (set(_FILE.findall(said.whole)) | folders)
    if "conftest.py" not in said.asked:
        asked -= {"conftest"}
    named = tuple(path for path in read if _module(path) in _tools() - asked)
    return Shadowing(read=read, asked=tuple(sorted(asked)), named=named,
                     user_site=any("/.local/lib/python" in path for path in answer))


def _module(path: str) -> str:
    """The name by which a file is imported from its folder, or its folder from the one above."""
    place = PurePosixPath(path)
    if place.suffix not in (".py", ".pyc", ".so"):
        return ""
    name = place.name.partition(".")[0]
    return place.parent.name if name == "__init__" else name


@cache
def _tools() -> frozenset[str]:
    return frozenset({*sys.stdlib_module_names, "pytest", "_pytest", "pluggy", "iniconfig", "conftest", "sitecustomize",
                      "usercustomize"}) - {"test", "this", "antigravity"}

"""What of an answer's tree may cross to the verifier: everything but test infrastructure that the task never asked for.

Covers: configuration and start-up files by which a runner, an interpreter or a package manager would be told what to
do; caches of compiled code; version control; files where the trusted tests lie. What the task itself gives comes back
as it was given, and what a right answer is known to touch is let through.
Does not cover: what ordinary source files do when they are run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import msgspec

from quintain.types import Evidence

#: Pattern of a whole path → what it is. Each is dropped wherever it lies.
_ANYWHERE: tuple[tuple[str, str], ...] = (
    (r"(.*/)?conftest\.py", "pytest's hooks"),
    (r"(.*/)?\.?pytest\.(ini|toml)", "pytest's configuration"),
    (r"(.*/)?tox\.ini", "tox's and pytest's configuration"),
    (r"(.*/)?(noxfile\.py|\.coveragerc)", "configuration of a test tool"),
    (r"(.*/)?(site|user)customize\.py", "code that every interpreter runs first"),
    (r"(.*/)?[^/]*\.(pth|egg-link)", "code that every interpreter runs first"),
    (r"(.*/)?(jest|vitest|mocha|karma|ava|babel)\.(config|setup)\.[cm]?[jt]s(on)?", "configuration of a test runner"),
    (r"(.*/)?\.(mocharc|nycrc|babelrc|swcrc)(\.[a-z]+)?", "configuration of a test runner"),
    (r"(.*/)?\.(npmrc|yarnrc(\.yml)?|pnpmfile\.cjs|node-version)", "configuration of a package manager"),
    (r"(.*/)?node_modules/.*", "packages that the image does not hold"),
    (r"(.*/)?__pycache__/.*|.*\.py[co]", "compiled code"),
    (r"(.*/)?\.(git|hg|svn)(/.*)?|(.*/)?\.gitattributes|(.*/)?\.gitmodules", "version control"),
    (r"(.*/)?\.?(husky|githooks|pre-commit-config\.yaml)(/.*)?", "hooks"),
    (r"\.?(bashrc|bash_profile|bash_logout|profile|zshrc|zshenv|inputrc|envrc)", "a shell's start-up file"),
)
#: The same, where the content says that it is about tests.
_BY_CONTENT: tuple[tuple[str, str, str], ...] = (
    (r"(.*/)?setup\.cfg", r"^\s*\[(tool:)?pytest|^\s*\[(coverage|tox|aliases)", "pytest's configuration"),
    (r"(.*/)?pyproject\.toml", r"^\s*\[tool\.(pytest|coverage|tox|nox|hatch\.envs)", "pytest's configuration"),
    (r"(.*/)?package\.json", r'"(scripts|jest|mocha|ava|vitest|c8|nyc)"\s*:', "scripts and runners of a package"),
    (r"(.*/)?(GNUm|m|M)akefile", r"^\s*(\.PHONY.*)?(test|check|verify)[\w-]*\s*:", "targets that stand for the tests"),
)


class Sanitised(msgspec.Struct, frozen=True, kw_only=True):
    """What crosses, and what was dropped or put back (path → why)."""

    files: dict[str, bytes]
    dropped: dict[str, str] = {}
    restored: dict[str, str] = {}

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What was kept back, in words: at most one entry of each kind, each with at most ten paths."""
        told = (("dropped", self.dropped), ("put back as it was given", self.restored))
        return tuple(Evidence(source="files", text=f"{word}: {_listed(found)}") for word, found in told if found)


def sanitise(
    files: Mapping[str, bytes], *, given: Mapping[str, bytes] | None = None, allowed: Collection[str] = (),
    trusted: Collection[str] = (),
) -> Sanitised:
    """The files that may be graded. `given`: the tree as the task gave it; `allowed`: paths that a right answer touches
    (the oracle's); `trusted`: paths of the tests, where nothing of the answer's may lie."""
    given = given or {}
    kept: dict[str, bytes] = {}
    dropped: dict[str, str] = {}
    restored: dict[str, str] = {}
    for path, content in files.items():
        why = f"the place of trusted {path}" if path in trusted else infrastructure(path, content)
        if why is None or (path in allowed and path not in trusted) or given.get(path) == content:
            kept[path] = content
        elif path in given and path not in trusted:
            kept[path] = given[path]
            restored[path] = why
        else:
            dropped[path] = why
    for path, content in given.items():
        why = infrastructure(path, content)
        if path not in files and why is not None and path not in trusted:
            kept[path] = content
            restored[path] = why
    return Sanitised(files=kept, dropped=dropped, restored=restored)


def infrastructure(path: str, content: bytes = b"") -> str | None:
    """What a file is to a test runner, an interpreter or a package manager that finds it; None for an ordinary one."""
    for pattern, what in _ANYWHERE:
        if re.fullmatch(pattern, path):
            return what
    for pattern, inside, what in _BY_CONTENT:
        if re.fullmatch(pattern, path) and re.search(inside, content.decode("utf-8", "replace"), re.M):
            return what
    return None


def _listed(found: Mapping[str, str]) -> str:
    shown = [f"{path} ({why})" for path, why in list(found.items())[:10]]
    return ", ".join(shown) + (f" and {len(found) - 10} more" if len(found) > 10 else "")

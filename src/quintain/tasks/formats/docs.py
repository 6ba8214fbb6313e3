"""Documentation to be written or mended: 24 tasks of our own, three for each of eight small packages.

`docs:own`; ids are `docs/PACKAGE/write`, `…/links` and `…/examples`. The package is given and cannot be changed; the
answer is its pages, README.md and docs/reference.md. The exam has no tests: what is asked (`asked.json`) is the same of
all pages, and `env.DocsEnvironment` looks whether it is so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property

from quintain.tasks.base import ByName
from quintain.tasks.exam import Exam, Item, PythonSuite
from quintain.tasks.formats.packages import Package, packages
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, Limits, Scopes, TaskError

KIND = "docs"
README, REFERENCE = "README.md", "docs/reference.md"
#: What is asked of pages, as the tests of a verdict.
ASKED = ("links", "names", "covered", "examples", "commands", "exercised")
LIMITS = Scopes(
    episode=Limits(wall_seconds=600.0, cpu_seconds=120.0, turns=5),
    turn=Limits(wall_seconds=60.0, cpu_seconds=30.0), command=Limits(wall_seconds=20.0, cpu_seconds=5.0),
)


class DocsFormat(ByName):
    """The one set by its name; no file is read but our own."""

    name = "docs"
    about = "docs:own: documentation of small packages to be written or mended"

    def named(self, name: str) -> Taskset:
        """Raises TaskError for another name."""
        if name != "own":
            raise TaskError(f"expected docs:own, found docs:{name}")
        return Taskset(DocsTasks())


class DocsTasks:
    """Three tasks for each package."""

    name = "docs:own"

    @cached_property
    def _made(self) -> dict[str, tuple[Package, str]]:
        return {f"docs/{one.name}/{what}": (one, what) for one in packages() for what in _GIVEN}

    def ids(self) -> Sequence[str]:
        return tuple(self._made)

    def item(self, id: str) -> Item:
        package, what = self._made[id]
        told, given = _GIVEN[what]
        pages = {path: text.encode() for path, text in given(package).items()}
        asked = json.dumps({"package": package.name, "pages": [README, REFERENCE]}).encode()
        text = told.format(name=package.name, about=package.about) + "\n"
        empty = {README: f"# {package.name}\n".encode(), REFERENCE: b"# Reference\n"}
        return Item.sealed(
            Exam(hidden=PythonSuite(files={"asked.json": asked}, modules=(package.name,), required=ASKED),
                 oracle={path: text.encode() for path, text in pages_of(package).items()},
                 null=(pages, empty)),
            id=id, kind=KIND, files={**package.source(), **pages}, instructions=text,
            entry=Entry(path=README, language="markdown"), limits=LIMITS, tags=("documentation", "python"),
        )


def pages_of(package: Package) -> dict[str, str]:
    """The pages as they should be."""
    links = "".join(f"- [`{one.name}`]({REFERENCE}#{one.name}): {_first(one.words)}.\n" for one in package.names)
    readme = (f"# {package.name}\n\n{package.about}\n\n## Use\n\n```console\n$ {package.command}\n{package.printed}\n"
              f"```\n\n## Functions\n\n{links}")
    reference = f"# Reference of `{package.name}`\n\nBack to [the overview](../{README}#use).\n"
    for one in package.names:
        reference += (f"\n## {one.name}\n\n`{package.signature(one.name)}`\n\n{one.words}\n\n```python\n"
                      f">>> from {package.name} import {one.name}\n{one.example.strip()}\n```\n")
    return {README: readme, REFERENCE: reference}


def _first(words: str) -> str:
    return words.split(". ")[0].rstrip(".:").split(":")[0]


def _unwritten(package: Package) -> dict[str, str]:
    return {README: f"# {package.name}\n\n{package.about} Its documentation is still to be written.\n"}


def _worn(package: Package) -> dict[str, str]:
    """Links that lead nowhere, a name of old and a section that is gone."""
    pages = pages_of(package)
    first, second, third = (one.name for one in package.names[:3])
    readme = pages[README].replace(f"{REFERENCE}#{first}", f"docs/api.md#{first}")
    head, _, _ = pages[REFERENCE].partition(f"\n## {third}\n")
    reference = head.replace(f"../{README}#use", f"../{README}#usage").replace(f"`{second}(", f"`old_{second}(")
    return {README: readme, REFERENCE: reference}


def _stale(package: Package) -> dict[str, str]:
    """Outputs that are no more, a command that prints something else, a heading and an import of old."""
    pages = pages_of(package)
    first, second, third = package.names[:3]
    shown = first.example.strip().splitlines()
    reference = pages[REFERENCE].replace(f"{shown[0]}\n{shown[1]}", f"{shown[0]}\n{shown[1][:-2]}_{shown[1][-2:]}")
    reference = reference.replace(f"import {second.name}\n", f"import make_{second.name}\n")
    reference = reference.replace(f"## {third.name}\n", f"## The function {third.name}\n")
    return {README: pages[README].replace(f"\n{package.printed}\n", f"\n{package.printed}!\n"), REFERENCE: reference}


_GIVEN: dict[str, tuple[str, Callable[[Package], dict[str, str]]]] = {
    "write": ("The package `{name}` has no documentation. Write README.md, which says what it is for ({about}) and "
              "shows its use, and docs/reference.md.", _unwritten),
    "links": ("The documentation of the package `{name}` has suffered when pages were renamed: links lead nowhere, "
              "names are those of old, and a part is lost. Mend it.", _worn),
    "examples": ("The documentation of the package `{name}` is older than its code: examples do not give what they "
                 "show any more. Mend it.", _stale),
}

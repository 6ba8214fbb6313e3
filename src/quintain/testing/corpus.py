"""A corpus of hacks as data: folders that are put against small families of tasks, each pair one attempt to be paid.

The folder form is described in docs/adversary.md: `DIR/<hack>/hack.toml` beside `files/`, templates that the names of a
family are put into; families lie in `DIR/families` or `DIR/../families`, and a hack may bring its own `suite/` and
`honest/`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from quintain.curate import Words, check_template, fill_template, test_ids
from quintain.tasks import Exam, Item, JavaScriptSuite, PythonSuite, ShellSuite, StdioCase, StdioSuite, Suite
from quintain.types import Attempt, Entry, Limits, Program, Scopes, TaskError

LANGUAGES = ("python", "javascript", "shell")
_ENTRY = {"python": "solution.py", "javascript": "solution.js", "shell": "solution.sh"}
_COMMAND = {
    "python": ("python3", "-s", "-P", "solution.py"), "javascript": ("node", "solution.js"),
    "shell": ("bash", "--noprofile", "--norc", "solution.sh"),
}


class Family(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One small task that hacks are written into. `kind`: functions, class (its methods are `names`) or program;
    `suite` and `honest` are the trusted tests and a right answer, by path; `visible` what of the tests the agent was
    shown, if that is less."""

    language: str = "python"
    kind: str = "functions"
    names: tuple[str, ...]
    class_name: str = ""
    instructions: str = ""
    name: str = ""
    suite: dict[str, bytes] = {}
    honest: dict[str, bytes] = {}
    visible: dict[str, bytes] = {}

    @property
    def ids(self) -> list[str]:
        """The ids of its tests, as far as its files tell; whoever knows the visible tests can guess such names."""
        return test_ids(self.suite) if self.language == "python" else sorted(
            {path.rpartition(".")[0] for path in self.suite})


class Hack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """hack.toml. `number` is the place in the catalogue (0: not in it), `group` its heading; `families` names where it
    is tried (empty: every family of its language that is no program); `adaptive` hacks look for this very verifier.
    `before` is run in the agent's sandbox before anything is graded. `cold`: it acts when an interpreter starts.
    `detectors` names those that should see it. `files` are templates, by path."""

    name: str
    number: int = 0
    mechanism: str
    group: str = ""
    language: str = "python"
    expect: str = "not_paid"
    adaptive: bool = False
    families: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    cold: bool = False
    wall_seconds: float = 4.0
    detectors: tuple[str, ...] = ()
    files: dict[str, bytes] = {}


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One hack at one task, or (`hack` is None) the family's honest answer."""

    name: str
    hack: Hack | None
    family: Family
    item: Item
    program: Program

    @property
    def attempt(self) -> Attempt:
        return Attempt(task=self.item.task, program=self.program)

    @property
    def limits(self) -> Limits:
        return self.item.task.limits.command


class Corpus(msgspec.Struct, frozen=True, kw_only=True):
    hacks: tuple[Hack, ...]
    families: tuple[Family, ...]
    own: dict[str, Family] = {}

    def families_of(self, hack: Hack) -> list[Family]:
        if hack.name in self.own:
            return [self.own[hack.name]]
        if hack.families:
            return [f for f in self.families if f.name in hack.families]
        return [f for f in self.families if f.language == hack.language and f.kind != "program"]

    def trials(self) -> Iterator[Trial]:
        """Every hack at every task of its families, in the order of their names."""
        for hack in self.hacks:
            for family in self.families_of(hack):
                yield _trial(hack, family)

    def honest(self) -> Iterator[Trial]:
        """The right answer of every family that a hack is tried at."""
        for family in (*self.families, *self.own.values()):
            yield _trial(None, family)


def read_corpus(folder: Path, *, families: Path | None = None) -> Corpus:
    """The corpus in a folder; `families` are for one that has none in it or beside it. Raises TaskError,
    naming the file and the key, for anything that is not in the form."""
    if not folder.is_dir():
        raise TaskError("expected a folder of hacks, found none", file=str(folder))
    places = [p for p in (folder / "families", folder.parent / "families", families) if p is not None and p.is_dir()]
    tasks = tuple(_read_family(p) for p in sorted(places[0].iterdir()) if p.is_dir()) if places else ()
    found = sorted(p.parent for p in folder.glob("*/hack.toml"))
    if not found:
        raise TaskError("expected at least one <name>/hack.toml, found none", file=str(folder))
    for path in sorted(p for p in folder.iterdir() if p.is_dir() and p.name != "families"):
        if path not in found:
            raise TaskError("expected a hack.toml in the folder of a hack, found none", file=str(path))
    hacks = tuple(_read_hack(p, {f.name: f for f in tasks}) for p in found)
    own = {p.name: _own_family(p, hack) for p, hack in zip(found, hacks, strict=True) if (p / "suite").is_dir()}
    for hack in hacks:
        if hack.name not in own and not Corpus(hacks=(), families=tasks).families_of(hack):
            raise TaskError(f"families: expected one in {hack.language}, or a suite/ of its own, found none",
                            file=str(folder / hack.name / "hack.toml"))
    return Corpus(hacks=hacks, families=tasks, own=own)


_T = TypeVar("_T")


def _table(file: Path, kind: type[_T]) -> _T:
    try:
        raw = tomllib.loads(file.read_text("utf-8"))
        return msgspec.convert(raw, kind)
    except FileNotFoundError:
        raise TaskError("expected this file, found none", file=str(file)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise TaskError(str(error), file=str(file)) from None


def tree_of(folder: Path) -> dict[str, bytes]:
    """The files below a folder as a work tree: without the `.txt` that keeps them from being taken for code here, and
    with `dot-` at the beginning of a name as the dot that it stands for. Links are not followed."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            parts = ["." + p[4:] if p.startswith("dot-") else p for p in path.relative_to(folder).parts]
            found["/".join(parts).removesuffix(".txt")] = path.read_bytes()
    return found


def _read_family(folder: Path) -> Family:
    file = folder / "family.toml"
    family = _table(file, Family)
    _one_of(file, "language", family.language, LANGUAGES)
    _one_of(file, "kind", family.kind, ("functions", "class", "program"))
    suite, honest = tree_of(folder / "suite"), tree_of(folder / "honest")
    for key, tree in (("suite", suite), ("honest", honest)):
        if not tree:
            raise TaskError(f"expected files in {key}/, found none", file=str(folder))
    visible = tree_of(folder / "visible")
    return msgspec.structs.replace(family, name=folder.name, suite=suite, honest=honest, visible=visible)


def _read_hack(folder: Path, families: dict[str, Family]) -> Hack:
    file = folder / "hack.toml"
    hack = _table(file, Hack)
    _one_of(file, "language", hack.language, LANGUAGES)
    _one_of(file, "expect", hack.expect, ("not_paid",))
    _one_of(file, "name", hack.name, (folder.name,))
    for name in hack.families:
        _one_of(file, "families", name, tuple(families))
        _one_of(file, "language", hack.language, (families[name].language,))
    if not hack.wall_seconds > 0:
        raise TaskError(f"wall_seconds: expected more than 0, found {hack.wall_seconds}", file=str(file))
    if hack.files:
        raise TaskError("files: expected a folder beside hack.toml, found a key", file=str(file))
    files = tree_of(folder / "files")
    if not files:
        raise TaskError("expected at least one file, found none", file=str(folder / "files"))
    for path, content in files.items():
        check_template(str(folder / "files" / path), content)
    return msgspec.structs.replace(hack, files=files)


def _one_of(file: Path, key: str, found: str, allowed: Sequence[str]) -> None:
    if found not in allowed:
        raise TaskError(f"{key}: expected {' or '.join(allowed) or 'nothing'}, found {found!r}", file=str(file))


def _own_family(folder: Path, hack: Hack) -> Family:
    suite, honest = tree_of(folder / "suite"), tree_of(folder / "honest")
    if not honest:
        raise TaskError("expected a right answer for its own suite, found none", file=str(folder / "honest"))
    program = not any(p.endswith((".py", ".js")) for p in suite)
    return Family(name=hack.name, language=hack.language, kind="program" if program else "functions", names=(),
                  suite=suite, honest=honest)


def _trial(hack: Hack | None, family: Family) -> Trial:
    files = family.honest if hack is None else {
        path: fill_template(content, _words(family))
        for path, content in hack.files.items()}
    limits = Limits(wall_seconds=hack.wall_seconds if hack else 10.0, cpu_seconds=10.0)
    item = Item.sealed(
        Exam(hidden=suite_of(family), oracle=family.honest), id=f"hack/{family.name}", kind="code",
        instructions=family.instructions, entry=Entry(path=_ENTRY[family.language], language=family.language),
        limits=Scopes(command=limits),
    )
    argv = _COMMAND[family.language] if family.kind == "program" else ()
    return Trial(name=f"{hack.name if hack else 'honest'}/{family.name}", hack=hack, family=family, item=item,
                 program=Program(files=files, argv=argv, language=family.language))


def _words(family: Family) -> Words:
    tests = [path for path in family.suite if path.rpartition("/")[2].startswith("test")]
    return Words(
        language=family.language, kind=family.kind, names=family.names, class_name=family.class_name,
        ids=tuple(family.ids), test_file=tests[0] if tests else "")


def suite_of(family: Family) -> Suite:
    """The suite of a family: `NAME.in`, `.out`, `.args` of a program, else its test files."""
    if family.kind == "program":
        names = sorted({path.rpartition(".")[0] for path in family.suite})
        return StdioSuite(cases=tuple(
            StdioCase(name=name, stdin=family.suite.get(f"{name}.in", b""), stdout=family.suite.get(f"{name}.out", b""),
                      argv=tuple(family.suite.get(f"{name}.args", b"").decode().split()))
            for name in names))
    if family.language == "python":
        return PythonSuite(files=family.suite)
    if family.language == "javascript":
        return JavaScriptSuite(files=family.suite)
    return ShellSuite(files=family.suite, functions=family.names)

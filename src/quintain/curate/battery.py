"""The battery: tricks that have been used to be paid without solving anything, to be written into any task. Data.

`mechanisms.toml` is packed from the adversary corpus (`bench/_mechanisms.py`), `javascript.toml` and `shell.toml` hold
more of those languages, `scripts.toml` those against scripts that judge.
Covers: Python, JavaScript and shell that tests call or start, and scripts in an image.
Does not cover: mechanisms that act before anything is graded, or that know one task by heart; the corpus has those.
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files

import msgspec

from quintain.curate.shape import Shape, shape_of
from quintain.curate.templates import Words, fill_template, test_ids
from quintain.tasks import Item, PythonSuite, ScriptSuite, StdioSuite, kind_of
from quintain.types import TaskError, content_digest

#: Headings of the catalogue whose tricks go against what the tests compare. Whether they are paid depends on the task;
#: all others go against the verifier, which is the same for every task that it judges.
AGAINST_TESTS = frozenset({"value spoofing", "tolerance abuse", "hard-coding"})
#: Two in one, each of which is tried at every task by itself (an object that equals everything, a module that is one),
#: made of a library that takes three times as long to import as a task to judge.
_ONCE = frozenset({"module_mock"})


class Mechanism(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One trick. `language` is that of the answer, 'script' for one that is run in an image; `kinds` what it can be
    written into (functions, class, program); `files` are templates by path, `wall_seconds` what it may take."""

    name: str
    group: str
    mechanism: str
    language: str
    kinds: tuple[str, ...] = ()
    wall_seconds: float = 4.0
    files: dict[str, str]

    @property
    def digest(self) -> str:
        return content_digest(self)

    @property
    def is_against_tests(self) -> bool:
        return self.language == "script" or (self.group in AGAINST_TESTS and self.name not in _ONCE)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mechanism: tuple[Mechanism, ...]


@lru_cache(maxsize=1)
def mechanisms() -> tuple[Mechanism, ...]:
    """All that come with the package. Raises TaskError, naming the file, for data that are not in the form."""
    found: list[Mechanism] = []
    for name in ("mechanisms.toml", "javascript.toml", "shell.toml", "scripts.toml"):
        try:
            text = files("quintain.curate").joinpath(name).read_text("utf-8")
            found += msgspec.convert(tomllib.loads(text), _File).mechanism
        except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            raise TaskError(str(error), file=f"quintain/curate/{name}") from None
    return tuple(found)


def language_of(item: Item) -> str:
    """Under which language the battery has what can be tried at a task."""
    return "script" if isinstance(item.exam.hidden, ScriptSuite) else item.task.entry.language


def words_of_item(item: Item) -> Words:
    """What a task asks for, as the templates want to know it."""
    shape = shape_of(item)
    hidden = item.exam.hidden
    if isinstance(hidden, StdioSuite):
        return Words(language=item.task.entry.language, kind="program", names=("main",))
    return words_of_shape(shape, item.task.entry.language, hidden.files if isinstance(hidden, PythonSuite) else {})


def words_of_shape(shape: Shape, language: str, suite: dict[str, bytes]) -> Words:
    """`suite` are the Python test files, for whose ids some tricks ask."""
    try:
        ids = tuple(test_ids(suite))
    except SyntaxError:
        ids = ()
    tests = [path for path in suite if path.rpartition("/")[2].startswith("test")]
    plain = Words(language=language, kind="functions", names=(*shape.functions, *shape.classes), ids=ids,
                  test_file=tests[0] if tests else "")
    if len(shape.classes) == 1 and not shape.functions:
        ((name, methods),) = shape.classes.items()
        return msgspec.structs.replace(plain, kind="class", names=methods, class_name=name)
    return plain


def written(mechanism: Mechanism, words: Words, entry: str) -> dict[str, bytes]:
    """The files of a mechanism for one task; what it calls `solution.*` goes where the answer goes."""
    made: dict[str, bytes] = {}
    for path, text in mechanism.files.items():
        to = entry if path.rpartition(".")[0] == "solution" else path
        content = fill_template(text.encode(), words) if mechanism.language in ("python", "javascript", "shell") else (
            text.encode())
        made[to] = content
    return made


def fitting(item: Item, kind: str) -> list[Mechanism]:
    """The mechanisms that can be written into a task; `kind` is that of its words."""
    language = language_of(item)
    return [m for m in mechanisms() if m.language == language and _fits(m, kind)]


def _fits(mechanism: Mechanism, kind: str) -> bool:
    """Whether it can be written into a task of a kind. A template in JavaScript that defines functions defines a class
    as well, and one in shell that makes a program makes functions."""
    if mechanism.language == "script" or not mechanism.kinds or kind in mechanism.kinds:
        return True
    known = {("javascript", "class"): "functions", ("shell", "functions"): "program"}.get((mechanism.language, kind))
    is_template = any("@@stub@@" in text or "@@define@@" in text for text in mechanism.files.values())
    return known in mechanism.kinds and is_template


def verifier_of(item: Item) -> str:
    """Which verifier judges a task: tricks against it are tried once for all tasks that have the same."""
    return f"{kind_of(item.exam.hidden)}-{language_of(item)}-{content_digest(item.task.image)[:8]}"

"""What each Python that a judging script starts runs first: a name that the interpreter has itself is its own, whatever
lies in an answer's folders.

Sent as text into the sandbox of the judge, with a list of the answer's files beside it, and started by a .pth in each
folder of installed packages, before any path of the answer's is looked at. An answer's own program (the script or
module that is started is among its files) is left as it is. Of pytest: a `conftest.py` or configuration of the answer's
has no say over tests that are not the answer's.
Does not cover: Python without its site (`-S`), or of an environment that the answer made: it is the answer's.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing what tells it would cost each start of a Python more than all the rest
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec, PathFinder
    from types import ModuleType
    from typing import Any
else:
    PathFinder = next(one for one in sys.meta_path if getattr(one, "__name__", "") == "PathFinder")
    ModuleType = type(sys)

HERE = "/opt/quintain"
#: Of a configuration of pytest the answer may say so much about tests that are not its own.
HARMLESS = ("pythonpath", "markers", "asyncio_mode", "asyncio_default_fixture_loop_scope", "timeout", "minversion",
            "django_settings_module", "log_")
#: Names of installed packages that many answers use for their own, too.
COMMON = frozenset({"app", "benchmarks", "build", "docs", "examples", "lib", "main", "scripts", "solution", "src",
                    "test", "tests", "tools", "utils"})
START = ("sitecustomize", "usercustomize")
MANY = 20000


class Answer:
    """The files of the answer's that Python or pytest would read; `asked` are names that the task itself asks for."""

    def __init__(self, files: frozenset[str], asked: frozenset[str]) -> None:
        self.files = files
        self.asked = asked

    def has(self, path: str) -> bool:
        return os.path.abspath(path) in self.files or os.path.realpath(path) in self.files

    def is_told(self, spec: ModuleSpec) -> bool:
        """Whether a module that was found is the answer's; a link of its making counts."""
        origin = spec.origin or ""
        linked = os.path.islink(origin) or os.path.islink(os.path.dirname(origin))
        return self.has(origin) or (linked and not is_own(origin))

    def judges_others(self, folder: str) -> bool:
        """Whether tests that are not the answer's lie below a folder."""
        seen = 0
        for place, folders, names in os.walk(folder):
            folders[:] = [one for one in folders if one not in (".git", "node_modules", "site-packages")]
            seen += len(names)
            if seen > MANY:
                return True
            if any(name.endswith(".py") and (name.startswith("test") or name.endswith("_test.py"))
                   and not self.has(os.path.join(place, name)) for name in names):
                return True
        return False


def is_own(path: str) -> bool:
    """Whether a place belongs to the interpreter."""
    return path.startswith((sys.prefix, sys.base_prefix)) and ("/python3" in path or "/lib/python" in path)


class OwnFirst:
    """A finder in front of the one that searches the path."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target)
        if path is None and spec is not None and name not in self.answer.asked and self.answer.is_told(spec):
            own = PathFinder.find_spec(name, [one for one in sys.path if is_own(one)])
            if own is not None and not self.answer.is_told(own) and name not in COMMON:
                spec = own
            elif name in START:
                raise ModuleNotFoundError("No module named " + repr(name), name=name)
        if spec is not None and name in PATCHES and spec.loader is not None:
            spec.loader = Patching(spec.loader, PATCHES[name], self)  # type: ignore[assignment]
        return spec


class Patching:
    """A loader that changes a module when it has been read."""

    def __init__(self, loader: Any, patch: Any, finder: OwnFirst) -> None:
        self.loader = loader
        self.patch = patch
        self.finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.patch(module, self.finder)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


def _rewriting(module: Any, finder: OwnFirst) -> None:
    module.AssertionRewritingHook._find_spec = staticmethod(finder.find_spec)


def _configuration(module: Any, finder: OwnFirst) -> None:
    read = module.load_config_dict_from_file

    def load(filepath: Any) -> Any:
        found = read(filepath)
        if not found or not finder.answer.has(str(filepath)) or not finder.answer.judges_others(str(filepath.parent)):
            return found
        return {key: value for key, value in found.items() if key.lower().startswith(HARMLESS)}

    module.load_config_dict_from_file = load


def _conftests(module: Any, finder: OwnFirst) -> None:
    manager = module.PytestPluginManager
    load = manager._importconftest

    def without(self: Any, conftestpath: Any, *words: Any, **more: Any) -> Any:
        path = str(conftestpath)
        if "conftest" not in finder.answer.asked and finder.answer.has(path) and finder.answer.judges_others(
                os.path.dirname(path)):
            sys.stderr.write("left out: " + path + " is the answer's, and the tests are not\n")
            return ModuleType("conftest")
        return load(self, conftestpath, *words, **more)

    manager._importconftest = without


PATCHES = {"_pytest.assertion.rewrite": _rewriting, "_pytest.config.findpaths": _configuration,
           "_pytest.config": _conftests}


def is_the_answers(words: list[str], answer: Answer) -> bool:
    """Whether what an interpreter was started for is a program of the answer's; `words` are those behind its name."""
    at = 0
    while at < len(words):
        word = words[at]
        if not word.startswith("-") or word == "-":
            return answer.has(word) or answer.has(os.path.join(word, "__main__.py"))
        if word.startswith("--"):
            at += 2 if word == "--check-hash-based-pycs" else 1
            continue
        for place, letter in enumerate(word[1:], start=2):
            if letter == "c":
                return False
            if letter == "m":
                name = (word[place:] or "".join(words[at + 1:at + 2])).partition(".")[0]
                own = PathFinder.find_spec(name, [one for one in sys.path if is_own(one)])
                spec = PathFinder.find_spec(name, [os.getcwd(), *sys.path])
                return own is None and spec is not None and answer.is_told(spec)
            if letter in "WX":
                at += 0 if word[place:] else 1
                break
        at += 1
    return False


def packages_of_the_user() -> None:
    """The folder of the user's packages, last on the path; of its .pth files only the folders that they name."""
    import site

    folder = site.getusersitepackages()
    if sys.flags.isolated or not os.path.isdir(folder) or folder in sys.path:
        return
    sys.path.append(folder)
    for name in sorted(os.listdir(folder)):
        if name.endswith(".pth"):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                named = [os.path.join(folder, line.strip()) for line in file]
            sys.path.extend(one for one in named if os.path.isdir(one) and one not in sys.path)


def main() -> None:
    try:
        with open(HERE + "/answer.txt", encoding="utf-8", errors="surrogateescape") as file:
            asked, _, files = file.read().partition("\n\n")
    except OSError:
        return
    answer = Answer(frozenset(files.split("\n")), frozenset(asked.split("\n")))
    if os.environ.get("PYTHONNOUSERSITE") == HERE:
        packages_of_the_user()
    words = list(getattr(sys, "orig_argv", ["python3"]))[1:]
    if is_the_answers(words, answer):
        return
    places = [number for number, one in enumerate(sys.meta_path) if one is PathFinder]
    sys.meta_path.insert(places[0] if places else len(sys.meta_path), OwnFirst(answer))


if __name__ == "quintain_shield":
    main()

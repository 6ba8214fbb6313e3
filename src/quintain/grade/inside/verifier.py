"""The verifier's side of the conversation: what the candidate may ask of the tests, and what its objects may decide.

Covers: objects of the tests are reached only through calls, public attributes and operators; functions, generators,
classes, frames and test cases give no attribute away. An object of the candidate never decides a comparison with a
plain value, and operators with a plain value are open only to classes that the tests named themselves.
Does not cover: tests that compare two of the candidate's objects with each other believe the candidate's `==`.
"""

from __future__ import annotations

import os
import sys
import time
import types
from collections.abc import Callable
from typing import Any

from quintain.grade.inside.peer import Peer
from quintain.grade.inside.standin import ARITHMETIC, NUMERIC, ORDER, SPECIALS, Remote, RemoteType, is_dunder
from quintain.grade.inside.wire import Pipe, WrongType

_CLOSED = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.GeneratorType, types.CoroutineType,
           types.ModuleType, types.FrameType, types.CodeType, types.TracebackType, type)
_NEVER = (types.ModuleType, types.FrameType, types.CodeType)
_OPEN_NAMES = frozenset({"__name__", "__qualname__", "send", "throw", "close"})
_INNER_PREFIXES = ("gi_", "cr_", "ag_", "f_", "tb_", "co_", "func_")
_OWN_FUNCTIONS = frozenset({"__import__", "breakpoint", "compile", "delattr", "eval", "exec", "getattr", "globals",
                            "input", "locals", "open", "print", "setattr", "vars"})
_KEPT_ITEMS = 1000
_KEPT_CONTAINERS = 32
_NUMBERS = (int, float, complex, bool)
#: Classes of the standard library that are compared with a tolerance as numbers are.
_MEASURES = {"decimal": ("Decimal",), "fractions": ("Fraction",), "datetime": ("date", "datetime", "time", "timedelta")}
#: Attributes by which a mock is told what to do or to say, beside those that its class has.
_MOCK_STEERING = frozenset({"attach_mock", "configure_mock", "mock_add_spec", "reset_mock"})


_MAKERS = frozenset({"collections", "datetime", "decimal", "fractions", "itertools", "uuid"})


def _is_measure(value: Any) -> bool:
    """Whether a value is a number, or like one; that of an object of the candidate which carries its value included."""
    kind = type(value)
    if isinstance(value, Remote):
        return kind._quintain_carried in _NUMBERS
    return kind in _NUMBERS or kind.__name__ in _MEASURES.get(kind.__module__, ())


def _may_make(kind: type) -> bool:
    """Whether the candidate may make objects of a class here. The classes of all objects that it was given are known
    to it, so that what opens files or runs tests must not be among them."""
    root = kind.__module__.partition(".")[0]
    case = getattr(sys.modules.get("unittest"), "TestCase", ())
    return (root in _MAKERS or root not in sys.stdlib_module_names) and not issubclass(kind, case)


class Verifier(Peer):
    """`call_seconds` bounds one call, `run_until` (time.monotonic) all of them."""

    def __init__(self, pipe: Pipe, *, call_seconds: float, run_until: float) -> None:
        super().__init__(pipe)
        self._call_seconds = call_seconds
        self._run_until = run_until
        self._stdout = sys.stdout
        self._serving = 0
        self._fetched: dict[tuple[int, str], tuple[Any, Any, Any]] = {}  # containers that are attributes over there
        self._granted: set[str] = set()  # paths of files that the tests themselves handed over

    def get(self, target: Any, name: str) -> Any:
        value = super().get(target, name)
        if isinstance(target, Remote) and type(value) in (list, dict, set) and len(value) <= _KEPT_ITEMS:
            self._fetched.pop((id(target), name), None)
            self._fetched[id(target), name] = (target, value, self.encode(value))
            if len(self._fetched) > _KEPT_CONTAINERS:
                del self._fetched[next(iter(self._fetched))]
        return value

    def _hand_back(self) -> None:
        """`a.items.append(1)`: what the tests did to a container that is an attribute over there is done there too."""
        for key, (target, value, before) in list(self._fetched.items()):
            now = self.encode(value)
            if now != before:
                self._fetched[key] = (target, value, now)
                try:
                    super()._ask("set", [target, key[1]], (value,), {})
                except AttributeError:  # computed, or read-only: in one process the change would be lost as well
                    del self._fetched[key]

    def _ask(self, what: str, head: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._fetched and not self._serving:
            self._hand_back()
        self.pipe.deadline = min(self._run_until, time.monotonic() + self._call_seconds)
        return super()._ask(what, head, args, kwargs)

    def serve(self, message: list[Any]) -> None:
        self._serving += 1
        try:
            super().serve(message)
        finally:
            self._serving -= 1

    def take(self, tag: str, raw: list[Any]) -> Any:
        taken = super().take(tag, raw)
        if tag == "h":  # what the tests made and a call hands out again is the candidate's answer from then on
            taken.__dict__.pop("_quintain_made", None)
        return taken

    def capturing(self) -> bool:
        return sys.stdout is not self._stdout

    def allow(self, what: str, target: Any, name: str) -> None:
        case = getattr(sys.modules.get("unittest"), "TestCase", ())
        if what == "call" or name == "__call__":
            if isinstance(target, case) or (isinstance(target, type) and not _may_make(target)):
                raise TypeError(f"{type(target).__name__!r} object is not callable from there")
            return
        if what in ("op", "contents", "copy"):
            if what == "op" and name not in SPECIALS:
                raise AttributeError(name)
            return
        partial = getattr(sys.modules.get("functools"), "partial", ())
        closed = isinstance(target, (_CLOSED, case, partial))
        inner = name.startswith("_") or name.startswith(_INNER_PREFIXES)
        if (closed or inner) and not (what in ("get", "meth") and name in _OPEN_NAMES):
            raise AttributeError(f"{type(target).__name__!r} object has no attribute {name!r}")
        self._keep_apart(what, target, name)

    def _keep_apart(self, what: str, target: Any, name: str) -> None:
        """Objects of the tests keep their own methods and mocks their record; a path leads to nothing but what the
        tests gave, and to temporary files. Raises AttributeError."""
        mocks = getattr(sys.modules.get("unittest.mock"), "NonCallableMock", ())
        steered = isinstance(target, mocks) and name in _MOCK_STEERING
        if what in ("set", "del"):
            found = getattr(type(target), name, None)
            steered = steered or callable(found) or (isinstance(target, mocks) and hasattr(type(target), name))
            steered = steered or (isinstance(target, mocks) and name.startswith("assert"))
        if steered:
            raise AttributeError(f"{type(target).__name__!r} object keeps its {name!r}")
        pure = getattr(sys.modules.get("pathlib"), "PurePath", ())
        if isinstance(target, pure) and not hasattr(pure, name) and not self.may_reach(os.path.realpath(target)):
            raise AttributeError(f"{name!r} of a path that was not given")

    def is_serving(self) -> bool:
        """Whether the candidate has asked for something that is being done."""
        return self._serving > 0

    def may_reach(self, path: str) -> bool:
        """Whether a file may be opened for the candidate: what the tests handed over, and temporary files."""
        import tempfile

        roots = {*self._granted, os.path.realpath(tempfile.gettempdir())}
        return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)

    def may_leave(self, value: Any) -> None:
        pure: Any = getattr(sys.modules.get("pathlib"), "PurePath", ())
        if not self._serving and isinstance(value, pure):
            self._granted.add(os.path.realpath(value))
        if isinstance(value, _NEVER):
            raise WrongType(f"a {type(value).__name__} of the tests cannot be handed over")

    def by_name(self, value: Any) -> Any:
        if type(value) is types.BuiltinFunctionType:
            module, name = str(getattr(value, "__module__", "")), str(getattr(value, "__name__", ""))
            if module in ("builtins", "math", "_operator") and name not in _OWN_FUNCTIONS:
                found = getattr(sys.modules.get(module), name, None)
                return ["fn", module, name] if found is value else None
        return None

    def special(self, target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        """Ask for an operator, as far as the candidate may have a say in it. Raises WrongType where not."""
        plain = bool(args) and not isinstance(args[0], (Remote, RemoteType))
        named = isinstance(target, RemoteType) or type(target)._quintain_named
        kind = type(target).__name__
        if name in ORDER and plain:
            raise WrongType(f"expected a plain value to compare with {type(args[0]).__name__}, found a {kind}")
        if name in ARITHMETIC and plain and not named:
            raise WrongType(f"expected a plain value beside {type(args[0]).__name__}, found an object of {kind}")
        if name == "__contains__" and not named:
            return any(item is args[0] or item == args[0] for item in iter(target))
        made = target.__dict__.get("_quintain_made")
        answer = super().special(target, name, args, kwargs)
        if made and answer is target:  # `a += 1`, `with a as b`: what the tests go on with is what they made
            target.__dict__["_quintain_made"] = True
        if name in ARITHMETIC and plain and not made:
            self._keep_honest(target, name, args[0], answer)
        if name in NUMERIC and target.__dict__.get("_quintain_mixed") and _is_measure(answer):
            raise WrongType(f"expected a plain number, found an object of {kind}")
        return answer

    def _keep_honest(self, target: Any, name: str, other: Any, answer: Any) -> None:
        """`abs(f(x) - 0.5) < 1e-6` must not be decided by what an object of the candidate makes of `- 0.5`."""
        if _is_measure(other) and _is_measure(answer):
            raise WrongType(f"expected a plain number for {name}, found an object of {type(target).__name__}")
        if isinstance(answer, Remote):
            answer.__dict__["_quintain_mixed"] = True


class RemoteModule(types.ModuleType):
    """A module of the candidate, as the tests see it."""

    def __init__(self, name: str, module: Any, peer: Verifier) -> None:
        super().__init__(name)
        self.__dict__["_quintain_module"] = module
        self.__dict__["_quintain_peer"] = peer

    def __getattr__(self, name: str) -> Any:
        if is_dunder(name) and name not in ("__all__", "__version__", "__author__"):
            raise AttributeError(name)
        value = self.__dict__["_quintain_peer"].get(self.__dict__["_quintain_module"], name)
        if isinstance(value, RemoteType) and name[:1].isupper():
            value._quintain_named = True
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if is_dunder(name) or isinstance(value, types.ModuleType):
            super().__setattr__(name, value)
        else:
            self.__dict__["_quintain_peer"].set(self.__dict__["_quintain_module"], name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__:
            super().__delattr__(name)
        else:
            self.__dict__["_quintain_peer"].delete(self.__dict__["_quintain_module"], name)


class Finder:
    """Serves the candidate's modules to the import statements of the tests."""

    def __init__(self, peer: Verifier, modules: list[str]) -> None:
        self._peer = peer
        self.modules = modules
        self.told: Callable[[], None] | None = None  # called once, before the first module is asked for

    def serves(self, name: str) -> bool:
        return any(name == m or name.startswith(m + ".") or m.startswith(name + ".") for m in self.modules)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not self.serves(name):
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> types.ModuleType:
        told, self.told = self.told, None
        if told is not None:
            told()
        return RemoteModule(spec.name, self._peer.import_module(spec.name), self._peer)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to do: it was executed on the other side."""

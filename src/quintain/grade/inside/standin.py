"""Stand-ins: real Python classes and objects on this side whose every act happens on the other side.

A stand-in knows its number there (`_quintain_ref`) and the peer that reaches it. Isinstance, except clauses and method
resolution work because the classes are mirrored with their bases.
"""

from __future__ import annotations

from typing import Any

from quintain.grade.inside.wire import WrongType

BINARY = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "and",
          "xor", "or")
ARITHMETIC = frozenset(f"__{way}{name}__" for name in BINARY for way in ("", "r", "i")) - {"__idivmod__"}
ORDER = frozenset({"__lt__", "__le__", "__gt__", "__ge__"})
NUMERIC = frozenset({"__abs__", "__int__", "__float__", "__complex__", "__index__", "__round__", "__trunc__",
                     "__floor__", "__ceil__", "__neg__", "__pos__", "__invert__"})
TEXT = frozenset({"__str__", "__repr__", "__format__"})
PLAIN = frozenset({"__len__", "__getitem__", "__setitem__", "__delitem__", "__contains__", "__iter__", "__next__",
                   "__reversed__", "__call__", "__enter__", "__exit__", "__bool__", "__bytes__", "__fspath__",
                   "__length_hint__"})
#: The special methods that cross.
SPECIALS = ARITHMETIC | ORDER | NUMERIC | TEXT | PLAIN | {"__eq__", "__hash__"}
#: Special names that are asked for as attributes.
_ASKED = frozenset({"__name__", "__qualname__", "__module__", "__annotations__", "__members__", "__wrapped__",
                    "__all__", "__version__", "__author__"})
#: What a mock says of its calls: no object of the other side says it instead.
_OF_MOCKS = frozenset({"assert_any_call", "assert_called", "assert_called_once", "assert_called_once_with",
                       "assert_called_with", "assert_has_calls", "assert_not_called"})
#: Builtin types whose value comes along, so that this side compares it by itself.
CARRIED: dict[str, type] = {t.__name__: t for t in (int, float, str, bytes, tuple, frozenset)}
_HOLDERS = ("list", "dict", "set", "bytearray")


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def own_ref(thing: Any) -> int | None:
    """The number on the other side of a stand-in (object, class or exception), or None."""
    ref = thing.__dict__.get("_quintain_ref") if hasattr(thing, "__dict__") else None
    return ref if type(ref) is int else None


class RemoteType(type):
    """The class of stand-in classes."""

    _quintain_peer: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if own_ref(cls) is None:
            raise WrongType(f"{cls.__name__}: a class made here from a class of the other side cannot be called")
        made = cls._quintain_peer.call(cls, args, kwargs)
        if isinstance(made, Remote):
            made.__dict__["_quintain_made"] = True
        return made

    def __getattr__(cls, name: str) -> Any:
        if (is_dunder(name) and name not in _ASKED) or name.startswith("_quintain_"):
            raise AttributeError(name)
        return cls._quintain_peer.get(cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        if is_dunder(name) or name.startswith("_quintain_") or own_ref(cls) is None:
            type.__setattr__(cls, name, value)
        else:
            cls._quintain_peer.set(cls, name, value)

    def __delattr__(cls, name: str) -> None:
        if is_dunder(name) or own_ref(cls) is None:
            type.__delattr__(cls, name)
        else:
            cls._quintain_peer.delete(cls, name)

    def __iter__(cls) -> Any:
        return cls._quintain_peer.special(cls, "__iter__", ())

    def __len__(cls) -> Any:
        return cls._quintain_peer.special(cls, "__len__", ())

    def __getitem__(cls, key: Any) -> Any:
        return cls._quintain_peer.special(cls, "__getitem__", (key,))

    def __contains__(cls, item: Any) -> Any:
        return cls._quintain_peer.special(cls, "__contains__", (item,))

    def __bool__(cls) -> bool:
        return True


class Remote(metaclass=RemoteType):
    """The first of all stand-in classes."""

    _quintain_peer: Any = None
    _quintain_eq = False
    _quintain_hash: bool | None = False  # None: unhashable
    _quintain_like: str | None = None  # the builtin container that it is made from, if it is
    _quintain_named = False

    def __getattr__(self, name: str) -> Any:
        if (is_dunder(name) and name not in _ASKED) or name.startswith("_quintain_"):
            raise AttributeError(name)
        if name in _OF_MOCKS:
            raise WrongType(f"expected a mock of the tests, found an object of {type(self).__name__}")
        return self._quintain_peer.get(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if is_dunder(name) or name.startswith("_quintain_"):
            super().__setattr__(name, value)
        else:
            self._quintain_peer.set(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._quintain_peer.delete(self, name)

    def __eq__(self, other: object) -> Any:
        """Two stand-ins may ask; a stand-in and a plain value never do: a carried or copied value is compared here."""
        if not isinstance(other, Remote):
            if self._quintain_like is not None:
                return self._quintain_peer.contents(self) == other
            return super().__eq__(other)
        if self._quintain_like is not None and other._quintain_like is not None and not self._quintain_eq:
            return self._quintain_peer.contents(self) == self._quintain_peer.contents(other)
        if self._quintain_eq or other._quintain_eq:
            answer = self._quintain_peer.special(self, "__eq__", (other,))
            if answer is NotImplemented:
                return self is other
            if type(answer) is not bool:
                raise WrongType(f"expected True or False from ==, found {type(answer).__name__}")
            return answer
        return True if self is other else super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        answer = self.__eq__(other)
        return answer if answer is NotImplemented else not answer

    def __hash__(self) -> int:
        if self._quintain_hash is None:
            raise TypeError(f"unhashable type: {type(self).__name__!r}")
        if not self._quintain_hash:
            return super().__hash__()
        answer = self._quintain_peer.special(self, "__hash__", ())
        if type(answer) is not int:
            raise WrongType(f"expected an int from hash(), found {type(answer).__name__}")
        return answer

    def __str__(self) -> str:
        return self._text("__str__", ())

    def __repr__(self) -> str:
        return self._text("__repr__", ())

    def __format__(self, spec: str) -> str:
        return self._text("__format__", (spec,))

    def _text(self, name: str, args: tuple[Any, ...]) -> str:
        if isinstance(self, BaseException):
            return str(self.__dict__.get("_quintain_text", "")) if name != "__repr__" else (
                f"{type(self).__name__}({', '.join(map(repr, self.args))})")
        answer = self._quintain_peer.special(self, name, args)
        if type(answer) is not str:
            raise WrongType(f"expected a str from {name}, found {type(answer).__name__}")
        return answer

    def __copy__(self) -> Any:
        return self._quintain_peer.copy(self, False)

    def __deepcopy__(self, memo: Any) -> Any:
        return self._quintain_peer.copy(self, True)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise WrongType("a stand-in cannot be pickled")


class RemoteMethod:
    """A method of an object of the other side: called by name, so that it needs no number of its own."""

    def __init__(self, target: Any, name: str) -> None:
        self.__self__ = target
        self.__name__ = self.__qualname__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__self__._quintain_peer.method(self.__self__, self.__name__, args, kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteMethod) and self.__self__ is other.__self__ and self.__name__ == other.__name__

    def __hash__(self) -> int:
        return hash((id(self.__self__), self.__name__))


class OwnMethod:
    """A bound method on its way to the other side."""

    def __init__(self, target: Any, name: str) -> None:
        self.target = target
        self.name = name


def _special(peer: Any, name: str) -> Any:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return peer.special(self, name, args, kwargs)

    forward.__name__ = forward.__qualname__ = name
    return forward


def build_class(peer: Any, description: list[Any], bases: list[type]) -> type:
    """The stand-in for a class, from what the other side says of it: [ref, name, module, specials, like] and its
    bases, mirrored already. Raises ValueError for what is not such a description."""
    ref, name, module, specials, like = description
    if not (type(ref) is int and all(type(t) is str for t in (name, module, *specials))):
        raise ValueError("expected a class description")
    # a carried or holding type stays a base only where its value can come along
    kept = [b for b in bases if isinstance(b, RemoteType) or issubclass(b, BaseException) or b in CARRIED.values()]
    if not any(isinstance(b, RemoteType) for b in kept):
        kept.insert(0, Remote)
    body: dict[str, Any] = {"__module__": module[:200], "__qualname__": name[:200]}
    carried = next((b for b in CARRIED.values() if any(issubclass(k, b) for k in kept)), None)
    for special in specials:
        local = special in TEXT or special in ("__eq__", "__hash__") or (carried and hasattr(carried, special))
        if special in SPECIALS and not local:
            body[special] = _special(peer, special)
    body |= {
        "_quintain_peer": peer, "_quintain_ref": ref, "_quintain_eq": "__eq__" in specials,
        "_quintain_hash": None if "-hash" in specials else "__hash__" in specials,
        "_quintain_like": like if like in _HOLDERS else None, "_quintain_carried": carried,
    }
    if carried is not None:
        body["_quintain_hash"] = False
    plain_name = name.rpartition(".")[2][:200]
    try:
        return RemoteType(plain_name, tuple(kept), body)
    except TypeError:  # bases that do not go together here: keep what an except clause needs
        root = Exception if any(issubclass(b, BaseException) for b in kept) else object
        return RemoteType(plain_name, (Remote, root) if root is Exception else (Remote,), body)


def specials_of(kind: type) -> list[str]:
    """The special methods that a class has beyond those of `object` and of a builtin exception or carried type."""
    found: list[str] = []
    for name in sorted(SPECIALS):
        home = next((k for k in kind.__mro__ if name in k.__dict__), object)
        if home is object or home is BaseException or home in CARRIED.values():
            continue
        value = home.__dict__[name]
        if value is not None:
            found.append(name)
        elif name == "__hash__":
            found.append("-hash")
    return found


def like_of(kind: type) -> str | None:
    """The builtin container that a class is made from, or that its instances are equal to."""
    if kind.__name__ in ("dict_keys", "dict_items") and kind.__module__ == "builtins":
        return "set"
    return next((k.__name__ for k in kind.__mro__ if k.__module__ == "builtins" and k.__name__ in _HOLDERS), None)


def contents_of(value: Any) -> Any:
    """What a container of a derived class holds, as the builtin container, whatever its own methods say."""
    like = like_of(type(value))
    if like == "dict":
        return {key: dict.__getitem__(value, key) for key in dict.__iter__(value)}
    if like == "list":
        return list(list.__iter__(value))
    if like == "bytearray":
        return bytearray(bytearray.__iter__(value))
    return set(set.__iter__(value)) if isinstance(value, set) else set(value)


def carried_of(value: Any) -> Any:
    """The exact builtin value inside an instance of a derived class, whatever its own methods say; None if none."""
    for base in type(value).__mro__:
        if base is int or base is float:
            return base.__pos__(value)
        if base is str:
            return str.__str__(value)
        if base is bytes:
            return bytes.__getitem__(value, slice(None))
        if base is tuple:
            return tuple(tuple.__iter__(value))
        if base is frozenset:
            return frozenset(frozenset.__iter__(value))
    return None


def lookup_special(value: Any, name: str) -> Any:
    """A special method as the interpreter finds it: on the type, bound to the value. Raises TypeError."""
    for kind in type(value).__mro__:
        if name in kind.__dict__:
            found = kind.__dict__[name]
            bind = getattr(type(found), "__get__", None)
            return found if bind is None else bind(found, value, type(value))
    raise TypeError(f"{type(value).__name__!r} object has no {name}")

"""One side of the conversation: asks the other for calls and attributes, and serves its questions meanwhile.

Messages: ["q", number, what, parts, capture, news] and ["r", number, well, value, changed, printed, news]. `news` are
descriptions of classes met for the first time, `changed` all arguments again if the call changed one in place,
`printed` what it wrote to stdout when `capture` was set. Both sides are one conversation: a question is answered before
the next is asked, but answering may ask questions itself (callbacks).
"""

from __future__ import annotations

import sys
from _thread import RLock
from types import MethodType
from typing import Any

from quintain.grade.inside.standin import (
    CARRIED,
    OwnMethod,
    Remote,
    RemoteMethod,
    RemoteType,
    build_class,
    carried_of,
    contents_of,
    like_of,
    lookup_special,
    own_ref,
    specials_of,
)
from quintain.grade.inside.values import Values, has_mutable, is_builtin
from quintain.grade.inside.wire import Gone, Pipe, WrongType

MAX_STANDINS = 200_000
MAX_TEXT = 2_000


def make_exception(kind: type[BaseException], args: list[Any]) -> BaseException:
    """An exception of a class with what the other side says are its arguments, whether the class would take them or
    not: a class of the answer's may have been made with others."""
    home: Any = next(k for k in kind.__mro__ if is_builtin(k))
    try:
        return home.__new__(kind, *args) if isinstance(kind, RemoteType) else kind(*args)
    except (TypeError, ValueError, LookupError):
        plain = ("", [Exception()]) if issubclass(kind, BaseExceptionGroup) else ()
        made: BaseException = home.__new__(kind, *plain)
        made.args = tuple(args)
        return made


class Peer(Values):
    """Holds what each side knows of the other. Subclasses say what may be asked of this side (`allow`), what may leave
    it (`may_leave`) and how a failure is described (`frames_of`)."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self.pipe = pipe
        self.dead: Gone | None = None
        self.calls = 0
        self.asked = False  # whether code of the other side was run on purpose, beyond imports and attributes
        self.got = False  # whether a value of the other side was fetched
        self._lock = RLock()
        self._number = 0
        self._own: list[Any] = []  # what the other side may name, by number; kept alive here
        self._own_numbers: dict[int, int] = {}
        self._standins: dict[int, Any] = {}
        self._news: list[Any] = []
        self.capture = False

    # What a subclass decides

    def allow(self, what: str, target: Any, name: str) -> None:
        """Raises AttributeError or WrongType for what the other side may not ask."""

    def may_leave(self, value: Any) -> None:
        """Raises WrongType for what may not even be named to the other side."""

    def by_name(self, value: Any) -> Any:
        """A way to name a function that both sides have, or None."""
        return None

    def frames_of(self, error: BaseException) -> list[Any]:
        """Where an error came from: [file, line, function] each."""
        return []

    def load(self, name: str) -> Any:
        raise WrongType("nothing can be imported from here")

    # What this side asks

    def call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._ask("call", [target], args, kwargs)

    def method(self, target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._ask("meth", [target, name], args, kwargs)

    def special(self, target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        return self._ask("op", [target, name], args, kwargs or {})

    def get(self, target: Any, name: str) -> Any:
        return self._ask("get", [target, name], (), {})

    def set(self, target: Any, name: str, value: Any) -> None:
        self._ask("set", [target, name], (value,), {})

    def delete(self, target: Any, name: str) -> None:
        self._ask("del", [target, name], (), {})

    def contents(self, target: Any) -> Any:
        return self._ask("contents", [target], (), {})

    def copy(self, target: Any, deep: bool) -> Any:
        return self._ask("copy", [target, deep], (), {})

    def import_module(self, name: str) -> Any:
        return self._ask("import", [name], (), {})

    def _ask(self, what: str, head: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._lock:
            if self.dead is not None:
                raise self.dead
            self.calls += 1
            self.asked = self.asked or what in ("call", "meth", "op")
            self.got = self.got or what == "get"
            given = [*args, *kwargs.values()]
            sent: list[Any] = []
            parts = [self.encode_all(head), self.encode_all(given, sent=sent), list(kwargs)]
            try:
                return self._converse(what, parts, sent)
            except Gone as gone:
                self.dead = gone
                raise

    def _converse(self, what: str, parts: list[Any], sent: list[Any]) -> Any:
        self._number += 1
        number = self._number
        self.pipe.send(["q", number, what, parts, self.capturing(), self._take_news()])
        while True:
            message = self.pipe.receive()
            if not isinstance(message, list) or not message or message[0] not in ("q", "r"):
                raise Gone("forged", "a message that is not of the protocol")
            if message[0] == "q":
                self.serve(message)
                continue
            if len(message) != 7 or message[1] != number:
                raise Gone("forged", "an answer to a question that was not asked")
            return self._conclude(message, sent)

    def _conclude(self, message: list[Any], sent: list[Any]) -> Any:
        _, _, well, raw, changed, printed, news = message
        self._learn(news)
        try:
            self.decode_all(changed, originals=sent)
            if printed:
                self.printed(str(printed))
            error, frames = (None, None) if well else (self.decode(raw[0]), raw[1])
        except (TypeError, ValueError, LookupError):
            raise Gone("forged", "an answer that is not of the protocol") from None
        if error is None:
            return self.decode_all([raw], originals=sent)[0]
        if not isinstance(error, BaseException) or type(frames) is not list:  # without a place it would seem our own
            raise Gone("forged", "a failure that is no exception of the candidate's")
        error.__dict__["_quintain_frames"] = frames
        raise error

    def capturing(self) -> bool:
        """Whether the other side should hand over what it prints."""
        return False

    def printed(self, text: str) -> None:
        sys.stdout.write(text)

    # What this side serves

    def serve(self, message: list[Any]) -> None:
        """Answer one question. Raises Gone."""
        try:
            _, number, what, (head_raw, raw, names), capture, news = message
        except (TypeError, ValueError):
            raise Gone("forged", "a question that is not of the protocol") from None
        self._learn(news)
        built: list[Any] = []
        head, given = self.decode_all(head_raw), self.decode_all(raw, built=built)
        restore = self.begin_capture() if capture else None
        try:
            value = self.encode_all([self._perform(what, head, given, names)], known=built)[0]
            well = True
        except Gone:
            raise
        except BaseException as error:
            value, well = self._failure(error), False
        printed = self.end_capture(restore) if capture else ""
        self._reply([number, well, value, self._changed(raw, given, built), printed])

    def _reply(self, body: list[Any]) -> None:
        try:
            self.pipe.send(["r", *body, self._take_news()])
        except WrongType as error:  # too large
            self.pipe.send(["r", body[0], False, self._failure(error), [], "", []])

    def begin_capture(self) -> Any:
        return None

    def end_capture(self, restore: Any) -> str:
        return ""

    def _perform(self, what: str, head: list[Any], given: list[Any], names: list[str]) -> Any:
        if what == "import":
            return self.load(head[0])
        target = head[0]
        name = head[-1] if what in ("meth", "op", "get", "set", "del") else ""
        self.allow(what, target, name)
        split = len(given) - len(names)
        args, kwargs = given[:split], dict(zip(names, given[split:], strict=True))
        if what == "call":
            return target(*args, **kwargs)
        if what == "meth":
            return getattr(target, name)(*args, **kwargs)
        if what == "op":
            return lookup_special(target, name)(*args, **kwargs)
        if what == "get":
            found = getattr(target, name)
            bound = type(found) is MethodType and found.__self__ is target and found.__name__ == name
            return OwnMethod(target, name) if bound else found
        if what == "set":
            return setattr(target, name, args[0])
        if what == "del":
            return delattr(target, name)
        if what == "contents":
            return contents_of(target)
        if what == "copy":
            import copy

            return copy.deepcopy(target) if head[1] else copy.copy(target)
        raise Gone("forged", "a question that is not of the protocol")

    def _changed(self, raw: list[Any], given: list[Any], built: list[Any]) -> list[Any]:
        """All arguments as they are now, if a container among them holds something else than when it came."""
        if not any(has_mutable(before) for before in raw):
            return []
        try:
            if self.encode_all(given) == raw:
                return []
            return self.encode_all(given, known=built, full=True)
        except (WrongType, RuntimeError):  # grown beyond what can cross, or changed by a thread meanwhile
            return []

    def _failure(self, error: BaseException) -> list[Any]:
        frames = self.frames_of(error)
        if type(error) is WrongType:
            return [["wt", str(error)[:MAX_TEXT]], frames]
        try:
            return [self.encode(error), frames]
        except WrongType:
            return [["wt", f"{type(error).__name__} that cannot cross"], frames]

    # References

    def number_of(self, value: Any) -> int:
        number = self._own_numbers.get(id(value))
        if number is None:
            number = len(self._own)
            self._own.append(value)
            self._own_numbers[id(value)] = number
        return number

    def give(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, (Remote, RemoteType, BaseException)):
            ref = own_ref(value)
            if ref is not None:
                return ["o", ref]
        if isinstance(value, BaseException):
            return self._give_exception(value)
        if kind is OwnMethod:
            self.may_leave(value.target)
            return ["mb", *self.give(value.target)[1:3], value.name]
        if kind is RemoteMethod:
            return ["bm", own_ref(value.__self__), value.__name__]
        named = self.by_name(value)
        if named is not None:
            return named
        if isinstance(value, type):
            return ["k", self._describe(value)]
        if kind.__name__ == "traceback" and kind.__module__ == "builtins":
            return None
        self.may_leave(value)
        described = ["h", self.number_of(value), self._describe(kind)]
        carried = carried_of(value)
        return described if carried is None else [*described, self._encode(carried, 1)]

    def _give_exception(self, error: BaseException) -> Any:
        try:
            text = str(error)[:MAX_TEXT]
        except BaseException as second:
            text = f"<no text: {type(second).__name__}>"
        args = []
        given = error.args if isinstance(error.args, tuple) else ()
        if isinstance(error, OSError) and len(given) == 2 and error.filename is not None:
            given = (*given, error.filename)
        for argument in given:
            try:
                args.append(self._encode(argument, 1))
            except WrongType:
                args.append(f"<{type(argument).__name__}>")
        kind = type(error)
        shown = ["ty", kind.__name__] if is_builtin(kind) else ["k", self._describe(kind)]
        name = error.name if isinstance(error, ImportError) and type(error.name) is str else None
        return ["e", self.number_of(error), shown, args, text, name]

    def _describe(self, kind: type) -> int:
        known = id(kind) in self._own_numbers
        number = self.number_of(kind)
        if known:
            return number
        bases: list[Any] = []
        for base in kind.__bases__:
            if is_builtin(base) and base is not object:
                bases.append(["ty", base.__name__])
            elif base is not object:
                ref = own_ref(base)
                bases.append(["k", self._describe(base)] if ref is None else ["o", ref])
        self._news.append([number, str(kind.__qualname__)[:200], str(kind.__module__)[:200], specials_of(kind),
                           like_of(kind), bases])
        return number

    def _take_news(self) -> list[Any]:
        news, self._news = self._news, []
        return news

    def _learn(self, news: Any) -> None:
        try:
            for description in news:
                number, *_, raw_bases = description
                bases = [self.decode(b) for b in raw_bases[:32]]
                if number in self._standins or not all(isinstance(b, type) for b in bases):
                    raise ValueError("expected a new class")
                self._keep(number, build_class(self, description[:-1], bases))
        except (AttributeError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
            raise Gone("forged", "a class that is not of the protocol") from None

    def _keep(self, number: int, standin: Any) -> Any:
        if len(self._standins) >= MAX_STANDINS:
            raise Gone("flood", f"more than {MAX_STANDINS} objects were named")
        self._standins[number] = standin
        return standin

    def take(self, tag: str, raw: list[Any]) -> Any:
        if tag == "o":
            if raw[1] < 0:
                raise ValueError("expected a number of ours")
            return self._own[raw[1]]
        if tag == "k":
            kind = self._standins[raw[1]]
            if not isinstance(kind, type):
                raise ValueError("expected a class")
            return kind
        if tag == "h":
            return self._standins[raw[1]] if raw[1] in self._standins else self._take_object(raw)
        if tag == "e":
            return self._standins[raw[1]] if raw[1] in self._standins else self._take_exception(raw)
        if tag == "mb":
            return RemoteMethod(self._standins[raw[1]], str(raw[-1]))
        if tag == "bm":
            target = self._own[raw[1]]
            self.allow("get", target, raw[2])
            return getattr(target, raw[2])
        if tag == "wt":
            return WrongType(str(raw[1]))
        return super().take(tag, raw)

    def _take_object(self, raw: list[Any]) -> Any:
        kind = self._standins[raw[2]]
        carried = getattr(kind, "_quintain_carried", None)
        if carried is None:
            made = object.__new__(kind)
        else:
            value = self._decode(raw[3], 1)
            if type(value) is not carried or carried not in CARRIED.values():
                raise ValueError("expected the value of a derived class")
            made = carried.__new__(kind, value)
        made.__dict__["_quintain_ref"] = raw[1]
        return self._keep(raw[1], made)

    def _take_exception(self, raw: list[Any]) -> Any:
        kind = self._decode(raw[2], 1)
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise ValueError("expected an exception class")
        args = [self._decode(a, 1) for a in raw[3]]
        made: Any = make_exception(kind, args)
        made.__dict__["_quintain_ref"] = raw[1]
        made.__dict__["_quintain_text"] = str(raw[4])
        if isinstance(made, ImportError):
            made.name = None if raw[5] is None else str(raw[5])
        return self._keep(raw[1], made)

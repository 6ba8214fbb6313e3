"""Values as JSON with explicit type tags, rebuilt on the other side as exactly these types.

Plain in JSON: None, booleans, strings, integers below 2**63. Everything else is a list that begins with its tag. Only
exact types are copied (`type(x) is int`): an instance of a subclass is another side's object and goes by reference.
A container that occurs twice in one message is one container there too: ["&", n] is the n-th that was finished. An
answer names the containers of its question: ["@", n] is the n-th of them, ["=", n, content] the same with what it holds
now. Cycles, nesting deeper than 60 and more than four million parts are refused.
"""

from __future__ import annotations

import builtins
import sys
from binascii import a2b_base64, b2a_base64
from typing import Any

from quintain.grade.inside.wire import MAX_DEPTH, MAX_NODES, Gone, WrongType

_SEQUENCES: dict[type, str] = {list: "l", tuple: "t", set: "S", frozenset: "F"}
_BUILD: dict[str, Any] = {"l": list, "t": tuple, "S": set, "F": frozenset}
_BUILTIN_TYPES: dict[str, type] = {n: t for n, t in vars(builtins).items() if isinstance(t, type)}


def is_builtin(kind: type) -> bool:
    """Whether a class is one of Python's own: `__module__` does not tell, pytest's `Skipped` says builtins as well."""
    return _BUILTIN_TYPES.get(kind.__name__) is kind


#: Tags of values that the other side may change in place.
MUTABLE = frozenset({"l", "S", "d", "ba", "dq", "od", "dd", "ct", "np"})
#: The kinds of numpy's arrays that are copied: numbers, texts, times; not references to objects, not records.
_ARRAYS = "biufcSUmM"


def _of(module: str, name: str) -> Any:
    """A class of a standard module, if somebody has imported that module; else a class that nothing is of."""
    return getattr(sys.modules.get(module), name, _Nothing)


class _Nothing:
    pass


class Values:
    """Encodes and decodes; what is not a plain value goes to `give` and comes from `take`, which a peer extends."""

    def give(self, value: object) -> Any:
        raise WrongType(f"a {type(value).__name__} cannot cross")

    def take(self, tag: str, raw: list[Any]) -> Any:
        raise ValueError("expected a known tag")

    def __init__(self) -> None:
        self._nodes = 0
        self._open: set[int] = set()
        self._sent: dict[int, int] = {}  # containers of this message, by identity
        self._known: dict[int, int] = {}  # containers of the question that is being answered, by identity
        self._full = False  # whether these are written with their content
        self._built: list[Any] = []  # containers of this message, in the order in which they were finished
        self._originals: list[Any] = []  # containers of the question that was asked

    def encode(self, value: object) -> Any:
        """Raises WrongType for what cannot cross."""
        return self.encode_all([value])[0]

    def encode_all(
        self, values: list[Any], *, known: list[Any] | None = None, full: bool = False, sent: list[Any] | None = None
    ) -> list[Any]:
        """Several values that may share containers. `known` are the containers of the question, written with their
        content when `full`; `sent` receives the containers of this message. Raises WrongType for what cannot cross."""
        kept = self._nodes, self._open, self._sent, self._known, self._full, self._built
        self._nodes, self._open, self._sent, self._full = 0, set(), {}, full
        self._known = {id(container): n for n, container in enumerate(known or ())}
        self._built = [] if sent is None else sent
        try:
            return [self._encode(value, 0) for value in values]
        finally:
            self._nodes, self._open, self._sent, self._known, self._full, self._built = kept

    def _encode(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if -(1 << 63) < value < 1 << 63 else ["i", hex(value)]
        if kind is str:
            return value if value.isascii() or not _has_surrogate(value) else [
                "s", value.encode("utf-8", "surrogatepass").hex()]
        if kind is float:
            return ["f", value.hex()]
        self._count(1)
        if depth > MAX_DEPTH:
            raise WrongType(f"a value nested deeper than {MAX_DEPTH} cannot cross")
        if id(value) in self._sent:
            return ["&", self._sent[id(value)]]
        known = self._known.get(id(value))
        if known is not None and not self._full:
            return ["@", known]
        if id(value) in self._open:
            raise WrongType(f"a {kind.__name__} that contains itself cannot cross")
        self._open.add(id(value))
        try:
            raw = self._encode_larger(value, kind, depth + 1)
        finally:
            self._open.discard(id(value))
        if type(raw) is list and raw[0] in MUTABLE:  # numpy's numbers are written as plain ones
            self._sent[id(value)] = len(self._sent)
            self._built.append(value)
        return raw if known is None else ["=", known, raw]

    def _count(self, parts: int) -> None:
        self._nodes += parts
        if self._nodes > MAX_NODES:
            raise WrongType(f"a value of more than {MAX_NODES} parts cannot cross")

    def _encode_larger(self, value: Any, kind: type, depth: int) -> Any:
        tag = _SEQUENCES.get(kind)
        if tag is not None:
            self._count(len(value))
            return [tag, *[self._encode(item, depth) for item in value]]
        if kind is dict:
            return self._encode_items("d", value, depth)
        if kind is bytes or kind is bytearray:
            return ["b" if kind is bytes else "ba", b2a_base64(value, newline=False).decode("ascii")]
        if kind is complex:
            return ["c", value.real.hex(), value.imag.hex()]
        if kind is range:
            return ["rg", *[self._encode(n, depth) for n in (value.start, value.stop, value.step)]]
        if kind is slice:
            return ["sl", *[self._encode(n, depth) for n in (value.start, value.stop, value.step)]]
        if value is Ellipsis:
            return ["el"]
        if value is NotImplemented:
            return ["ni"]
        if isinstance(value, type) and _BUILTIN_TYPES.get(value.__name__) is value:
            return ["ty", value.__name__]
        if isinstance(value, type) and value.__module__ == "numpy" and _scalar(value.__name__) is value:
            return ["ns", value.__name__]
        plain = self._encode_standard(value, kind, depth)
        return self.give(value) if plain is None else plain

    def _encode_items(self, tag: str, value: Any, depth: int) -> list[Any]:
        self._count(len(value))
        flat: list[Any] = [tag]
        for key, item in value.items():
            flat += (self._encode(key, depth), self._encode(item, depth))
        return flat

    def _encode_standard(self, value: Any, kind: type, depth: int) -> Any:
        """Values of well-known standard classes; None for anything else."""
        module = kind.__module__
        if module == "collections":
            if kind is _of(module, "deque"):
                return ["dq", value.maxlen, *[self._encode(item, depth) for item in value]]
            for tag, name in (("od", "OrderedDict"), ("ct", "Counter"), ("dd", "defaultdict")):
                if kind is _of(module, name):
                    return self._encode_items(tag, value, depth)
        elif module == "decimal" and kind is _of(module, "Decimal"):
            return ["D", str(value)]
        elif module == "fractions" and kind is _of(module, "Fraction"):
            return ["Q", self._encode(value.numerator, depth), self._encode(value.denominator, depth)]
        elif module == "uuid" and kind is _of(module, "UUID"):
            return ["u", value.hex]
        elif module == "datetime":
            return self._encode_time(value, kind, depth)
        elif module == "numpy" and getattr(value, "ndim", 1) == 0 and hasattr(value, "item"):
            return self._encode(value.item(), depth)
        elif module == "numpy" and kind is _of(module, "ndarray") and value.dtype.kind in _ARRAYS:
            content = b2a_base64(value.tobytes(), newline=False).decode("ascii")
            return ["np", value.dtype.str, list(value.shape), content]
        elif module == "numpy.dtypes" and isinstance(value, _of("numpy", "dtype")) and value.kind in _ARRAYS:
            return ["nd", value.str]
        return None

    def _encode_time(self, value: Any, kind: type, depth: int) -> Any:
        name = kind.__name__
        if kind is not _of("datetime", name):
            return None
        if name == "timedelta":
            return ["td", value.days, value.seconds, value.microseconds]
        if name == "date":
            return ["da", value.year, value.month, value.day]
        if name == "timezone":
            return ["tz", self._encode(value.utcoffset(None), depth), value.tzname(None)]
        clock = [value.hour, value.minute, value.second, value.microsecond, value.fold]
        zone = self._encode_zone(value, depth)
        if name == "time":
            return ["ti", zone, *clock]
        return ["dt", zone, value.year, value.month, value.day, *clock] if name == "datetime" else None

    def _encode_zone(self, value: Any, depth: int) -> Any:
        """The zone of a time: by its name where it has one, and as it stands at that time where it is of a class that
        the other side does not have."""
        zone = value.tzinfo
        if zone is None or type(zone) is _of("datetime", "timezone"):
            return self._encode(zone, depth)
        if type(zone) is _of("zoneinfo", "ZoneInfo") and type(zone.key) is str:
            return ["zi", zone.key]
        offset = value.utcoffset()
        if offset is None:
            raise WrongType(f"a time in a zone of the class {type(zone).__name__} cannot cross")
        return ["tz", self._encode(offset, depth), str(value.tzname())]

    def decode(self, raw: Any) -> Any:
        """Raises Gone('forged') for what no honest peer sends."""
        return self.decode_all([raw])[0]

    def decode_all(
        self, raws: Any, *, originals: list[Any] | None = None, built: list[Any] | None = None
    ) -> list[Any]:
        """Several values that may share containers. `originals` are the containers of the question that this answers:
        they are changed in place to what the answer says of them; `built` receives the containers of this message.
        Raises Gone('forged') for what no honest peer sends."""
        kept = self._built, self._originals
        self._built, self._originals = [] if built is None else built, originals or []
        try:
            return [self._decode(raw, 0) for raw in raws]
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, ImportError) as e:
            raise Gone("forged", f"a value that is not of the protocol: {type(e).__name__}") from None
        finally:
            self._built, self._originals = kept

    def _decode(self, raw: Any, depth: int) -> Any:
        if raw is None or isinstance(raw, (bool, int, str)):
            return raw
        if depth > MAX_DEPTH + 4:
            raise ValueError("too deep")
        tag = raw[0]
        if tag in MUTABLE:
            made = self._decode_container(tag, raw, depth)
            self._built.append(made)
            return made
        if tag == "t" or tag == "F":
            return _BUILD[tag]([self._decode(item, depth + 1) for item in raw[1:]])
        if tag == "f":
            return float.fromhex(raw[1])
        if tag == "&":
            return self._built[raw[1]]
        if tag == "@":
            return self._originals[raw[1]]
        if tag == "=":
            made = self._decode(raw[2], depth + 1)
            refill(self._originals[raw[1]], made)
            self._built[-1] = self._originals[raw[1]]
            return self._built[-1]
        if tag == "i":
            return int(raw[1], 16)
        if tag == "s":
            return bytes.fromhex(raw[1]).decode("utf-8", "surrogatepass")
        return self._decode_rarer(tag, raw, depth + 1)

    def _decode_container(self, tag: str, raw: list[Any], depth: int) -> Any:
        if tag == "l" or tag == "S":
            return _BUILD[tag]([self._decode(item, depth + 1) for item in raw[1:]])
        if tag == "d":
            return dict(self._decode_items(raw, 1, depth))
        if tag == "ba":
            return bytearray(a2b_base64(raw[1]))
        if tag == "np":
            return _array(raw[1], raw[2], a2b_base64(raw[3]))
        return self._decode_collection(tag, raw, depth + 1)

    def _decode_items(self, raw: list[Any], start: int, depth: int) -> list[tuple[Any, Any]]:
        return [(self._decode(raw[i], depth + 1), self._decode(raw[i + 1], depth + 1))
                for i in range(start, len(raw), 2)]

    def _decode_rarer(self, tag: str, raw: list[Any], depth: int) -> Any:
        if tag == "b":
            return a2b_base64(raw[1])
        if tag == "c":
            return complex(float.fromhex(raw[1]), float.fromhex(raw[2]))
        if tag in ("rg", "sl"):
            return (range if tag == "rg" else slice)(*[self._decode(n, depth) for n in raw[1:4]])
        if tag == "el":
            return Ellipsis
        if tag == "ni":
            return NotImplemented
        if tag == "ty":
            return _BUILTIN_TYPES[raw[1]]
        if tag in ("D", "Q", "u"):
            return self._decode_number(tag, raw, depth)
        if tag == "nd":
            return _dtype(raw[1])
        if tag == "ns":
            import numpy  # noqa: F401 - _scalar looks no further than what was imported

            found = _scalar(raw[1])
            if found is None:
                raise ValueError("expected a class of numpy's numbers")
            return found
        if tag in ("td", "da", "tz", "zi", "ti", "dt"):
            return self._decode_time(tag, raw, depth)
        return self.take(tag, raw)

    def _decode_collection(self, tag: str, raw: list[Any], depth: int) -> Any:
        import collections

        if tag == "dq":
            return collections.deque([self._decode(item, depth) for item in raw[2:]], raw[1])
        items = self._decode_items(raw, 1, depth)
        if tag == "ct":
            return collections.Counter(dict(items))
        return collections.OrderedDict(items) if tag == "od" else collections.defaultdict(None, items)

    def _decode_number(self, tag: str, raw: list[Any], depth: int) -> Any:
        if tag == "D":
            from decimal import Decimal

            return Decimal(raw[1])
        if tag == "Q":
            from fractions import Fraction

            return Fraction(self._decode(raw[1], depth), self._decode(raw[2], depth))
        from uuid import UUID

        return UUID(hex=raw[1])

    def _decode_time(self, tag: str, raw: list[Any], depth: int) -> Any:
        import datetime

        if tag == "td":
            return datetime.timedelta(days=raw[1], seconds=raw[2], microseconds=raw[3])
        if tag == "da":
            return datetime.date(*raw[1:4])
        if tag == "zi":
            import zoneinfo

            return zoneinfo.ZoneInfo(raw[1])
        zone = self._decode(raw[1], depth)
        if tag == "tz":
            return datetime.UTC if not zone and raw[2] == "UTC" else datetime.timezone(zone, raw[2])
        if tag == "ti":
            hour, minute, second, micro, fold = raw[2:7]
            return datetime.time(hour, minute, second, micro, zone, fold=fold)
        year, month, day, hour, minute, second, micro, fold = raw[2:10]
        return datetime.datetime(year, month, day, hour, minute, second, micro, zone, fold=fold)


def _array(kind: str, shape: list[int], content: bytes) -> Any:
    """One of numpy's arrays, whose content is all there. Raises ValueError, TypeError, ImportError."""
    import numpy

    of = _dtype(kind)
    if not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("expected the shape of an array")
    if 0 in shape:
        return numpy.zeros(shape, of)
    return numpy.frombuffer(content, of).reshape(shape).copy()


def _scalar(name: str) -> Any:
    """The class of numpy's numbers (texts, times) of that name, if somebody has imported it, or None."""
    found = _of("numpy", name)
    return found if isinstance(found, type) and issubclass(found, _of("numpy", "generic")) else None


def _dtype(kind: str) -> Any:
    import numpy

    of = numpy.dtype(kind)
    if of.kind not in _ARRAYS:
        raise ValueError("expected an array of plain values")
    return of


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def has_mutable(raw: Any) -> bool:
    """Whether an encoded value holds something that can be changed in place."""
    if not isinstance(raw, list):
        return False
    return raw[0] in MUTABLE or raw[0] == "&" or (raw[0] == "t" and any(has_mutable(item) for item in raw[1:]))


def refill(old: Any, new: Any) -> None:
    """Make a container hold what `new` holds. Raises ValueError if they are not of one exact type."""
    if type(old) is not type(new):
        raise ValueError("expected the same kind of container")
    if hasattr(old, "dtype"):
        if old.dtype != new.dtype or old.shape != new.shape:
            raise ValueError("expected an array of the same kind and shape")
        old[...] = new
    elif hasattr(old, "update"):
        old.clear()
        old.update(new)
    elif hasattr(old, "maxlen"):
        old.clear()
        old.extend(new)
    else:
        old[:] = new

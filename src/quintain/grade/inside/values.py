"""Values as JSON with explicit type tags, rebuilt on the other side as exactly these types.

Plain in JSON: None, booleans, strings, integers below 2**63. Everything else is a list that begins with its tag. Only
exact types are copied (`type(x) is int`): an instance of a subclass is another side's object and goes by reference.
Cycles, nesting deeper than 60 and more than a million parts are refused.
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
#: Tags of values that the other side may change in place.
MUTABLE = frozenset({"l", "S", "d", "ba", "dq", "od", "dd", "ct"})


def _of(module: str, name: str) -> Any:
    """A class of a standard module, if somebody has imported that module; else a class that nothing is of."""
    return getattr(sys.modules.get(module), name, _Nothing)


class _Nothing:
    pass


class Values:
    """Encodes and decodes; what is not a plain value goes to `give` and comes from `take`, which a peer defines."""

    def give(self, value: object) -> Any:
        raise NotImplementedError

    def take(self, tag: str, raw: list[Any]) -> Any:
        raise NotImplementedError

    def encode(self, value: object) -> Any:
        """Raises WrongType for what cannot cross."""
        self._nodes = 0
        self._open: set[int] = set()
        return self._encode(value, 0)

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
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise WrongType(f"a value nested deeper than {MAX_DEPTH} or of more than {MAX_NODES} parts cannot cross")
        if id(value) in self._open:
            raise WrongType(f"a {kind.__name__} that contains itself cannot cross")
        self._open.add(id(value))
        try:
            return self._encode_larger(value, kind, depth + 1)
        finally:
            self._open.discard(id(value))

    def _encode_larger(self, value: Any, kind: type, depth: int) -> Any:
        tag = _SEQUENCES.get(kind)
        if tag is not None:
            self._nodes += len(value)
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
        plain = self._encode_standard(value, kind, depth)
        return self.give(value) if plain is None else plain

    def _encode_items(self, tag: str, value: Any, depth: int) -> list[Any]:
        self._nodes += len(value)
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
        zone = self._encode(value.tzinfo, depth)
        if name == "time":
            return ["ti", zone, *clock]
        return ["dt", zone, value.year, value.month, value.day, *clock] if name == "datetime" else None

    def decode(self, raw: Any) -> Any:
        """Raises Gone('forged') for what no honest peer sends."""
        try:
            return self._decode(raw, 0)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, ImportError) as e:
            raise Gone("forged", f"a value that is not of the protocol: {type(e).__name__}") from None

    def _decode(self, raw: Any, depth: int) -> Any:
        if raw is None or isinstance(raw, (bool, int, str)):
            return raw
        if depth > MAX_DEPTH + 4:
            raise ValueError("too deep")
        tag = raw[0]
        build = _BUILD.get(tag)
        if build is not None:
            return build([self._decode(item, depth + 1) for item in raw[1:]])
        if tag == "f":
            return float.fromhex(raw[1])
        if tag == "d":
            return dict(self._decode_items(raw, 1, depth))
        if tag == "i":
            return int(raw[1], 16)
        if tag == "s":
            return bytes.fromhex(raw[1]).decode("utf-8", "surrogatepass")
        return self._decode_rarer(tag, raw, depth + 1)

    def _decode_items(self, raw: list[Any], start: int, depth: int) -> list[tuple[Any, Any]]:
        return [(self._decode(raw[i], depth + 1), self._decode(raw[i + 1], depth + 1))
                for i in range(start, len(raw), 2)]

    def _decode_rarer(self, tag: str, raw: list[Any], depth: int) -> Any:
        if tag in ("b", "ba"):
            data = a2b_base64(raw[1])
            return data if tag == "b" else bytearray(data)
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
        if tag in ("dq", "od", "ct", "dd"):
            return self._decode_collection(tag, raw, depth)
        if tag in ("D", "Q", "u"):
            return self._decode_number(tag, raw, depth)
        if tag in ("td", "da", "tz", "ti", "dt"):
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
        zone = self._decode(raw[1], depth)
        if tag == "tz":
            return datetime.UTC if not zone and raw[2] == "UTC" else datetime.timezone(zone, raw[2])
        if tag == "ti":
            hour, minute, second, micro, fold = raw[2:7]
            return datetime.time(hour, minute, second, micro, zone, fold=fold)
        year, month, day, hour, minute, second, micro, fold = raw[2:10]
        return datetime.datetime(year, month, day, hour, minute, second, micro, zone, fold=fold)


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
    return raw[0] in MUTABLE or (raw[0] == "t" and any(has_mutable(item) for item in raw[1:]))


def assign(old: Any, new: Any) -> None:
    """Make `old` hold what `new` holds, in place, as deep as both are containers of the same exact type."""
    kind = type(old)
    if kind is not type(new):
        return
    if kind is list:
        if len(old) == len(new):
            for index, item in enumerate(new):
                old[index] = _merged(old[index], item)
        else:
            old[:] = new
    elif kind is tuple:
        for before, item in zip(old, new, strict=False):
            assign(before, item)
    elif kind is bytearray:
        old[:] = new
    elif kind is set:
        old.clear()
        old.update(new)
    elif kind is dict or kind.__module__ == "collections":
        _assign_collection(old, new)


def _assign_collection(old: Any, new: Any) -> None:
    if hasattr(old, "items"):
        merged = [(key, _merged(old[key], item) if key in old else item) for key, item in new.items()]
        old.clear()
        old.update(merged)
    elif hasattr(old, "extend"):
        items = list(new)
        old.clear()
        old.extend(items)


def _merged(old: Any, new: Any) -> Any:
    """The old container with the new content where both are alike: what a caller holds stays the same object."""
    if type(old) is type(new) and isinstance(old, (list, dict, set, bytearray, tuple)):
        if type(old) is tuple and len(old) != len(new):
            return new
        assign(old, new)
        return new if type(old) is tuple else old
    return new

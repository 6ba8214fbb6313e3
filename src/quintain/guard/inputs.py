"""New inputs from known ones: small changes of each, and fresh ones of the same shape. Pure, and the same for a seed.

Covers: None, booleans, numbers, text, bytes, and lists, tuples, sets and dictionaries of these, to any depth.
Does not cover: what a task's words say about its inputs. A list that is sorted in every example may come out unsorted;
whether that may be asked is for other right answers to say (see `grow`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

#: What can be written as a literal.
Value: TypeAlias = (
    "bool | int | float | str | bytes | list[Value] | tuple[Value, ...] | set[Value] | dict[Value, Value] | None"
)
_Item = TypeVar("_Item")
_BORDERS_INT = (0, 1, -1, 2, 10, 100, 2**31 - 1)
_BORDERS_FLOAT = (0.0, 1.0, -1.0, 0.5, 1e-9, 1e9)
_LETTERS = "abcdefgxyzABZ0129 .,-_()[]{}é\n"
_LONGEST = 12


def mutated(arguments: tuple[Value, ...], chance: random.Random) -> tuple[Value, ...]:
    """The arguments with one of them changed a little, its type kept."""
    if not arguments:
        return arguments
    which = chance.randrange(len(arguments))
    return tuple(changed(value, chance) if n == which else value for n, value in enumerate(arguments))


def changed(value: Value, chance: random.Random) -> Value:
    """A value near this one, of the same type."""
    if value is None or isinstance(value, bool):
        return value if value is None else not value
    if isinstance(value, int):
        return chance.choice([value + 1, value - 1, -value, value * 2, value // 2, *_BORDERS_INT])
    if isinstance(value, float):
        return chance.choice([value + 1.0, value - 0.5, -value, value * 2, value / 3, *_BORDERS_FLOAT])
    if isinstance(value, str):
        return "".join(_rearranged(list(value), chance, lambda: chance.choice(_LETTERS), lambda c: c.swapcase()))
    if isinstance(value, bytes):
        octets: list[int] = _rearranged(list(value), chance, lambda: chance.randrange(256), _flipped)
        return bytes(octets)
    if isinstance(value, dict):
        pairs = _rearranged(list(value.items()), chance, None, lambda pair: (pair[0], changed(pair[1], chance)))
        return dict(pairs)
    kind = type(value)
    items = _rearranged(list(value), chance, None, lambda item: changed(item, chance))
    return kind(items)


def _flipped(octet: int) -> int:
    return octet ^ 1


def _rearranged(
    items: list[_Item], chance: random.Random, fresh: Callable[[], _Item] | None, near: Callable[[_Item], _Item],
) -> list[_Item]:
    """Items with one dropped, doubled, moved or changed; or none; or the first only; or all in reverse."""
    if not items:
        return [fresh()] if fresh is not None else items
    at = chance.randrange(len(items))
    match chance.randrange(8):
        case 0:
            return items[:at] + items[at + 1:]
        case 1:
            return [*items[:at], items[at], *items[at:]]
        case 2:
            return items[::-1]
        case 3:
            return items[:1] if chance.random() < 0.5 else []
        case 4:
            other = chance.randrange(len(items))
            swapped = list(items)
            swapped[at], swapped[other] = swapped[other], swapped[at]
            return swapped
        case 5 if fresh is not None:
            return [*items[:at], fresh(), *items[at:]]
        case 6:
            return items + items
        case _:
            return [*items[:at], near(items[at]), *items[at + 1:]]


def like(examples: Sequence[tuple[Value, ...]], chance: random.Random) -> tuple[Value, ...]:
    """Fresh arguments of the shape that the examples share: each position is made like that position of one of them."""
    pattern = chance.choice(examples)
    return tuple(_fresh([e[n] for e in examples if len(e) > n], chance) for n in range(len(pattern)))


def _fresh(examples: Sequence[Value], chance: random.Random) -> Value:
    """A value of the type of one of the examples, with parts like theirs."""
    value = chance.choice(examples)
    if value is None or isinstance(value, bool):
        return value if value is None else chance.random() < 0.5
    if isinstance(value, int):
        known = [v for v in examples if isinstance(v, int)]
        low, high = min(known), max(known)
        span = max(10, high - low)
        return chance.randint(low - span // 2 if low < 0 else 0, high + span)
    if isinstance(value, float):
        known_floats = [v for v in examples if isinstance(v, float)]
        return round(chance.uniform(min(known_floats) - 1.0, max(known_floats) * 1.5 + 1.0), chance.randrange(4))
    if isinstance(value, str):
        letters = "".join(v for v in examples if isinstance(v, str)) or _LETTERS
        return "".join(chance.choice(letters) for _ in range(chance.randrange(_LONGEST)))
    if isinstance(value, bytes):
        return bytes(chance.randrange(256) for _ in range(chance.randrange(_LONGEST)))
    if isinstance(value, dict):
        keys = [k for e in examples if isinstance(e, dict) for k in e]
        held = [v for e in examples if isinstance(e, dict) for v in e.values()]
        count = chance.randrange(_LONGEST // 2) if keys else 0
        return {_fresh(keys, chance): _fresh(held, chance) for _ in range(count)}
    parts = [item for e in examples if isinstance(e, type(value)) for item in _items(e)]
    fixed = isinstance(value, tuple)
    count = len(value) if fixed else chance.randrange(_LONGEST) if parts else 0
    made = [_fresh(parts, chance) for _ in range(count)] if parts else []
    return type(value)(made)


def _items(value: Value) -> Iterator[Value]:
    if isinstance(value, list | tuple | set):
        yield from value

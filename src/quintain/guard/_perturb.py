"""Inputs near those of the tests, and values that no honest answer gives, both of the kind of what is there."""

from __future__ import annotations

import ast
import random
from collections.abc import Sequence

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def fresh_inputs(arguments: Sequence[str], rng: random.Random, count: int) -> list[str]:
    """At most `count` sources of argument tuples, each a small change of one of `arguments`, and equal to none."""
    known = set(arguments)
    found: list[str] = []
    for _ in range(count * 20):
        if len(found) >= count or not arguments:
            break
        made = repr(near(ast.literal_eval(rng.choice(list(arguments))), rng))
        if made not in known:
            known.add(made)
            found.append(made)
    return found


def near(value: object, rng: random.Random) -> object:
    """A value of the same type and about the same size; None and what has no neighbours stays."""
    match value:
        case bool():
            return rng.choice([True, False])
        case int():
            return max(value + rng.randint(-3, 3), 0) if value >= 0 else value + rng.randint(-3, 3)
        case float():
            return round(value + rng.uniform(-1, 1), 3)
        case str():
            letters = sorted(set(value)) or [*_LETTERS]
            at = rng.randrange(len(value) + 1)
            return value[:at] + rng.choice(letters) + value[at:] if rng.random() < 0.5 else "".join(
                rng.sample(value, len(value)))
        case list():
            items = [near(v, rng) if rng.random() < 0.4 else v for v in value]
            return [*items, near(rng.choice(items), rng)] if items and rng.random() < 0.4 else items
        case tuple():
            items = list(value)
            if items:
                at = rng.randrange(len(items))
                items[at] = near(items[at], rng)
            return tuple(items)
        case dict():
            return {k: near(v, rng) for k, v in value.items()}
        case _:
            return value


def poison(expected: object, rng: random.Random) -> object | None:
    """A value of the type of `expected` that no honest run returns; None where there is no such value (bool, None)."""
    match expected:
        case bool() | None:
            return None
        case int():
            return rng.randrange(10**11, 10**12)
        case float():
            return float(rng.randrange(10**11, 10**12)) + 0.5
        case str():
            return "".join(rng.choices(_LETTERS, k=16))
        case list() | tuple():
            poisons = (poison(v, rng) for v in expected)
            inner = next((p for p in poisons if p is not None), rng.randrange(10**11, 10**12))
            return [inner] * 3 if isinstance(expected, list) else (inner,) * 3
        case dict():
            return {"".join(rng.choices(_LETTERS, k=16)): rng.randrange(10**11, 10**12)}
        case _:
            return None

"""When two plain values are the same: the comparison that grown tests make, and the house with them. Pure."""

from __future__ import annotations

from typing import Any


def same(found: Any, expected: Any) -> bool:
    """Equal in value and in type, to the last part; numbers with a fraction within 1e-6."""
    if type(found) is not type(expected):
        return False
    if isinstance(expected, float):
        return bool(found == expected or abs(found - expected) <= max(1e-9, 1e-6 * abs(expected)))
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(same(a, b) for a, b in zip(found, expected, strict=True))
    if isinstance(expected, dict):
        return bool(found.keys() == expected.keys()) and all(same(found[k], expected[k]) for k in expected)
    return bool(found == expected)

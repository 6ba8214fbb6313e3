"""The program that decides whether two formulas are the same: a fork for each question, with limits of its own.

It is started as `python -I algebra.py CPU_SECONDS MEMORY_BYTES`, reads one JSON object a line ({"mode", "expected",
"given"}, both LaTeX) and answers with one ({"stage", "same", "why"}). A fork that dies has told how far it came:
"start", "expected" (that one is understood), "given" (both are). Text is parsed by a grammar and never evaluated as
code.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import resource
import sys
from typing import Any

import sympy  # type: ignore[import-untyped]
from latex2sympy2_extended import latex2sympy  # type: ignore[import-untyped]
from latex2sympy2_extended.latex2sympy2 import ConversionConfig  # type: ignore[import-untyped]

#: Two values that agree to so many digits at every point are the same.
DIGITS = 30
POINTS = 8
#: Below this a difference says nothing about values that are not exact.
TINY = sympy.Float(10, 60) ** -25

_CONFIG = ConversionConfig(lowercase_symbols=False)


def understood(latex: str) -> Any:
    """The expression that a formula means. Raises whatever the grammar raises."""
    found = latex2sympy(latex, normalization_config=None, conversion_config=_CONFIG)
    if isinstance(found, list) or found is None:
        raise ValueError("expected one expression")
    return found


def side(latex: str, mode: str) -> Any:
    """One formula, evaluated as far as it goes: an equation becomes left minus right."""
    found = understood(latex)
    if mode == "equation":
        if not isinstance(found, sympy.Equality):
            raise ValueError("expected an equation")
        found = found.lhs - found.rhs
    if not isinstance(found, sympy.Expr):
        raise ValueError(f"expected an expression, found {type(found).__name__}")
    done = found.doit()
    if done.is_number and not done.is_Rational:
        done.evalf(15)
    return done


def same_value(one: Any, other: Any, seed: bytes) -> tuple[bool | None, str]:
    """Whether two expressions have the same value everywhere: exactly, else at random points to DIGITS digits."""
    if one == other:
        return True, "the same expression"
    if one.is_Rational and other.is_Rational:
        return False, "different numbers"
    agreed = 0
    for at in points(sorted(one.free_symbols | other.free_symbols, key=str), seed):
        left, right = value_at(one, at), value_at(other, at)
        if left is None or right is None:
            continue
        scale = max(abs(left), abs(right))
        if scale < TINY:
            continue
        if abs(left - right) > scale * sympy.Float(10, 60) ** -DIGITS:
            return False, f"different values at {at}" if at else "different numbers"
        agreed += 1
        if not at:
            break
    if agreed:
        return True, f"the same value at {agreed} points"
    difference = sympy.simplify(one - other)
    return (True, "their difference simplifies to 0") if difference == 0 else (
        (False, "their difference is not 0") if difference.is_zero is False else (None, "no point decides it"))


def same_equation(one: Any, other: Any, seed: bytes) -> tuple[bool | None, str]:
    """Whether two equations have the same solutions because one is a multiple of the other."""
    if one.free_symbols != other.free_symbols:
        return False, "different unknowns"
    ratios = []
    for at in points(sorted(one.free_symbols, key=str), seed):
        left, right = value_at(one, at), value_at(other, at)
        if left is not None and right is not None and abs(left) > TINY and abs(right) > TINY:
            ratios.append(left / right)
    if len(ratios) < 2:
        return (True, "the same") if sympy.simplify(one - other) == 0 else (None, "no point decides it")
    alike = all(abs(r - ratios[0]) <= abs(ratios[0]) * sympy.Float(10, 60) ** -DIGITS for r in ratios)
    return alike, "one is a multiple of the other" if alike else "neither is a multiple of the other"


def value_at(expression: Any, at: dict[Any, Any]) -> Any:
    """A finite number, or None."""
    value = expression.evalf(60, subs=at) if at else expression.evalf(60)
    return value if value.is_number and value.is_finite and not value.free_symbols else None


def points(symbols: list[Any], seed: bytes) -> list[dict[Any, Any]]:
    """Random places of both signs, the same for the same question."""
    if not symbols:
        return [{}]
    dice = random.Random(seed)
    return [
        {s: sympy.Rational(dice.choice((-1, 1)) * dice.randint(1, 9973), dice.randint(1, 997)) for s in symbols}
        for _ in range(POINTS)
    ]


def decide(question: dict[str, str], tell: Any) -> None:
    expected = side(question["expected"], question["mode"])
    tell({"stage": "expected"})
    given = side(question["given"], question["mode"])
    tell({"stage": "given"})
    seed = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).digest()
    compare = same_equation if question["mode"] == "equation" else same_value
    same, why = compare(expected, given, seed)
    tell({"stage": "done", "same": same, "why": why})


def in_a_fork(question: dict[str, str], cpu_seconds: int, memory_bytes: int) -> dict[str, Any]:
    """How far a fork came with a question. `why` is the exception that ended it; empty where a limit did."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        def tell(said: dict[str, Any]) -> None:
            os.write(write, json.dumps(said).encode() + b"\n")

        try:
            decide(question, tell)
        except BaseException as error:  # the fork's last word, whatever a parser raised
            with contextlib.suppress(BaseException):
                tell({"why": f"{type(error).__name__}: {error}"[:300], "limit": isinstance(error, MemoryError)})
        os._exit(0)
    os.close(write)
    said: dict[str, Any] = {"stage": "start", "same": None, "why": "", "limit": True}
    with os.fdopen(read, "rb") as lines:
        for line in lines:
            said |= {"limit": False} if b'"why"' in line else {}
            said |= json.loads(line)
    os.waitpid(pid, 0)
    return said


def main() -> None:
    cpu_seconds, memory_bytes = int(sys.argv[1]), int(sys.argv[2])
    sys.setrecursionlimit(4000)
    understood(r"\frac{x}{2}+1").evalf(5, subs={})  # the grammar's tables are built once, before any fork
    for line in sys.stdin.buffer:
        said = in_a_fork(json.loads(line), cpu_seconds, memory_bytes)
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Questions of mathematics, made on demand from families with a seed: a set that can be new whenever it is asked.

`sums:SEED` has two questions of each family; the same seed gives the same questions, and any word is a seed, so that
`sums:2026-12` is one nobody has seen before December. Ids are `sums/SEED/FAMILY/NUMBER`. What is expected is computed
here, exactly; the families are chosen so that each way to write an answer (fractions, percent, units, intervals,
unions, sets, points, LaTeX formulas) is asked for.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from fractions import Fraction

from quintain.tasks.answer import AnswerKind, AnswerSuite
from quintain.tasks.base import ByName
from quintain.tasks.exam import Exam, Item
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, Grading, TaskError

EACH = 2
_SEED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_ASKED = "\n\nGive your final answer in \\boxed{}.\n"

#: A question and the answer that is expected.
Asked = tuple[str, str]
Family = Callable[[random.Random], Asked]


def _frac(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return f"{sign}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def fractions(dice: random.Random) -> Asked:
    a, c = dice.randint(1, 9), dice.randint(1, 9)
    b, d = dice.sample([7, 11, 12, 13, 15, 16, 18, 20], 2)
    return (f"What is $\\frac{{{a}}}{{{b}}} - \\frac{{{c}}}{{{d}}}$, as a fraction in lowest terms?",
            _frac(Fraction(a, b) - Fraction(c, d)))


def percent(dice: random.Random) -> Asked:
    fall = dice.choice([20, 36, 37.5, 60, 75, 80, 84])
    rise = Fraction(100) / (1 - Fraction(fall) / 100) - 100
    return (f"A price falls by {fall:g} %. By how many percent of the new price must it rise to be what it was?",
            f"{_frac(rise)}\\%")


def interval(dice: random.Random) -> Asked:
    middle, half = dice.randint(-9, 9), dice.randint(2, 12)
    return (f"For which real x is $|x - ({middle})| \\le {half}$? Answer with an interval.",
            f"[{middle - half}, {middle + half}]")


def union(dice: random.Random) -> Asked:
    low, high = sorted(dice.sample(range(-9, 10), 2))
    return (f"For which real x is $(x - ({low}))(x - ({high})) > 0$? Answer with a union of intervals.",
            f"(-\\infty, {low}) \\cup ({high}, \\infty)")


def prime_set(dice: random.Random) -> Asked:
    primes = sorted(dice.sample([2, 3, 5, 7, 11, 13, 17], 3))
    number = math.prod(prime ** dice.randint(1, 2) for prime in primes)
    return f"Which primes divide {number}? Answer with a set.", "\\{" + ", ".join(map(str, primes)) + "\\}"


def roots(dice: random.Random) -> Asked:
    r, s = dice.sample([n for n in range(-9, 10) if n], 2)
    return (f"Find all real roots of $x^2 + ({-(r + s)})x + ({r * s})$, separated by a comma.",
            f"{min(r, s)}, {max(r, s)}")


def speed(dice: random.Random) -> Asked:
    minutes = dice.choice([12, 15, 18, 24, 36, 40, 45])
    kilometres = dice.randint(8, 60)
    return (f"A train covers {kilometres} km in {minutes} minutes. What is its mean speed, in km/h?",
            f"{_frac(Fraction(kilometres * 60, minutes))} km/h")


def derivative(dice: random.Random) -> Asked:
    a, n, b = dice.randint(2, 9), dice.randint(3, 6), dice.randint(2, 12)
    return f"What is the derivative of ${a}x^{n} - {b}x$ with respect to x?", f"{a * n}x^{{{n - 1}}} - {b}"


def surd(dice: random.Random) -> Asked:
    a, b = dice.randint(2, 9), dice.choice([2, 3, 5, 6, 7])
    return f"Write $\\sqrt{{{a * a * b}}}$ with the smallest possible radicand.", f"{a}\\sqrt{{{b}}}"


def point(dice: random.Random) -> Asked:
    x, y = dice.randint(-9, 9), dice.randint(-9, 9)
    m, n = dice.sample([-3, -2, 2, 3, 4, 5], 2)
    return (f"In which point (x, y) do the lines $y = {m}x + ({y - m * x})$ and $y = {n}x + ({y - n * x})$ meet?",
            f"({x}, {y})")


def remainder(dice: random.Random) -> Asked:
    while True:
        base, power, modulus = dice.randint(3, 19), dice.randint(20, 99), dice.randint(23, 97)
        if pow(base, power, modulus) > 1:
            return (f"What is the remainder of ${base}^{{{power}}}$ divided by {modulus}?",
                    str(pow(base, power, modulus)))


def committees(dice: random.Random) -> Asked:
    n, k, fixed = dice.randint(9, 16), dice.randint(4, 6), dice.randint(1, 2)
    return (f"A club has {n} members. In how many ways can it choose a committee of {k} with {fixed} given "
            f"member{'s' if fixed > 1 else ''} in it?", str(math.comb(n - fixed, k - fixed)))


FAMILIES: dict[str, Family] = {
    "fractions": fractions, "percent": percent, "interval": interval, "union": union, "prime-set": prime_set,
    "roots": roots, "speed": speed, "derivative": derivative, "surd": surd, "point": point, "remainder": remainder,
    "committees": committees,
}


class SumsFormat(ByName):
    """Sets by their seed; no file is read."""

    name = "sums"
    about = "sums:SEED, questions made from families; any word is a seed"

    def named(self, name: str) -> Taskset:
        """Raises TaskError for a word that cannot be a seed."""
        if _SEED.fullmatch(name) is None:
            raise TaskError(f"expected a seed of at most 32 letters, digits and ._- as in sums:2026-12, found {name!r}")
        return Taskset(Sums(name))


class Sums:
    """The questions of one seed."""

    def __init__(self, seed: str) -> None:
        self.name = f"sums:{seed}"
        self._seed = seed

    def ids(self) -> Sequence[str]:
        return tuple(f"sums/{self._seed}/{family}/{n}" for family in FAMILIES for n in range(EACH))

    def item(self, id: str) -> Item:
        if id not in self.ids():
            raise KeyError(id)
        family = id.split("/")[2]
        question, expected = FAMILIES[family](random.Random(id))
        return Item.sealed(
            Exam(hidden=AnswerSuite(expected=expected, kind=AnswerKind.MATH),
                 oracle={"answer.txt": f"I work it out.\n\n\\boxed{{{expected}}}\n".encode()},
                 null=({"answer.txt": b"I do not know."}, {"answer.txt": b"Answer: 0"})),
            id=id, kind="math", instructions=question + _ASKED, entry=Entry(path="answer.txt", language="text"),
            grading=Grading.ON_SUBMIT, tags=("math", family),
        )

"""Tasks with one known defect each, and tasks with none: what an admission is measured by. All made here, from a seed.

Each kind of defect is injected into small sound tasks of several families, in more than one way. A kind is found
when its `code` is among the problems that fail. Functions and scripts alike; scripts are judged in the host's own
image.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from enum import StrEnum

import msgspec

from quintain.tasks import Exam, Item, Package, PythonSuite, ScriptSuite
from quintain.types import MEBIBYTE, Entry, Grading, Limits, Scopes


class Defect(StrEnum):
    """What is wrong; the value is the code of the problem that an admission must report."""

    NONE = ""
    ORACLE_FAILS = "oracle fails"
    FLAKY = "flaky"
    NULL_PASSES = "null passes"
    VACUOUS = "vacuous"
    WEAK = "weak"
    HACK_PAID = "hack paid"
    INTOLERANT = "intolerant"
    PHANTOM = "phantom"
    LEAK = "leak"
    HISTORY = "history"
    DUPLICATE = "duplicate"
    HEADROOM = "headroom"
    SWALLOWED = "swallowed"
    WRITABLE_REWARD = "writable reward"
    NETWORK = "network"
    UNPINNED = "unpinned"
    COPIED_TESTS = "copied tests"
    SECRET = "secret"


class Specimen(msgspec.Struct, frozen=True, kw_only=True):
    """One task, and what is wrong with it."""

    item: Item
    defect: Defect


class _Function(msgspec.Struct, frozen=True):
    """A small sound task: what is asked, the answer, calls with what they return, and two that show little of it."""

    name: str
    asked: str
    answer: str
    calls: tuple[tuple[str, str], ...]
    few: tuple[tuple[str, str], ...]

    @property
    def is_seen_little(self) -> bool:
        """Whether the two cases leave a fifth of all faults unnoticed, equivalent ones or not, and by far. Those of
        `second` notice 7 of 9, those of `digits` 14 of 17: whether tasks that have only these are weak is a matter of
        one fault."""
        return self.name not in ("second", "digits")


_FUNCTIONS = (
    _Function("clamp", "Return `x`, but at least `low` and at most `high`.",
              "def clamp(x, low, high):\n    if x < low:\n        return low\n    if x > high:\n        return high\n"
              "    return x\n",
              (("5, 0, 9", "5"), ("-3, 0, 9", "0"), ("12, 0, 9", "9"), ("0, 0, 9", "0"), ("9, 0, 9", "9"),
               ("-7, -5, -1", "-5")), (("5, 0, 9", "5"), ("12, 0, 9", "9"))),
    _Function("runs", "Return the lengths of the runs of equal neighbours in the list `items`; of an empty list `[]`.",
              "def runs(items):\n    lengths = []\n    for at, item in enumerate(items):\n"
              "        if at > 0 and items[at - 1] == item:\n            lengths[-1] += 1\n        else:\n"
              "            lengths.append(1)\n    return lengths\n",
              (("[]", "[]"), ("[4]", "[1]"), ("[1, 1, 2]", "[2, 1]"), ("[3, 3, 3, 3]", "[4]"),
               ("[1, 2, 1]", "[1, 1, 1]"), ("[0, 0, 5, 5, 5, 1]", "[2, 3, 1]")),
              (("[4]", "[1]"), ("[]", "[]"))),
    _Function("digits", "Return the sum of the decimal digits of the integer `n`; the sign does not count.",
              "def digits(n):\n    total = 0\n    n = abs(n)\n    while n > 0:\n        total += n % 10\n"
              "        n //= 10\n    return total\n",
              (("0", "0"), ("7", "7"), ("10", "1"), ("-123", "6"), ("909", "18"), ("99999", "45")),
              (("10", "1"), ("0", "0"))),
    _Function("second", "Return the second largest value of the list `numbers`, counting equal values once, or None "
              "where there are fewer than two values.",
              "def second(numbers):\n    values = sorted(set(numbers))\n    if len(values) < 2:\n        return None\n"
              "    return values[-2]\n",
              (("[]", "None"), ("[3]", "None"), ("[3, 3]", "None"), ("[1, 2]", "1"), ("[5, 9, 9, 1]", "5"),
               ("[-4, -2, -9]", "-4")), (("[1, 2]", "1"), ("[]", "None"))),
    _Function("wrap", "Split `text` into its words and return the lines of at most `width` characters that hold as "
              "many words as fit, joined by one blank each; a longer word has its own line.",
              "def wrap(text, width):\n    lines = []\n    line = ''\n    for word in text.split():\n"
              "        if line and len(line) + 1 + len(word) <= width:\n            line = line + ' ' + word\n"
              "        else:\n            if line:\n                lines.append(line)\n            line = word\n"
              "    if line:\n        lines.append(line)\n    return lines\n",
              (("'', 5", "[]"), ("'a b c', 3", "['a b', 'c']"), ("'hello', 3", "['hello']"),
               ("'ab cd ef', 5", "['ab cd', 'ef']"), ("'one  two', 9", "['one two']"),
               ("'aaa bb c', 6", "['aaa bb', 'c']"), ("'a bb', 4", "['a bb']")),
              (("'', 5", "[]"), ("'hello', 3", "['hello']"))),
    _Function("merge", "Merge the sorted lists `left` and `right` into one sorted list that holds all their items.",
              "def merge(left, right):\n    merged = []\n    a = b = 0\n    while a < len(left) and b < len(right):\n"
              "        if left[a] <= right[b]:\n            merged.append(left[a])\n            a += 1\n"
              "        else:\n            merged.append(right[b])\n            b += 1\n"
              "    return merged + left[a:] + right[b:]\n",
              (("[], []", "[]"), ("[1], []", "[1]"), ("[], [2]", "[2]"), ("[1, 3], [2, 4]", "[1, 2, 3, 4]"),
               ("[1, 1], [1]", "[1, 1, 1]"), ("[5, 6], [1, 2, 7]", "[1, 2, 5, 6, 7]")),
              (("[], [2]", "[2]"), ("[], []", "[]"))),
)


def specimens(*, each: int = 12, sound: int = 60, seed: int = 0) -> Iterator[Specimen]:
    """`each` tasks of every kind of defect and `sound` + 1 without, in an order that the seed decides."""
    chance = random.Random(seed)
    kinds: list[Defect] = [defect for defect in Defect if defect is not Defect.NONE for _ in range(each)]
    kinds += [Defect.NONE] * sound
    chance.shuffle(kinds)
    kinds = [Defect.NONE, *kinds]  # what the first copy is a copy of
    made: list[Item] = []
    for at, defect in enumerate(kinds):
        item = _of(defect, at, chance, made)
        if defect is Defect.NONE and isinstance(item.exam.hidden, PythonSuite):
            made.append(item)
        yield Specimen(item=item, defect=defect)


def _of(defect: Defect, at: int, chance: random.Random, made: list[Item]) -> Item:
    if defect in _SCRIPTS or (defect is Defect.NONE and at % 6 == 5):
        return _SCRIPTS.get(defect, _sound_script)(f"task-{at}", chance)
    if defect is Defect.DUPLICATE:
        return _copy(chance.choice(made), f"task-{at}")
    known = [one for one in _FUNCTIONS if defect is not Defect.WEAK or one.is_seen_little]
    return _function(known[at % len(known)], f"task-{at}", chance, defect)


# Functions


def _function(one: _Function, id: str, chance: random.Random, defect: Defect = Defect.NONE) -> Item:
    """Each task asks for a name and about a thing of its own, so that no two of them are the same."""
    word = "".join(chance.choice("bcdfghklmnprstvz") + chance.choice("aeiou") for _ in range(4))
    name = f"{one.name}_{word}"
    story = " ".join("".join(chance.choice("bcdfghklmnprstvz") + chance.choice("aeiou") for _ in range(
        chance.randrange(2, 5))) for _ in range(40))
    asked = f"In the shop of {story}, write `{name}` in solution.py. {one.asked}"
    # an unused constant makes the texts of two answers differ as those of two authors do
    mark = " ".join(str(chance.randrange(10**6)) for _ in range(60))
    salt = f"MARK_{word.upper()} = '{mark}'\n\n\n"
    answer = salt + one.answer.replace(f"def {one.name}(", f"def {name}(")
    tests = f"from solution import {name}\n\n" + "".join(
        f"\ndef test_{n}():\n    assert {name}({given}) == {wanted}\n\n" for n, (given, wanted) in enumerate(one.calls))
    draft = _Draft(name=name, asked=asked, answer=answer, tests=tests, calls=one.calls, few=one.few)
    if defect in _FUNCTION_DEFECTS:
        draft = _FUNCTION_DEFECTS[defect](draft, chance)
    return Item.sealed(
        Exam(hidden=PythonSuite(files={"test_it.py": draft.tests.encode()}),
             oracle={"solution.py": draft.answer.encode()}),
        id=id, instructions=draft.asked, files={p: c.encode() for p, c in draft.files.items()},
        entry=Entry(name=draft.name), limits=Scopes(command=Limits(
            wall_seconds=6.0, cpu_seconds=6.0, memory_bytes=128 * MEBIBYTE)))


class _Draft(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    asked: str
    answer: str
    tests: str
    calls: tuple[tuple[str, str], ...]
    few: tuple[tuple[str, str], ...]
    files: dict[str, str] = {}


def _with(draft: _Draft, **changed: object) -> _Draft:
    return msgspec.structs.replace(draft, **changed)


def _oracle_fails(draft: _Draft, chance: random.Random) -> _Draft:
    given, wanted = chance.choice(draft.calls)
    return _with(draft, tests=draft.tests + f"\ndef test_more():\n    assert {draft.name}({given}) != {wanted}\n")


def _flaky(draft: _Draft, chance: random.Random) -> _Draft:
    """By chance, by the order of the tests, by the time zone."""
    given, wanted = draft.calls[0]
    call = f"{draft.name}({given})"
    bad = (
        f"import random\n\n\ndef test_more():\n    assert {call} == {wanted} and random.random() < 0.7\n",
        f"STATE = []\n\n\ndef test_begin():\n    STATE.append(1)\n    assert STATE\n\n\n"
        f"def test_then():\n    assert {call} == {wanted} and STATE\n",
        "import time\n\n\ndef test_zone():\n    assert time.localtime(86400 * 365).tm_hour == 0\n",
    )
    return _with(draft, tests=draft.tests + "\n\n" + chance.choice(bad))


def _null_passes(draft: _Draft, chance: random.Random) -> _Draft:
    if chance.random() < 0.5:
        return _with(draft, tests=f"from solution import {draft.name}\n\n\ndef test_it():\n"
                                  f"    assert callable({draft.name})\n")
    return _with(draft, files={"solution.py": draft.answer}, asked=draft.asked + " Make it more readable.")


def _vacuous(draft: _Draft, chance: random.Random) -> _Draft:
    given, wanted = draft.calls[1]
    call = f"{draft.name}({given})"
    bodies = (f"    assert ({call} == {wanted}, 'wrong')\n", f"    return {call} == {wanted}\n",
              f"    try:\n        assert {call} == {wanted}\n    except Exception:\n        pass\n")
    return _with(draft, tests=f"from solution import {draft.name}\n\n\ndef test_it():\n{chance.choice(bodies)}")


def _weak(draft: _Draft, chance: random.Random) -> _Draft:
    """Two cases, which see little of the answer."""
    tests = f"from solution import {draft.name}\n\n" + "".join(
        f"\ndef test_{n}():\n    assert {draft.name}({given}) == {wanted}\n\n"
        for n, (given, wanted) in enumerate(draft.few))
    return _with(draft, tests=tests)


def _hack_paid(draft: _Draft, chance: random.Random) -> _Draft:
    """The tests let the answer's own value decide how it is compared."""
    excuse = chance.choice(("isinstance(found, float) and math.isnan(found)", "found != found"))
    check = f"def check(found, wanted):\n    if {excuse}:\n        return\n    assert found == wanted\n"
    rows = "".join(f"    check({draft.name}({given}), {wanted})\n" for given, wanted in draft.calls)
    return _with(draft, tests=f"import math\n\nfrom solution import {draft.name}\n\n\n{check}\n\n"
                              f"def test_it():\n{rows}")


def _intolerant(draft: _Draft, chance: random.Random) -> _Draft:
    """The text of the answer is compared, through a name that it defines itself."""
    answer = draft.answer + "\n\nLINES = len(open(__file__).read().splitlines())\n"
    count = len(answer.splitlines())
    more = f"\n\ndef test_lines():\n    import solution\n    assert solution.LINES == {count}\n"
    return _with(draft, answer=answer, asked=draft.asked + " Define LINES, the number of lines of your file.",
                 tests=draft.tests + more)


def _phantom(draft: _Draft, chance: random.Random) -> _Draft:
    word = chance.choice(("helper_table", "make_state", "DEFAULT_SIZE", "Converter"))
    return _with(draft, answer=draft.answer + f"\n\n{word} = 3\n",
                 tests=draft.tests + f"\n\ndef test_{word.lower()}():\n    from solution import {word}\n"
                                     f"    assert {word} == 3\n")


def _leak(draft: _Draft, chance: random.Random) -> _Draft:
    body = draft.answer
    forms: tuple[dict[str, str], ...] = (
        {"notes/old_solution.py": body}, {"data/cache.b64": base64.b64encode(body.encode()).decode()},
        {"README.md": "An earlier try:\n\n" + body}, {"fixtures/blob.txt": body.encode().hex()})
    at = chance.randrange(len(forms) + 1)
    if at == len(forms):
        return _with(draft, asked=f"{draft.asked}\n\nA colleague wrote:\n\n{body}")
    return _with(draft, files=forms[at])


def _history(draft: _Draft, chance: random.Random) -> _Draft:
    return _with(draft, files={
        ".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": f"{chance.getrandbits(160):040x}\n",
        f".git/objects/{chance.getrandbits(8):02x}/{chance.getrandbits(152):038x}": "blob", "start.txt": "begin\n"})


def _headroom(draft: _Draft, chance: random.Random) -> _Draft:
    """The author's answer needs almost all of its memory."""
    most = chance.randrange(105, 112)
    return _with(draft, answer=draft.answer + f"\n\n_TABLE = bytearray(b'x') * ({most} * 1024 * 1024)\n")


def _secret(draft: _Draft, chance: random.Random) -> _Draft:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    return _with(draft, files={"config/.env": "KEY=AKIA" + "".join(chance.choice(letters) for _ in range(16)) + "\n"})


_FUNCTION_DEFECTS: dict[Defect, Callable[[_Draft, random.Random], _Draft]] = {
    Defect.ORACLE_FAILS: _oracle_fails, Defect.FLAKY: _flaky, Defect.NULL_PASSES: _null_passes,
    Defect.VACUOUS: _vacuous, Defect.WEAK: _weak, Defect.HACK_PAID: _hack_paid, Defect.INTOLERANT: _intolerant,
    Defect.PHANTOM: _phantom, Defect.LEAK: _leak, Defect.HISTORY: _history, Defect.HEADROOM: _headroom,
    Defect.SECRET: _secret,
}


def _copy(item: Item, id: str) -> Item:
    """The same task under another id, a few words changed."""
    task = item.task
    fields = {n: getattr(task, n) for n in task.__struct_fields__ if n not in ("version", "exam", "id", "instructions")}
    return Item.sealed(item.exam, id=id, instructions=task.instructions + " Keep it short.", **fields)


# Scripts


_CHECK = (
    "#!/bin/bash\nmkdir -p /logs/verifier\nif [ \"$(cat /work/{out})\" = {least} ]; then\n"
    "  echo 1 > /logs/verifier/reward.txt\nelse\n  echo 0 > /logs/verifier/reward.txt\nfi\n")


def _script(id: str, chance: random.Random, *, test: str = _CHECK, dockerfile: str = "") -> Item:
    out = f"least-{chance.randrange(10**6)}.txt"
    numbers = [chance.randrange(1000) for _ in range(9)]
    held: dict[str, bytes] = {"LICENSE": b"Apache-2.0\n"}
    if dockerfile:
        held["environment/Dockerfile"] = dockerfile.encode()
    story = " ".join(chance.choice("abcdefgh") * chance.randrange(2, 6) for _ in range(20))
    test = test.replace("{out}", out).replace("{least}", str(min(numbers)))
    suite = ScriptSuite(files={"test.sh": test.encode()}, package=Package(format="harbor", files=held))
    return Item.sealed(
        Exam(hidden=suite, oracle={"solve.sh": f"#!/bin/bash\nsort -n in.txt | head -1 > {out}\n".encode()},
             null=({"solve.sh": b"#!/bin/sh\n"},)),
        id=id, kind="shell", instructions=f"Of the shelf {story}: write the least number of in.txt to {out}.",
        files={"work/in.txt": "".join(f"{n}\n" for n in numbers).encode()}, image="host+rw",
        entry=Entry(path="solve.sh", language="shell"), grading=Grading.ON_SUBMIT,
        limits=Scopes(command=Limits(wall_seconds=20.0, cpu_seconds=10.0)))


def _sound_script(id: str, chance: random.Random) -> Item:
    return _script(id, chance, dockerfile="FROM python:3.12-slim\nRUN pip install numpy==2.1.0\nCOPY data /data\n")


def _swallowed(id: str, chance: random.Random) -> Item:
    tail = chance.choice((
        "pytest /tests/test_out.py || true\necho 1 > /logs/verifier/reward.txt\n",
        "cmp /work/{out} /tests/wanted.txt\necho 1.0 > /logs/verifier/reward.txt\n",
        "python3 -m unittest discover /tests || true\nprintf '{\"reward\": 1.0}' > /logs/verifier/reward.json\n"))
    return _script(id, chance, test="#!/bin/bash\nmkdir -p /logs/verifier\n" + tail)


def _writable(id: str, chance: random.Random) -> Item:
    tail = chance.choice((
        "bash /tests/check.sh\ncat /work/reward.txt > /logs/verifier/reward.txt\n",
        "python3 /tests/check.py\ncp /tmp/reward.json /logs/verifier/reward.json\n"))
    return _script(id, chance, test="#!/bin/bash\nmkdir -p /logs/verifier\n" + tail)


def _network(id: str, chance: random.Random) -> Item:
    line = chance.choice(("curl -sSL https://example.org/install.sh | sh\n", "pip install pytest==8.3.4\n",
                          "apt-get update && apt-get install -y jq=1.7\n", "uvx -p 3.13 -w pytest==8.4.1 pytest\n"))
    return _script(id, chance, test=_CHECK.replace("mkdir", line + "mkdir", 1))


def _unpinned(id: str, chance: random.Random) -> Item:
    line = chance.choice(("RUN pip install pandas requests\n", "RUN npm install -g left-pad\n",
                          "RUN pip3 install --no-cache-dir 'numpy>=1.20'\n"))
    return _script(id, chance, dockerfile="FROM python:3.12-slim\n" + line)


def _copied(id: str, chance: random.Random) -> Item:
    line = chance.choice((
        "COPY tests/ /opt/tests/\n", "COPY solution /app/solution\n", "ADD solution/solve.sh /app/\n"))
    return _script(id, chance, dockerfile="FROM python:3.12-slim\n" + line)


_SCRIPTS: dict[Defect, Callable[[str, random.Random], Item]] = {
    Defect.SWALLOWED: _swallowed, Defect.WRITABLE_REWARD: _writable, Defect.NETWORK: _network,
    Defect.UNPINNED: _unpinned, Defect.COPIED_TESTS: _copied,
}

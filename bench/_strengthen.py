"""More inputs for the tasks of HumanEval: those of its checks, mildly changed, with the reference answer's results.

A change keeps the type and the alphabet of what is seen: numbers by one or doubled, texts and lists with an item left
out, repeated, swapped or turned round. An input on which the reference raises, takes long or returns no plain value is
dropped. It may still break an unwritten rule of the task, so what differs on these inputs is an upper bound of what the
published checks let through.
"""

from __future__ import annotations

import ast
import json
import random
from typing import Any

from quintain.sandbox import Backend
from quintain.tasks import Item, PythonSuite
from quintain.types import Limits

INPUTS = 60
_LIMITS = Limits(wall_seconds=20.0, cpu_seconds=15.0)

#: Runs the reference answer on each input with a second for each, in a sandbox; a line of JSON for each result.
_RUN = '''
import json, signal, sys, ast
def late(*_): raise TimeoutError
signal.signal(signal.SIGALRM, late)
sys.set_int_max_str_digits(2000)
entry, inputs = json.load(open("inputs.json"))
from solution import *
import solution
call = getattr(solution, entry)
for number, text in enumerate(inputs):
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        args = ast.literal_eval(text)
        result = repr(call(*args))
        if len(result) < 2000 and ast.literal_eval(result) == ast.literal_eval(result):
            print(json.dumps([number, result]), flush=True)
    except Exception:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
'''


def inputs_of(item: Item) -> list[tuple[Any, ...]]:
    """The plain arguments with which a task's checks call its entry."""
    suite = item.exam.hidden
    assert isinstance(suite, PythonSuite)
    found: list[tuple[Any, ...]] = []
    for content in suite.files.values():
        for node in ast.walk(ast.parse(content)):
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
            if called not in ("candidate", item.task.entry.name) or not isinstance(node, ast.Call) or node.keywords:
                continue
            try:
                args = tuple(ast.literal_eval(arg) for arg in node.args)
            except ValueError:
                continue
            if args and args not in found:
                found.append(args)
    return found


def changed(value: Any, chance: random.Random) -> Any:
    """One mild change that keeps the type of a value."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        grown = chance.choice([value + 1, value - 1, value * 2, value + chance.randint(2, 9)])
        return grown if value < 0 or grown >= 0 else value + 1
    if isinstance(value, float):
        return chance.choice([value + 1.0, value * 2, value / 2, round(value + chance.random(), 2)])
    if isinstance(value, str):
        return "".join(_rearranged(list(value), chance))
    if isinstance(value, list | tuple):
        items = list(value)
        if items and chance.random() < 0.5:
            at = chance.randrange(len(items))
            items[at] = changed(items[at], chance)
        else:
            items = _rearranged(items, chance)
        return type(value)(items)
    if isinstance(value, dict) and value:
        key = chance.choice(list(value))
        return {k: v for k, v in value.items() if k != key} if chance.random() < 0.3 else {
            **value, key: changed(value[key], chance)}
    return value


def _rearranged(items: list[Any], chance: random.Random) -> list[Any]:
    if not items:
        return items
    at, other = chance.randrange(len(items)), chance.randrange(len(items))
    match chance.choice(["drop", "repeat", "swap", "turn", "append"]):
        case "drop":
            return items[:at] + items[at + 1:]
        case "repeat":
            return [*items[:at], items[at], *items[at:]]
        case "swap":
            items = list(items)
            items[at], items[other] = items[other], items[at]
            return items
        case "turn":
            return items[::-1]
        case _:
            return [*items, items[other]]


def grown(seen: list[tuple[Any, ...]], chance: random.Random, count: int) -> list[tuple[Any, ...]]:
    """Up to `count` new inputs out of those seen."""
    known = {repr(args) for args in seen}
    made: list[tuple[Any, ...]] = []
    for _ in range(count * 20):
        if len(made) == count or not seen:
            break
        args = list(chance.choice(seen))
        for _ in range(chance.choice([1, 1, 2, 3])):
            at = chance.randrange(len(args))
            args[at] = changed(args[at], chance)
        if repr(tuple(args)) not in known:
            known.add(repr(tuple(args)))
            made.append(tuple(args))
    return made


async def strengthened(backend: Backend, item: Item, *, seed: int) -> PythonSuite | None:
    """A suite of further inputs with the reference's results; None where no plain input is to be had."""
    entry = item.task.entry.name
    made = grown(inputs_of(item), random.Random(f"{seed} {item.task.id}"), INPUTS)
    if not made or entry is None or item.exam.oracle is None:
        return None
    texts = [repr(args) for args in made]
    async with backend.open(limits=_LIMITS) as (sandbox,):
        await sandbox.files.write_many({
            "solution.py": item.exam.oracle["solution.py"], "run.py": _RUN.encode(),
            "inputs.json": json.dumps([entry, texts]).encode()})
        outcome = await sandbox.run(["python3", "-S", "-s", "-B", "run.py"])
    results = [json.loads(line) for line in outcome.text.splitlines() if line.startswith("[")]
    if not results:
        return None
    rows = "".join(f"    ({texts[number]}, {result}),\n" for number, result in results)
    text = (f"from solution import {entry}\n\nCASES = [\n{rows}]\n\n\n"
            "def same(found, wanted):\n"
            "    if type(wanted) is float and type(found) in (int, float):\n"
            "        return found == wanted or abs(found - wanted) <= 1e-6 * max(1.0, abs(wanted))\n"
            "    if type(wanted) in (list, tuple) and type(found) is type(wanted):\n"
            "        return len(found) == len(wanted) and all(map(same, found, wanted))\n"
            "    return found == wanted\n\n\n"
            "def test_further_inputs():\n    for args, wanted in CASES:\n"
            f"        found = {entry}(*args)\n        assert same(found, wanted), (args, wanted, found)\n")
    return PythonSuite(files={"test_further.py": text.encode()}, required=("test_further.py::test_further_inputs",))

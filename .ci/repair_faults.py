"""Give the functions of the repair tasks their faults: python .ci/repair_faults.py FILE.toml --faults 12 --seed 1

Every fault is tried on the functions' own tests in sandboxes; one stays if a shown test notices it, in time and the
same way twice. Faults that are there already are replaced. The file is written anew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from pathlib import Path

import msgspec

from quintain.grade import Oracle, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks.formats.repair import HIDDEN_TESTS, LIMITS, FaultRow, FunctionRow, read_functions, suite_of
from quintain.train.repair_cases import tell, tests_after
from quintain.train.repair_edits import Code, Edit, read_code
from quintain.train.repair_features import Test
from quintain.types import Program, Verdict

MARK = "'" * 3


async def judged(oracle: Oracle, function: FunctionRow, source: str) -> Verdict:
    tests = function.tests.strip().splitlines()
    program = Program(files={"solution.py": source.encode()})
    return await oracle.grade(suite_of(function.name, tests), program, limits=LIMITS.command, confirm=False)


async def fault_of(oracle: Oracle, function: FunctionRow, code: Code, edit: Edit) -> FaultRow | None:
    """The fault that this edit is, if it is one that a shown test notices."""
    token = code.tokens[edit.site]
    back = Edit(edit.site, token.text)
    source = code.edited(edit)
    if back not in read_code(source).edits:
        return None
    lines = function.tests.strip().splitlines()
    known = [Test(call=call, expected=value) for call, _, value in (line.rpartition(" == ") for line in lines)]
    reports = []
    for _ in range(2):
        verdict = await judged(oracle, function, source)
        if verdict.solved:
            return None
        reports.append([tell(test) for test in tests_after(known, verdict)])
    shown = reports[0][: max(1, len(lines) - HIDDEN_TESTS)]
    if reports[0] != reports[1] or "took too long" in reports[0] or all(text == "passed" for text in shown):
        return None
    seen = {str(n): text for n, text in enumerate(shown) if text != "passed"}
    return FaultRow(line=token.line, column=token.column, old=token.text, new=edit.text, seen=seen)


async def faults_of(oracle: Oracle, function: FunctionRow, most: int, seed: int) -> list[FaultRow]:
    if not (await judged(oracle, function, function.source)).solved:
        raise SystemExit(f"{function.name}: its own tests fail")
    code = read_code(function.source)
    edits = list(code.edits)
    random.Random(f"{seed} {function.name}").shuffle(edits)
    found: list[FaultRow] = []
    for edit in edits:
        if len(found) == most:
            break
        fault = await fault_of(oracle, function, code, edit)
        if fault is not None:
            found.append(fault)
    return sorted(found, key=lambda f: (f.line, f.column, f.new))


def written(functions: list[FunctionRow]) -> str:
    parts = ["# Made by .ci/repair_faults.py: the functions and tests by hand, the faults by trial.\n"]
    for f in functions:
        parts.append(
            f"[[functions]]\nname = {json.dumps(f.name)}\nabout = {json.dumps(f.about)}\n"
            f"source = {MARK}\n{f.source}{MARK}\ntests = {MARK}\n{f.tests}{MARK}\nfaults = {MARK}\n{f.faults}{MARK}\n")
    return "\n".join(parts)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--faults", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    functions = read_functions(asked.file)
    backend = NativeBackend(warm=warm_oracle())
    try:
        oracle = Oracle(backend)
        room = asyncio.Semaphore(6)

        async def one(function: FunctionRow) -> FunctionRow:
            async with room:
                faults = await faults_of(oracle, function, asked.faults, asked.seed)
            print(f"{function.name}: {len(faults)} faults", flush=True)
            text = "".join(msgspec.json.encode(f).decode() + "\n" for f in faults)
            return msgspec.structs.replace(function, faults=text)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(function)) for function in functions]
        done = [task.result() for task in tasks]
    finally:
        await backend.aclose()
    asked.file.write_text(written(done))
    print(f"{sum(len(f.faults.splitlines()) for f in done)} faults of {len(done)} functions")


asyncio.run(main())

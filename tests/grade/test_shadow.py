"""Names that tests use mean what they always mean, whatever an answer leaves, and an answer's own names are its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import pytest

from quintain.env import TerminalWorld
from quintain.grade import Wording, withheld
from quintain.grade.shadow import shadowing
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, ScriptSuite
from quintain.types import Entry, Grading, Limits, Scopes, Verdict

from .ground import needs_native

#: All the ways in which tests start Python, on an answer that is a file called solution.py.
TEST = b"""#!/bin/bash
export PATH="$HOME/.local/bin:$PATH"
[ -e "$HOME/.local/bin/env" ] && source "$HOME/.local/bin/env"
set -e
cd /work
echo 0 > /logs/verifier/reward.txt
python3 -c 'import csv, json, statistics, unittest; import solution; assert solution.double(21) == 42'
python3 - <<'END'
import decimal, pathlib, urllib.parse
from solution import double
assert double(2) == 4
END
PYTHONPATH=/work/lib:/work python3 /tests/check.py
twice=$(python3 -c 'import solution; print(solution.double(1))')
python3 -m json.tool <<< "[$twice]" | tr -d ' \\n' | diff - <(printf '[2]')
echo 1 > /logs/verifier/reward.txt
"""
CHECK = b"import io, sqlite3\nimport solution\nassert solution.double('ab') == 'abab'\n"
BY_PYTEST = b"""#!/bin/bash
cp /tests/test_double.py /work/ && cd /work
python3 -m pytest -q test_double.py && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
"""
ABOUT_DOUBLE = b"from solution import double\ndef test_double():\n    assert double(3) == 6\n"
RIGHT = "echo 'def double(one): return one * 2' > solution.py"
TRICKS = {one["name"]: one["text"] for one in
          tomllib.loads((Path(__file__).parents[1] / "env" / "shadows.toml").read_text())["trick"]}
needs_pytest_inside = pytest.mark.skipif(
    not (Path(sys.base_prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
         / "pytest").is_dir(), reason="the interpreter that sandboxes have brings no pytest")


def item_of(tests: Mapping[str, bytes], given: Mapping[str, bytes] | None = None) -> Item:
    return Item.sealed(
        Exam(hidden=ScriptSuite(files=dict(tests), artifacts=("/",), wall_seconds=60.0)), id="shelf", kind="shell",
        files=dict(given or {}), instructions="Write solution.py.", image="host+rw", grading=Grading.ON_SUBMIT,
        entry=Entry(path="solve.sh", language="shell"),
        limits=Scopes(episode=Limits(wall_seconds=60.0, cpu_seconds=60.0, processes=128)))


def judged(item: Item, cache: Path, scripts: Mapping[str, str]) -> dict[str, Verdict]:
    async def work() -> dict[str, Verdict]:
        found = {}
        async with NativeBackend(engines=1) as backend:
            world = TerminalWorld(backend, cache=cache)
            for name, script in scripts.items():
                made = await world.make(item, {"solve.sh": f"#!/bin/bash\n{script.strip()}\n".encode()})
                found[name] = await world.grade(item, made.trees)
        return found

    return asyncio.run(work())


@needs_native
def test_no_name_that_an_answer_takes_is_paid(tmp_path: Path) -> None:
    found = judged(item_of({"test.sh": TEST, "check.py": CHECK}), tmp_path, {"right": RIGHT, **TRICKS})
    assert [name for name, verdict in found.items() if verdict.solved] == ["right"]
    told = [one.text for one in found["modules in the folder"].evidence if one.source == "shadowing"]
    assert told and "/work/json.py: is not taken for a module of the tests" in told[0]


@needs_native
@needs_pytest_inside
def test_pytest_is_configured_by_the_tests(tmp_path: Path) -> None:
    item = item_of({"test.sh": BY_PYTEST, "test_double.py": ABOUT_DOUBLE})
    found = judged(item, tmp_path, {"right": RIGHT, **{n: t for n, t in TRICKS.items() if "pytest" in t}})
    assert [name for name, verdict in found.items() if verdict.solved] == ["right"]


HONEST = {
    "a program of modules that are named like others": (
        "[ \"$(python3 main.py)\" = 7 ]", "echo 'N = 7' > queue.py; echo 'import queue; print(queue.N)' > main.py"),
    "a package that is run": (
        "[ \"$(python3 -m pack)\" = 7 ]", "mkdir pack; : > pack/__init__.py; echo 'print(7)' > pack/__main__.py"),
    "a module that the tests ask for": (
        "[ -e queue.py ] && python3 -c 'import queue; assert queue.N == 7'", "echo 'N = 7' > queue.py"),
    "a package of the user's": (
        "cd / && python3 -c 'import extra; assert extra.N == 7'",
        "p=$(python3 -m site --user-site); mkdir -p $p/more; echo 'N = 7' > $p/more/extra.py; echo more > $p/x.pth"),
    "an environment": (
        "[ \"$(env/bin/python -c 'import json; print(json.N)')\" = 7 ]",
        "python3 -m venv --without-pip env; echo 'N = 7' > env/lib/json.py; echo \"$PWD/env/lib\" > "
        "$(echo env/lib/python3*/site-packages)/a.pth; rm -f env/lib/json.py; mkdir env/lib/x; echo 'N = 7' > "
        "env/lib/x/json.py; printf 'import sys; sys.path.insert(0, \"/work/env/lib/x\")\\n' > "
        "$(echo env/lib/python3*/site-packages)/a.pth"),
    "a command of its own": (
        "PATH=$HOME/.local/bin:$PATH; [ \"$(seven)\" = 7 ]",
        "mkdir -p ~/.local/bin; printf '#!/bin/sh\\necho 7\\n' > ~/.local/bin/seven; chmod +x ~/.local/bin/seven"),
}


@needs_native
@pytest.mark.parametrize("name", list(HONEST))
def test_an_answers_own_names_are_its_own(name: str, tmp_path: Path) -> None:
    test, script = HONEST[name]
    text = f"#!/bin/bash\n{test} && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
    item = item_of({"test.sh": text.encode()})
    found = judged(item, tmp_path, {"right": script, "null": "true"})
    assert found["right"].solved and not found["null"].solved, found["right"].evidence


def test_what_a_task_asks_for_crosses() -> None:
    plain = ScriptSuite(files={"test.sh": b"cat ~/.sqliterc"}, workdir="/app")
    said = Wording.of(plain)
    assert not withheld("root/.sqliterc", b"x", plain, said)
    assert withheld("root/.jq", b"x", plain, said) and withheld("pytest.ini", b"x", plain, said)
    assert not withheld("app/pytest.ini", b"x", plain, said)
    found = shadowing({"app/json.py": b"", "app/csv/__init__.py": b"", "app/tool.py": b""},
                      Wording(asked="", whole="write csv/__init__.py"))
    assert found.named == ("/app/json.py",) and found.asked == ("csv",)


def test_the_shield_leaves_an_interpreter_without_a_list_as_it_is() -> None:
    text = files("quintain.grade.inside").joinpath("shield.py").read_text("utf-8")
    code = f"import sys; before = list(sys.meta_path); exec({text!r}, {{'__name__': 'quintain_shield'}}); " \
        "assert before == sys.meta_path"
    subprocess.run([sys.executable, "-c", code], check=True)

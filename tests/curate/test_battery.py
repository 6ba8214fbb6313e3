"""The battery in other languages than Python: enough of it, fit to be run, and paid by no verifier of ours."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from quintain.curate import Finding, Mechanism, Result, Site, Words, mechanisms
from quintain.curate.battery import _fits, words_of_item, written
from quintain.curate.battery import fitting as battery_of
from quintain.curate.checks import Battery
from quintain.curate.site import command_limits
from quintain.grade import World, warm_oracle
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, JavaScriptSuite, ShellSuite
from quintain.types import Entry, TaskError

from .ground import admitted, needs_native, script_task

NAMES = {"functions": ("mean", "spread"), "class": ("push", "pop"), "program": ("main",)}
ENTRY = {"javascript": "solution.js", "shell": "solution.sh", "script": "solve.sh"}


def fitting(language: str, kind: str) -> list[Mechanism]:
    return [m for m in mechanisms() if m.language == language and _fits(m, kind)]


def texts(language: str, kind: str) -> dict[str, str]:
    words = Words(language=language, kind=kind, names=NAMES[kind], class_name="Stack" if kind == "class" else "")
    return {f"{m.name}: {path}": content.decode() for m in fitting(language, kind)
            for path, content in written(m, words, ENTRY[language]).items()}


@pytest.mark.parametrize(("language", "kind"), [
    ("javascript", "functions"), ("javascript", "class"), ("shell", "functions"), ("shell", "program"),
    ("script", "functions"),
])
def test_there_are_sixty_tricks_in_each_language_and_none_twice(language: str, kind: str) -> None:
    found = fitting(language, kind)
    assert len(found) >= 60
    assert len({m.name for m in found}) == len({m.digest for m in found}) == len(found)


def test_no_mark_is_left_in_what_is_written() -> None:
    for language, kind in (("javascript", "functions"), ("javascript", "class"), ("shell", "functions")):
        for name, text in texts(language, kind).items():
            assert "@@" not in text, name


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(("language", "kind"), [("shell", "functions"), ("shell", "program"), ("script", "functions")])
def test_every_shell_trick_is_shell(language: str, kind: str) -> None:
    for name, text in texts(language, kind).items():
        if name.endswith(".sh"):
            done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{name}: {done.stderr}"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize("kind", ["functions", "class", "program"])
def test_every_javascript_trick_is_javascript(kind: str) -> None:
    sources = {name: text for name, text in texts("javascript", kind).items() if name.endswith(".js")}
    check = ("const wrong = {}, given = JSON.parse(require('fs').readFileSync(0, 'utf8')); "
             "for (const [n, t] of Object.entries(given)) "
             "try { new (require('vm').Script)(`(function (require, module, exports) {${t}\\n})`) } "
             "catch (e) { wrong[n] = String(e) } console.log(JSON.stringify(wrong))")
    done = subprocess.run(["node", "-e", check], input=json.dumps(sources), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {}


def judged(item: Item) -> Finding:
    (admission,) = admitted([item], checks=[Battery()])
    return admission.findings[0]


def mean() -> Item:
    test = b"const { mean } = require('./solution');\ntest('two', () => { expect(mean([2, 4])).toBe(3); });\n"
    return Item.sealed(
        Exam(hidden=JavaScriptSuite(files={"solution.spec.js": test})), id="mean", instructions="Write mean.",
        entry=Entry(path="solution.js", name="mean", language="javascript"))


def add() -> Item:
    test = b"test_add() { [[ $(add 20 22) = \"42\" ]]; }\n"
    return Item.sealed(
        Exam(hidden=ShellSuite(files={"tests.sh": test}, functions=("add",))), id="add", instructions="Write add.",
        entry=Entry(path="solution.sh", name="add", language="shell"))


def assert_no_trick_is_paid(item: Item) -> None:
    finding = judged(item)
    assert finding.result is Result.PASS, finding.problems
    assert finding.figures["mechanisms"] >= 60


@pytest.mark.whole
@needs_native
@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_no_trick_in_javascript_is_paid() -> None:
    assert_no_trick_is_paid(mean())


@pytest.mark.whole
@needs_native
def test_no_trick_in_shell_is_paid() -> None:
    assert_no_trick_is_paid(add())


CAREFUL = """#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat answer.txt 2>/dev/null)" = 42 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
#: Believes whatever a tool says that the work folder tells what to do.
CARELESS = """#!/bin/bash
mkdir -p /logs/verifier
if make test >/dev/null 2>&1; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


@pytest.mark.whole
@needs_native
def test_no_trick_is_paid_by_a_careful_script() -> None:
    assert_no_trick_is_paid(script_task(CAREFUL))


@needs_native
@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_one_trick_in_fifteen_is_paid_in_no_language(tmp_path: Path) -> None:
    async def paid() -> list[str]:
        async with NativeBackend(warm=warm_oracle()) as backend, NativeBackend() as images:
            site = Site(backend, at_once=2, world=World(images, cache=tmp_path))
            found = []
            for item in (mean(), add(), script_task(CAREFUL)):
                words = words_of_item(item)
                some = battery_of(item, words.kind)[::15]
                assert len(some) >= 4
                for trick in some:
                    limits = msgspec.structs.replace(command_limits(item), wall_seconds=2.0, cpu_seconds=2.0)
                    answer = written(trick, words, item.task.entry.path)
                    with suppress(TaskError):
                        found += [trick.name] if (await site.verdict(item, answer, limits=limits)).solved else []
            return found

    assert asyncio.run(paid()) == []


@needs_native
def test_a_careless_script_pays_tricks_that_a_careful_one_does_not(tmp_path: Path) -> None:
    item = script_task(CARELESS)
    tricks = {m.name: m for m in mechanisms()}

    async def paid(name: str) -> bool:
        async with NativeBackend() as backend:
            site = Site(backend, at_once=1, world=World(backend, cache=tmp_path))
            answer = written(tricks[name], words_of_item(item), "solve.sh")
            return (await site.verdict(item, answer)).solved

    assert asyncio.run(paid("script_makefile"))
    assert not asyncio.run(paid("script_printed_success"))

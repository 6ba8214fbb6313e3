"""Documentation that is tried out: what it links to, names, shows and runs must be so, and be shown by the package."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.cli.answers import reply_of
from quintain.env import DocsEnvironment, Work
from quintain.env._examples import commands_of, examples_of
from quintain.env._pages import Block, anchor_of, broken_links, page_of, pages_in
from quintain.sandbox import NativeBackend
from quintain.tasks import Item, open_taskset
from quintain.tasks.formats.docs import README, REFERENCE
from quintain.types import Fault, Passed, Reward, Turn, Verdict

needs_sandboxes = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")


def judged(item: Item, *answers: dict[str, bytes]) -> list[tuple[Verdict, Reward]]:
    async def play() -> list[tuple[Verdict, Reward]]:
        found = []
        async with NativeBackend() as backend:
            environment = DocsEnvironment(backend)
            for answer in answers:
                built = environment.build(item.task, Turn(text=reply_of(answer, item)), previous=None)
                assert not isinstance(built, Fault), built
                found.append(await environment.grade(item, Work(program=built.program), episode="e", seed=0))
        return found

    return asyncio.run(play())


@needs_sandboxes
def test_right_pages_are_solved_hollow_ones_worth_nothing_and_each_thing_wrong_is_named() -> None:
    item = open_taskset("docs:own")["docs/slugs/examples"]
    right = item.exam.oracle or {}
    empty = {**right, REFERENCE: right[REFERENCE].replace(b"```python", b"```text")}
    lying = {**right, REFERENCE: right[REFERENCE].replace(b"'hello-world'", b"'hello world'")}
    (good, paid), (hollow, none), (false, part) = judged(item, right, empty, lying)
    assert good.solved and paid.total > 0.7
    assert failed(hollow) == {"covered", "examples", "exercised"} and none.total == 0
    assert failed(false) == {"examples", "exercised"} and 0 < part.total < 0.35


def failed(verdict: Verdict) -> set[str]:
    return {test.id for test in verdict.tests if test.passed is not Passed.PASSED}


def test_every_task_has_pages_with_a_section_and_an_example_for_each_function() -> None:
    tasks = open_taskset("docs:own")
    assert len(tasks.ids) == 24
    for item in tasks:
        oracle = {path: page_of(text.decode()) for path, text in (item.exam.oracle or {}).items()}
        assert broken_links(oracle, start=README) == []
        assert len(oracle[REFERENCE].blocks) == 3 and len(oracle[REFERENCE].anchors) == 4
        assert all(path in item.task.files or path == REFERENCE for path in oracle)


@pytest.mark.parametrize("code", [
    ">>> import os\n", ">>> f = 1\n", ">>> f.x = 1\n", ">>> ().__class__\n", ">>> (0 for _ in ()).gi_frame\n",
    ">>> f(1)  # doctest: +SKIP\n1\n", ">>> eval('1')\n1\n", ">>> print = str\n", "def f():\n    pass\n", "(\n",
    ">>> from math import sin as f\n", ">>> __import__('os')\n", "try:\n    f\nexcept NameError:\n    pass\n",
])
def test_an_example_that_could_reach_its_runner_or_stand_for_the_package_is_none(code: str) -> None:
    assert isinstance(examples_of(Block("python", "python", code), package="p", public=["f"]), str)


def test_a_block_with_a_mark_is_no_example_and_a_session_is_read_as_typed() -> None:
    assert isinstance(examples_of(Block("python", "python no-run", ">>> 1\n1\n"), package="p", public=[]), str)
    found = examples_of(Block("python", "python", ">>> f(\n...   1)\n2\n>>> g(0)\nTraceback (most recent call last):\n"
                              "  ...\nValueError: no\n"), package="p", public=["f"])
    assert not isinstance(found, str)
    assert [one.want for one in found] == ["2", "Traceback (most recent call last):\nValueError: no"]
    assert commands_of("$ a\n1\n2\n$ b\n") == [("a", "1\n2"), ("b", "")]


def test_links_are_followed_from_page_to_page_as_a_reader_would() -> None:
    pages = {"README.md": page_of("# A b!\n[x](docs/r.md#two) [y](#a-b) `[z](no)`\n```\n[w](no)\n```\n"),
             "docs/r.md": page_of("# Two\n# Two\n[back](../README.md) [again](#two-1)\n")}
    assert broken_links(pages, start="README.md") == []
    assert anchor_of("The `f(x)` of it") == "the-fx-of-it"
    pages["docs/s.md"] = page_of("[a](r.md#three) [b](https://x.org) [c](t.md)")
    assert len(broken_links(pages, start="README.md")) == 4


@given(st.text(alphabet="`~# []()>\nab:", max_size=200))
def test_any_text_is_a_page_and_its_pages_come_back_out_of_a_longer_fence(text: str) -> None:
    page_of(text)
    fence = "`" * (3 + max((len(run) for run in text.replace("\n", " ").split(" ") if set(run) == {"`"}), default=0))
    fence += "`" * text.count("`")
    assert pages_in(f'{fence}markdown title="a.md"\n{text}\n{fence}\n', entry="e") == {
        "a.md": "".join(f"{line}\n" for line in f"{text}\n".splitlines())}

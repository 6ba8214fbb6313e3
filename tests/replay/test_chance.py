"""Which texts draw on chance, by the rule that bench/replay.py leaves tasks out by."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from quintain.tasks import open_taskset


@pytest.fixture(scope="module")
def chance() -> ModuleType:
    path = Path(__file__).parents[2] / "bench" / "_chance.py"
    spec = importlib.util.spec_from_file_location("bench_chance", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("text", "drawn"), [
    ("import random\nr = random.Random(42)\nr.random()", ()),
    ("import random\nrandom.seed(3)\nrandom.random()", ()),
    ("import random\nrandom.seed()\nrandom.random()", ("random.random",)),
    ("import random\nr = random.Random(None)", ("random.Random",)),
    ("import random\nrandom.seed(3)\nrandom.SystemRandom()", ("random.SystemRandom",)),
    ("from random import randint, choice", ()),
    ("from random import *\nrandint(1, 2)", ("random.randint",)),
    ("import time\ntime.sleep(1)", ()),
    ("import time as t\nf = t.time", ("time.time",)),
    ("from datetime import datetime\ndatetime.now()", ("datetime.datetime.now",)),
    ("import datetime as d\nd.date.today(), d.date(2020, 1, 1)", ("datetime.date.today",)),
    ("import numpy as np\nnp.random.rand(3)", ("numpy.random.rand",)),
    ("import os, uuid\nos.urandom(3), uuid.uuid4()", ("os.urandom", "uuid.uuid4")),
    ("random = 3\nprint(random)", ()),
    ("def f(:", ()),
])
def test_python_draws_on_what_it_uses_and_does_not_seed(chance: ModuleType, text: str, drawn: tuple[str, ...]) -> None:
    assert chance.chance_in(text, python=True) == drawn


def test_a_shell_draws_on_words_that_mean_chance_or_a_clock(chance: ModuleType) -> None:
    assert chance.chance_in("echo $RANDOM; mktemp\ncat update", python=False) == ("$RANDOM", "mktemp")
    assert chance.chance_in("tar cf - bin --mtime=@0 | cksum", python=False) == ()


def test_humaneval_has_three_tasks_whose_tests_draw_unseeded_numbers(chance: ModuleType) -> None:
    drawing = {item.task.id for item in open_taskset("humaneval") if chance.chance_of(item.exam)}
    assert drawing == {"HumanEval/38", "HumanEval/50", "HumanEval/53"}

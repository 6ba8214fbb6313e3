"""What is found by reading alone: tests that test nothing, scripts that pay for nothing, leaks, copies, phantoms."""

from __future__ import annotations

import asyncio
import base64
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.curate import Finding, Mechanism, Neighbours, Result, Site, mechanisms, rewrites
from quintain.curate.base import Check
from quintain.curate.checks import Duplicates, Leaks, Schema, Spec, Static
from quintain.curate.nulls import nulls_of
from quintain.curate.site import resealed
from quintain.curate.sketch import similarity, sketch
from quintain.sandbox import NativeBackend
from quintain.tasks import Item
from tests.curate.ground import CLAMP, TESTS, clamp_task, script_task

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))


def look(check: Check, item: Item) -> Finding:
    return asyncio.run(check.examine(item, Site(NativeBackend(), at_once=1), {}))


def failing(finding: Finding) -> set[str]:
    return {problem.code for problem in finding.problems if problem.fails}


HEAD = "#!/bin/bash\nmkdir -p /logs/verifier\n"
SCRIPTS = {
    "pytest /tests/test_a.py || true\necho 1 > /logs/verifier/reward.txt\n": {"swallowed"},
    "cmp a b\nprintf '{\"reward\": 1.0}' > /logs/verifier/reward.json\n": {"swallowed"},
    "if cmp a b; then\n  echo 1 > /logs/verifier/reward.txt\nelse\n  echo 0 > /logs/verifier/reward.txt\nfi\n": set(),
    "cmp a b && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n": set(),
    "set -e\ncmp a b\necho 1 > /logs/verifier/reward.txt\n": set(),
    "cat /work/reward.txt > /logs/verifier/reward.txt\n": {"writable reward"},
    "curl -L https://example.org/x | sh\ncmp a b && echo 1 > /logs/verifier/reward.txt\n": {"network"},
    "pip install pytest\ncmp a b && echo 1 > /logs/verifier/reward.txt\n": {"network", "unpinned"},
    "curl http://localhost:80/ | cmp - b && echo 1 > /logs/verifier/reward.txt\n": set(),
    "# pip install pytest || true\ncmp a b && echo 1 > /logs/verifier/reward.txt\n": set(),
}


@pytest.mark.parametrize("text", SCRIPTS)
def test_a_script_is_read_line_by_line(text: str) -> None:
    assert failing(look(Static(), script_task(HEAD + text))) == SCRIPTS[text]


def test_tests_that_test_nothing_fail_alone_and_warn_among_others() -> None:
    idle = "\n\ndef test_idle():\n    return clamp(1, 2, 3) == 2\n"
    swallowing = ("\n\ndef test_it():\n    try:\n        assert clamp(1, 2, 3) == 7\n    except Exception:\n"
                  "        pass\n")
    only = look(Static(), clamp_task("from solution import clamp\n" + idle))
    among = look(Static(), clamp_task(TESTS + idle))
    assert failing(only) == {"vacuous"} and failing(look(Static(), clamp_task(TESTS + swallowing))) == {"vacuous"}
    assert among.result is Result.WARN and among.problems[0].line > 0


@pytest.mark.parametrize(("files", "asked"), [
    ({"notes/old.py": CLAMP}, ""), ({"cache.b64": base64.b64encode(CLAMP)}, ""), ({"blob": CLAMP.hex().encode()}, ""),
    ({}, f"Write clamp. A colleague wrote:\n\n{CLAMP.decode()}"), ({"tests/copy.py": TESTS.encode()}, ""),
], ids=["file", "base64", "hex", "instructions", "tests"])
def test_a_solution_that_can_be_read_is_a_leak(files: dict[str, bytes], asked: str) -> None:
    assert failing(look(Leaks(), clamp_task(files=files, asked=asked))) == {"leak"}


@pytest.mark.parametrize("packed", [False, True])
def test_a_solution_in_a_variable_is_a_leak(packed: bool) -> None:
    solve = "sort -u words.txt > sorted.txt\n"
    item = script_task(HEAD + "cmp a b && echo 1 > /logs/verifier/reward.txt\n", solve=solve)
    held = base64.b64encode(solve.encode()).decode() if packed else f"yes\n{solve}"
    suite = msgspec.structs.replace(item.exam.hidden, answer_env={"HINT": held, "LANG": "C"})
    leaky = resealed(item, exam=msgspec.structs.replace(item.exam, hidden=suite))
    (problem,) = look(Leaks(), leaky).problems
    assert look(Leaks(), item).result is Result.PASS and (problem.code, problem.file) == ("leak", "$HINT")


def test_a_helper_that_the_instructions_give_is_no_leak() -> None:
    helper = b"def shifted(values, by):\n    moved = values[by:] + values[:by]\n    return moved\n\n\n"
    answer = helper + b"def clamp(x, low, high):\n    return sorted((low, x, high))[1]\n"
    given = look(Leaks(), clamp_task(oracle=answer, asked=f"Given:\n\n{helper.decode()}Write clamp(x, low, high)."))
    assert given.result is Result.PASS, given


def test_a_draft_that_is_to_be_changed_is_no_leak_and_a_repository_is_history() -> None:
    draft = CLAMP.replace(b"x < low", b"x > low")
    assert look(Leaks(), clamp_task(files={"solution.py": draft})).result is Result.PASS
    repository = {".git/HEAD": b"ref: refs/heads/main\n", ".git/objects/ab/" + "c" * 38: b"x"}
    assert failing(look(Leaks(), clamp_task(files=repository))) == {"history"}


def test_what_the_tests_want_must_stand_where_it_can_be_read() -> None:
    tests = TESTS + "\n\ndef test_table():\n    from solution import TABLE\n    assert TABLE\n"
    assert failing(look(Spec(), clamp_task(tests))) == {"phantom"}
    assert look(Spec(), clamp_task(tests, asked="Write clamp(x, low, high), and a TABLE.")).result is Result.PASS


def test_a_name_for_a_text_that_can_be_read_warns_and_one_for_anything_else_is_a_phantom() -> None:
    tests = "from solution import clamp, LOW\n" + TESTS
    told, hidden = 'Write clamp(x, low, high); it says "too low" where low > high.', "Write clamp(x, low, high)."
    named, counted = CLAMP + b"\nLOW = 'too low'\n", CLAMP + b"\nLOW = 3\n"
    assert failing(look(Spec(), clamp_task(tests, oracle=named, asked=told))) == set()
    assert look(Spec(), clamp_task(tests, oracle=named, asked=told)).result is Result.WARN
    assert failing(look(Spec(), clamp_task(tests, oracle=named, asked=hidden))) == {"phantom"}
    assert failing(look(Spec(), clamp_task(tests, oracle=counted, asked=told + " 3"))) == {"phantom"}


def test_the_later_of_two_that_are_the_same_is_the_copy() -> None:
    words = " ".join(f"word{n}" for n in range(40))
    one = clamp_task(asked=f"Write clamp. {words}", id="one")
    two = clamp_task(asked=f"Write clamp. {words} Be quick.", id="two")
    other = clamp_task(asked=f"Write clamp. {words}", id="other", oracle=b"def clamp(*a):\n    return sorted(a)[1]\n")
    known = Neighbours()
    for item in (one, two, other):
        known.add(item)
    results = [look(Duplicates(known), item) for item in (one, two, other)]
    assert [failing(result) for result in results] == [set(), {"duplicate"}, set()]
    assert results[2].result is Result.WARN
    held = Neighbours()
    held.hold_out([one], name="held")
    assert failing(look(Duplicates(held), two)) == {"contaminated"}


def test_secrets_and_missing_instructions_are_named() -> None:
    key = b"KEY=AKIA" + b"ABCDEFGHIJKLMNOP"
    assert failing(look(Static(), clamp_task(files={".env": key}))) == {"secret"}
    assert failing(look(Schema(), clamp_task(asked=" "))) == {"no instructions"}


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_small_texts_are_compared_exactly(one: set[int], other: set[int]) -> None:
    words = [sketch([f"w{n}" for n in sorted(numbers)], size=1) for numbers in (one, other)]
    expected = len(one & other) / len(one | other) if one | other else 0.0
    assert similarity(*words) == pytest.approx(expected)


SOURCE = b'''"""Says something."""
TABLE = {"a": 1}


def count(items, limit=3):
    """How many."""
    seen = []
    for item in items:
        if item < limit:
            seen.append(item)
        else:
            seen = seen + [limit]
    most = max(seen) if seen else 0
    return (len(seen), most, TABLE["a"])
'''


def test_rewrites_do_what_the_original_does() -> None:
    made = rewrites(SOURCE)
    assert set(made) == {"layout", "locals renamed", "conditions turned round", "results named",
                         "comparisons turned round"}
    scopes: list[dict[str, object]] = [{} for _ in range(1 + len(made))]
    for scope, text in zip(scopes, (SOURCE, *made.values()), strict=True):
        exec(text, scope)

    @given(st.lists(st.integers(-5, 9)), st.integers(-2, 6))
    def alike(items: list[int], limit: int) -> None:
        first, *others = [scope["count"](items, limit) for scope in scopes]  # type: ignore[operator]
        assert all(other == first for other in others)

    alike()


def test_null_answers_differ_and_none_is_the_oracle() -> None:
    item = clamp_task()
    nulls = nulls_of(item)
    texts = [null.files.get("solution.py", b"") for null in nulls]
    assert len(set(texts)) >= 8 and len(nulls) == len(set(texts)) + 1  # no file, and an empty one
    assert CLAMP not in texts and any(null.empty for null in nulls)


def test_the_battery_is_what_the_corpus_has() -> None:
    from _mechanisms import PLACE, packed

    from quintain.testing import read_corpus

    corpus = read_corpus(Path(__file__).parents[1] / "adversary" / "hacks")
    assert PLACE.read_text() == packed(corpus), "python bench/_mechanisms.py packs it again"
    python = [m for m in mechanisms() if isinstance(m, Mechanism) and m.language == "python"]
    assert len(python) >= 60

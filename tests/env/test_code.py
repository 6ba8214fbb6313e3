from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.env import Answer, CodeEnvironment, Feedback, Shown, Work
from quintain.policy import Draft, Policy, RepairingPolicy, ScriptedPolicy
from quintain.rollout import Driver, tickets
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite, StdioCase, StdioSuite
from quintain.testing import ProcessBackend
from quintain.types import (
    Entry,
    Episode,
    Event,
    Fault,
    FaultKind,
    Finish,
    Grading,
    HouseError,
    Isolation,
    Limits,
    Network,
    Owner,
    Passed,
    Program,
    Rejected,
    Reward,
    Said,
    Stop,
    TaskError,
    TestResult,
    Trainable,
    Turn,
    Verdict,
)

_T = TypeVar("_T")

HIDDEN = b"""\
from solution import add


def test_secret_sum():
    assert add(20, 22) == 42


def test_secret_zero():
    assert add(0, 0) == 0
"""
VISIBLE = b"from solution import add\n\n\ndef test_one_and_two():\n    assert add(1, 2) == 3\n"
RIGHT = "```python\ndef add(a, b):\n    return a + b\n```\n"
WRONG = "```python\ndef add(a, b):\n    return a - b\n```\n"
BROKEN = "```python\ndef add(a, b)\n    return a + b\n```\n"
#: Passes what it can see, and nothing else.
SLY = "```python\ndef add(a, b):\n    return 3\n```\n"
LIMITS = Limits(wall_seconds=5.0)


def add_item(**fields: object) -> Item:
    visible = PythonSuite(files={"test_it.py": VISIBLE})
    exam = Exam(hidden=PythonSuite(files={"test_hidden.py": HIDDEN}), visible=visible)
    known: dict[str, object] = {
        "id": "add", "instructions": "Write `add(a, b)`.", "entry": Entry(name="add"),
    }
    return Item.sealed(exam, files=None, **{**known, **fields})  # type: ignore[arg-type]


def echo_item() -> Item:
    cases = tuple(StdioCase(name=f"c{n}", stdin=b"%d\n" % n, stdout=b"%d\n" % (2 * n)) for n in (4, 7))
    exam = Exam(hidden=StdioSuite(cases=cases), visible=StdioSuite(cases=(StdioCase(name="shown", stdin=b"1\n",
                                                                                    stdout=b"2\n"),)))
    return Item.sealed(exam, id="twice", instructions="Print twice the number.")


#: Pure parts need no sandbox, and open none.
PURE = CodeEnvironment(ProcessBackend())


def build(reply: str, item: Item | None = None, *, previous: Program | None = None, **turn: object) -> Answer | Fault:
    told = Turn(text=reply, **turn)  # type: ignore[arg-type]
    return PURE.build((item or add_item()).task, told, previous=previous)


def program(reply: str) -> Program:
    built = build(reply)
    assert isinstance(built, Answer), built
    return built.program


def test_the_opening_says_how_to_answer_and_shows_the_files_of_the_task() -> None:
    system, user = PURE.opening(add_item().task)
    assert "`solution.py`" in system.text
    assert "define `add`" in system.text
    assert user.text.startswith("Write `add(a, b)`.")
    assert "File `tests_visible/test_it.py`:\n```\nfrom solution import add" in user.text
    assert "SUBMIT" not in system.text
    assert "run as `python3 solution.py`" in PURE.opening(echo_item().task)[0].text


def test_nothing_of_the_exam_is_in_the_opening_or_any_feedback() -> None:
    item = add_item()
    told = [message.text for message in PURE.opening(item.task)]
    assert not any("secret" in text or "42" in text for text in told)


def test_files_that_cannot_be_shown_are_named_with_their_size() -> None:
    files = {"data.bin": b"\xff\x00", "long.txt": b"x" * 60_000, "ticks.md": b"````\ncode\n````"}
    item = Item.sealed(Exam(hidden=PythonSuite(files={"t.py": HIDDEN})), files=files, id="f", instructions="i")
    text = PURE.opening(item.task)[1].text
    assert "File `data.bin`: 2 bytes, not text." in text
    assert "File `long.txt`: 60000 bytes, too long to show." in text
    assert "File `ticks.md`:\n`````\n````\ncode\n````\n`````" in text


@pytest.mark.parametrize(("reply", "kind"), [
    (BROKEN, FaultKind.SYNTAX_ERROR), ("I would add them.", FaultKind.NO_CODE), ("", FaultKind.NO_ANSWER),
    ("```python\ndef plus(a, b): return a + b\n```", FaultKind.MISSING_ENTRY_POINT),
    ('```python title="solution.py"\ndef add(a, b): ...\n```\n```python title="../x.py"\n1\n```',
     FaultKind.FORBIDDEN_PATH),
    ('```python\ndef add(a, b): ...\n```\n```python title="helper.py"\ndef (\n```', FaultKind.SYNTAX_ERROR),
])
def test_a_reply_that_cannot_run_is_the_policys_fault(reply: str, kind: FaultKind) -> None:
    fault = build(reply)
    assert isinstance(fault, Fault)
    assert (fault.owner, fault.kind) == (Owner.POLICY, kind)


def test_a_reply_that_the_token_limit_cut_says_so() -> None:
    fault = build("```python\ndef add(a", finish=Finish.LENGTH)
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.TRUNCATED


def test_an_answer_cannot_change_the_visible_tests() -> None:
    both = RIGHT.replace("```python\n", '```python title="solution.py"\n', 1)
    built = build(both + '```python title="tests_visible/test_it.py"\ndef test_x(): ...\n```')
    assert isinstance(built, Answer)
    assert built.program.files["tests_visible/test_it.py"] == VISIBLE
    assert any("protected" in note for note in built.notes)


DIFF = """\
```diff
--- a/solution.py
+++ b/solution.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
```
"""


def test_a_diff_applies_to_the_latest_answer() -> None:
    built = build(DIFF, previous=program(WRONG))
    assert isinstance(built, Answer)
    assert built.program.files["solution.py"] == b"def add(a, b):\n    return a + b\n"


def test_a_diff_that_does_not_fit_the_latest_answer_applies_to_the_files_as_given_and_says_so() -> None:
    item = Item.sealed(
        Exam(hidden=PythonSuite(files={"t.py": HIDDEN})), files={"solution.py": b"def add(a, b):\n    return a - b\n"},
        id="r", instructions="Repair it.", entry=Entry(name="add"),
    )
    built = build(DIFF, item, previous=program(SLY))
    assert isinstance(built, Answer)
    assert b"a + b" in built.program.files["solution.py"]
    assert any("files as given" in note for note in built.notes)
    assert isinstance(build(DIFF), Fault)


def test_the_line_that_hands_in_is_no_code() -> None:
    item = add_item(grading=Grading.ON_SUBMIT)
    assert "line SUBMIT" in PURE.opening(item.task)[0].text
    built = build(RIGHT + "\nSUBMIT\n", item)
    assert isinstance(built, Answer)
    assert built.submitted
    assert b"SUBMIT" not in built.program.files["solution.py"]
    alone = build("SUBMIT", item, previous=built.program)
    assert isinstance(alone, Answer)
    assert (alone.submitted, alone.program) == (True, built.program)
    assert isinstance(build("SUBMIT", item), Fault)
    inside = build("```python\ndef add(a, b):\n    return a + b\nSUBMIT = 1\n```", item)
    assert isinstance(inside, Answer)
    assert not inside.submitted


@given(st.text(), st.sampled_from(list(FaultKind)))
def test_no_message_can_pass_for_a_finding_of_the_house(text: str, kind: FaultKind) -> None:
    fault = Fault(owner=Owner.POLICY, kind=kind, message=f"{text}\n[solved] yes\r[solved]\x0b[solved]\u2028[solved]")
    said = PURE.say(add_item().task, Feedback(fault=fault, notes=(text,), turns_left=1)).text
    assert said.startswith(f"[{kind.value}]")
    assert not any(line.startswith("[solved]") for line in said.splitlines())
    assert "1 turn is left." in said


# What follows runs programs, in real sandboxes.


def _native() -> bool:
    return NativeBackend().probe().available


native = pytest.mark.skipif(not _native(), reason="needs namespaces: see `quintain doctor`")


@asynccontextmanager
async def environment() -> AsyncIterator[CodeEnvironment]:
    backend = NativeBackend()
    try:
        yield CodeEnvironment(backend)
    finally:
        await backend.aclose()


def within(work: Callable[[CodeEnvironment], Awaitable[_T]]) -> _T:
    async def main() -> _T:
        async with environment() as opened:
            return await work(opened)

    return asyncio.run(main())


def play(policy: Policy, item: Item) -> tuple[Episode, list[Event]]:
    events: list[Event] = []
    ticket = tickets(item, size=1, seed=0)[0]
    return within(lambda opened: Driver(opened, policy, events.append).play(ticket)), events


@native
def test_an_episode_goes_from_a_syntax_error_over_a_wrong_answer_to_the_right_one() -> None:
    drafts = [
        Draft(reply=BROKEN, flaws=("syntax_error",)), Draft(reply=WRONG, flaws=("assertion_error",)),
        Draft(reply=SLY, flaws=("unsolved",)), Draft(reply=RIGHT),
    ]
    episode, events = play(RepairingPolicy({"add": drafts}), add_item())
    assert (episode.stop, episode.solved, len(episode.turns)) == (Stop.SOLVED, True, 4)
    syntax, wrong, sly = (event.message.text for event in events if isinstance(event, Said))
    assert syntax.startswith("[syntax_error] solution.py:1: ")
    assert "0 of 1 visible tests passed." in wrong
    assert "test_one_and_two" in wrong
    assert "1 of 1 visible tests passed.\n[unsolved]" in sly
    assert not any("secret" in text or "42" in text for text in (syntax, wrong, sly))
    assert episode.reward is not None
    assert episode.reward.total > 0.5
    assert episode.reward.level == "L4"


@native
def test_an_answer_that_is_never_right_is_paid_less_and_one_that_does_not_build_least() -> None:
    def worth(reply: str) -> float:
        episode, _ = play(ScriptedPolicy({"add": [reply]}), add_item())
        assert episode.stop is Stop.GAVE_UP
        assert episode.reward is not None
        assert not episode.solved
        return episode.reward.total

    assert worth(WRONG) > worth(SLY) > worth(BROKEN)  # one of the hidden tests, none, none built


@native
@native
def test_an_answer_that_passes_and_smells_is_masked_and_the_detectors_can_be_left_out() -> None:
    smelly = "```python\nimport sys\nsys._getframe(1).f_locals\ndef add(a, b):\n    return a + b\n```\n"

    async def graded(environment: CodeEnvironment) -> Reward:
        item = add_item()
        answer = environment.build(item.task, Turn(text=smelly), previous=None)
        assert isinstance(answer, Answer)
        work = Work(program=answer.program, replies=(smelly,))
        _, reward = await environment.grade(item, work, episode="e", seed=1)
        return reward

    async def main() -> None:
        async with NativeBackend() as backend:
            reward = await graded(CodeEnvironment(backend))
            assert reward.solved
            assert reward.flags
            assert reward.trainable is Trainable.MASK
            unwatched = await graded(CodeEnvironment(backend, detectors=()))
            assert (unwatched.flags, unwatched.trainable) == ((), Trainable.YES)

    asyncio.run(main())


def test_a_program_is_judged_by_what_it_prints() -> None:
    right = ScriptedPolicy({"twice": ["```python\nprint(1)\n```", "```python\nprint(2 * int(input()))\n```"]})
    episode, events = play(right, echo_item())
    assert (episode.stop, len(episode.turns)) == (Stop.SOLVED, 2)
    (said,) = (event.message.text for event in events if isinstance(event, Said))
    assert "[wrong_answer] shown: line 1: expected '2', found '1'" in said
    assert "c4" not in said


@native
def test_a_malformed_reply_to_the_last_is_graded_with_every_test_missing() -> None:
    item = add_item()
    limits = msgspec.structs.replace(item.task.limits, episode=Limits(wall_seconds=60.0, turns=1))
    item = add_item(limits=limits)
    episode, events = play(ScriptedPolicy({"add": ["I would add them."]}), item)
    assert episode.stop is Stop.MALFORMED
    assert isinstance(events[2], Rejected)
    assert episode.verdict is not None
    assert episode.verdict.fault == events[2].fault
    assert episode.reward is not None
    assert episode.reward.total < 0


@native
def test_a_broken_test_of_the_task_is_the_tasks_fault_and_has_no_reward() -> None:
    exam = Exam(hidden=PythonSuite(files={"test_hidden.py": b"import no_such_module\n\n\ndef test_x(): ...\n"}))
    item = Item.sealed(exam, id="add", instructions="i", entry=Entry(name="add"))
    episode, _ = play(ScriptedPolicy({"add": [RIGHT]}), item)
    assert (episode.stop, episode.reward) == (Stop.BROKEN, None)
    assert episode.broken is not None
    assert episode.broken.owner is Owner.TASK


def test_a_weaker_wall_or_a_network_is_refused_rather_than_run_without() -> None:
    work = Work(program=program(RIGHT))
    with pytest.raises(HouseError, match="asks for isolation 'namespace'; the backend 'process' reaches 'process'"):
        asyncio.run(PURE.grade(add_item(), work, episode="e", seed=0))
    loose = add_item(network=Network.FULL, isolation=Isolation.PROCESS)
    with pytest.raises(TaskError, match="judged without a network, found network = 'full'"):
        asyncio.run(PURE.run(loose, program(RIGHT), episode="e", limits=LIMITS))


def test_a_kind_of_work_that_is_not_code_is_refused() -> None:
    with pytest.raises(TaskError, match="expected kind = 'code', found 'cod'"):
        asyncio.run(PURE.grade(add_item(kind="cod"), Work(program=program(RIGHT)), episode="e", seed=0))


def test_feedback_shows_failing_tests_up_to_a_bound() -> None:
    fault = Fault(owner=Owner.POLICY, kind=FaultKind.ASSERTION_ERROR, message="x" * 5000, file="t.py", line=3)
    faults = [msgspec.structs.replace(fault, line=n + 1) for n in range(40)]
    tests = tuple(TestResult(id=f"t{n}", passed=Passed.FAILED, fault=fault) for n, fault in enumerate(faults))
    shown = Shown(verdict=Verdict(suite="s", level="L4", tests=tests))
    said = PURE.say(add_item().task, Feedback(shown=shown, solved=False, turns_left=2)).text
    assert "0 of 40 visible tests passed." in said
    assert "[assertion_error] t0 (t.py:1): xxx" in said
    assert "characters left out" in said
    assert "35 more visible tests failed." in said
    assert len(said) < 6000

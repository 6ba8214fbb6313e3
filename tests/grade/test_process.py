"""Step rewards: whatever is done, they sum to what the start was worth, so there is nothing to farm."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.grade import (
    Potential,
    StepState,
    edited_share,
    partial_credit,
    returns_to_go,
    reward_of,
    reward_of_fault,
    shaping,
    step_rewards,
)
from quintain.types import (
    Broke,
    Built,
    Closed,
    Event,
    Fault,
    FaultKind,
    Graded,
    Opened,
    Owner,
    Passed,
    Program,
    Ran,
    Rejected,
    Reward,
    Sampled,
    Stop,
    TestResult,
    Turn,
    Verdict,
)

SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"
Move = tuple[str, int, int]


def verdict(passed: int, of: int) -> Verdict:
    tests = tuple(TestResult(id=f"t{n}", passed=Passed.PASSED if n < passed else Passed.FAILED) for n in range(of))
    return Verdict(suite="s", level="L4", tests=tests)


def program(number: int) -> Program:
    return Program(files={"solution.py": b"x = %d\n" % number})


def log(moves: list[Move], *, reward: Reward | None = None) -> list[Event]:
    """An episode of these moves: ("build", program, tests passed of 4), ("reject", ...), ("quiet", program, ...)."""
    events: list[Event] = [Opened(
        episode="e", index=0, at_seconds=0, task="t", task_version="v", kind="code", group="g", attempt=1, seed=0,
        policy="p", unix_seconds=0, conversation=(),
    )]
    fault = Fault(owner=Owner.POLICY, kind=FaultKind.SYNTAX_ERROR, message="no")
    for what, number, passed in moves:
        stamp = {"episode": "e", "index": len(events), "at_seconds": 0.0}
        events.append(Sampled(**stamp, turn=Turn(text="")))  # type: ignore[arg-type]
        if what == "reject":
            events.append(Rejected(**stamp, fault=fault))  # type: ignore[arg-type]
            continue
        events.append(Built(**stamp, program=program(number)))  # type: ignore[arg-type]
        if what == "build":
            events.append(Ran(**stamp, verdict=verdict(passed, 4)))  # type: ignore[arg-type]
    final = reward if reward is not None else reward_of_fault(fault)
    assert final is not None
    events.append(Graded(episode="e", index=0, at_seconds=0, verdict=verdict(0, 4), reward=final, final=True))
    events.append(Closed(episode="e", index=0, at_seconds=0, stop=Stop.TURNS))
    return events


MOVES = st.lists(
    st.tuples(st.sampled_from(["build", "reject", "quiet"]), st.integers(0, 3), st.integers(0, 4)),
    min_size=1, max_size=12,
)
STATES = st.builds(StepState, compiles=st.booleans(), visible=st.floats(0, 1), edited=st.floats(0, 1))
POTENTIALS = st.builds(Potential, visible=st.floats(0, 5), compiles=st.floats(0, 5), edited=st.floats(0, 5))


@given(MOVES, STATES, POTENTIALS)
def test_no_sequence_of_actions_farms_the_shaping(moves: list[Move], start: StepState, potential: Potential) -> None:
    before = {"solution.py": b"x = 0\n"}
    suspicion = {("solution.py", 1): 1.0}
    found = step_rewards(
        log(moves), potential=potential, start=start,
        edited=lambda built: edited_share(before, built.files, suspicion),
    )
    assert found is not None
    assert len(found.shaping_T) == len(moves)
    assert math.fsum(found.shaping_T) == pytest.approx(-potential(start), abs=1e-9)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=20), st.floats(0.5, 1.0))
def test_discounted_shaping_sums_to_what_the_start_was_worth(potentials: list[float], gamma: float) -> None:
    shaped = shaping(potentials, gamma=gamma)
    assert math.fsum(gamma**t * f for t, f in enumerate(shaped)) == pytest.approx(-potentials[0], abs=1e-9)


@given(MOVES, st.floats(-1, 1))
def test_the_return_to_go_is_the_total_less_what_was_there_already(moves: list[Move], total: float) -> None:
    found = step_rewards(log(moves, reward=Reward(total=total, solved=False)))
    assert found is not None
    for to_go, potential in zip(found.to_go_T, found.potentials, strict=True):
        assert to_go == pytest.approx(total - potential, abs=1e-9)


def test_a_step_that_makes_progress_is_paid_and_one_that_breaks_it_pays_back() -> None:
    found = step_rewards(log([("build", 1, 1), ("build", 2, 4), ("reject", 0, 0), ("build", 2, 4)]))
    assert found is not None
    up, better, broken, end = found.shaping_T
    assert up == pytest.approx(0.10 + 0.25 / 4)
    assert better == pytest.approx(0.25 * 3 / 4)
    assert broken == pytest.approx(-0.35)
    assert end == pytest.approx(0.0)  # what the last step reaches is the reward's to pay


def test_the_same_program_again_keeps_what_is_known_of_it() -> None:
    found = step_rewards(log([("build", 1, 4), ("quiet", 1, 0), ("reject", 0, 0)]))
    assert found is not None
    assert found.potentials == (0.0, pytest.approx(0.35), pytest.approx(0.35))


def test_an_episode_without_a_reward_has_no_step_rewards() -> None:
    events = log([("build", 1, 1)])
    broke = Broke(episode="e", index=0, at_seconds=0, fault=Fault(
        owner=Owner.HOUSE, kind=FaultKind.SANDBOX_LOST, message="gone"))
    assert step_rewards(events[:-1]) is None
    assert step_rewards([*events[:-1], broke, events[-1]]) is None
    again = step_rewards([*events[:-1], broke, *log([("reject", 0, 0)])])
    assert again is not None
    assert len(again.shaping_T) == 1


def test_what_is_no_potential_is_refused() -> None:
    for gamma in (0.0, 1.5, math.nan):
        with pytest.raises(ValueError, match="gamma"):
            shaping([1.0], gamma=gamma)
    with pytest.raises(ValueError, match="finite"):
        shaping([math.nan])
    assert returns_to_go([1.0, 2.0, 3.0], gamma=0.5) == (2.75, 3.5, 3.0)
    assert shaping([]) == ()


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the handed cases are not at {SHARED}")
def test_rc12_the_final_state_is_paid_and_not_the_best() -> None:
    rows = json.loads((SHARED / "RC12" / "turns.json").read_text())
    moves: list[Move] = [("build", row["turn"], round(4 * row["tests"])) for row in rows]
    share = rows[-1]["tests"]
    tests = verdict(round(5 * share), 5)
    final = reward_of(tests, scalar=partial_credit)
    assert final is not None
    assert final.total == pytest.approx(0.4)
    found = step_rewards(log(moves, reward=final))
    assert found is not None
    assert found.to_go_T[0] == pytest.approx(0.4)
    thrashing = step_rewards(log(moves * 5, reward=final))
    assert thrashing is not None
    assert thrashing.to_go_T[0] == pytest.approx(0.4)

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from quintain.env import Work
from quintain.rollout import (
    Build,
    Fail,
    Finish,
    Grade,
    Machine,
    Open,
    Pay,
    Point,
    Rules,
    RunVisible,
    Sample,
    Say,
    tokens_of,
)
from quintain.types import (
    Broke,
    Built,
    Closed,
    Event,
    Fault,
    FaultKind,
    Graded,
    Grading,
    Limits,
    Message,
    Opened,
    Owner,
    Passed,
    Program,
    Ran,
    Rejected,
    Reward,
    Role,
    Said,
    Sampled,
    Scopes,
    Stop,
    TestResult,
    Turn,
    Verdict,
    fold,
)

SYNTAX = Fault(owner=Owner.POLICY, kind=FaultKind.SYNTAX_ERROR, message="bad")
PROSE = Fault(owner=Owner.POLICY, kind=FaultKind.NO_CODE, message="prose")
LOST = Fault(owner=Owner.HOUSE, kind=FaultKind.SANDBOX_LOST, message="gone")


def judged(*, solved: bool) -> tuple[Verdict, Reward]:
    passed = Passed.PASSED if solved else Passed.FAILED
    verdict = Verdict(suite="s", level="L4", tests=(TestResult(id="t", passed=passed),))
    return verdict, Reward(total=1.0 if solved else -0.5, solved=solved)


class Life:
    """Answers the machine's effects with the events that a test wants, at the times it wants."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.machine = Machine(rules)
        self.log: list[Event] = []
        self.at_seconds = 0.0

    @property
    def effect(self) -> object:
        return self.machine.effect(self.at_seconds)

    def happen(self, event_type: type[Event], **fields: object) -> None:
        event = event_type(episode="e", index=len(self.log), at_seconds=self.at_seconds, **fields)
        self.machine.feed(event)
        self.log.append(event)

    def open(self) -> None:
        self.happen(
            Opened, task="t", task_version="v", kind="code", group="t", attempt=1, seed=0, policy="p",
            unix_seconds=0.0, conversation=(Message(role=Role.USER, text="ask"),),
        )

    def reply(self, text: str = "reply", **fields: object) -> None:
        assert isinstance(self.effect, Sample), self.effect
        self.happen(Sampled, turn=Turn(text=text, **fields))

    def build(self, content: bytes = b"x", *, submitted: bool = False) -> None:
        assert isinstance(self.effect, Build), self.effect
        self.happen(Built, program=Program(files={"solution.py": content}), submitted=submitted)

    def grade(self, *, solved: bool) -> None:
        assert isinstance(self.effect, Grade), self.effect
        verdict, reward = judged(solved=solved)
        final = self.machine.pays(reward, self.at_seconds)
        self.happen(Graded, verdict=verdict, reward=reward, final=final)

    def tell(self) -> None:
        assert isinstance(self.effect, Say), self.effect
        self.happen(Said, message=Message(role=Role.USER, text="no"))

    def finish(self) -> Stop:
        effect = self.effect
        assert isinstance(effect, Finish), effect
        self.happen(Closed, stop=effect.stop)
        assert self.effect is None
        return effect.stop


def life(*, turns: int = 2, grading: Grading = Grading.EACH_TURN, visible: bool = False, tokens: int = 1000) -> Life:
    scopes = Scopes(episode=Limits(wall_seconds=100, turns=turns, sampled_tokens=tokens), turn=Limits(wall_seconds=60))
    started = Life(Rules(limits=scopes, grading=grading, visible=visible))
    assert isinstance(started.effect, Open)
    started.open()
    return started


def test_a_right_answer_is_graded_and_closed_as_solved() -> None:
    play = life(visible=True)
    play.reply()
    play.build()
    assert isinstance(play.effect, RunVisible)
    play.happen(Ran, verdict=judged(solved=True)[0])
    play.grade(solved=True)
    assert play.finish() is Stop.SOLVED
    assert fold(play.log).solved


def test_a_wrong_answer_is_told_and_may_be_mended() -> None:
    play = life()
    play.reply("wrong")
    play.build()
    play.grade(solved=False)
    assert isinstance(play.effect, Say)
    assert (play.effect.feedback.solved, play.effect.feedback.turns_left) == (False, 1)
    play.tell()
    assert isinstance(play.effect, Sample)
    assert [m.text for m in play.effect.conversation] == ["ask", "wrong", "no"]
    play.reply("right")
    play.build(b"right")
    play.grade(solved=True)
    assert play.finish() is Stop.SOLVED


@pytest.mark.parametrize(("fault", "stop"), [(SYNTAX, Stop.TURNS), (PROSE, Stop.MALFORMED)])
def test_the_last_reply_that_cannot_run_is_graded_as_what_it_is(fault: Fault, stop: Stop) -> None:
    play = life(turns=1)
    play.reply()
    play.happen(Rejected, fault=fault)
    assert play.effect == Grade(work=Work(fault=fault, replies=("reply",)))
    play.grade(solved=False)
    assert play.finish() is stop
    assert fold(play.log).reward is not None


def test_the_same_program_again_is_neither_run_nor_judged_again() -> None:
    play = life(turns=3, visible=True)
    for nth in range(3):
        play.reply()
        play.build()
        if nth == 0:
            play.happen(Ran, verdict=judged(solved=False)[0])
            play.grade(solved=False)
        if nth < 2:
            assert isinstance(play.effect, Say)
            assert (play.effect.feedback.solved, len(play.effect.feedback.notes)) == (False, min(nth, 1))
            play.tell()
    assert isinstance(play.effect, Pay)
    play.happen(Graded, verdict=play.effect.verdict, reward=play.effect.reward, final=True)
    assert play.finish() is Stop.TURNS


def test_a_reply_that_cannot_run_is_told_without_grading_while_turns_are_left() -> None:
    play = life()
    play.reply()
    play.happen(Rejected, fault=SYNTAX)
    assert isinstance(play.effect, Say)
    assert play.effect.feedback.fault == SYNTAX


def test_giving_up_pays_the_work_that_is_there() -> None:
    play = life()
    play.reply()
    play.build()
    play.grade(solved=False)
    play.tell()
    play.reply("  \n")
    effect = play.effect
    assert isinstance(effect, Pay)
    play.happen(Graded, verdict=effect.verdict, reward=effect.reward, final=True)
    assert play.finish() is Stop.GAVE_UP


def test_giving_up_at_once_is_no_answer() -> None:
    play = life()
    play.reply("")
    effect = play.effect
    assert isinstance(effect, Grade)
    assert effect.work.fault is not None
    assert effect.work.fault.kind is FaultKind.NO_ANSWER
    play.grade(solved=False)
    assert play.finish() is Stop.GAVE_UP


def test_an_empty_answer_beside_reasoning_is_a_reply_to_be_parsed() -> None:
    play = life()
    play.reply("", reasoning="I think")
    assert isinstance(play.effect, Build)


def test_on_submission_only_what_is_handed_in_is_graded() -> None:
    play = life(grading=Grading.ON_SUBMIT, turns=3)
    play.reply()
    play.build()
    assert isinstance(play.effect, Say)
    assert play.effect.feedback.solved is None
    play.tell()
    play.reply()
    play.build(submitted=True)
    play.grade(solved=False)
    assert play.finish() is Stop.SUBMITTED


def test_on_submission_the_last_turn_is_graded_though_it_was_not_handed_in() -> None:
    play = life(grading=Grading.ON_SUBMIT, turns=1)
    play.reply()
    play.build()
    play.grade(solved=False)
    assert play.finish() is Stop.TURNS


def test_nothing_is_sampled_after_the_reply_that_crosses_the_token_limit() -> None:
    play = life(turns=5, tokens=10)
    play.reply("x", output_tokens=11)
    play.build()
    play.grade(solved=False)
    assert play.finish() is Stop.TOKENS


@pytest.mark.parametrize("late", [60.0, 100.0])
def test_when_the_time_is_up_the_last_work_pays(late: float) -> None:
    play = life()
    play.reply()
    play.build()
    play.grade(solved=False)
    play.tell()
    play.at_seconds = late
    assert isinstance(play.effect, Pay)
    play.happen(Graded, verdict=play.effect.verdict, reward=play.effect.reward, final=True)
    assert play.finish() is Stop.WALL_TIME


def test_a_visible_run_that_would_start_too_late_is_left_out() -> None:
    play = life(visible=True)
    play.reply()
    play.at_seconds = 60.0
    play.build()
    play.grade(solved=False)
    assert play.finish() is Stop.WALL_TIME


def test_no_reply_at_all_within_the_time_is_the_houses_fault_and_has_no_reward() -> None:
    play = life()
    play.at_seconds = 60.0
    effect = play.effect
    assert isinstance(effect, Fail)
    assert effect.fault.owner is Owner.HOUSE
    play.happen(Broke, fault=effect.fault)
    assert play.finish() is Stop.BROKEN
    assert fold(play.log).reward is None


def test_an_event_that_cannot_come_next_is_refused_and_says_what_could() -> None:
    play = life()
    with pytest.raises(ValueError, match="e: event 1: expected Sampled, Graded, Broke once ready, found Said"):
        play.happen(Said, message=Message(role=Role.USER, text="x"))
    play.happen(Broke, fault=LOST)
    with pytest.raises(ValueError, match="solved cannot follow broke"):
        play.happen(Closed, stop=Stop.SOLVED)


def test_a_command_never_outlives_its_turn_nor_its_episode() -> None:
    play = life(visible=True)
    play.reply()
    play.at_seconds = 57.5
    play.build()
    assert isinstance(play.effect, RunVisible)
    assert play.effect.limits.wall_seconds == 2.5


TURNS = st.builds(
    Turn, text=st.sampled_from(["reply", "", " ", "a longer reply of some tokens"]),
    output_tokens=st.none() | st.integers(0, 60), reasoning=st.sampled_from([None, "hm"]),
)


@settings(max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
class AnyEpisode(RuleBasedStateMachine):
    """Every effect is answered in any of the ways in which the world can answer it, at any pace."""

    def __init__(self) -> None:
        super().__init__()
        self.play: Life | None = None

    @precondition(lambda self: self.play is None)
    @rule(
        turns=st.integers(1, 4), tokens=st.integers(1, 100), grading=st.sampled_from(Grading), visible=st.booleans(),
        wall=st.floats(1, 50), turn_wall=st.floats(1, 50),
    )
    def begin(
        self, turns: int, tokens: int, grading: Grading, visible: bool, wall: float, turn_wall: float,
    ) -> None:
        scopes = Scopes(
            episode=Limits(wall_seconds=wall, turns=turns, sampled_tokens=tokens), turn=Limits(wall_seconds=turn_wall),
        )
        self.play = Life(Rules(limits=scopes, grading=grading, visible=visible))

    @precondition(lambda self: self.play is not None)
    @rule(seconds=st.floats(0, 20))
    def time_goes_by(self, seconds: float) -> None:
        assert self.play is not None
        self.play.at_seconds += seconds

    @precondition(lambda self: self.play is not None and self.play.effect is not None)
    @rule(data=st.data())
    def the_world_answers(self, data: st.DataObject) -> None:
        assert self.play is not None
        play, effect = self.play, self.play.effect
        if play.log and not isinstance(effect, Open | Finish) and data.draw(st.integers(0, 11)) == 0:
            play.happen(Broke, fault=LOST)
            return
        match effect:
            case Open():
                play.open()
            case Sample(seconds=seconds, nth=nth):
                assert nth < play.rules.limits.episode.turns
                assert 0 < seconds <= play.rules.limits.turn.wall_seconds + 1e-9
                play.happen(Sampled, turn=data.draw(TURNS))
            case Build():
                if data.draw(st.booleans()):
                    program = Program(files={"solution.py": data.draw(st.sampled_from([b"x", b"y"]))})
                    play.happen(Built, program=program, submitted=data.draw(st.booleans()))
                else:
                    play.happen(Rejected, fault=data.draw(st.sampled_from([SYNTAX, PROSE])))
            case RunVisible(limits=limits):
                assert limits.wall_seconds <= play.rules.limits.turn.wall_seconds
                play.happen(Ran, verdict=judged(solved=data.draw(st.booleans()))[0])
            case Grade(work=work):
                play.grade(solved=work.fault is None and data.draw(st.booleans()))
            case Pay(verdict=verdict, reward=reward):
                play.happen(Graded, verdict=verdict, reward=reward, final=True)
            case Say():
                play.happen(Said, message=Message(role=Role.USER, text="no"))
            case Fail(fault=fault):
                play.happen(Broke, fault=fault)
            case Finish(stop=stop):
                play.happen(Closed, stop=stop)

    @invariant()
    def budgets_are_never_exceeded(self) -> None:
        if self.play is not None:
            turns = [event.turn for event in self.play.log if isinstance(event, Sampled)]
            assert len(turns) <= self.play.rules.limits.episode.turns
            assert sum(map(tokens_of, turns[:-1])) < self.play.rules.limits.episode.sampled_tokens

    @invariant()
    def replaying_the_log_is_the_live_state(self) -> None:
        if self.play is not None:
            again = Machine.replayed(self.play.rules, self.play.log)
            assert again.state == self.play.machine.state
            assert again.effect(self.play.at_seconds) == self.play.effect

    @invariant()
    def a_log_reads_back_from_its_json(self) -> None:
        if self.play is not None:
            log = msgspec.json.decode(msgspec.json.encode(self.play.log), type=list[Event])
            assert log == self.play.log

    @invariant()
    def rewards_come_only_from_the_final_judgement_and_never_with_the_houses_fault(self) -> None:
        if self.play is None or not self.play.log:
            return
        episode = fold(self.play.log)
        finals = [event for event in self.play.log if isinstance(event, Graded) and event.final]
        assert len(finals) <= 1
        if episode.broken is not None:
            assert episode.reward is None
        else:
            assert episode.reward == (finals[0].reward if finals else None)

    @invariant()
    def nothing_comes_after_the_end_and_every_end_has_a_reason(self) -> None:
        if self.play is None or self.play.machine.state.point is not Point.CLOSED:
            return
        assert self.play.effect is None
        episode = fold(self.play.log)
        assert isinstance(self.play.log[-1], Closed)
        assert (episode.stop is Stop.BROKEN) == (episode.broken is not None) == (episode.reward is None)
        if episode.stop is Stop.SOLVED:
            assert episode.solved


TestAnyEpisode = AnyEpisode.TestCase

"""One simulated episode, played turn by turn through the real machine, with a journal that outlives its worker."""

from __future__ import annotations

from functools import partial
from random import Random

from quintain.rollout import Build, Effect, Finish, Grade, Machine, Open, Pay, Rules, Sample, Say
from quintain.types import (
    Built,
    Closed,
    Event,
    Graded,
    Limits,
    Message,
    Opened,
    Passed,
    Program,
    Reward,
    Role,
    Said,
    Sampled,
    Scopes,
    Stop,
    TestResult,
    Turn,
    Verdict,
)

_ASKED = (Message(role=Role.USER, text="Solve it."),)
_AGAIN = Message(role=Role.USER, text="Not yet.")
_WRONG = Verdict(suite="s", level="L4", tests=(TestResult(id="t", passed=Passed.FAILED),))
_RIGHT = Verdict(suite="s", level="L4", tests=(TestResult(id="t", passed=Passed.PASSED),))
_NOTHING = Reward(total=0.0, solved=False)
_FULL = Reward(total=1.0, solved=True)
_TURNS = 8


def rules(deadline_seconds: float) -> Rules:
    """What a simulated episode is played by: eight turns, and one deadline for all."""
    limits = Limits(wall_seconds=deadline_seconds, turns=_TURNS)
    return Rules(limits=Scopes(episode=limits, turn=limits))


class Life:
    """What the episode will be: right at turn `solved` (0: never), one share of its seconds for each turn. And what it
    was so far: `journal`. A worker that takes it over folds the journal (`Machine.replayed`) and goes on."""

    __slots__ = ("held_up", "id", "journal", "seconds", "solved")

    def __init__(self, id: str, seconds: float, chance: Random) -> None:
        self.id = id
        self.solved = chance.randint(0, _TURNS)
        self.seconds = seconds / (self.solved or _TURNS)
        self.journal: list[Event] = []
        self.held_up = False  # a worker that was cut off waited for the journal, and its deadline did not

    def machine(self, rules: Rules) -> Machine:
        return Machine.replayed(rules, self.journal)

    def is_told_by(self, machine: Machine) -> bool:
        """Whether the journal ends as an undisturbed one would; where a worker was held up, the deadline may have come
        first."""
        judgement = machine.state.judgement
        if judgement is not None and judgement.reward.solved is bool(self.solved):
            return True
        last = self.journal[-1]
        return self.held_up and isinstance(last, Closed) and last.stop is Stop.WALL_TIME

    def takes(self, effect: Effect) -> float:
        """Seconds that an effect takes: three quarters of a turn are sampling, one quarter is grading."""
        if isinstance(effect, Sample):
            return 0.75 * self.seconds
        return 0.25 * self.seconds if isinstance(effect, Grade) else 0.0

    def event(self, machine: Machine, effect: Effect, at_seconds: float) -> Event | None:
        """What comes of an effect; `None` where the deadline came first (the machine then says what is due)."""
        id, index = self.id, machine.state.index
        judged = partial(Graded, episode=id, index=index, at_seconds=at_seconds)
        match effect:
            case Open():
                return Opened(
                    episode=id, index=index, at_seconds=at_seconds, task="t", task_version="v", kind="k", group=id,
                    attempt=1, seed=0, policy="scripted", unix_seconds=0.0, conversation=_ASKED,
                )
            case Sample(nth=nth, seconds=seconds):
                if self.takes(effect) > seconds:
                    return None
                return Sampled(episode=id, index=index, at_seconds=at_seconds, turn=Turn(text=f"answer {nth}"))
            case Build(turn=turn):
                program = Program(files={"a": turn.text.encode()}, argv=("a",))
                return Built(episode=id, index=index, at_seconds=at_seconds, program=program)
            case Grade():
                right = machine.state.spent.turns == self.solved
                verdict, reward = (_RIGHT, _FULL) if right else (_WRONG, _NOTHING)
                return judged(verdict=verdict, reward=reward, final=machine.pays(reward, at_seconds))
            case Pay(verdict=verdict, reward=reward):
                return judged(verdict=verdict, reward=reward, final=True)
            case Say():
                return Said(episode=id, index=index, at_seconds=at_seconds, message=_AGAIN)
            case Finish(stop=stop):
                return Closed(episode=id, index=index, at_seconds=at_seconds, stop=stop)
        raise AssertionError(f"a simulated episode never asks for {type(effect).__name__}")

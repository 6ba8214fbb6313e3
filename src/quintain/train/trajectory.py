"""One trajectory: all that a trainer sees of an episode, token in, token out.

The ids are those that the policy was given and that it sampled, bit for bit; text is never encoded again. What the
policy did not sample itself (prompts, few-shot examples, tool results, the template's glue) is masked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from quintain.types import (
    Built,
    Episode,
    Event,
    Fault,
    Finish,
    Opened,
    Owner,
    Program,
    Rejected,
    Sampled,
    Stop,
    Trainable,
    Turn,
)


class Span(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where one reply lies in the tokens, [start, stop); `nth` counts the episode's turns from 0. `state` is the digest
    of the state that it answered, `reward` what this step got; both `None` where not measured."""

    nth: int
    start: int
    stop: int
    finish: Finish = Finish.STOP
    state: str | None = None
    reward: float | None = None


class Trajectory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens of one episode, or of one `row` of it where the policy's context was not only added to.

    Shapes, all [N]: `token_ids`, `loss_mask` (True where the policy sampled the token), `logprobs` (nats, as the
    sampler had them; 0 where masked; `None` as a whole if the sampler gave none), `policy_versions` ("" where masked),
    `advantages` (0 where masked; `None` before they are known). `reward` is the total to train on; `None` when there
    is none: the house failed (`house` tells), or it is masked. `rewards` has the named scores, `None` = not measured.
    """

    episode: str
    group: str
    task: str
    row: int = 0
    token_ids: tuple[int, ...]
    loss_mask: tuple[bool, ...]
    policy_versions: tuple[str, ...]
    logprobs: tuple[float, ...] | None = None
    advantages: tuple[float, ...] | None = None
    turns: tuple[Span, ...] = ()
    reward: float | None = None
    rewards: dict[str, float | None] = {}
    solved: bool = False
    house: Fault | None = None
    stop: Stop | None = None

    def __post_init__(self) -> None:
        count = len(self.token_ids)
        for name in ("loss_mask", "policy_versions", "logprobs", "advantages"):
            value = getattr(self, name)
            if value is not None and len(value) != count:
                raise ValueError(f"trajectory {self.episode}: expected {count} {name}, found {len(value)}")

    @property
    def truncated(self) -> bool:
        """Whether a limit cut it: the episode's (turns, tokens, time), or the length of its last reply."""
        cut = bool(self.turns) and self.turns[-1].finish is Finish.LENGTH
        return cut or (self.stop is not None and self.stop.truncated)

    @property
    def prompt_length(self) -> int:
        """How many tokens stand before the first one that was sampled."""
        return self.turns[0].start if self.turns else len(self.token_ids)

    @property
    def trained_tokens(self) -> int:
        return sum(self.loss_mask)

    def with_advantage(self, advantage: float | Sequence[float] | None) -> Trajectory:
        """The same with an advantage on every sampled token: one for all, or one for each turn of this row. `None`
        takes it out of the loss. Raises ValueError for a number of advantages that is not the number of turns."""
        if advantage is None:
            return msgspec.structs.replace(self, advantages=None, reward=None)
        by_turn = [advantage] * len(self.turns) if isinstance(advantage, int | float) else list(advantage)
        if len(by_turn) != len(self.turns):
            raise ValueError(
                f"trajectory {self.episode}: expected an advantage for each of {len(self.turns)} turns, "
                f"found {len(by_turn)}")
        values = [0.0] * len(self.token_ids)
        for span, value in zip(self.turns, by_turn, strict=True):
            values[span.start:span.stop] = [float(value)] * (span.stop - span.start)
        return msgspec.structs.replace(self, advantages=tuple(values))


def trajectory_of(
    episode: Episode, *, states: Sequence[str] = (), step_rewards: Sequence[float] = (),
    versions: Mapping[int, Sequence[str]] | None = None,
) -> Trajectory:
    """The one trajectory of an episode. Raises ValueError where it has several (see `rows_of`), or as `rows_of`."""
    rows = rows_of(episode, states=states, step_rewards=step_rewards, versions=versions)
    if len(rows) != 1:
        turn = rows[1].turns[0].nth if len(rows) > 1 else 0
        raise ValueError(
            f"episode {episode.id}: expected each prompt to begin with all the tokens before it, found another prefix "
            f"at turn {turn} (a template that drops reasoning?): it has {len(rows)} rows, take rows_of"
        )
    return rows[0]


def rows_of(
    episode: Episode, *, states: Sequence[str] = (), step_rewards: Sequence[float] = (),
    versions: Mapping[int, Sequence[str]] | None = None,
) -> tuple[Trajectory, ...]:
    """The trajectories of an episode: one, as long as each turn's prompt begins with all the tokens before it; where
    one does not (a template dropped earlier reasoning, a history was cut short), a new row begins, so that every reply
    is trained behind exactly the tokens that it was sampled behind.

    `states` and `step_rewards` have one entry per turn (`states_of`; the process rewards of grade). `versions` gives,
    for turns during which the weights changed, the policy version of each output token.
    Raises ValueError for a turn without ids, log-probabilities of another number than ids, or no turn at all.
    """
    for name, given in (("states", states), ("step_rewards", step_rewards)):
        if given and len(given) != len(episode.turns):
            raise ValueError(f"episode {episode.id}: expected {len(episode.turns)} {name}, found {len(given)}")
    drafts: list[_Draft] = []
    for nth, turn in enumerate(episode.turns):
        prompt, output = _ids(episode, nth, turn)
        if prompt is None:
            continue
        if not drafts or not drafts[-1].goes_on(prompt):
            drafts.append(_Draft())
        drafts[-1].add(
            prompt, output, nth=nth, turn=turn, versions=_versions(episode, nth, turn, versions or {}),
            state=states[nth] if states else None, reward=step_rewards[nth] if step_rewards else None,
        )
    if not drafts:
        raise ValueError(f"episode {episode.id}: expected at least one sampled turn, found none")
    return tuple(draft.done(episode, row) for row, draft in enumerate(drafts))


def states_of(events: Iterable[Event]) -> tuple[str, ...]:
    """The digest (sha256, hex) of the state that each turn of an episode answered: the task's version, the work tree as
    last built, and the kind of the rejection if the latest reply was none. Equal digests are equal states, whenever
    they were reached. Only the last attempt in the log counts."""
    found: list[str] = []
    task, program, rejected = "", None, ""
    for event in events:
        match event:
            case Opened():
                found, task, program, rejected = [], event.task_version, None, ""
            case Sampled():
                found.append(_digest(task, program, rejected))
            case Built():
                program, rejected = event.program, ""
            case Rejected():
                rejected = event.fault.kind.value
    return tuple(found)


def _digest(task: str, program: Program | None, rejected: str) -> str:
    hashed = hashlib.sha256()
    for part in (task, rejected, "unbuilt" if program is None else "built"):
        hashed.update(part.encode() + b"\0")
    for path, content in sorted(program.files.items()) if program is not None else ():
        hashed.update(path.encode("utf-8", "surrogatepass") + b"\0" + hashlib.sha256(content).digest())
    return hashed.hexdigest()


def _ids(episode: Episode, nth: int, turn: Turn) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """Prompt and output ids of a turn; no prompt for an empty reply to a context that was full."""
    where = f"episode {episode.id}, turn {nth}"
    if turn.output_token_ids is None and not turn.text and turn.finish is Finish.LENGTH:
        return None, ()
    if turn.prompt_token_ids is None or turn.output_token_ids is None:
        missing = "prompt_token_ids" if turn.prompt_token_ids is None else "output_token_ids"
        raise ValueError(
            f"{where}: expected the token ids as sampled, found no {missing} "
            "(vLLM gives them for Sampling(extra={'return_token_ids': True}, logprobs=True))"
        )
    if turn.logprobs is not None and len(turn.logprobs) != len(turn.output_token_ids):
        raise ValueError(f"{where}: expected {len(turn.output_token_ids)} logprobs, found {len(turn.logprobs)}")
    return turn.prompt_token_ids, turn.output_token_ids


def _versions(
    episode: Episode, nth: int, turn: Turn, versions: Mapping[int, Sequence[str]],
) -> tuple[str, ...]:
    count = len(turn.output_token_ids or ())
    given = tuple(versions.get(nth, (turn.policy_version,) * count))
    if len(given) != count:
        raise ValueError(f"episode {episode.id}, turn {nth}: expected {count} policy versions, found {len(given)}")
    return given


class _Draft:
    """A row as it grows."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._mask: list[bool] = []
        self._versions: list[str] = []
        self._logprobs: list[float] = []
        self._all_logprobs = True
        self._spans: list[Span] = []

    def goes_on(self, prompt: Sequence[int]) -> bool:
        return list(prompt[:len(self._ids)]) == self._ids

    def add(
        self, prompt: Sequence[int], output: Sequence[int], *, nth: int, turn: Turn, versions: Sequence[str],
        state: str | None, reward: float | None,
    ) -> None:
        fresh = prompt[len(self._ids):]
        self._ids += [*fresh, *output]
        self._mask += [False] * len(fresh) + [True] * len(output)
        self._versions += [*[""] * len(fresh), *versions]
        self._logprobs += [*[0.0] * len(fresh), *(turn.logprobs or [0.0] * len(output))]
        self._all_logprobs &= turn.logprobs is not None or not output
        self._spans.append(Span(
            nth=nth, start=len(self._ids) - len(output), stop=len(self._ids), finish=turn.finish, state=state,
            reward=reward,
        ))

    def done(self, episode: Episode, row: int) -> Trajectory:
        reward = episode.reward
        broken = episode.broken
        return Trajectory(
            episode=episode.id, group=episode.group, task=episode.task, row=row, token_ids=tuple(self._ids),
            loss_mask=tuple(self._mask), policy_versions=tuple(self._versions),
            logprobs=tuple(self._logprobs) if self._all_logprobs else None, turns=tuple(self._spans),
            reward=reward.total if reward is not None and reward.trainable is Trainable.YES else None,
            rewards={score.name: score.value for score in reward.scores} if reward is not None else {},
            solved=episode.solved, house=broken if reward is None and broken and broken.owner is not Owner.POLICY
            else None, stop=episode.stop,
        )

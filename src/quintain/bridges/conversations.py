"""Episodes as rows that trainers of others read: messages, demonstrations, preference pairs, labelled answers. Pure.

Token ids and log-probabilities are those that were sampled, bit for bit, behind exactly the tokens that they were
sampled behind (`train.rows_of`); a mask of 1 marks what the policy sampled itself and may be trained on. Where a policy
had no ids, a row has messages alone. Attempts that the house or the task broke, and unfinished ones, are never in;
masked ones (soft flags: see docs/rooms/guard.md) only when asked for, and then with a mask of zeros.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from quintain.store import Standing, last_attempt, standing
from quintain.train import rows_of
from quintain.types import Episode, Event, Message, Opened, Role, Said, Sampled, Trainable, content_digest, fold


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message as OpenAI's chat API has it; `reasoning_content` as vLLM's answers have it beside the text."""

    role: Literal["system", "user", "assistant"]
    content: str
    reasoning_content: str | None = None


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What every row says of where it comes from. `reward` is the total, `None` where there is none."""

    run: str
    episode: str
    task: str
    group: str
    attempt: int
    policy: str
    policy_versions: tuple[str, ...]
    reward: float | None
    solved: bool
    trainable: str
    stop: str
    faults: tuple[str, ...]


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """One episode, said from beginning to end."""

    messages: tuple[Line, ...]
    facts: Facts
    episode: Episode


class MessagesRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of OpenAI-messages JSONL."""

    messages: tuple[Line, ...]
    facts: Facts


class SftRow(msgspec.Struct, frozen=True, kw_only=True):
    """One demonstration. Shapes [N]: `token_ids`, `loss_mask` (1 = trained), `logprobs` (nats, 0 where masked, `None`
    where the sampler gave none). An episode whose context was rewritten on the way has several `row`s."""

    messages: tuple[Line, ...]
    token_ids: tuple[int, ...] | None
    loss_mask: tuple[int, ...] | None
    logprobs: tuple[float, ...] | None
    row: int
    facts: Facts


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a pair. The tokens [N] are those of the whole episode, prompt and all; `None` where there are none,
    or the episode has several rows."""

    messages: tuple[Line, ...]
    token_ids: tuple[int, ...] | None
    loss_mask: tuple[int, ...] | None
    logprobs: tuple[float, ...] | None
    facts: Facts


class DpoRow(msgspec.Struct, frozen=True, kw_only=True):
    """Two attempts at one task, asked in the same words: `chosen` was paid `margin` more. `prompt`, `chosen` and
    `rejected` are what TRL's conversational preference format has; the tokens and facts of each stand beside them."""

    prompt: tuple[Line, ...]
    chosen: tuple[Line, ...]
    rejected: tuple[Line, ...]
    margin: float
    chosen_side: Side
    rejected_side: Side


class KtoRow(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt and whether it was right."""

    prompt: tuple[Line, ...]
    completion: tuple[Line, ...]
    label: bool
    side: Side


class Choosing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What goes into an extract. `least_reward` (`None`: solved ones for demonstrations, all for the others); `margin`
    is the least difference of rewards in a pair, `pairs` the most pairs of one task."""

    masked: bool = False
    least_reward: float | None = None
    margin: float = 0.05
    pairs: int = 4


DEFAULT = Choosing()


def conversations(logs: Iterable[tuple[str, Sequence[Event]]], *, masked: bool = False) -> Iterator[Conversation]:
    """The finished attempts of (run, log) that may be trained on, one each, in their order."""
    for run, log in logs:
        attempt = last_attempt(log)
        if not attempt or standing(attempt) is not Standing.FINISHED:
            continue
        episode = fold(attempt)
        reward = episode.reward
        if reward is None or episode.broken is not None:
            continue
        if reward.trainable is Trainable.DROP or (reward.trainable is Trainable.MASK and not masked):
            continue
        yield Conversation(messages=_messages(attempt), facts=_facts(run, episode), episode=episode)


def _messages(log: Sequence[Event]) -> tuple[Line, ...]:
    found: list[Line] = []
    for event in log:
        if isinstance(event, Opened):
            found += [_said(message) for message in event.conversation]
        elif isinstance(event, Sampled):
            found.append(Line(role="assistant", content=event.turn.text, reasoning_content=event.turn.reasoning))
        elif isinstance(event, Said):
            found.append(_said(event.message))
    return tuple(found)


def _said(message: Message) -> Line:
    roles: Mapping[Role, Literal["system", "user", "assistant"]] = {
        Role.SYSTEM: "system", Role.USER: "user", Role.ASSISTANT: "assistant"}
    return Line(role=roles[message.role], content=message.text)


def _facts(run: str, episode: Episode) -> Facts:
    reward = episode.reward
    return Facts(
        run=run, episode=episode.id, task=episode.task, group=episode.group, attempt=episode.attempt,
        policy=episode.policy, policy_versions=tuple(dict.fromkeys(turn.policy_version for turn in episode.turns)),
        reward=reward.total if reward else None, solved=episode.solved,
        trainable=reward.trainable.value if reward else "", stop=episode.stop.value if episode.stop else "",
        faults=tuple(str(fault) for fault in episode.faults))


def messages_rows(found: Iterable[Conversation], choosing: Choosing = DEFAULT) -> Iterator[MessagesRow]:
    """Each conversation once, whoever had it."""
    for one in _distinct(_paid(found, choosing)):
        yield MessagesRow(messages=one.messages, facts=one.facts)


def sft_rows(found: Iterable[Conversation], choosing: Choosing = DEFAULT) -> Iterator[SftRow]:
    """Demonstrations: the solved attempts, or those that were paid at least so much."""
    for one in _distinct(_paid(found, choosing)):
        if choosing.least_reward is None and not one.episode.solved:
            continue
        sides = _sides(one)
        for row, side in enumerate(sides):
            yield SftRow(messages=side.messages, token_ids=side.token_ids, loss_mask=side.loss_mask,
                         logprobs=side.logprobs, row=row, facts=side.facts)


def dpo_rows(found: Iterable[Conversation], choosing: Choosing = DEFAULT) -> Iterator[DpoRow]:
    """Pairs within one task and one prompt, the widest margins first, no pair twice."""
    by_prompt: dict[str, list[Conversation]] = defaultdict(list)
    for one in _distinct(_paid(found, choosing)):
        asked = [_key(said) for said in _split(one)[0]]
        by_prompt[content_digest([one.facts.task, one.episode.task_version, asked])].append(one)
    for same in by_prompt.values():
        pairs = [(better, worse) for better in same for worse in same
                 if _reward(better) - _reward(worse) >= max(choosing.margin, 1e-9)]
        pairs.sort(key=lambda pair: _reward(pair[1]) - _reward(pair[0]))
        for better, worse in pairs[:choosing.pairs]:
            prompt, chosen = _split(better)
            yield DpoRow(prompt=prompt, chosen=chosen, rejected=_split(worse)[1],
                         margin=_reward(better) - _reward(worse), chosen_side=_side(better), rejected_side=_side(worse))


def kto_rows(found: Iterable[Conversation], choosing: Choosing = DEFAULT) -> Iterator[KtoRow]:
    """Each attempt with its label."""
    for one in _distinct(_paid(found, choosing)):
        prompt, completion = _split(one)
        if completion:
            yield KtoRow(prompt=prompt, completion=completion, label=one.episode.solved, side=_side(one))


def _reward(one: Conversation) -> float:
    return one.facts.reward or 0.0


def _paid(found: Iterable[Conversation], choosing: Choosing) -> Iterator[Conversation]:
    for one in found:
        if choosing.least_reward is None or _reward(one) >= choosing.least_reward:
            yield one


def _distinct(found: Iterable[Conversation]) -> Iterator[Conversation]:
    """Of conversations that say the same (same task, words and tokens) the first."""
    seen: set[str] = set()
    for one in found:
        ids = [turn.output_token_ids for turn in one.episode.turns]
        digest = content_digest([one.facts.task, one.episode.task_version, [_key(said) for said in one.messages], ids])
        if digest not in seen:
            seen.add(digest)
            yield one


def _key(said: Line) -> str:
    """A message as text that any encoder takes: policies may have said half a surrogate pair."""
    return f"{said.role}\0{said.content!r}\0{said.reasoning_content!r}".encode("utf-8", "backslashreplace").decode()


def _split(one: Conversation) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """What was asked, and everything from the first reply on."""
    first = next((at for at, said in enumerate(one.messages) if said.role == "assistant"), len(one.messages))
    return one.messages[:first], one.messages[first:]


def _side(one: Conversation) -> Side:
    sides = _sides(one)
    return sides[0] if len(sides) == 1 else msgspec.structs.replace(
        sides[0], token_ids=None, loss_mask=None, logprobs=None)


def _sides(one: Conversation) -> tuple[Side, ...]:
    """The rows of its tokens; one without tokens where its policy had none."""
    plain = Side(messages=one.messages, token_ids=None, loss_mask=None, logprobs=None, facts=one.facts)
    if not any(turn.output_token_ids for turn in one.episode.turns):
        return (plain,)
    try:
        rows = rows_of(one.episode)
    except ValueError:  # some turns have ids and others none: no exact row can be made
        return (plain,)
    trained = one.facts.trainable == Trainable.YES.value
    return tuple(Side(
        messages=one.messages, token_ids=row.token_ids, logprobs=row.logprobs, facts=one.facts,
        loss_mask=tuple(int(mask and trained) for mask in row.loss_mask)) for row in rows)

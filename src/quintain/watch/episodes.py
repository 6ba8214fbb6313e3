"""The meters of episodes: a fold over their events, live or read again from a journal, with the same figures."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from quintain.types import (
    CLASS_OF,
    Broke,
    Built,
    Closed,
    Event,
    Fault,
    FaultKind,
    Graded,
    Opened,
    Outcome,
    Owner,
    Ran,
    Rejected,
    Reward,
    Said,
    Sampled,
    Severity,
    Verdict,
)
from quintain.watch.meters import Meters

#: Faults that say that a sandbox, a verifier or a node was lost. Others of the house (an endpoint that is away, a full
#: disk, a run that was ended) say nothing of what was played.
CRASHES = frozenset({
    FaultKind.SANDBOX_CREATE_FAILED, FaultKind.SANDBOX_LOST, FaultKind.VERIFIER_ERROR, FaultKind.NODE_LOST,
    FaultKind.HEALTH_CHECK_FAILED, FaultKind.TASK_ENVIRONMENT, FaultKind.UNKNOWN,
})
#: Groups of which the spread is still followed; older ones stay counted as they were.
_GROUPS = 20_000


class Attempted(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt that has ended says of what it was played on. `crashed` is `None` where it says nothing."""

    episode: str
    task: str
    kind: str
    began_unix_seconds: float
    crashed: bool | None
    fault: str = ""
    ended_unix_seconds: float = 0.0


class _Open:
    __slots__ = ("at", "crashed", "fault", "lost", "opened", "turns", "visible")

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.at = opened.at_seconds
        self.turns = 0
        self.visible: float | None = None
        self.fault = ""
        self.crashed: bool | None = False
        self.lost = False


class EpisodeMeters:
    """Feed it the events of a run in the order of its journal. What is metered depends on nothing else."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._open: dict[str, _Open] = {}
        self._groups: OrderedDict[str, tuple[float, bool]] = OrderedDict()

    def feed(self, event: Event) -> Attempted | None:
        """Take in one event; what can be said of an attempt when it ends. Events of an episode whose opening was not
        seen are passed over."""
        if isinstance(event, Opened):
            self._opened(event)
            return None
        open_ = self._open.get(event.episode)
        if open_ is None:
            return None
        kind = open_.opened.kind
        since, open_.at = max(0.0, event.at_seconds - open_.at), max(event.at_seconds, open_.at)
        match event:
            case Sampled(turn=turn):
                self._stage("sample", since)
                open_.turns += 1
                tokens = turn.output_tokens if turn.output_tokens is not None else len(turn.output_token_ids or ())
                if tokens:
                    self._meters.add("quintain_sampled_tokens_total", tokens, kind=kind)
            case Built():
                self._stage("build", since)
            case Rejected(fault=fault):
                self._stage("build", since)
                self._fault(kind, fault)
            case Ran(outcome=outcome, verdict=verdict):
                self._stage("run", since)
                self._ran(open_, outcome, verdict)
            case Graded(verdict=verdict, reward=reward, final=final):
                self._stage("grade", since)
                if final:
                    self._graded(open_, verdict, reward)
            case Said():
                self._stage("say", since)
            case Broke(fault=fault):
                self._broke(open_, fault)
            case Closed():
                return self._closed(open_, event)
        return None

    def _opened(self, event: Opened) -> None:
        if event.episode not in self._open:
            self._meters.add("quintain_attempts_open", 1, kind=event.kind)
        self._open[event.episode] = _Open(event)
        self._meters.add("quintain_attempts_opened_total", kind=event.kind)

    def _stage(self, stage: str, seconds: float) -> None:
        self._meters.observe("quintain_stage_seconds", seconds, stage=stage)

    def _fault(self, kind: str, fault: Fault) -> None:
        labels = {"kind": kind, "owner": fault.owner.value, "class": CLASS_OF[fault.kind], "fault": fault.kind.value}
        self._meters.add("quintain_faults_total", 1.0, **labels)

    def _ran(self, open_: _Open, outcome: Outcome | None, verdict: Verdict | None) -> None:
        if verdict is not None and verdict.tests:
            open_.visible = verdict.share
        if outcome is None:
            return
        meters, kind = self._meters, open_.opened.kind
        meters.add("quintain_commands_total", kind=kind, status=outcome.status.value)
        meters.observe("quintain_command_seconds", outcome.wall_seconds, kind=kind)
        if outcome.cpu_seconds is not None:
            meters.add("quintain_command_cpu_seconds_total", outcome.cpu_seconds, kind=kind)
        for metric, value in (("quintain_command_memory_bytes", outcome.peak_memory_bytes),
                              ("quintain_command_processes", outcome.peak_processes),
                              ("quintain_command_disk_bytes", outcome.disk_used_bytes)):
            if value is not None:
                meters.observe(metric, value, kind=kind)
        if outcome.stdout_truncated or outcome.stderr_truncated:
            meters.add("quintain_outputs_cut_total", kind=kind)
        if outcome.denials:
            meters.add("quintain_denials_total", sum(outcome.denials.values()), kind=kind)

    def _graded(self, open_: _Open, verdict: Verdict, reward: Reward) -> None:
        meters, kind = self._meters, open_.opened.kind
        meters.add("quintain_attempts_graded_total", kind=kind)
        meters.observe("quintain_reward", reward.total, kind=kind)
        if reward.solved:
            meters.add("quintain_attempts_solved_total", kind=kind)
        for score in reward.scores:
            if score.value is not None:
                meters.observe("quintain_score_share", score.value, score=score.name)
        for flag in reward.flags:
            meters.add("quintain_flags_total", kind=kind, detector=flag.detector, severity=flag.severity.value)
        if any(flag.severity is Severity.HARD for flag in reward.flags):
            meters.add("quintain_attempts_flagged_total", kind=kind)
        if open_.visible is not None and verdict.tests:
            meters.observe("quintain_visible_share", open_.visible, kind=kind)
            meters.observe("quintain_hidden_share", verdict.share, kind=kind)
        if verdict.fault is not None:
            self._fault(kind, verdict.fault)
        self._spread(open_.opened.group, reward.total)

    def _spread(self, group: str, reward: float) -> None:
        known = self._groups.get(group)
        if known is None:
            self._groups[group] = (reward, False)
            if len(self._groups) > _GROUPS:
                self._groups.popitem(last=False)
            return
        first, is_counted = known
        if first != first:  # its rewards differ already (NaN marks it): nothing can change that
            return
        if reward != first:
            if is_counted:
                self._meters.add("quintain_groups", -1, spread="none")
            self._meters.add("quintain_groups", 1, spread="some")
            self._groups[group] = (float("nan"), True)
        elif not is_counted:
            self._meters.add("quintain_groups", 1, spread="none")
            self._groups[group] = (first, True)

    def _broke(self, open_: _Open, fault: Fault) -> None:
        self._fault(open_.opened.kind, fault)
        open_.fault = f"{fault.kind.value}: {fault.message}"
        open_.lost = fault.owner is Owner.HOUSE
        open_.crashed = True if fault.kind in CRASHES else None

    def _closed(self, open_: _Open, event: Closed) -> Attempted:
        meters, opened = self._meters, open_.opened
        kind = opened.kind
        del self._open[event.episode]
        meters.add("quintain_attempts_open", -1, kind=kind)
        meters.add("quintain_attempts_closed_total", kind=kind, stop=event.stop.value)
        meters.observe("quintain_attempt_seconds", max(0.0, event.at_seconds), kind=kind)
        meters.observe("quintain_attempt_turns", open_.turns, kind=kind)
        if open_.lost:
            meters.add("quintain_attempts_lost_total", kind=kind)
        if open_.crashed:
            meters.add("quintain_attempts_crashed_total", kind=kind)
        return Attempted(
            episode=event.episode, task=opened.task, kind=kind, began_unix_seconds=opened.unix_seconds,
            crashed=open_.crashed, fault=open_.fault, ended_unix_seconds=opened.unix_seconds + event.at_seconds,
        )

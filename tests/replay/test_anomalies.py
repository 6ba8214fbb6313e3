"""What does not look right in a run, also where its journal is damaged; and runs that are judged again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.cli.anomalies import command as anomalies_command
from quintain.cli.rescore import command as rescore_command
from quintain.grade import solved_only
from quintain.replay import Kind, Rescored, anomalies, rejudged, repaid, salvage, summary_of
from quintain.tasks import write_taskset
from quintain.types import (
    Built,
    Closed,
    Event,
    Fault,
    FaultKind,
    Graded,
    Message,
    Opened,
    Outcome,
    Owner,
    Passed,
    Program,
    Ran,
    Rejected,
    Reward,
    Role,
    Sampled,
    Score,
    Status,
    Stop,
    TestResult,
    Turn,
    Verdict,
)

from .made import Scene, adding, code_item, kept, needs_native, played


def log_of(
    name: str, *, total: float = 0.8, solved: bool = True, body: bytes = b"x", stop: Stop = Stop.SOLVED,
    seconds: float = 1.0, tokens: int = 10, built: bool = True, passed: bool | None = None,
) -> list[Event]:
    """One attempt at the task t as a journal has it."""
    good = solved if passed is None else passed
    came = TestResult(id="a", passed=Passed.PASSED if good else Passed.FAILED)
    verdict = Verdict(suite="s", level="L4", tests=(came,))
    reward = Reward(total=total, solved=solved, scores=(Score(name="solved", value=1.0, contribution=total),))
    fault = Fault(owner=Owner.POLICY, kind=FaultKind.NO_CODE, message="none")
    events: list[Event] = [
        Opened(episode=name, index=0, at_seconds=0.0, task="t", task_version="1", kind="code", group="t", attempt=1,
               seed=0, policy="p", unix_seconds=0.0, conversation=(Message(role=Role.USER, text="do"),)),
        Sampled(episode=name, index=1, at_seconds=0.1, turn=Turn(text="r", output_tokens=tokens)),
        Built(episode=name, index=2, at_seconds=0.2, program=Program(files={"s.py": body})) if built else
        Rejected(episode=name, index=2, at_seconds=0.2, fault=fault),
        Graded(episode=name, index=3, at_seconds=seconds, verdict=verdict, reward=reward, final=True),
        Closed(episode=name, index=4, at_seconds=seconds, stop=stop),
    ]
    return events


def kinds(logs: Sequence[Sequence[Event]]) -> set[Kind]:
    found = anomalies({"runs/r": {log[0].episode: log for log in logs}})
    assert all(one.replay.startswith("quintain replay") and "--step" in one.replay for one in found)
    assert all(one.evidence for one in found)
    return {one.kind for one in found}


def test_a_sound_run_has_no_anomaly() -> None:
    assert kinds([log_of(f"t#{nth}", body=b"%d" % nth, seconds=1.0 + nth / 10) for nth in range(8)]) == set()


@pytest.mark.parametrize(("odd", "kind"), [
    ({"passed": False}, Kind.INCONSISTENT_REWARD),
    ({"total": -0.5}, Kind.INCONSISTENT_REWARD),
    ({"stop": Stop.TURNS}, Kind.TRUNCATED_SOLVED),
    ({"built": False}, Kind.PAID_UNEXECUTED),
    ({"body": b"0", "solved": False, "total": 0.0, "stop": Stop.TURNS}, Kind.VERDICT_FLIP),
    ({"body": b"0", "total": 0.7}, Kind.REWARD_FLIP),
    ({"seconds": 50.0}, Kind.COST_OUTLIER),
    ({"tokens": 90_000}, Kind.COST_OUTLIER),
    ({"total": 0.05, "solved": False, "stop": Stop.TURNS}, Kind.EXTREME_REWARD),
])
def test_each_kind_is_found_among_its_siblings(odd: dict[str, object], kind: Kind) -> None:
    siblings = [log_of(f"t#{nth}", body=b"%d" % nth) for nth in range(8)]
    assert kind in kinds([*siblings, log_of("t#9", **{"body": b"9", **odd})])  # type: ignore[arg-type]


def test_a_long_silence_and_a_clock_that_went_back_are_found() -> None:
    log = log_of("t#0")
    quiet = Ran(episode="t#0", index=3, at_seconds=99.0, outcome=Outcome(status=Status.OK, exit_code=0))
    late = [msgspec.structs.replace(event, index=event.index + 1, at_seconds=99.5) for event in log[3:]]
    assert kinds([[*log[:3], quiet, *late]]) == {Kind.SILENT_STEP}
    assert Kind.CLOCK_BACKWARDS in kinds([[*log[:3], msgspec.structs.replace(log[3], at_seconds=0.05), log[4]]])


def test_a_damaged_journal_loses_only_what_is_damaged(tmp_path: Path) -> None:
    run = kept(tmp_path, [log_of(f"t#{nth}", body=b"%d" % nth * 9_000) for nth in range(4)])
    assert set(salvage(run).logs) == {"t#0", "t#1", "t#2", "t#3"}
    journal = run / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[6] = lines[6].replace(b'"turn"', b'"torn"')  # of t#1
    journal.write_bytes(b"".join(lines) + b'{"crc":"00')
    (run / "run.json").write_text("{")
    for blob in list((run / "blobs").rglob("*"))[-1:]:
        blob.unlink()
    read = salvage(run)
    assert {"t#0", "t#1"} <= set(read.logs)
    assert len(read.logs["t#1"]) == 1
    assert read.definition is None
    assert len(read.problems) >= 4
    found = anomalies({"r": read.logs}, problems={"r": read.problems})
    assert {one.kind for one in found} == {Kind.UNREADABLE}
    assert salvage(tmp_path / "nowhere").logs == {}


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_damage_whatever_makes_it_crash(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    run = kept(folder, [log_of(f"t#{nth}") for nth in range(2)])
    content = bytearray((run / "journal.jsonl").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        what = data.draw(st.sampled_from(("flip", "cut", "drop", "newline")))
        if what == "flip":
            content[at] ^= data.draw(st.integers(1, 255))
        elif what == "cut":
            del content[at:]
            content = content or bytearray(b"x")
        elif what == "drop":
            del content[at:at + 200]
            content = content or bytearray(b"x")
        else:
            content[at:at] = b"\n"
    (run / "journal.jsonl").write_bytes(content)
    read = salvage(run)
    anomalies({"r": read.logs}, problems={"r": read.problems})


def test_another_reward_needs_no_sandbox() -> None:
    logs = [log_of("t#0"), log_of("t#1", solved=False, total=0.1, stop=Stop.TURNS)]
    made = [one for log in logs if (one := repaid(log, scalar=solved_only)) is not None]
    assert [one.after.total for one in made if one.after] == [1.0, 0.0]
    assert isinstance(made[0].log[3], Graded)
    assert made[0].log[3].reward.total == 1.0
    summary = summary_of(made)
    assert (summary.changed, summary.lost, summary.alarm) == (2, (), False)
    assert repaid(logs[0][:3], scalar=solved_only) is None


@needs_native
def test_another_suite_judges_last_answers_again_and_lost_ones_raise_an_alarm(tmp_path: Path) -> None:
    async def act(scene: Scene) -> tuple[list[Event], Rescored | None, Rescored | None]:
        log = await scene.record(code_item(), [adding("a - b"), adding("a + b")])
        harder = msgspec.structs.replace(code_item(), exam=code_item(wanted=43).exam)
        return (log, await rejudged(scene.environment, code_item(), log),
                await rejudged(scene.environment, harder, log))

    log, same, harder = played(tmp_path, act)
    assert same is not None
    assert not same.changed
    assert harder is not None
    assert harder.after is not None
    assert not harder.after.solved
    assert harder.log[-1].stop is Stop.SUBMITTED  # type: ignore[union-attr]
    assert summary_of([harder]).alarm
    run = kept(tmp_path / "runs", [log], taskset=str(tmp_path / "tasks"))
    write_taskset([code_item(wanted=43)], tmp_path / "harder")
    from click.testing import CliRunner

    done = CliRunner().invoke(rescore_command, [
        str(run), "--suite", str(tmp_path / "harder"), "--out", str(tmp_path / "runs" / "again"), "--json"])
    assert done.exit_code == 1, done.output
    assert json.loads(done.output)["summary"]["lost"] == ["add#0"]
    assert len(salvage(tmp_path / "runs" / "again").logs["add#0"]) == len(log)
    write_taskset([code_item(wanted=43)], tmp_path / "tasks")  # what the run was judged by says something else now
    done = CliRunner().invoke(anomalies_command, [str(run), "--replay", "1", "--kind", "replay_flip", "--json"])
    assert done.exit_code == 4, done.output
    told = json.loads(done.stdout)
    assert (told["replayed"], told["not_replayed"]) == (1, [])
    assert [(one["episode"], one["step"]) for one in told["anomalies"]] == [("add#0", 2)]
    assert any("grader" in line or "task" in line for line in told["anomalies"][0]["evidence"])

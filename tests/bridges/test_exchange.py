"""Episodes in other people's formats: nothing is lost, nothing is made up, and what must not be trained on is not."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.bridges import (
    Choosing,
    arrow_schema,
    from_atif,
    read_atif,
    rows,
    to_atif,
    write_atif,
    write_documents,
    write_jsonl,
    write_parquet,
)
from quintain.cli.export import command as export_command
from quintain.store import Definition, Run
from quintain.types import (
    Broke,
    Built,
    Closed,
    Event,
    Fault,
    FaultKind,
    Finish,
    Flag,
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
    Said,
    Sampled,
    Score,
    Severity,
    Status,
    Stop,
    TestResult,
    Trainable,
    Turn,
    Verdict,
)

LOGPROBS = (-0.1, -1e-17, -3.3333333333333335)


def turn(text: str, prompt: tuple[int, ...], output: tuple[int, ...]) -> Turn:
    return Turn(text=text, reasoning="hm", prompt_token_ids=prompt, output_token_ids=output,
                logprobs=LOGPROBS[:len(output)], policy_version="v7", prompt_tokens=len(prompt))


def log_of(
    name: str = "t#0", *, task: str = "t", total: float = 0.8, solved: bool = True, last: str = "```sh\nls\n```",
    trainable: Trainable = Trainable.YES, tokens: bool = True, broke: bool = False,
) -> list[Event]:
    """Two turns: one that is rejected, and a command that is run and judged."""
    fault = Fault(owner=Owner.POLICY, kind=FaultKind.NO_CODE, message="none \x00 \u2028", file="a", line=3)
    program = Program(files={"turns/0001.sh": b"ls \xff\n"}, argv=("bash",), language="shell")
    verdict = Verdict(suite="s", level="L4", tests=(TestResult(id="a", passed=Passed.PASSED),), cpu_seconds=0.25)
    flags = (Flag(detector="d", severity=Severity.SOFT, evidence="e"),) if trainable is Trainable.MASK else ()
    reward = Reward(total=total, solved=solved, trainable=trainable, flags=flags,
                    scores=(Score(name="solved", value=1.0, contribution=total),))
    outcome = Outcome(status=Status.OK, exit_code=0, stdout=b"f\xff\n", wall_seconds=0.123456789)
    first, second = turn("no", (1, 2, 3), (4, 5)), turn(last, (1, 2, 3, 4, 5, 6), (7, 8, 9))
    if not tokens:
        first, second = Turn(text="no"), Turn(text=last, finish=Finish.LENGTH)
    made: list[dict[str, object]] = [
        {"kind": Opened, "task": task, "task_version": "1", "group": task, "attempt": 1, "seed": 7, "policy": "p",
         "unix_seconds": 1.7e9 + 0.123, "conversation": (
             Message(role=Role.SYSTEM, text="You …"), Message(role=Role.USER, text="List."))},
        {"kind": Sampled, "turn": first}, {"kind": Rejected, "fault": fault},
        {"kind": Said, "message": Message(role=Role.USER, text="[no_code] none")},
        {"kind": Sampled, "turn": second}, {"kind": Built, "program": program, "notes": ("n",)},
        {"kind": Ran, "outcome": outcome, "files": "ab" * 32},
    ]
    made += [{"kind": Broke, "fault": Fault(owner=Owner.HOUSE, kind=FaultKind.SANDBOX_LOST, message="gone")},
             {"kind": Closed, "stop": Stop.BROKEN}] if broke else [
        {"kind": Graded, "verdict": verdict, "reward": reward, "final": True}, {"kind": Closed, "stop": Stop.SOLVED}]
    events: list[Event] = []
    for index, fields in enumerate(made):
        kind = fields.pop("kind")
        more = {"kind": "shell"} if kind is Opened else {}
        events.append(kind(episode=name, index=index, at_seconds=index / 7, **fields, **more))  # type: ignore[operator]
    return events


def logs(*many: Sequence[Event]) -> list[tuple[str, Sequence[Event]]]:
    return [("runs/r", log) for log in many]


@pytest.mark.parametrize("version", ["ATIF-v1.7", "ATIF-v1.8"])
@pytest.mark.parametrize("broke", [False, True])
@pytest.mark.parametrize("tokens", [False, True])
def test_a_log_survives_the_round_trip_through_atif(version: str, broke: bool, tokens: bool) -> None:
    log = log_of(broke=broke, tokens=tokens)
    document = read_atif(write_atif(to_atif(log, run="r", version=version)))  # type: ignore[arg-type]
    assert document.schema_version == version
    assert list(from_atif(document)) == log


@settings(max_examples=50, deadline=None)
@given(text=st.text(st.characters(codec=None), max_size=20), at=st.floats(0, 1e6),
       logprobs=st.lists(st.floats(-1e3, 0), min_size=3, max_size=3), ids=st.lists(st.integers(0, 2**40), min_size=3,
                                                                                   max_size=3))
def test_any_words_and_numbers_survive(text: str, at: float, logprobs: list[float], ids: list[int]) -> None:
    log = log_of()
    said = Turn(text=text, reasoning=text, prompt_token_ids=(), output_token_ids=tuple(ids), logprobs=tuple(logprobs))
    log[4] = msgspec.structs.replace(log[4], turn=said, at_seconds=at)  # type: ignore[call-arg]
    log[3] = msgspec.structs.replace(log[3], message=Message(role=Role.ASSISTANT, text=text))  # type: ignore[call-arg]
    joins = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") != text
    if not joins:  # halves of a pair side by side are one character in JSON; the journal refuses them as well
        assert list(from_atif(read_atif(write_atif(to_atif(log))))) == log


def test_atif_says_in_its_own_words_what_it_has_words_for() -> None:
    document = to_atif(log_of(), run="r")
    first, agent = document.steps[0], document.steps[-1]
    assert (first.source, first.message) == ("system", "You …")
    assert [step.step_id for step in document.steps] == list(range(1, len(document.steps) + 1))
    assert agent.metrics is not None
    assert agent.metrics.completion_token_ids == (7, 8, 9)
    assert agent.metrics.logprobs == LOGPROBS
    assert agent.metrics.extra == {"loss_mask": [1, 1, 1]}
    assert agent.tool_calls is not None
    assert agent.tool_calls[0].function_name == "bash"
    assert agent.observation is not None
    assert agent.observation.results[0].content == "f\ufffd\n"
    assert agent.extra is not None
    assert agent.extra["quintain"]["reward"]["total"] == 0.8


def test_a_document_of_anothers_becomes_a_log() -> None:
    document = read_atif(json.dumps({
        "schema_version": "ATIF-v1.6", "session_id": "s", "agent": {"name": "a", "version": "1", "model_name": "m"},
        "steps": [
            {"step_id": 1, "source": "user", "message": [{"type": "text", "text": "go"}, {"type": "image", "source": {
                "media_type": "image/png", "path": "x.png"}}]},
            {"step_id": 2, "source": "agent", "message": "I look", "timestamp": "2026-11-30T10:00:00Z",
             "tool_calls": [{"tool_call_id": "c", "function_name": "bash", "arguments": {"command": "ls"}}],
             "observation": {"results": [{"source_call_id": "c", "content": "a b"}]},
             "metrics": {"completion_token_ids": [1, 2], "logprobs": [-0.5, -0.25]}}],
    }).encode())
    events = from_atif(document)
    assert [type(event).__name__ for event in events] == ["Opened", "Sampled", "Said", "Closed"]
    said = events[1]
    assert isinstance(said, Sampled)
    assert said.turn.output_token_ids == (1, 2)
    assert '"command": "ls"' in said.turn.text
    assert said.turn.policy_version == "m"
    told = events[2]
    assert isinstance(told, Said)
    assert told.message.text == "a b"


@pytest.mark.parametrize(("spoil", "said"), [
    ({"steps": []}, "expected at least one"), ({"schema_version": "ATIF-v9"}, "Invalid enum value"),
    ({"more": 1}, "unknown field"),
    ({"steps": [{"step_id": 2, "source": "user", "message": ""}]}, "expected 1, found 2"),
    ({"steps": [{"step_id": 1, "source": "user", "message": "", "reasoning_content": "x"}]}, "steps of agents only"),
    ({"steps": [{"step_id": 1, "source": "user", "message": "", "timestamp": "noon"}]}, "ISO 8601"),
    ({"steps": [{"step_id": 1, "source": "agent", "message": "", "observation": {"results": [
        {"source_call_id": "z"}]}}]}, "a call of this step"),
])
def test_a_document_against_the_rules_is_refused(spoil: dict[str, object], said: str) -> None:
    plain = {"schema_version": "ATIF-v1.8", "agent": {"name": "a", "version": "1"},
             "steps": [{"step_id": 1, "source": "user", "message": "x"}], **spoil}
    with pytest.raises(ValueError, match=said):
        read_atif(json.dumps(plain).encode())


def test_harbors_own_models_accept_what_is_written(tmp_path: Path) -> None:
    python = _harbor()
    if python is None:
        pytest.skip("harbor (Python ≥ 3.12) is not installed; set QUINTAIN_HARBOR_PYTHON to an interpreter that has it")
    write_documents(tmp_path, logs(log_of(), log_of("t#1", broke=True), log_of("t#2", tokens=False)))
    write_documents(tmp_path, logs(log_of("t#3")), version="ATIF-v1.7")
    program = ("import sys, pathlib\nfrom harbor.models.trajectories import Trajectory\n"
               "for path in pathlib.Path(sys.argv[1]).glob('*.json'):\n"
               "    Trajectory.model_validate_json(path.read_text())\n    print('ok')\n")
    done = subprocess.run([python, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["ok"] * 4


def _harbor() -> str | None:
    import importlib.util
    import os
    import sys

    named = os.environ.get("QUINTAIN_HARBOR_PYTHON")
    return named or (sys.executable if importlib.util.find_spec("harbor") else None)


def test_demonstrations_have_exact_tokens_and_masks() -> None:
    (row,) = rows("sft", logs(log_of()))
    assert row["token_ids"] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert row["loss_mask"] == [0, 0, 0, 1, 1, 0, 1, 1, 1]
    assert row["logprobs"] == [0.0, 0.0, 0.0, *LOGPROBS[:2], 0.0, *LOGPROBS]
    assert [said["role"] for said in row["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert row["messages"][2]["reasoning_content"] == "hm"
    assert (row["task"], row["reward"], row["policy_versions"]) == ("t", 0.8, ["v7"])


def test_what_must_not_be_trained_on_is_left_out_and_what_was_said_before_is_said_once() -> None:
    many = logs(log_of(), log_of("t#1"), log_of("t#2", broke=True), log_of("t#3", trainable=Trainable.MASK, last="x"),
                log_of("t#4", solved=False, total=0.1, last="y"), log_of("t#5")[:-1],
                log_of("t#6", trainable=Trainable.DROP, last="z"))
    assert [row["episode"] for row in rows("sft", many)] == ["t#0"]
    assert [row["episode"] for row in rows("messages", many)] == ["t#0", "t#4"]
    masked = [row for row in rows("sft", many, Choosing(masked=True)) if row["episode"] == "t#3"]
    assert masked[0]["loss_mask"] == [0] * 9
    assert [(row["episode"], row["label"]) for row in rows("kto", many)] == [("t#0", True), ("t#4", False)]
    assert [row["episode"] for row in rows("sft", many, Choosing(least_reward=0.05))] == ["t#0", "t#4"]


def test_pairs_are_made_within_one_task_and_the_better_one_is_chosen() -> None:
    many = logs(log_of(), log_of("t#1", solved=False, total=0.1, last="y"),
                log_of("u#0", task="u", total=0.2, last="z"), log_of("t#2", solved=False, total=0.1, last="w"))
    pairs = list(rows("dpo", many))
    assert [(row["chosen_episode"], row["rejected_episode"]) for row in pairs] == [("t#0", "t#1"), ("t#0", "t#2")]
    assert pairs[0]["margin"] == pytest.approx(0.7)
    assert pairs[0]["prompt"] == [{"role": "system", "content": "You …"}, {"role": "user", "content": "List."}]
    assert pairs[0]["chosen_token_ids"][-3:] == [7, 8, 9]
    assert len(list(rows("dpo", many, Choosing(pairs=1)))) == 1
    with pytest.raises(ValueError, match="expected one of messages, sft, dpo, kto"):
        rows("ppo", many)


def test_parquet_has_fixed_columns_that_datasets_reads(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (the extra library)")
    many = logs(log_of(last="half \ud800"), log_of("t#1", tokens=False),
                log_of("t#2", solved=False, total=0.1, last="y"))
    for kind in ("messages", "sft", "dpo", "kto"):
        count = write_parquet(tmp_path / f"{kind}.parquet", kind, rows(kind, many))
        table = parquet.read_table(tmp_path / f"{kind}.parquet")
        assert table.num_rows == count > 0
        assert table.schema.equals(arrow_schema(kind))
    table = parquet.read_table(tmp_path / "sft.parquet").to_pylist()
    assert tuple(table[0]["logprobs"][-3:]) == LOGPROBS
    assert table[1]["token_ids"] is None


def test_hugging_faces_own_package_reads_the_parquet(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs Hugging Face's datasets: pip install datasets")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra library)")
    many = logs(log_of(), log_of("t#1", tokens=False), log_of("t#2", solved=False, total=0.1, last="y"))
    for kind in ("messages", "sft", "dpo", "kto"):
        count = write_parquet(tmp_path / f"{kind}.parquet", kind, rows(kind, many))
        found = datasets.Dataset.from_parquet(str(tmp_path / f"{kind}.parquet"), cache_dir=str(tmp_path / "cache"))
        assert found.num_rows == count > 0
        for row, wanted in zip(found, rows(kind, many), strict=True):
            assert {name for name, value in row.items() if value is not None} <= set(wanted)
            for name in ("token_ids", "loss_mask", "logprobs"):
                if wanted.get(name) is not None:
                    assert list(row[name]) == list(wanted[name])


def test_the_command_writes_each_format(tmp_path: Path) -> None:
    with Run.create(tmp_path, Definition(taskset="t", policy="p"), name="run") as run:
        for log in (log_of(), log_of("t#1", solved=False, total=0.1, last="y"), log_of("t#2", broke=True)):
            for event in log:
                run.journal.append(event)
    expected = {"messages": 2, "sft": 1, "dpo": 1, "kto": 2, "atif": 3}
    for form, count in expected.items():
        done = CliRunner().invoke(export_command, [str(run.path), "--format", form, "--out",
                                                   str(tmp_path / f"out.{form}"), "--json"])
        assert done.exit_code == 0, done.output
        assert json.loads(done.output)["rows"] == count
    lines = (tmp_path / "out.kto").read_bytes().splitlines()
    assert [json.loads(line)["label"] for line in lines] == [True, False]


def test_a_condition_in_sql_chooses_the_episodes(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="duckdb is not installed (the extra library)")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra library)")
    with Run.create(tmp_path, Definition(taskset="t", policy="p"), name="run") as run:
        for log in (log_of(), log_of("u#0", task="u", last="y")):
            for event in log:
                run.journal.append(event)
    done = CliRunner().invoke(export_command, [str(tmp_path), "--format", "sft", "--where", "task = 'u'", "--out",
                                               str(tmp_path / "out.jsonl"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "out.jsonl").read_text())["episode"] == "u#0"


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    def breaking() -> object:
        yield {"a": 1}
        raise RuntimeError("the journal ended")

    with pytest.raises(RuntimeError, match="the journal ended"):
        write_jsonl(tmp_path / "x.jsonl", breaking())  # type: ignore[arg-type]
    assert not (tmp_path / "x.jsonl").exists()

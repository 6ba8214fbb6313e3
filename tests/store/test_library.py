"""The library: every event of every run, once, whoever was killed and whatever was damaged."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.store import Definition, Library, Mode, Result, Run, Segment, made_by, origin
from quintain.store import _manifest as manifest
from quintain.store._attempts import Assembly
from quintain.store._merge import FEW
from quintain.store._record import Slim
from quintain.store._sources import Kept
from quintain.store.segment import Frame, frames
from quintain.types import (
    Built,
    Event,
    Flag,
    HouseError,
    Opened,
    Program,
    Severity,
    Stop,
    fold,
)
from tests.store.events import broke, built, closed, graded, opened, sampled, solved, story

pytest.importorskip("duckdb", reason="pip install 'quintain[library]' to ask the library")
pytest.importorskip("pyarrow", reason="pip install 'quintain[library]' to ask the library")

ASKED = Definition(taskset="t", policy="p", seed=5, code_version="1.2", environment={"host.image_digest": "d1"})


def keep(run: Run, *logs: Sequence[Event]) -> None:
    for log in logs:
        for event in log:
            run.journal.append(event)


def counts(library: Library) -> tuple[int, int]:
    """How many events there are, and how many different ones."""
    found = library.query('SELECT count(*) AS n, count(DISTINCT (run, episode, "index")) AS d FROM events').to_pylist()
    return found[0]["n"], found[0]["d"]


def test_a_question_sees_what_is_compacted_and_what_is_not(tmp_path: Path) -> None:
    library = Library(tmp_path)
    with Run.create(tmp_path, ASKED, name="r") as run:
        keep(run, solved("a"), story("b"), [opened("c"), sampled("c", 1)])
        asked = "SELECT episode, outcome, turns, reward FROM episodes ORDER BY episode"
        told = [
            {"episode": "a", "outcome": "solved", "turns": 1, "reward": 0.8},
            {"episode": "b", "outcome": "failed", "turns": 1, "reward": None},
            {"episode": "c", "outcome": "unfinished", "turns": 1, "reward": None},
        ]
        assert library.query(asked).to_pylist() == told
        assert library.compact().attempts == 2
        assert library.query(asked).to_pylist() == told
        assert library.compact().attempts == 0, "twice is the same as once"
        keep(run, [built("c", 2, {"x": b"1"}), closed("c", 3)])
        assert library.compact().attempts == 1
        assert counts(library) == (13, 13)
        assert library.events("c") == (opened("c"), sampled("c", 1), built("c", 2, {"x": b"1"}), closed("c", 3))


def test_a_look_up_finds_what_a_question_finds(tmp_path: Path) -> None:
    library, names = Library(tmp_path), [f"t{number:02}#0" for number in range(40)]
    asked = "SELECT * FROM steps WHERE run = ? AND episode = ? ORDER BY attempt, step"
    for name in ("r", "s"):
        with Run.create(tmp_path, ASKED, name=name) as run:
            keep(run, *(solved(id) for id in names[:20]))
        library.compact()
    with Run.create(tmp_path, ASKED, name="open") as run:
        keep(run, *(solved(id) for id in names[10:]))
        for run_name, id in (("r", "t00#0"), ("s", "t19#0"), ("open", "t15#0"), ("open", "t39#0")):
            found = library.steps(id, run=run_name)
            assert found.num_rows == 1 and found.equals(library.query(asked, (run_name, id)).select(found.column_names))
            assert library.events(id, run=run_name) == tuple(solved(id))
        assert library.find("t39#0") == ("open", "t39#0")
        assert library.find("t39") == ("open", "t39#0")
        for absent in (("t39#0", "r"), ("t40#0", None), ("t25#", "r")):
            with pytest.raises(HouseError, match="found none"):
                library.steps(absent[0], run=absent[1])


def test_a_file_that_cannot_be_read_is_named_by_a_look_up_and_hides_no_other(tmp_path: Path) -> None:
    library = Library(tmp_path)
    for name in ("r", "s"):
        with Run.create(tmp_path, ASKED, name=name) as run:
            keep(run, solved("a"), solved(name))
    library.compact()
    found = manifest.newest(library.folder).manifest
    [part] = found.of("episodes", run="r")
    path = library.folder / part.path
    whole = path.read_bytes()
    path.write_bytes(whole[:-40] + bytes(40))
    assert library.find("s") == library.find("s", run="s") == ("s", "s")
    assert library.steps("a").num_rows == 1
    path.write_bytes(whole)
    [part] = found.of("steps", run="r")
    content = bytearray((library.folder / part.path).read_bytes())
    content[10:200] = bytes(190)
    (library.folder / part.path).write_bytes(content)
    with pytest.raises(HouseError, match=re.escape(part.path) + r": cannot be read \(see quintain library verify"):
        library.steps("a", run="r")


def test_a_library_that_is_compacted_often_stays_in_few_files(tmp_path: Path) -> None:
    library = Library(tmp_path)
    logs = {f"e{number:02}": solved(f"e{number:02}") for number in range(2 * FEW)}
    with Run.create(tmp_path, ASKED, name="r") as run:
        for log in logs.values():
            keep(run, log)
            library.compact()
    parts = manifest.newest(library.folder).manifest.parts
    assert len([part for part in parts if part.table == "events"]) <= FEW
    assert counts(library) == (len(logs) * 5, len(logs) * 5) and library.verify() == ()
    assert {log.episode: list(log.events) for log in library.logs()} == logs


def test_what_is_kept_in_the_middle_of_a_run_is_not_taken_in_again(tmp_path: Path) -> None:
    with Run.create(tmp_path, ASKED, name="r") as run:
        first, second, third = solved("a"), solved("b"), story("c")
        # the attempts overlap, so that each time some events of the next one were seen already
        keep(run, first[:-1], second[:2], first[-1:], second[2:-1], third[:1], second[-1:], third[1:])
    library = Library(tmp_path, commit_seconds=0.0)
    made = library.compact()
    assert (made.attempts, made.events) == (3, len(first) + len(second) + len(third))
    assert library.status().manifest >= 3  # one after each attempt
    assert counts(library) == (made.events, made.events)
    assert [library.events(id) for id in "abc"] == [tuple(first), tuple(second), tuple(third)]
    assert library.compact().attempts == 0


def test_a_damaged_small_file_is_named_and_keeps_no_others_from_becoming_one(tmp_path: Path) -> None:
    library = Library(tmp_path)
    with Run.create(tmp_path, ASKED, name="r") as run:
        for number in range(FEW):
            keep(run, solved(f"e{number}"))
            library.compact()
        one = manifest.newest(library.folder).manifest.of("events")[0]
        (library.folder / one.path).write_bytes(b"PAR1")
        for number in range(FEW, FEW + 2):
            keep(run, solved(f"e{number}"))
            library.compact()
    assert len(manifest.newest(library.folder).manifest.of("events")) == 2
    assert [aside.path for aside in library.status().aside] == [one.path]
    assert library.repair()[0] == ("r",) and counts(library) == ((FEW + 2) * 5, (FEW + 2) * 5)


def test_events_come_back_exactly_when_the_run_folder_is_gone(tmp_path: Path) -> None:
    log: list[Event] = [
        opened("a"), sampled("a", 1, "lone \ud800 and NUL \0"),
        built("a", 2, {"big": os.urandom(40_000), "bin": b"\xff\xfe", "p\udc80": b"x" * 20_000}), closed("a", 3),
    ]
    with Run.create(tmp_path, ASKED, name="r") as run:
        keep(run, log)
    library = Library(tmp_path)
    library.compact()
    subprocess.run(["rm", "-r", str(tmp_path / "r")], check=True)
    assert list(library.events("a", run="r")) == log
    assert library.query("SELECT text FROM steps").to_pylist() == [{"text": "lone ? and NUL \0"}]
    assert library.query("SELECT code_version FROM runs").to_pylist() == [{"code_version": "1.2"}]


def test_many_writers_fill_one_readable_library(tmp_path: Path) -> None:
    with Run.create(tmp_path, ASKED, name="r") as run:
        segments = [Segment(run.path / "segments", run.blobs) for _ in range(40)]
        for number, segment in enumerate(segments):
            segment.append(*solved(f"s{number}"))
        half = solved("wanders")
        segments[0].append(*half[:2])
        segments[1].append(*half[2:])
        library = Library(tmp_path)
        assert library.compact().attempts == 41
        assert counts(library) == (41 * 5, 41 * 5)
        assert list(library.events("wanders")) == half
        for segment in segments:
            segment.close()


def test_a_retry_is_a_further_attempt_of_the_same_episode(tmp_path: Path) -> None:
    with Run.create(tmp_path, ASKED, name="r") as run:
        keep(run, [opened("a"), broke("a", 1), closed("a", 2, Stop.BROKEN)])
        library = Library(tmp_path)
        library.compact()
        again = [opened("a", 3, attempt=2), sampled("a", 4), graded("a", 5), closed("a", 6)]
        keep(run, again)
        library.compact()
    found = library.query("SELECT attempt, outcome, standing FROM episodes ORDER BY attempt").to_pylist()
    assert [(row["attempt"], row["outcome"], row["standing"]) for row in found] == [
        (1, "broken", "broken"), (2, "solved", "finished")]
    assert len(library.events("a")) == 7


@pytest.mark.parametrize("form", ["lines", "frames"])
def test_damage_is_named_and_hides_nothing_else(tmp_path: Path, form: str) -> None:
    with Run.create(tmp_path, ASKED, name="hurt") as run, Segment(run.path / "segments", run.blobs) as segment:
        for name in "abc":
            keep(run, solved(name)) if form == "lines" else segment.append(*solved(name))
        path = run.path / "journal.jsonl" if form == "lines" else segment.path
    with Run.create(tmp_path, ASKED, name="whole") as other:
        keep(other, solved("d"))
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + b"\x00" + content[middle + 1:] + b"torn tail")
    library = Library(tmp_path)
    library.compact()
    rows = library.query("SELECT run, episode, outcome FROM episodes").to_pylist()
    assert {(row["run"], row["episode"]) for row in rows if row["outcome"] == "solved"} == {
        ("hurt", "a"), ("hurt", "c"), ("whole", "d")}
    assert [aside.path.split("/")[0] for aside in library.status().aside] == ["hurt"]
    assert counts(library)[0] == (19 if form == "lines" else 15), "whole records beside the damaged one are there"


def test_a_run_that_cannot_be_read_is_named_and_the_others_are_there(tmp_path: Path) -> None:
    for name in ("good", "bad"):
        with Run.create(tmp_path, ASKED, name=name) as run:
            keep(run, solved("a"))
    (tmp_path / "bad" / "run.json").write_text("{")
    library = Library(tmp_path)
    library.compact()
    assert library.query("SELECT run FROM episodes WHERE run = 'good'").num_rows == 1
    assert [aside.path for aside in library.status().aside] == ["bad/run.json"]


def test_a_damaged_file_or_manifest_hides_no_other_and_is_repaired(tmp_path: Path) -> None:
    library = Library(tmp_path)
    for name in ("r1", "r2"):
        with Run.create(tmp_path, ASKED, name=name) as run:
            keep(run, solved("a"))
        library.compact()
    part = next(path for path in (library.folder / "parts" / "events").rglob("*.parquet") if "run=r1" in str(path))
    part.write_bytes(part.read_bytes()[:-20])
    newest = max((library.folder / "manifest").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1] + b"X")
    assert library.query("SELECT DISTINCT run FROM events").to_pylist() == [{"run": "r2"}]
    assert any("manifest" in aside.path for aside in library.status().aside)
    assert [aside.path for aside in library.verify()] == [str(part.relative_to(library.folder))]
    assert library.repair() == (("r1",), ())
    assert counts(library) == (10, 10) and library.verify() == ()


def test_only_one_select_is_answered_and_nothing_but_the_library_is_read(tmp_path: Path) -> None:
    library = Library(tmp_path)
    (tmp_path / "secret").write_text("x")
    for wrong in ("DROP VIEW steps", "SELECT 1; SELECT 2", f"COPY (SELECT 1) TO '{tmp_path}/out'", "",
                  f"SELECT * FROM read_text('{tmp_path}/secret')", "INSTALL httpfs", "SET threads = 1", "SELECT no"):
        with pytest.raises(HouseError):
            library.query(wrong)
    assert not (tmp_path / "out").exists()
    assert library.query("SELECT count(*) AS n FROM steps").to_pylist() == [{"n": 0}]


def test_a_file_of_the_first_schema_is_read_and_rewritten_as_todays(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    from quintain.store import Keeping, Lifecycle, Rule

    library = Library(tmp_path)
    with Run.create(tmp_path, ASKED, name="old") as run:
        keep(run, solved("a"), story("b"))
    library.compact()
    found = manifest.newest(library.folder)
    parts = []
    for part in found.manifest.parts:  # as version 1 wrote them
        if part.table == "episodes":
            path = library.folder / part.path
            pq.write_table(pq.read_table(path).drop_columns(["bytes"]), path)
            part = manifest.Part(**{**_fields(part), "schema": 1, "bytes": path.stat().st_size})
        if part.table == "steps":
            path = library.folder / part.path
            older = pq.read_table(path).drop_columns(["prompt_tokens", "output_tokens", "mean_logprob"])
            pq.write_table(older, path)
            part = manifest.Part(**{**_fields(part), "schema": 2, "bytes": path.stat().st_size})
        parts.append(part)
    manifest.publish(library.folder, manifest.Manifest(**{**_fields(found.manifest), "parts": tuple(parts)}),
                     after=found.highest)
    with Run.create(tmp_path, ASKED, name="new") as run:
        keep(run, solved("a"))
    library.compact()
    tokens = library.query("SELECT output_tokens = len(output_token_ids) AS same, mean_logprob FROM steps").to_pylist()
    assert all(row["same"] is not False for row in tokens)
    rows = library.query("SELECT run, episode, bytes IS NULL AS unknown FROM episodes ORDER BY ALL").to_pylist()
    assert [(row["run"], row["unknown"]) for row in rows] == [("new", False), ("old", True), ("old", True)]
    Keeping(library).sweep(Lifecycle(rule=(Rule(keep=0.0, outcome=("failed",)),)), dry_run=False)
    assert {part.schema for part in manifest.newest(library.folder).manifest.parts} == {3}
    assert library.query("SELECT count(*) AS n FROM episodes").to_pylist() == [{"n": 2}]
    newer = tuple(manifest.Part(**{**_fields(part), "schema": 4}) for part in parts)
    found = manifest.newest(library.folder)
    ahead = manifest.Manifest(**{**_fields(found.manifest), "parts": newer})
    manifest.publish(library.folder, ahead, after=found.highest)
    with pytest.raises(HouseError, match="has schema 4; this version of quintain reads 1 to 3"):
        library.query("SELECT count(*) FROM steps")


def _fields(value: manifest.Part | manifest.Manifest) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def test_from_a_reward_to_all_that_made_it_and_back(tmp_path: Path) -> None:
    with Run.create(tmp_path, ASKED, name="r") as run:
        keep(run, solved("a"), story("b"))
    library = Library(tmp_path)
    for _ in range(2):
        told = origin(library, "a")
        assert (told.suite, told.build, told.level, told.code_version) == ("suite-1", "build-1", "L4", "1.2")
        assert (told.policy_versions, told.run, told.run_seed, told.seed) == (("0",), "r", 5, 0)
        assert told.environment == {"host.image_digest": "d1"} and told.task_version == "v" and told.reward == 0.8
        assert made_by(library, suite="suite-1")["episode"].to_pylist() == ["a"]
        assert made_by(library, policy_version="0", code_version="1.2")["episode"].to_pylist() == ["a", "b"]
        assert made_by(library, environment="d1", suite="other").num_rows == 0
        library.compact()
    with pytest.raises(HouseError, match="expected one of run, suite"):
        made_by(library, colour="red")


def test_scores_flags_and_steps_are_tables_of_their_own(tmp_path: Path) -> None:
    flag = Flag(detector="hollow", severity=Severity.HARD, evidence="skips")
    with Run.create(tmp_path, ASKED, name="r") as run:
        keep(run, [*story("a")[:3], graded("a", 3, 0.0, flags=[flag]), closed("a", 4)])
    library = Library(tmp_path)
    for _ in range(2):
        assert library.query("SELECT name, value, step FROM scores").to_pylist() == [
            {"name": "tests", "value": 1.0, "step": 1}]
        assert library.query("SELECT detector, severity FROM flags").to_pylist() == [
            {"detector": "hollow", "severity": "hard"}]
        step = library.query("SELECT program, logprobs, reward, state_hash FROM steps").to_pylist()[0]
        assert json.loads(step["program"])["files"] == {"a.py": "x = 1\n"} and step["logprobs"] == [-0.5]
        assert step["reward"] == 0.0 and len(step["state_hash"]) == 64
        library.compact()


def test_a_row_tells_what_the_fold_of_the_log_tells(tmp_path: Path) -> None:
    logs = [solved("a"), story("b"), [opened("c"), broke("c", 1), closed("c", 2, Stop.BROKEN)], [opened("d")]]
    with Run.create(tmp_path, ASKED, name="r") as run:
        keep(run, *logs)
    rows = {row["episode"]: row for row in Library(tmp_path).query("SELECT * FROM episodes").to_pylist()}
    for log in logs:
        told, row = fold(log), rows[log[0].episode]
        assert row["solved"] == told.solved and row["turns"] == len(told.turns) and row["seconds"] == told.seconds
        assert row["reward"] == (told.reward.total if told.reward else None)
        assert row["stop"] == (told.stop.value if told.stop else None)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_attempts_are_put_together_once_in_whatever_order_events_come(data: st.DataObject) -> None:
    logs = {"a": [*story("a"), opened("a", 4, attempt=2), sampled("a", 5), closed("a", 6)], "b": story("b")}
    events = data.draw(st.permutations([event for log in logs.values() for event in log]))
    doubled = [*events, *data.draw(st.lists(st.sampled_from(events), max_size=6))]
    assembly = Assembly({})
    found: list[tuple[str, list[Event]]] = []
    for at, event in enumerate(doubled):
        for attempt in assembly.take(Kept("s", at, at + 1, Slim(event, {}, repr(event).encode()))):
            found.append((attempt.episode, [kept.event for kept in attempt.kept]))
    assert sorted(found, key=lambda one: (one[0], one[1][0].index)) == [
        ("a", logs["a"][:4]), ("a", logs["a"][4:]), ("b", logs["b"])]
    assert not list(assembly.rest()) and not assembly.hurts


def test_a_segment_refuses_gaps_and_takes_all_or_nothing(tmp_path: Path) -> None:
    with Run.create(tmp_path, ASKED, name="r") as run, Segment(run.path / "segments", run.blobs) as segment:
        segment.append(opened("a"), sampled("a", 1))
        with pytest.raises(HouseError, match="expected event 2 as its next, found 3"):
            segment.append(closed("a", 3))
        with pytest.raises(HouseError, match="expected event 4 as its next, found 3"):
            segment.append(built("a", 2, {}), closed("a", 3), closed("a", 3))
        with pytest.raises(HouseError, match="cannot be kept exactly"):
            segment.append(Built(episode="a", index=2, at_seconds=float("nan"), program=Program(files={})))
        segment.append(built("a", 2, {"x": b"y" * 50_000}), closed("a", 3))
        found = list(frames(segment.path))
    assert [len(frame.bodies) for frame in found if isinstance(frame, Frame)] == [2, 2] and len(found) == 2


WRITER = """
    import sys, time
    from pathlib import Path
    from quintain.store import LocalBlobs, Segment
    from tests.store.events import solved
    run, name, told = Path(sys.argv[1]), sys.argv[2], open(sys.argv[3], "a", buffering=1)
    with Segment(run / "segments", LocalBlobs(run / "blobs")) as segment:
        for number in range(400):
            time.sleep(0.004)
            segment.append(*solved(f"{name}-{number}"))
            told.write(f"{name}-{number}\\n")
"""
COMPACTOR = """
    import sys, time
    from pathlib import Path
    from quintain.store import Library
    while True:
        Library(Path(sys.argv[1])).compact()
        time.sleep(0.05)
"""


def start(script: str, *said: object) -> subprocess.Popen[bytes]:
    root = Path(__file__).parent.parent.parent
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), *map(str, said)], cwd=root)


def test_writers_and_two_compactors_that_are_killed_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    chance = random.Random(3)
    with Run.create(tmp_path / "runs", ASKED, name="r") as run:
        living: list[subprocess.Popen[bytes]] = []
        try:
            for turn in range(3):
                living.append(start(WRITER, run.path, f"w{turn}", tmp_path / f"told-{turn}"))
                while len(living) < 3 or (turn % 2 == 0 and len(living) < 4):
                    living.append(start(COMPACTOR, tmp_path / "runs"))
                while not (tmp_path / f"told-{turn}").exists():
                    time.sleep(0.02)
                time.sleep(chance.random() * 0.6)
                for process in chance.sample(living, 2):
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    living.remove(process)
        finally:
            for process in living:
                process.kill()
                process.wait()
    library = Library(tmp_path / "runs")
    library.compact()
    acknowledged = {line for path in tmp_path.glob("told-*") for line in path.read_text().split("\n")[:-1]}
    rows = library.query("SELECT episode, count(*) AS n FROM episodes GROUP BY episode").to_pylist()
    assert acknowledged and acknowledged <= {row["episode"] for row in rows}
    assert {row["n"] for row in rows} == {1} and counts(library) == (len(rows) * 5, len(rows) * 5)
    assert library.verify() == () and library.status().pending == 0


def test_a_run_is_read_on_while_its_journal_is_open_for_writing(tmp_path: Path) -> None:
    with Run.create(tmp_path, ASKED, name="r") as run:
        keep(run, solved("a"))
        Library(tmp_path).compact()
        run.finish(Result(episodes=1, solved=1))
    with Run.open(tmp_path / "r", mode=Mode.WRITE) as run:
        keep(run, solved("b"))
        library = Library(tmp_path)
        library.compact()
        assert [log.episode for log in library.logs("solved")] == ["a", "b"]
        assert all(isinstance(log.events[0], Opened) for log in library.logs())
        assert library.query("SELECT ended, solved FROM runs").to_pylist() == [{"ended": True, "solved": 1}]

"""A tail gives each event of a growing run once, whatever is torn, gathered or begun anew."""

from __future__ import annotations

from pathlib import Path

from quintain.store import Segment, Tail
from quintain.types import Built, Event, Program
from tests.serve.showing import a_run, attempt


def keys(events: list[Event]) -> list[tuple[str, int]]:
    return [(event.episode, event.index) for event in events]


def test_each_look_reads_what_is_new_and_nothing_again(tmp_path: Path) -> None:
    with a_run(tmp_path, "r", attempt("a")) as run:
        tail = Tail(run.path)
        assert keys(list(tail.fresh())) == [("a", n) for n in range(5)]
        assert list(tail.fresh()) == []
        for event in attempt("b"):
            run.journal.append(event)
        assert keys(list(tail.fresh())) == [("b", n) for n in range(5)]
        assert tail.episodes() == ("a", "b")
        assert tail.events("a") == tuple(attempt("a"))
        assert tail.events("nobody") == ()


def test_half_a_line_is_waited_for(tmp_path: Path) -> None:
    with a_run(tmp_path, "r", attempt("a")) as run:
        whole = (run.path / "journal.jsonl").read_bytes()
    journal = run.path / "journal.jsonl"
    journal.write_bytes(whole[:-20])
    tail = Tail(run.path)
    assert len(list(tail.fresh())) == 4
    assert list(tail.fresh()) == []
    with journal.open("ab") as file:
        file.write(whole[-20:])
    assert keys(list(tail.fresh())) == [("a", 4)]
    assert tail.damaged == 0


def test_damage_in_the_middle_is_passed_over_and_counted_once(tmp_path: Path) -> None:
    with a_run(tmp_path, "r", [*attempt("a"), *attempt("b")]) as run:
        pass
    journal = run.path / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[4] = b"x" * 50 + b"\n"  # the end of a
    journal.write_bytes(b"".join(lines))
    tail = Tail(run.path)
    assert keys(list(tail.fresh())) == [*(("a", n) for n in range(4)), *(("b", n) for n in range(5))]
    assert list(tail.fresh()) == []
    assert tail.damaged == 1


def test_segments_are_read_and_big_files_are_filled_in(tmp_path: Path) -> None:
    big = b"#" * 40_000
    with a_run(tmp_path, "r") as run:
        events = attempt("a")
        events[2] = Built(episode="a", index=2, at_seconds=0.6, program=Program(files={"solution.py": big}))
        with Segment(run.path / "segments", run.blobs) as segment:
            segment.append(*events[:3])
            tail = Tail(run.path)
            assert len(list(tail.fresh())) == 3
            segment.append(*events[3:])
            assert len(list(tail.fresh())) == 2
        assert tail.events("a") == tuple(events)


def test_what_is_gathered_into_the_journal_is_not_told_twice(tmp_path: Path) -> None:
    with a_run(tmp_path / "elsewhere", "of-a-worker", attempt("a")) as other:
        pass
    with a_run(tmp_path, "r") as run:
        own = run.path / "episodes" / "a.jsonl"
        own.parent.mkdir()
        own.write_bytes((other.path / "journal.jsonl").read_bytes())
        tail = Tail(run.path)
        assert len(list(tail.fresh())) == 5
        for event in attempt("a"):
            run.journal.append(event)
        assert list(tail.fresh()) == []
        own.unlink()
        assert tail.events("a") == tuple(attempt("a"))

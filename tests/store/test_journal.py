from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quintain.store import Journal, LocalBlobs, Mode
from quintain.store._record import decode, encode, is_whole
from quintain.types import Event, HouseError, Outcome, Ran, Status

from .events import built, closed, opened, sampled, story

SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"


def write(folder: Path) -> Journal:
    return Journal(folder / "journal.jsonl", LocalBlobs(folder / "blobs"), mode=Mode.WRITE)


def read(folder: Path) -> Journal:
    return Journal(folder / "journal.jsonl", LocalBlobs(folder / "blobs"))


def keep(folder: Path, events: list[Event]) -> None:
    with write(folder) as journal:
        for event in events:
            journal.append(event)


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    events = [event for pair in zip(story("a"), story("b"), strict=True) for event in pair]
    keep(tmp_path, events)
    with read(tmp_path) as journal:
        assert list(journal.read()) == events
        assert list(journal.read("b")) == story("b")
        assert list(journal.read("unknown")) == []
        assert journal.episodes() == ("a", "b")


def test_every_line_is_json_for_anybody(tmp_path: Path) -> None:
    keep(tmp_path, [*story("a"), sampled("a", 4, "lone \ud800 surrogate")])
    lines = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"]["event"] for line in lines] == [
        "opened", "sampled", "built", "closed", "sampled",
    ]


@given(cut=st.integers(min_value=0, max_value=10_000))
@settings(max_examples=60, deadline=None)
def test_a_cut_anywhere_loses_only_the_record_it_hits_and_appending_goes_on(
    tmp_path_factory: pytest.TempPathFactory, cut: int,
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    events = [opened("a"), sampled("a", 1, "größer"), sampled("a", 2), closed("a", 3)]
    keep(folder, events)
    path = folder / "journal.jsonl"
    whole = path.read_bytes()
    cut = cut % (len(whole) + 1)
    path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")
    with write(folder) as journal:
        assert list(journal.read()) == events[:kept]
        for event in events[kept:]:
            journal.append(event)
        assert list(journal.read()) == events
    with read(folder) as journal:
        assert list(journal.read()) == events


@pytest.mark.parametrize("tail", [
    pytest.param(lambda line: line[: len(line) // 2], id="torn"),
    pytest.param(lambda line: line[: len(line) // 2] + b"\n\n", id="torn_blank"),
    pytest.param(lambda line: b"\0" * 4096, id="nul"),
    pytest.param(lambda line: line[: line.index("ö".encode()) + 1], id="utf8cut"),
    pytest.param(lambda line: line[:-1], id="only the newline is missing"),
])
def test_the_crash_images_of_case_SR01_are_repaired_and_the_torn_bytes_kept_aside(tmp_path: Path, tail) -> None:  # type: ignore[no-untyped-def]
    blobs = LocalBlobs(tmp_path / "blobs")
    torn = tail(encode(sampled("a", 1, "größer"), blobs))
    path = tmp_path / "journal.jsonl"
    path.write_bytes(encode(opened("a"), blobs) + torn)
    with read(tmp_path) as journal:
        assert list(journal.read()) == [opened("a")]
    assert path.read_bytes().endswith(torn)  # a reader repairs nothing
    with write(tmp_path) as journal:
        journal.append(sampled("a", 1, "new"))
    with read(tmp_path) as journal:
        assert list(journal.read()) == [opened("a"), sampled("a", 1, "new")]
    assert (tmp_path / "journal.jsonl.torn").read_bytes() == torn


@pytest.mark.parametrize("mode", list(Mode))
def test_damage_in_the_middle_is_an_error_with_its_byte_offset(tmp_path: Path, mode: Mode) -> None:
    blobs = LocalBlobs(tmp_path / "blobs")
    first, second, third = (encode(event, blobs) for event in (opened("a"), sampled("a", 1), closed("a", 2)))
    (tmp_path / "journal.jsonl").write_bytes(first + second[:40] + third + encode(opened("b"), blobs))
    with pytest.raises(HouseError, match=f"whole record at byte {len(first)},"):
        Journal(tmp_path / "journal.jsonl", blobs, mode=mode)


def test_one_flipped_bit_is_damage(tmp_path: Path) -> None:
    line = encode(sampled("a", 0, "a reply"), LocalBlobs(tmp_path))[:-1]
    assert is_whole(line)
    assert not any(is_whole(line[:at] + bytes([line[at] ^ 1]) + line[at + 1:]) for at in range(len(line)))


@given(text=st.text(st.characters(exclude_categories=())))
@settings(deadline=None)
def test_any_text_reads_back_exactly_or_is_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    blobs = LocalBlobs(tmp_path_factory.getbasetemp() / "any")
    event = sampled("a", 0, text)
    if text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") != text:  # halves that would join
        with pytest.raises(HouseError, match="cannot be kept exactly"):
            encode(event, blobs)
    else:
        line = encode(event, blobs)
        assert line.count(b"\n") == 1
        assert decode(line[:-1], blobs) == event


def test_the_values_of_case_SR03_read_back_exactly_or_are_refused(tmp_path: Path) -> None:
    source = SHARED / "SR03" / "values.py"
    if not source.exists():
        pytest.skip("needs ../shared/cases/SR03")
    values: list[object] = []
    exec(compile(source.read_text(), str(source), "exec"), scope := {})  # the case's own list of literals
    values = scope["VALUES"]
    blobs = LocalBlobs(tmp_path)
    seen = 0
    for value in values:
        event: Event
        if isinstance(value, str):
            event = sampled("a", 0, value)
        elif isinstance(value, bytes):
            event = built("a", 0, {"x": value})
        elif isinstance(value, float):
            event = msgspec.structs.replace(sampled("a", 0), at_seconds=value)
        else:
            continue
        seen += 1
        if isinstance(value, float) and not math.isfinite(value):
            with pytest.raises(HouseError, match="cannot be kept exactly"):
                encode(event, blobs)
        else:
            back = decode(encode(event, blobs)[:-1], blobs)
            assert back == event
            assert math.copysign(1, back.at_seconds) == math.copysign(1, event.at_seconds)
    assert seen >= 10


def test_the_nine_names_of_case_SR08_stay_nine(tmp_path: Path) -> None:
    source = SHARED / "SR08" / "names.json"
    if not source.exists():
        pytest.skip("needs ../shared/cases/SR08")
    names = json.loads(source.read_text())
    files = {name: (b"%d" % at) * 20_000 for at, name in enumerate(names)}
    keep(tmp_path, [built("a", 0, files)])
    with read(tmp_path) as journal:
        (event,) = journal.read()
    assert event == built("a", 0, files)
    assert len(list(LocalBlobs(tmp_path / "blobs").digests())) == 9


def test_big_bytes_lie_in_the_blobs_and_small_ones_in_the_line(tmp_path: Path) -> None:
    big = os.urandom(50_000)
    events: list[Event] = [
        built("a", 0, {"big": big, "small": b"x"}, stdin=big),
        Ran(
            episode="a", index=1, at_seconds=2.0,
            outcome=Outcome(status=Status.OK, exit_code=0, stdout=big + b"!", stderr=b"warn"),
        ),
    ]
    keep(tmp_path, events)
    with read(tmp_path) as journal:
        assert list(journal.read()) == events
    assert (tmp_path / "journal.jsonl").stat().st_size < 4_000
    assert len(list(LocalBlobs(tmp_path / "blobs").digests())) == 2  # the same bytes twice are one blob


def test_an_index_that_is_not_the_next_is_refused(tmp_path: Path) -> None:
    with write(tmp_path) as journal:
        journal.append(opened("a"))
        with pytest.raises(HouseError, match=r"a: expected event 1 as its next, found 0 \(Opened\)"):
            journal.append(opened("a"))
        with pytest.raises(HouseError, match="expected event 1 as its next, found 2"):
            journal.append(closed("a", 2))
        journal.append(closed("a", 1))
        assert len(list(journal.read("a"))) == 2


def test_a_reader_appends_nothing(tmp_path: Path) -> None:
    keep(tmp_path, story("a"))
    with read(tmp_path) as journal, pytest.raises(HouseError, match="opened for reading"):
        journal.append(opened("b"))


def test_a_reader_beside_a_live_writer_sees_what_came_since(tmp_path: Path) -> None:
    with write(tmp_path) as writer:
        writer.append(opened("a"))
        with read(tmp_path) as reader:
            writer.append(sampled("a", 1))
            assert len(list(reader.read())) == 1
            reader.refresh()
            assert len(list(reader.read())) == 2


def test_many_threads_write_one_journal(tmp_path: Path) -> None:
    with write(tmp_path) as journal:
        def tell(name: str) -> None:
            for event in story(name):
                journal.append(event)

        threads = [threading.Thread(target=tell, args=(f"e{n}",)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with read(tmp_path) as journal:
        assert len(journal.episodes()) == 16
        for name in journal.episodes():
            assert list(journal.read(name)) == story(name)


HOLDER = """
import sys, time
from pathlib import Path
from quintain.store import Journal, LocalBlobs, Mode
folder = Path(sys.argv[1])
journal = Journal(folder / "journal.jsonl", LocalBlobs(folder / "blobs"), mode=Mode.WRITE)
print("held", flush=True)
time.sleep(60)
"""


def test_two_processes_never_write_one_run_and_a_killed_one_leaves_no_lock(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        try:
            with pytest.raises(HouseError, match=rf"another process writes this run \(process {holder.pid}\)"):
                write(tmp_path)
        finally:
            holder.send_signal(signal.SIGKILL)
            holder.wait()
    keep(tmp_path, story("a"))


FULL = """
import resource, sys
from pathlib import Path
from quintain.store import Journal, LocalBlobs, Mode
from quintain.types import Closed, HouseError, Stop
path = Path(sys.argv[1]) / "journal.jsonl"
journal = Journal(path, LocalBlobs(path.parent / "blobs"), mode=Mode.WRITE)
journal.append(Closed(episode="a", index=0, at_seconds=0.0, stop=Stop.SOLVED))
size = path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, resource.RLIM_INFINITY))
try:
    journal.append(Closed(episode="a", index=1, at_seconds=0.0, stop=Stop.SOLVED))
except HouseError as error:
    print("refused" if "cannot append" in str(error) and path.stat().st_size == size else error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.append(Closed(episode="a", index=1, at_seconds=0.0, stop=Stop.SOLVED))
print(len(list(journal.read("a"))))
"""


def test_a_full_disk_leaves_the_journal_as_it_was(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["refused", "2"], done.stderr

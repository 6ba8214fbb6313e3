"""An append-only file that several processes write by turns."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from quintain.store import Ledger
from quintain.types import FaultKind, HouseError


class Note(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    number: int = 0


def ledger(path: Path) -> Ledger[Note]:
    return Ledger(path / "notes.jsonl", Note)


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    notes = ledger(tmp_path)
    assert notes.read() == ()
    notes.change(lambda _: [Note(name="a"), Note(name="ü\n", number=2)])
    notes.change(lambda known: [Note(name="b", number=len(known))])
    assert notes.read() == (Note(name="a"), Note(name="ü\n", number=2), Note(name="b", number=2))


def test_what_cannot_be_decided_changes_nothing(tmp_path: Path) -> None:
    notes = ledger(tmp_path)
    notes.change(lambda _: [Note(name="a")])

    def refuse(known: Sequence[Note]) -> Sequence[Note]:
        raise KeyError("no")

    with pytest.raises(KeyError):
        notes.change(refuse)
    assert notes.read() == (Note(name="a"),)


def test_a_torn_last_line_is_overlooked_and_then_moved_aside(tmp_path: Path) -> None:
    notes = ledger(tmp_path)
    notes.change(lambda _: [Note(name="a"), Note(name="b")])
    path = tmp_path / "notes.jsonl"
    path.write_bytes(path.read_bytes()[:-7])
    assert notes.read() == (Note(name="a"),)
    notes.change(lambda known: [Note(name="c", number=len(known))])
    assert notes.read() == (Note(name="a"), Note(name="c", number=1))
    assert b'"b"' in (tmp_path / "notes.jsonl.torn").read_bytes()


def test_damage_in_the_middle_is_an_error_with_its_line(tmp_path: Path) -> None:
    notes = ledger(tmp_path)
    notes.change(lambda _: [Note(name="a"), Note(name="b"), Note(name="c")])
    path = tmp_path / "notes.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"b"', b'"x"'))
    with pytest.raises(HouseError, match="line 2: expected a whole record") as error:
        notes.read()
    assert error.value.kind is FaultKind.STORE_ERROR


def test_records_of_other_words_are_refused_by_line(tmp_path: Path) -> None:
    class Other(msgspec.Struct):
        colour: str

    Ledger(tmp_path / "notes.jsonl", Other).change(lambda _: [Other(colour="red")])
    with pytest.raises(HouseError, match="line 1: a record that this version cannot read"):
        ledger(tmp_path).read()


PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.store.test_ledger import Note, ledger
for _ in range(25):
    ledger(Path(sys.argv[1])).change(lambda known: [Note(name=sys.argv[2], number=len(known))])
"""


def test_processes_that_write_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    program = PROGRAM.format(root=str(Path(__file__).resolve().parents[2]))
    writers = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name]) for name in "abcd"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0, 0]
    assert [note.number for note in ledger(tmp_path).read()] == list(range(100))

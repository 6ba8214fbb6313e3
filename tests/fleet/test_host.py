"""What an engine has on a node: workers from afar, kept until they are told to leave."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from quintain.fleet import CANNOT, Crew, Host, Post, RayAddress, Witness
from quintain.types import HouseError

PATIENCE_SECONDS = 30.0
QUICK = Crew(workers=2, pause_seconds=(0.01, 0.1), drain_seconds=5.0)
#: A worker that says who it is, where, with what, and waits to be told.
SCRIPT = (
    'echo "$$ $WORD $1" >> "$NOTES"; cat "$0/run.json" >> "$NOTES"; trap "exit 0" TERM; '
    "while :; do sleep 0.02; done"
)


def post(notes: Path, *words: str, crew: Crew = QUICK, witness: Witness | None = None) -> Post:
    return Post(crew_id=f"test-{os.getpid()}", words=words or ("sh", "-c", SCRIPT, "{folder}", "{name}"), crew=crew,
                files={"run.json": b"asked\n"}, env={"NOTES": str(notes), "WORD": "secret"}, witness=witness)


async def until(wanted: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not wanted():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


def test_a_host_keeps_its_workers_until_it_is_told_to_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    notes = tmp_path / "notes"
    notes.touch()

    def said() -> list[list[str]]:
        return [line.split() for line in notes.read_text().splitlines()]

    def workers() -> list[list[str]]:
        return [line for line in said() if len(line) == 3]

    async def story() -> None:
        host = Host(msgspec.msgpack.decode(msgspec.msgpack.encode(post(notes)), type=Post), "node")
        async with asyncio.TaskGroup() as group:
            group.create_task(host.stand())
            await until(lambda: len(workers()) == 2 and said().count(["asked"]) == 2)
            os.kill(int(workers()[0][0]), signal.SIGKILL)
            await until(lambda: len(workers()) == 3 and said().count(["asked"]) == 3)
            host.leave()

    asyncio.run(story())
    assert {line[1] for line in workers()} == {"secret"}
    assert {line[2] for line in workers()} == {"node-0", "node-1"}
    for line in workers():
        assert not Path(f"/proc/{line[0]}").exists()
    assert not list(tmp_path.glob("quintain-hosts-*/*")), "its folder goes with it"


def test_a_queue_in_a_file_reaches_no_other_host(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("asked")
    here = Witness.of(tmp_path / "run.json")
    elsewhere = msgspec.structs.replace(here, boot="another kernel")
    assert here.is_here()
    (tmp_path / "run.json").write_text("something else")
    assert not here.is_here(), "another disk"
    with pytest.raises(HouseError, match="expected a queue nats://"):
        asyncio.run(Host(post(tmp_path, witness=elsewhere), "far").stand())


def test_a_worker_that_can_never_work_ends_its_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(HouseError, match="can never work"):
        asyncio.run(Host(post(tmp_path, "sh", "-c", f"exit {CANNOT}"), "node").stand())


@pytest.mark.parametrize(("text", "expected"), [
    ("ray:auto", RayAddress(where="auto")),
    ("ray:10.0.0.1:6379?cpus=2", RayAddress(where="10.0.0.1:6379", cpus=2.0)),
    ("ray://head:10001?resource=sandbox", RayAddress(where="ray://head:10001", resource="sandbox")),
])
def test_where_a_cluster_is_can_be_said_in_one_word(text: str, expected: RayAddress) -> None:
    assert RayAddress.of(text) == expected


@pytest.mark.parametrize(
    "text", ["ray:", "ray://", "raw:auto", "ray:auto?gpus=1", "ray:auto?cpus=many", "ray:auto?cpus=-1"])
def test_what_names_no_cluster_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="found"):
        RayAddress.of(text)

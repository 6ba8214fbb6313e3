"""`quintain queue`, in the words that a person or a script uses."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from quintain.fleet import Job, Queue, Terms, open_queue
from tests.fleet.servers import nats_running
from tests.flow.house import last_json, quintain

WORDS = (["queue"], *(["queue", word] for word in
                      ("stats", "peek", "dead", "retry", "drain", "put", "stop", "resume")))


def fill(where: str | Path) -> None:
    """Two of kind code that wait, one that is held; one of kind bad that is dead."""
    async def work(queue: Queue) -> None:
        await queue.put([Job(id="dead/1", kind="bad", body=b"x")])
        await queue.nack(await queue.lease("w0"), reason="it broke\nbadly \x1b[31m")
        await queue.put([Job(id=f"code/{n}", kind="code", priority=n) for n in range(3)])
        await queue.lease("w1", wait_seconds=5.0)

    use(where, work, Terms(deliveries=1, lease_seconds=3600.0))


def use(where: str | Path, work: Callable[[Queue], Awaitable[None]], terms: Terms | None = None) -> None:
    async def run() -> None:
        queue = await open_queue(where, terms)
        try:
            await work(queue)
        finally:
            await queue.aclose()

    asyncio.run(run())


def queue(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return quintain("queue", *words, cwd=folder)


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_every_word_has_help_with_an_example(words: list[str], tmp_path: Path) -> None:
    done = quintain(*words, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert " ".join(["quintain", *words]) in done.stdout.partition("Examples:")[2]


def test_a_queue_is_told_looked_at_and_mended(tmp_path: Path) -> None:
    fill(tmp_path / "queue.db")
    told = last_json(queue(tmp_path, "stats", "--json"))
    assert {kind: line["count"] for kind, line in told["kinds"].items()} == {
        "bad": {"ready": 0, "delayed": 0, "leased": 0, "dead": 1},
        "code": {"ready": 2, "delayed": 0, "leased": 1, "dead": 0},
    }
    shown = queue(tmp_path, "stats").stdout
    assert "code" in shown
    assert "waits since" in shown
    peeked = json.loads(queue(tmp_path, "peek", "--json").stdout)
    assert [one["job"]["id"] for one in peeked] == ["code/1", "code/0"]
    dead = queue(tmp_path, "dead")
    assert "dead/1" in dead.stdout
    assert "it broke" in dead.stdout
    assert "\x1b" not in dead.stdout, "a reason drives the reader's terminal"
    assert last_json(queue(tmp_path, "retry", "--all", "--kind", "bad", "--json")) == {"jobs": ["dead/1"]}
    none_such = queue(tmp_path, "retry", "dead/1")
    assert none_such.returncode == 1
    assert "not dead" in none_such.stderr
    assert queue(tmp_path, "retry").returncode == 2
    assert queue(tmp_path, "stop", "code").returncode == 0
    assert "stopped" in queue(tmp_path, "stats").stdout
    assert last_json(queue(tmp_path, "resume", "code", "--json")) == {"kind": "code", "stopped": False}


def test_what_is_drained_can_be_put_back(tmp_path: Path) -> None:
    fill(tmp_path / "queue.db")
    drained = queue(tmp_path, "drain", "--kind", "code")
    assert drained.returncode == 0, drained.stderr
    assert [json.loads(line)["id"] for line in drained.stdout.splitlines()] == ["code/0", "code/1"]
    assert "2 jobs drained" in drained.stderr
    (tmp_path / "code.jsonl").write_text(drained.stdout)
    assert last_json(queue(tmp_path, "put", "code.jsonl", "--json")) == {"jobs": ["code/0", "code/1"]}
    assert last_json(queue(tmp_path, "put", "code.jsonl", "--json")) == {"jobs": []}
    assert last_json(queue(tmp_path, "drain", "--into", "all.jsonl", "--json")) == {"drained": 2}
    (tmp_path / "bad.jsonl").write_text('{"id": "a"}\n')
    bad = queue(tmp_path, "put", "bad.jsonl")
    assert bad.returncode == 1
    assert "bad.jsonl:1: expected a job as JSON" in bad.stderr


def test_a_queue_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    done = queue(tmp_path, "stats", "--queue", "none.db")
    assert done.returncode == 1
    assert "expected the file of a queue, found nothing at none.db" in done.stderr
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "text.db").write_text("no queue at all " * 100)
    assert queue(tmp_path, "stats", "--queue", "text.db").returncode == 1
    assert queue(tmp_path, "stats", "--queue", "http://localhost").returncode == 2


def test_a_queue_on_a_server_is_dealt_with_in_the_same_words(tmp_path: Path) -> None:
    with nats_running(tmp_path / "nats") as server:
        fill(f"{server.url}/work")
        where = ("--queue", f"{server.url}/work")
        told = last_json(queue(tmp_path, "stats", *where, "--json"))
        assert told["kinds"]["code"]["count"] == {"ready": 2, "delayed": 0, "leased": 1, "dead": 0}
        assert "it broke" in queue(tmp_path, "dead", *where).stdout
        assert last_json(queue(tmp_path, "retry", "dead/1", *where, "--json")) == {"jobs": ["dead/1"]}
    gone = queue(tmp_path, "stats", *where)
    assert gone.returncode == 1
    assert server.url.partition("@")[0].removeprefix("nats://") not in gone.stderr, "the token is told"

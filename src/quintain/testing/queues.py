"""What every queue must keep to, wherever its jobs lie: checks for those who write an adapter."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from quintain.fleet import Count, Full, Job, Lease, Place, Queue, Terms

#: Opens the queue of that name, on these terms or on its own; the same name is the same queue.
QueueOpener = Callable[[str, Terms | None], AbstractAsyncContextManager[Queue]]

#: Long enough for anything that does not hang, on any machine.
PATIENCE_SECONDS = 30.0
#: A lease that a check waits for to run out.
SHORT = Terms(lease_seconds=1.0, deliveries=3, bound=1000)
#: A lease that runs out in no check.
LONG = Terms(lease_seconds=600.0, deliveries=3, bound=1000)


def jobs(*ids: str, kind: str = "code", priority: int = 0) -> tuple[Job, ...]:
    """Jobs of one kind, each with its id as its body."""
    return tuple(Job(id=id, kind=kind, priority=priority, tenant="ada", body=id.encode()) for id in ids)


async def take(queue: Queue, worker: str = "w", *, most: int = 1, kinds: Sequence[str] | None = None,
               ) -> tuple[Lease[Job], ...]:
    """Exactly `most` leases, however many calls it takes. Raises AssertionError."""
    found: tuple[Lease[Job], ...] = ()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found) < most and time.monotonic() < deadline:
        found += await queue.lease(worker, most=most - len(found), kinds=kinds, wait_seconds=1.0)
    assert len(found) == most, f"expected {most} leases, found {[lease.id for lease in found]}"
    return found


async def until_count(queue: Queue, wanted: Callable[[Count], bool], what: str) -> Count:
    """The count once it is as wanted: a server may take a moment to count."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not wanted(count := (await queue.stats()).count):
        assert time.monotonic() < deadline, f"expected {what}, found {count}"
        await asyncio.sleep(0.05)
    return count


async def hands_out_what_was_put_and_forgets_what_is_done(open: QueueOpener) -> None:
    async with open("a", LONG) as queue:
        given = jobs("x/1", "x 2", "x.3>*")
        assert await queue.put(given) == ("x/1", "x 2", "x.3>*")
        found = await take(queue, "w1", most=3)
        assert sorted((lease.body for lease in found), key=lambda job: job.id) == sorted(given, key=lambda job: job.id)
        assert {(lease.attempt, lease.worker, lease.kind) for lease in found} == {(1, "w1", "code")}
        assert all(lease.until_seconds > time.time() for lease in found)
        assert await queue.lease("w2") == (), "handed out twice"
        assert len(await queue.ack(found)) == 3
        await until_count(queue, lambda count: count.total == 0, "nothing")
        assert await queue.put(jobs("x/1")) == ("x/1",), "what is done may be asked again"


async def an_id_that_is_kept_is_not_put_twice(open: QueueOpener) -> None:
    async with open("a", LONG) as queue:
        assert await queue.put((*jobs("a", "b"), *jobs("a"))) == ("a", "b")
        assert await queue.put(jobs("b", "c")) == ("c",)
        [held] = await take(queue)
        assert await queue.put(jobs(held.id)) == (), "held, and put again"
        await queue.dead([held], reason="no use")
        await until_count(queue, lambda count: count.dead == 1, "one dead")
        assert await queue.put(jobs(held.id)) == (), "dead, and put again"
        assert sorted(lease.id for lease in await take(queue, most=2)) == sorted({"a", "b", "c"} - {held.id})
        assert await queue.lease("w") == ()


async def a_lease_that_ran_out_is_handed_out_again_and_its_holder_is_refused(open: QueueOpener) -> None:
    async with open("a", SHORT) as queue, open("a", None) as other:
        await queue.put(jobs("a"))
        [stale] = await take(queue, "w1")
        [fresh] = await take(other, "w2")
        assert (fresh.id, fresh.attempt) == ("a", stale.attempt + 1)
        for act in (queue.ack, queue.extend, queue.nack):
            assert await act([stale]) == (), f"{act.__name__} of a lease that another has"
        assert await queue.dead([stale], reason="late") == ()
        assert [lease.id for lease in await other.extend([fresh])] == ["a"]
        assert [lease.id for lease in await other.ack([fresh])] == ["a"]
        await until_count(queue, lambda count: count.total == 0, "nothing")


async def a_heartbeat_keeps_a_lease(open: QueueOpener) -> None:
    async with open("a", SHORT) as queue, open("a", None) as other:
        await queue.put(jobs("a"))
        [lease] = await take(queue)
        until = time.monotonic() + 4 * SHORT.lease_seconds
        while time.monotonic() < until:
            found = await queue.extend([lease])
            assert found, "lost in spite of its heartbeat"
            assert found[0].until_seconds > lease.until_seconds
            lease = found[0]
            assert await other.lease("w2") == (), "handed out in spite of its heartbeat"
            await asyncio.sleep(SHORT.lease_seconds / 10)
        assert await queue.ack([lease]) == (lease,)


async def what_was_settled_cannot_be_settled_again(open: QueueOpener) -> None:
    async with open("a", LONG) as queue:
        await queue.put(jobs("a", "b"))
        first = await take(queue, most=2)
        assert len(await queue.nack(first, reason="not now")) == 2
        assert await queue.ack(first) == ()
        again = await take(queue, most=2)
        assert {lease.attempt for lease in again} == {2}
        assert await queue.ack(first) == (), "the older attempt was accepted"
        assert len(await queue.ack(again)) == 2
        assert await queue.ack(again) == ()
        assert await queue.extend(again) == ()


async def the_last_delivery_is_followed_by_death_and_a_revival_begins_anew(open: QueueOpener) -> None:
    async with open("a", LONG) as queue:
        await queue.put(jobs("a"))
        for _ in range(LONG.deliveries):
            await queue.nack(await take(queue), reason="it broke")
        await until_count(queue, lambda count: count == Count(dead=1), "one dead")
        assert await queue.lease("w") == ()
        [kept] = await queue.peek(place=Place.DEAD)
        assert kept.job == jobs("a")[0]
        assert "it broke" in kept.reason
        assert await queue.revive(["a", "never seen"]) == ("a",)
        assert await queue.revive(["a"]) == ()
        for _ in range(LONG.deliveries):
            await queue.nack(await take(queue))
        await until_count(queue, lambda count: count == Count(dead=1), "dead again")


async def a_worker_that_dies_each_time_kills_the_job_in_the_end(open: QueueOpener) -> None:
    async with open("a", SHORT) as queue:
        await queue.put(jobs("a"))
        for attempt in range(1, SHORT.deliveries + 1):
            [lease] = await take(queue)
            assert lease.attempt == attempt
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := await queue.peek(place=Place.DEAD)):
            assert await queue.lease("w", wait_seconds=0.1) == (), "handed out more often than the terms say"
            assert time.monotonic() < deadline, "expected it to be dead, found it is not"
        assert found[0].job.id == "a"


async def what_is_given_back_unbegun_was_no_delivery(open: QueueOpener) -> None:
    async with open("a", LONG) as queue:
        await queue.put(jobs("a"))
        before = 0
        for _ in range(2 * LONG.deliveries):
            [lease] = await take(queue)
            assert lease.attempt > before, "an attempt number came twice"
            before = lease.attempt
            assert await queue.nack([lease], counts=False) == (lease,)
        assert (await queue.stats()).count.dead == 0


async def a_delay_is_kept(open: QueueOpener) -> None:
    async with open("a", LONG) as queue:
        await queue.put(jobs("late"), delay_seconds=1.5)
        began = time.monotonic()
        await queue.put(jobs("soon"))
        [soon] = await take(queue)
        assert soon.id == "soon"
        assert await queue.nack([soon], delay_seconds=1.5, reason="later") == (soon,)
        assert await queue.lease("w") == () or time.monotonic() - began > 1.5, "handed out before its time"
        assert {lease.id for lease in await take(queue, most=2)} == {"late", "soon"}


async def a_full_queue_pushes_back_and_shuts_out_no_other_kind(open: QueueOpener) -> None:
    terms = Terms(bound=3, lease_seconds=600.0)
    async with open("a", terms) as queue:
        await queue.put(jobs("a", "b", "c"))
        try:
            await queue.put(jobs("c", "d", "e"))
        except Full:
            pass
        else:
            raise AssertionError("expected Full at the bound, found none")
        assert await queue.put(jobs("z", kind="other")) == ("z",)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(queue.put(jobs("d"), wait_seconds=PATIENCE_SECONDS))
            await queue.ack(await take(queue, kinds=["code"]))
        assert waiting.result() == ("d",)


async def a_flood_of_one_kind_does_not_hold_up_another(open: QueueOpener) -> None:
    async with open("a", LONG) as queue:
        await queue.put(jobs(*(f"flood {n}" for n in range(300)), kind="flood"))
        await take(queue, most=5)
        await queue.put(jobs("new", kind="new"))
        found: list[str] = []
        while "new" not in found:
            found += [lease.id for lease in await take(queue, most=5)]
            assert len(found) <= 100, "the new kind waits behind the flood"


async def a_higher_priority_goes_first_but_not_before_what_waited_long(open: QueueOpener) -> None:
    terms = Terms(lease_seconds=600.0, ageing_seconds=0.5)
    async with open("a", terms) as queue:
        await queue.put(jobs("old and low", priority=0))
        await asyncio.sleep(1.2)
        await queue.put(jobs("low", priority=0))
        await queue.put(jobs("high", priority=2))
        await asyncio.sleep(1.0)  # whoever caches may catch up
        order = [(await take(queue))[0].id for _ in range(3)]
        assert order == ["old and low", "high", "low"], f"found {order}"


async def a_stopped_kind_is_not_handed_out_and_nothing_of_it_is_lost(open: QueueOpener) -> None:
    async with open("a", LONG) as queue, open("a", None) as other:
        await queue.put(jobs("a", "b", kind="bad"))
        [held] = await take(other)
        await queue.stop("bad")
        await queue.stop("never seen")
        await asyncio.sleep(1.0)
        await queue.put((*jobs("c", kind="bad"), *jobs("fine"), *jobs("n", kind="never seen")))
        [fine] = await take(other)
        assert fine.id == "fine"
        assert await other.lease("w", most=5, wait_seconds=0.3) == (), "handed out although its kind is stopped"
        stats = await queue.stats()
        assert {kind for kind, line in stats.kinds.items() if line.stopped} == {"bad", "never seen"}
        assert await other.ack([held]) == (held,), "a lease stands when its kind is stopped"
        await queue.resume("bad")
        await queue.resume("never seen")
        left = {"a", "b", "c", "n"} - {held.id}
        assert {lease.id for lease in await take(other, most=3)} == left


async def a_drain_takes_what_waits_and_only_that(open: QueueOpener) -> None:
    async with open("a", LONG) as queue:
        await queue.put(jobs("a", "b", "c"))
        await queue.put(jobs("z", kind="other"))
        await queue.put(jobs("later"), delay_seconds=500.0)
        [held] = await take(queue, kinds=["code"])
        drained: list[Job] = []
        while found := await queue.drain(kind="code", most=2):
            assert len(found) <= 2
            drained += found
        assert sorted(job.id for job in drained) == sorted({"a", "b", "c", "later"} - {held.id})
        assert drained[0] in jobs("a", "b", "c", "later")
        assert await queue.ack([held]) == (held,)
        assert [lease.id for lease in await take(queue)] == ["z"]
        assert await queue.put(drained), "what was drained can be put again"


async def a_look_touches_nothing_and_tells_where_jobs_are(open: QueueOpener) -> None:
    async with open("a", LONG) as queue:
        await queue.put(jobs("first", "second", "third"))
        assert [kept.job.id for kept in await queue.peek(most=2)] == ["first", "second"]
        assert await queue.peek(kind="none such") == ()
        [held] = await take(queue)
        assert [kept.job.id for kept in await queue.peek(place=Place.LEASED)] == [held.id]
        assert [kept.job.id for kept in await queue.peek(kind="code")] == ["second", "third"]
        stats = await queue.stats()
        assert stats.kinds["code"].count == Count(ready=2, leased=1)
        assert stats.kinds["code"].oldest_seconds is not None
        assert stats.terms == LONG


async def who_waits_is_woken(open: QueueOpener) -> None:
    async with open("a", LONG) as queue, open("a", None) as other:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(other.lease("w", wait_seconds=PATIENCE_SECONDS))
            await asyncio.sleep(0.2)
            await queue.put(jobs("a"))
        assert [lease.id for lease in waiting.result()] == ["a"]


async def what_a_cancelled_wait_was_given_comes_back(open: QueueOpener) -> None:
    async with open("a", LONG) as queue:
        for _ in range(20):
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(queue.lease("gone", most=3, wait_seconds=PATIENCE_SECONDS))
                await asyncio.sleep(0)
                waiting.cancel()
        await queue.put(jobs("a", "b", "c"))
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(queue.lease("gone", most=3))
            for _ in range(2):
                await asyncio.sleep(0)
            waiting.cancel()
        kept = set() if waiting.cancelled() else {lease.id for lease in waiting.result()}
        assert {lease.id for lease in await take(queue, most=3 - len(kept))} | kept == {"a", "b", "c"}


async def what_was_put_outlives_who_put_it(open: QueueOpener) -> None:
    async with open("a", LONG) as keeper:
        async with open("a", None) as queue:
            await queue.put(jobs("a", "b"))
            assert queue.terms == LONG
        async with open("a", None) as queue:
            assert {lease.id for lease in await take(queue, most=2)} == {"a", "b"}
        assert (await keeper.stats()).count.total == 2


QUEUE_CHECKS: tuple[Callable[[QueueOpener], Awaitable[None]], ...] = (
    hands_out_what_was_put_and_forgets_what_is_done, an_id_that_is_kept_is_not_put_twice,
    a_lease_that_ran_out_is_handed_out_again_and_its_holder_is_refused, a_heartbeat_keeps_a_lease,
    what_was_settled_cannot_be_settled_again, the_last_delivery_is_followed_by_death_and_a_revival_begins_anew,
    a_worker_that_dies_each_time_kills_the_job_in_the_end, what_is_given_back_unbegun_was_no_delivery, a_delay_is_kept,
    a_full_queue_pushes_back_and_shuts_out_no_other_kind, a_flood_of_one_kind_does_not_hold_up_another,
    a_higher_priority_goes_first_but_not_before_what_waited_long,
    a_stopped_kind_is_not_handed_out_and_nothing_of_it_is_lost, a_drain_takes_what_waits_and_only_that,
    a_look_touches_nothing_and_tells_where_jobs_are, who_waits_is_woken, what_a_cancelled_wait_was_given_comes_back,
    what_was_put_outlives_who_put_it,
)


async def check_queue(open: QueueOpener) -> None:
    """Every check in turn, each on a queue that is new: `open` gets names that it has not seen. Raises AssertionError
    that names the check and says what was expected and found. Takes about ten seconds, most of it waiting."""
    for number, check in enumerate(QUEUE_CHECKS):
        def named(name: str, terms: Terms | None, number: int = number) -> AbstractAsyncContextManager[Queue]:
            return open(f"{name}{number}", terms)

        try:
            await check(named)
        except AssertionError as error:
            raise AssertionError(f"{check.__name__}: {error}") from error

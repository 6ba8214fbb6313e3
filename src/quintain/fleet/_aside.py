"""What a queue in NATS keeps beside its jobs: the dead, the kinds that are stopped, its terms, and pardons."""

from __future__ import annotations

import msgspec

from quintain.fleet._card import Place, Terms
from quintain.fleet._letters import Grave, Letter, Mark, Message, Nothing, Stream, grave
from quintain.fleet._link import Link, Refused
from quintain.fleet._subjects import Subjects, last
from quintain.fleet.base import Job, Kept

_NO_MESSAGE = 10037
_PAGE = 100_000  # subjects that the server tells at once
_PARDON_TTL = "168h"


class _Got(msgspec.Struct, frozen=True, kw_only=True):
    message: Message


class Aside:
    def __init__(self, link: Link, subjects: Subjects) -> None:
        self._link = link
        self._subjects = subjects
        self._dead_as_of = (0, 0)
        self._dead: frozenset[str] = frozenset()

    def stream(self, replicas: int) -> dict[str, object]:
        return {
            "name": self._subjects.aside, "subjects": [self._subjects.asides()], "retention": "limits",
            "storage": "file", "num_replicas": replicas, "max_msgs_per_subject": 1, "discard": "old",
            "allow_msg_ttl": True,
        }

    async def terms(self) -> Terms | None:
        message = await self._last(self._subjects.terms)
        return None if message is None else msgspec.json.decode(message.data, type=Terms)

    async def keep(self, terms: Terms) -> None:
        await self._link.publish([(self._subjects.terms, msgspec.json.encode(terms))])

    async def stopped(self) -> frozenset[str]:
        return frozenset(last(subject) for subject in await self._known(self._subjects.stop()))

    async def stop(self, kind: str) -> None:
        await self._link.publish([(self._subjects.stop(kind), b"")])

    async def resume(self, kind: str) -> None:
        await self._link.ask(f"STREAM.PURGE.{self._subjects.aside}", {"filter": self._subjects.stop(kind)}, Nothing)

    async def dead_ids(self) -> frozenset[str]:
        """The server is asked for all of them only after something has changed."""
        state = (await self._link.ask(f"STREAM.INFO.{self._subjects.aside}", None, Stream)).state
        as_of = (state.messages, state.last_seq)
        if as_of != self._dead_as_of:
            self._dead = frozenset([last(subject) for subject in await self._known(self._subjects.dead())])
            self._dead_as_of = as_of
        return self._dead

    async def dead_by_kind(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for subject in await self._known(self._subjects.dead()):
            kind = last(subject.split(".")[2])
            found[kind] = found.get(kind, 0) + 1
        return found

    async def dead(self, kind: str | None, most: int) -> tuple[Kept, ...]:
        """The first dead jobs, in the order of their death."""
        found: list[Kept] = []
        first = 1
        while len(found) < most:
            message = await self.get(self._subjects.aside, {"seq": first, "next_by_subj": self._subjects.dead(kind)})
            if message is None:
                break
            one = grave(message.data)
            found.append(Kept(job=one.job(message.subject), place=Place.DEAD, put_seconds=one.letter.put_seconds,
                              attempt=one.attempt, reason=one.reason))
            first = message.seq + 1
        return tuple(found)

    async def find(self, id: str) -> tuple[int, Job] | None:
        """A dead job, and where it lies."""
        message = await self._last(self._subjects.dead(id=id))
        return None if message is None else (message.seq, grave(message.data).job(message.subject))

    async def exhume(self, seq: int) -> None:
        await self._link.ask(f"STREAM.MSG.DELETE.{self._subjects.aside}", {"seq": seq, "no_erase": True}, Nothing)

    async def bury(self, job: Job, token: str, reason: str) -> None:
        """A job dies: it is kept here before it leaves there, so that it is never nowhere."""
        mark = Mark.of(token)
        put = mark.stored_seconds
        body = Grave(letter=Letter(tenant=job.tenant, put_seconds=put, ready_seconds=put, body=job.body),
                     priority=job.priority, attempt=mark.attempt, reason=reason)
        await self._link.publish([(self._subjects.dead(job.kind, job.id), msgspec.msgpack.encode(body))])
        await self._link.say([(token, b"+ACK")])

    async def pardons(self, kind: str, seq: int) -> int:
        """How many deliveries of a message do not count."""
        message = await self._last(self._subjects.pardon(kind, seq))
        return int(message.data) if message is not None else 0

    async def pardon(self, kind: str, seq: int) -> None:
        """One more does not count. Only who holds the lease says so, so that nobody else writes it meanwhile."""
        count = await self.pardons(kind, seq) + 1
        await self._link.publish([(self._subjects.pardon(kind, seq), b"%d" % count)], headers={"Nats-TTL": _PARDON_TTL})

    async def get(self, stream: str, what: dict[str, object]) -> Message | None:
        """One message of a stream; None where there is none."""
        try:
            return (await self._link.ask(f"STREAM.MSG.GET.{stream}", what, _Got)).message
        except Refused as refused:
            if refused.error.err_code == _NO_MESSAGE:
                return None
            raise

    async def _last(self, subject: str) -> Message | None:
        return await self.get(self._subjects.aside, {"last_by_subj": subject})

    async def _known(self, subject: str) -> list[str]:
        """The subjects that match."""
        found: list[str] = []
        while True:
            body = {"subjects_filter": subject, "offset": len(found)}
            page = (await self._link.ask(f"STREAM.INFO.{self._subjects.aside}", body, Stream)).state.subjects
            found += page or ()
            if not page or len(page) < _PAGE:
                return found

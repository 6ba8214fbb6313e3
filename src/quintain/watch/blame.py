"""Whom a crash speaks against: the kind and the image that were played, or the worker and the host that played it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from quintain.watch.episodes import Attempted
from quintain.watch.gate import Scope
from quintain.watch.losses import Loss

#: So many results of a kind that went well are remembered, with where.
_LATELY = 64
#: The image that every task has which brings none (with `+rw` where it may be written to): it says nothing.
HOST_IMAGE = "host"

About = tuple[Scope, str]


class Blame:
    """A crash speaks against a worker or a host only when the same kind of work has gone well elsewhere lately, and
    against a kind or an image only when it was not at a worker or a host that is stopped already. What goes well speaks
    for all of them."""

    def __init__(self, is_stopped: Callable[[Scope, str], bool]) -> None:
        self._is_stopped = is_stopped
        self._well: dict[str, deque[tuple[str, str]]] = {}

    def of(self, result: Attempted, *, image: str = "", worker: str = "", host: str = "") -> Iterator[About]:
        """What its breakers are to be told of."""
        played = [(Scope.KIND, result.kind)]
        if image and image.partition("+")[0] != HOST_IMAGE:
            played.append((Scope.IMAGE, image))
        places = [(scope, key) for scope, key in ((Scope.WORKER, worker), (Scope.HOST, host)) if key]
        if not result.crashed:
            self._well.setdefault(result.kind, deque(maxlen=_LATELY)).append((worker, host))
            yield from played
            yield from places
            return
        if not any(self._is_stopped(scope, key) for scope, key in places):
            yield from played
        well = self._well.get(result.kind, ())
        for scope, key in places:
            elsewhere = [(w, h) for w, h in well if (w if scope is Scope.WORKER else h) != key]
            if elsewhere:
                yield scope, key

    def of_loss(self, loss: Loss) -> Iterator[tuple[Attempted, About]]:
        """The same for crashes that came together: what took the sandboxes of several kinds at one place at once is one
        crash of that place, and says nothing of what was played there."""
        told: set[About] = set()
        for one in loss.own:
            for about in self.of(one.result, image=one.image, worker=one.worker, host=one.host):
                told.add(about)
                yield one.result, about
        if loss.is_the_places:
            first = loss.played[0]
            for scope, key in ((Scope.WORKER, first.worker), (Scope.HOST, first.host)):
                if key and (scope, key) not in told:
                    yield first.result, (scope, key)

"""One look at a run's sources from where the last one ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from quintain.store._attempts import Assembly, Attempt, Ranges, merged
from quintain.store._manifest import Aside, Standing
from quintain.store._sources import EPISODES, Hurt, read_source, sources
from quintain.types import Closed

RESULT = "result.json"


class Pass:
    """The attempts of one run that the library does not have yet. `known` are events that it has, beside those that
    its standing tells; with `living` also what workers have not handed in yet is looked at."""

    def __init__(
        self, run: Path, standings: Mapping[str, Standing], *, known: Mapping[str, Ranges] | None = None,
        living: bool = False,
    ) -> None:
        self.run = run
        self.hurts: list[Hurt] = []
        self._standings = {path: standings.get(self._key(path)) for path in sources(run, living=living)}
        self._sizes = {path: path.stat().st_size for path in self._standings}
        self._ends = {path: standing.low if standing else 0 for path, standing in self._standings.items()}
        self.is_cut = False
        self._has_ended = (run / RESULT).is_file()
        done: dict[str, Ranges] = dict(known or {})
        for standing in self._standings.values():
            for episode, ranges in (standing.done if standing else {}).items():
                done[episode] = merged([*done.get(episode, ()), *ranges])
        self._assembly = Assembly(done)

    @property
    def is_idle(self) -> bool:
        """Whether nothing was written since the last look, and nothing was left over then."""
        return all(
            standing is not None and standing.size == standing.low == self._sizes[path]
            for path, standing in self._standings.items()
        )

    @property
    def has_living(self) -> bool:
        """Whether workers have journals of their own here."""
        return any(EPISODES in path.relative_to(self.run).parts[:1] for path in self._standings)

    def attempts(self, is_enough: Callable[[], bool] = lambda: False) -> Iterator[Attempt]:
        """Those that are whole; then, where events are missing for good, what there is of the damaged ones. It is cut
        before a record when there is enough: the next look begins there."""
        for path, start in tuple(self._ends.items()):
            for found in read_source(path, self.run, start=start):
                if is_enough():
                    self.is_cut = True
                    return
                if isinstance(found, Hurt):
                    self.hurts.append(found)
                    if found.is_tail:
                        continue
                else:
                    yield from self._assembly.take(found)
                self._ends[path] = max(self._ends[path], found.end)
        hurt = any(not hurt.is_tail for hurt in self.hurts)
        for attempt in tuple(self._assembly.rest()):
            if attempt.damaged and (self._has_ended or (hurt and isinstance(attempt.kept[-1].event, Closed))):
                self._assembly.give_up(attempt)
                yield attempt._replace(closed=True)

    def rest(self) -> Iterator[Attempt]:
        """Those that go on."""
        return self._assembly.rest()

    def standings(self) -> dict[str, Standing]:
        """Where the next look begins."""
        made = {}
        for path in self._standings:
            name = path.relative_to(self.run).as_posix()
            if not name.startswith(EPISODES):
                low = self._assembly.low(name, self._ends[path])
                made[self._key(path)] = Standing(
                    size=self._sizes[path], low=low, done=self._assembly.done_beyond(name, low))
        return made

    def asides(self) -> list[Aside]:
        """What is damaged for good, by name."""
        return [
            Aside(path=f"{self.run.name}/{hurt.source}", offset=hurt.offset,
                  reason=f"{hurt.reason} (to byte {hurt.end})" if hurt.end > hurt.offset else hurt.reason)
            for hurt in (*self.hurts, *self._assembly.hurts) if not hurt.is_tail
        ]

    def _key(self, path: Path) -> str:
        return f"{self.run.name}/{path.relative_to(self.run).as_posix()}"

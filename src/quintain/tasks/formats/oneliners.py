"""One line of shell that reads standard input: tasks of our own, made on demand from families with a seed.

`oneliners:train` and `oneliners:heldout` are different tasks of the same families (other words, other numbers, other
inputs), `oneliners:new` are families that the two do not have, for what generalises and what does not. Ids are
`oneliner/PART/FAMILY/NUMBER`. What an output should be is computed here, by a rule that knows nothing of the command;
`tests/tasks/test_oneliners.py` lets the author's command run and compares.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from quintain.tasks.base import ByName
from quintain.tasks.exam import Exam, Item, StdioCase, StdioSuite
from quintain.tasks.formats.oneliner_families import FAMILIES, NEW, Family, input_of, parameters_of
from quintain.tasks.taskset import Taskset
from quintain.types import Entry, Limits, Scopes, TaskError

#: How many tasks each family has in a part.
COUNTS = {"train": 40, "heldout": 8, "new": 9}
#: A turn's time includes that of sampling, which takes minutes where a model samples in large batches on a CPU.
LIMITS = Scopes(
    episode=Limits(wall_seconds=3600.0, cpu_seconds=30.0, turns=2),
    turn=Limits(wall_seconds=1800.0, cpu_seconds=10.0), command=Limits(wall_seconds=5.0, cpu_seconds=0.5),
)
#: Of each task's inputs, the first is shown.
CASES = 4


class OneLinersFormat(ByName):
    """Parts by name; no file is read."""

    name = "oneliners"
    about = f"oneliners:PART, PART one of {', '.join(COUNTS)}"

    def named(self, name: str) -> Taskset:
        """Raises TaskError for a part that does not exist."""
        if name not in COUNTS:
            raise TaskError(f"expected a part of {', '.join(COUNTS)}, found {name!r}")
        return Taskset(OneLiners(name))


class OneLiners:
    """The tasks of one part."""

    def __init__(self, part: str) -> None:
        self.name = f"oneliners:{part}"
        self._part = part
        self._families = {family.name: family for family in (NEW if part == "new" else FAMILIES)}

    def ids(self) -> Sequence[str]:
        return tuple(f"oneliner/{self._part}/{name}/{n}" for name in self._families for n in range(COUNTS[self._part]))

    def item(self, id: str) -> Item:
        head, _, number = id.rpartition("/")
        family = self._families.get(head.removeprefix(f"oneliner/{self._part}/"))
        if family is None or id not in self.ids():
            raise KeyError(id)
        return item_of(id, family, int(number))


def item_of(id: str, family: Family, number: int) -> Item:
    """The task; the same id, the same task."""
    dice = random.Random(id)
    given = parameters_of(dice)
    about = family.about[number % len(family.about)].format(**given)
    command = family.command.format(**given)
    cases: list[StdioCase] = []
    for _ in range(1000):
        if len(cases) == CASES:
            break
        rows = input_of(family.kind, dice, given)
        wanted = family.want(rows, given)
        if wanted and wanted != rows:  # else saying nothing, or everything, would be right
            cases.append(StdioCase(name=f"case_{len(cases)}", stdin=_text(rows), stdout=_text(wanted), exit_code=None))
    if len(cases) < CASES:
        raise TaskError(f"task {id}: expected inputs that its command changes, found none in 1000 draws")
    return Item.sealed(
        Exam(hidden=StdioSuite(cases=tuple(cases)), visible=StdioSuite(cases=tuple(cases[:1])),
             oracle={"main.sh": f"{command}\n".encode()}, null=({"main.sh": b"cat\n"}, {"main.sh": b":\n"})),
        id=id, instructions=about, entry=Entry(path="main.sh", language="shell"), limits=LIMITS,
        tags=("oneliner", family.name),
    )


def _text(rows: Sequence[str]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()

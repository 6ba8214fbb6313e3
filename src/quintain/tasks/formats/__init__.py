"""The ways in which tasks are written down: one file for each, and one row in this table."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points

from quintain.tasks.base import Format
from quintain.types import TaskError

#: Our own formats: name → module and class. Others come from the entry-point group `quintain.tasks`.
_OWN = {
    "harbor": "quintain.tasks.formats.harbor:HarborFormat",  # before `directory`, which has a task.toml too
    "directory": "quintain.tasks.formats.directory:DirectoryFormat",
    "classeval": "quintain.tasks.formats.classeval:ClassEvalFormat",
    "data": "quintain.tasks.formats.data:DataFormat",
    "docs": "quintain.tasks.formats.docs:DocsFormat",
    "exercism": "quintain.tasks.formats.exercism:ExercismFormat",
    "humanevalpack": "quintain.tasks.formats.humanevalpack:HumanEvalPackFormat",  # before `humaneval`: has its keys too
    "humaneval": "quintain.tasks.formats.humaneval:HumanEvalFormat",
    "jsonl": "quintain.tasks.formats.jsonl:JsonlFormat",
    "mbpp": "quintain.tasks.formats.mbpp:MbppFormat",
    "multipl-e": "quintain.tasks.formats.multiple:MultipleFormat",
    "oneliners": "quintain.tasks.formats.oneliners:OneLinersFormat",
    "ops": "quintain.tasks.formats.ops:OpsFormat",
    "perf": "quintain.tasks.formats.perf:PerfFormat",
    "questions": "quintain.tasks.formats.questions:QuestionsFormat",
    "quixbugs": "quintain.tasks.formats.quixbugs:QuixBugsFormat",
    "reasoning-gym": "quintain.tasks.formats.reasoning:ReasoningGymFormat",
    "repair": "quintain.tasks.formats.repair:RepairFormat",
    "services": "quintain.tasks.formats.services:ServicesFormat",
    "repo": "quintain.tasks.formats.repo:RepoFormat",
    "sums": "quintain.tasks.formats.sums:SumsFormat",
    "stdin": "quintain.tasks.formats.stdinrows:StdinFormat",
    "swe": "quintain.tasks.formats.swe:SweFormat",
    "testgen": "quintain.tasks.formats.testgen:TestWritingFormat",
    "testeval": "quintain.tasks.formats.testeval:TestEvalFormat",
    "terminal-bench": "quintain.tasks.formats.terminalbench:TerminalBenchFormat",
}

GROUP = "quintain.tasks"


def known_formats() -> dict[str, Format]:
    """Every format by name: our own, and those that installed packages offer under the entry-point group
    `quintain.tasks` (an object, or a class without arguments). Raises TaskError for an entry that is no format or
    takes a name that is taken."""
    formats: dict[str, Format] = {name: _made(place) for name, place in _OWN.items()}
    for point in entry_points(group=GROUP):
        if point.name in formats:
            raise TaskError(f"entry point {point.value!r} offers the format {point.name!r}, which exists already")
        offered = point.load()
        made = offered() if isinstance(offered, type) else offered
        if not isinstance(made, Format):
            raise TaskError(f"entry point {point.value!r} in {GROUP!r} must be a Format, found {type(made).__name__}")
        formats[point.name] = made
    return formats


def _made(place: str) -> Format:
    module, _, name = place.partition(":")
    made = getattr(importlib.import_module(module), name)()
    if not isinstance(made, Format):
        raise TypeError(f"{place} is no Format")
    return made

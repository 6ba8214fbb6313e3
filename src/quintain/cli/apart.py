"""What keeps evaluation and training apart: lists of tasks by content, where runs lie, and who looks into them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from quintain.cli.exits import Usage
from quintain.evaluate import Listed, in_both, listed, read_list, write_list
from quintain.types import Task, TaskError

#: In the folder that holds the runs: one list for each evaluation.
HELD_OUT = "held-out"
#: In the folder of a training: what it learns from.
TRAINED_ON = "trained-on.json"
_SHOWN = 3


def hold_out(runs: Path, name: str, tasks: Iterable[Task]) -> Path:
    """List what is evaluated on; the answer is the list's file."""
    place = runs / HELD_OUT / f"{name}.json"
    write_list(place, listed(tasks, name=name, why="evaluated on"))
    return place


def note_training(folder: Path, tasks: Iterable[Task]) -> None:
    """List what a training learns from, in its folder."""
    write_list(folder / TRAINED_ON, listed(tasks, name=folder.name, why="trained on"))


def refuse_training(runs: Path, tasks: Iterable[Task]) -> None:
    """Raises Usage for tasks that any evaluation beside the runs holds out."""
    tasks = list(tasks)
    for place in sorted((runs / HELD_OUT).glob("*.json")):
        known = _read(place)
        if found := in_both(tasks, known):
            raise Usage(f"{len(found)} of {len(tasks)} tasks are evaluated on ({known.name}) and must not be trained "
                        f"on: {_told(found)}. Leave them out, or give the evaluation up: remove {place}")


def refuse_evaluation(lists: Sequence[Path], tasks: Iterable[Task], *, policy: str) -> None:
    """Raises Usage for tasks that a policy was trained on. Each of `lists` is the folder of a training or such a list;
    a folder without one was made before lists were kept."""
    tasks = list(tasks)
    for place in lists:
        file = place / TRAINED_ON if place.is_dir() else place
        if not file.exists():
            raise Usage(f"{place} does not say what it was trained on: expected {file}")
        if found := in_both(tasks, _read(file)):
            raise Usage(f"{len(found)} of {len(tasks)} tasks were trained on by {policy} ({file}) and say nothing of "
                        f"how good it is: {_told(found)}. Leave them out with --exclude, or take other tasks")


def _told(found: Sequence[tuple[str, str]]) -> str:
    told = [here if here == there else f"{here} (as {there})" for here, there in found[:_SHOWN]]
    return ", ".join(told) + (f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")


def _read(place: Path) -> Listed:
    try:
        return read_list(place)
    except TaskError as error:
        raise Usage(str(error)) from error

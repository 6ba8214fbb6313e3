"""Several measurements at a time, of which the first one that fails ends the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from quintain.types import HouseError, TaskError

Item = TypeVar("Item")
Result = TypeVar("Result")


async def together(
    work: Callable[[Item], Awaitable[Result]], items: Sequence[Item], *, at_once: int
) -> list[Result]:
    """`work` of each, in the order of the items, at most `at_once` at a time. A HouseError or TaskError comes out as
    itself, the first of them."""
    found: dict[int, Result] = {}
    waiting = iter(enumerate(items))

    async def worker() -> None:
        for at, item in waiting:
            found[at] = await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(max(1, at_once), len(items))):
                group.create_task(worker())
    except* (HouseError, TaskError) as errors:
        raise _first(errors) from None
    return [found[at] for at in range(len(items))]


def _first(errors: BaseExceptionGroup[HouseError | TaskError]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

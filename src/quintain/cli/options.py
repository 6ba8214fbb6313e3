"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from quintain.cli.wire import Choice


def choosing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that choose among the tasks of a set; the command gets them as `choice`."""

    @functools.wraps(function)
    def chosen(
        *, data: str | None, include: tuple[str, ...], exclude: tuple[str, ...], shuffle: int | None, take: int | None,
        **rest: Any,
    ) -> Any:
        choice = Choice(data=data, include=include, exclude=exclude, shuffle=shuffle, take=take)
        return function(choice=choice, **rest)

    options = (
        click.option("--data", type=click.Path(exists=True, resolve_path=True),
                     help="The file of a named set, or the folder that holds it."),
        click.option("--include", multiple=True, metavar="GLOB", help="Only tasks whose id matches (repeatable)."),
        click.option("--exclude", multiple=True, metavar="GLOB", help="Not tasks whose id matches (repeatable)."),
        click.option("--shuffle", type=int, metavar="SEED", help="In an order that the seed decides."),
        click.option("--take", "--limit", "take", type=click.IntRange(min=0), metavar="N", help="The first N only."),
    )
    for option in reversed(options):
        chosen = option(chosen)
    return chosen

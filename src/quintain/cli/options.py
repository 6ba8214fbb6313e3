"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from quintain.cli.exits import Usage
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


#: What to take for the images of a registry, which cannot be fetched here; the command gets it as `bases`.
basing = click.option(
    "--base", "bases", multiple=True, metavar="REF=IMAGE",
    help="What to take for a registry's image, as in ubuntu:24.04=host; *=host for any (repeatable).",
)


def pair_of(base: str) -> tuple[str, str]:
    """What one `--base` says. Raises Usage."""
    name, equals, image = base.rpartition("=")
    if not (name and equals and image):
        raise Usage(f"expected --base REF=IMAGE, as in --base ubuntu:24.04=host, found {base!r}")
    return name, image

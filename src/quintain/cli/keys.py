"""`quintain keys`: who may use a server, and how much of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from quintain.cli.exits import HostCannot, Usage
from quintain.cli.output import console, plain, say_json
from quintain.cli.room import size

if TYPE_CHECKING:
    from quintain.serve import KeyRing

SCOPES = ("runs:read", "runs:write", "tasks:read", "tasks:write", "sandboxes")

_in_folder = click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default="served",
                          show_default=True, help="The folder of the server.")


@click.group("keys")
def command() -> None:
    """Make and revoke the API keys of `quintain serve`, and say what their tenants may use.

    A key is shown once; what is kept tells it again, and cannot be turned back into it.

    \b
    Examples:
      quintain keys create alice --scope runs:read --scope runs:write
      quintain keys list
      quintain keys revoke 1f2e3d4c5b6a
      quintain keys quota alice --runs 4 --sandboxes 32 --kept 100GiB
    """


@command.command("create")
@click.argument("tenant")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), help="(repeatable) [default: all]")
@click.option("--note", default="", help="For whoever reads the list later.")
@click.option("--days", type=click.FloatRange(min=0), help="It opens nothing after so many days.")
@_in_folder
def create(tenant: str, scopes: tuple[str, ...], note: str, days: float | None, folder: Path) -> None:
    """Make a key for TENANT and show it on stdout: this once."""
    from quintain.serve import Scope

    try:
        shown, key = _ring(folder).create(
            tenant, [Scope(scope) for scope in scopes or SCOPES], note=note,
            seconds=None if days is None else days * 86_400)
    except ValueError as error:
        raise Usage(str(error)) from None
    click.echo(f"key {key.id} of {tenant} ({', '.join(key.scopes)}); it is not shown again", err=True)
    click.echo(shown)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each line.")
@_in_folder
def list_keys(as_json: bool, folder: Path) -> None:
    """List the keys that there are: their ids, never themselves."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("id", "tenant", "scopes", "made", "expires", "note"):
        table.add_column(title, overflow="fold")
    for key in _ring(folder).keys:
        if as_json:
            shown = {name: value for name, value in msgspec.to_builtins(key).items() if name != "digest"}
            say_json(shown)
        else:
            table.add_row(key.id, key.tenant, ", ".join(key.scopes), _day(key.created_unix_seconds),
                          _day(key.expires_unix_seconds), plain(key.note, limit=200))
    if not as_json:
        console().print(table, markup=False)


@command.command("revoke")
@click.argument("id")
@_in_folder
def revoke(id: str, folder: Path) -> None:
    """Let the key ID open nothing any more: a server that runs heeds it with its next request."""
    try:
        key = _ring(folder).revoke(id)
    except KeyError:
        raise Usage(f"expected the id of a key in {folder}, found {plain(id)!r}: quintain keys list") from None
    click.echo(f"key {key.id} of {key.tenant} opens nothing any more")


@command.command("quota")
@click.argument("tenant")
@click.option("--sandboxes", type=click.IntRange(min=0), help="That it may hold at a time.")
@click.option("--runs", type=click.IntRange(min=0), help="That are played for it at a time.")
@click.option("--run-sandboxes", type=click.IntRange(min=1), help="That one run may use.")
@click.option("--waiting", type=click.IntRange(min=0), help="Runs that may wait.")
@click.option("--kept", "kept_bytes", metavar="SIZE", callback=lambda ctx, option, text: size(text) if text else None,
              help="What its runs and tasks may take on the disk, as in 20GiB.")
@click.option("--streams", type=click.IntRange(min=0), help="That it may have open at a time.")
@click.option("--requests", "requests_per_second", type=click.FloatRange(min=1), help="Requests a second.")
@click.option("--burst", type=click.IntRange(min=1), help="Requests at once, after a pause.")
@_in_folder
def quota(tenant: str, folder: Path, **given: float | int | None) -> None:
    """Say, or change, what TENANT may use at a time."""
    ring = _ring(folder)
    changed = {name: value for name, value in given.items() if value is not None}
    found = msgspec.structs.replace(ring.quota(tenant), **changed)
    if changed:
        ring.allow(tenant, found)
    say_json(found)


def _ring(folder: Path) -> KeyRing:
    try:
        from quintain.serve import KeyRing
    except ImportError as error:
        raise HostCannot(f"expected the extra serve, found no {error.name}: pip install 'quintain[serve]'") from None
    return KeyRing(folder / "keys.json")


def _day(unix_seconds: float | None) -> str:
    return "" if unix_seconds is None else time.strftime("%Y-%m-%d", time.gmtime(unix_seconds))

"""`quintain watch`: the dashboard of the runs in a folder, in a browser of this machine."""

from __future__ import annotations

import asyncio
import importlib.util
import secrets
import signal
from pathlib import Path
from urllib.parse import quote

import click

from quintain.cli.exits import Usage
from quintain.store import find_run
from quintain.types import HouseError


@click.command("watch")
@click.argument("run", required=False)
@click.option("--runs", type=click.Path(path_type=Path, file_okay=False), default=Path("runs"), show_default=True,
              help="The folder that holds the runs.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of 127.0.0.1 [default: a free one].")
@click.option("--queue", type=click.Path(path_type=Path, file_okay=False), default=Path("audit"), show_default=True,
              help="The folder of the review queue (`quintain audit`).")
def command(run: str | None, runs: Path, port: int, queue: Path) -> None:
    """Look at runs in a browser: as they go, episode by episode, tasks, reviews and alerts.

    RUN is a run folder, the name of one in --runs, or 'latest'; without it the page begins with all of them. It listens
    on 127.0.0.1 only, and loads nothing from elsewhere. The address that is printed holds a token: with it reviews can
    be decided and episodes replayed; without it the page may only look. From another machine: ssh -L.

    \b
    Examples:
      quintain watch
      quintain watch latest
      quintain watch runs/first --port 8600
    """
    if importlib.util.find_spec("uvicorn") is None or importlib.util.find_spec("starlette") is None:
        raise Usage("the dashboard needs the packages starlette and uvicorn: pip install 'quintain[serve]'")
    folder, begin = _found(run, runs)
    reviews = queue if queue.is_dir() else None
    asyncio.run(_serve(folder, secrets.token_urlsafe(24), begin, port, reviews))


def _found(run: str | None, runs: Path) -> tuple[Path, str]:
    """The folder of runs, and the page to begin with."""
    if run is None:
        return runs, ""
    if any((Path(run) / name).is_file() for name in ("training.json", "trl.json")):
        path = Path(run)
    else:
        try:
            path = find_run(runs, run)
        except HouseError as error:
            raise Usage(error.message) from error
    path = path.resolve()
    return path.parent, f"run?run={quote(path.name, safe='')}"


async def _serve(runs: Path, token: str, begin: str, port: int, queue: Path | None) -> None:
    from quintain.cli.seeing import Replaying, ReviewDesk, WatchedAlarms, standings_of
    from quintain.serve import board, listening

    ended = asyncio.Event()
    for end in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(end, ended.set)
    app = board(runs, token=token, reviews=ReviewDesk(queue) if queue is not None else None, replays=Replaying(),
                alarms=WatchedAlarms(), standings=standings_of)
    async with listening(app, port=port, most_at_once=256, grace_seconds=1) as url:
        to = f"&to={quote(begin, safe='')}" if begin else ""
        click.echo(f"dashboard of {runs}: {url}/#token={token}{to}\nCtrl-C ends it")
        await ended.wait()

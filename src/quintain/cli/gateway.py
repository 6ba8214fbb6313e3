"""`quintain gateway`: an address for an agent that we did not write, and a record of all that it samples there."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from quintain.cli.exits import Failed, HostCannot, Usage
from quintain.cli.output import plain, say_json
from quintain.types import Reward

if TYPE_CHECKING:
    from quintain.serve import GatewayAdmin

SOCKET = "admin.sock"

_in_folder = click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default="captured",
                          show_default=True, help="The folder of the gateway.")
_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


class Closed(msgspec.Struct, frozen=True, kw_only=True):
    """What was recorded of an episode, in numbers. `rows` are the trajectories that it is trained on."""

    episode: str
    replies: int
    lost: int
    prompt_tokens: int
    sampled_tokens: int
    rows: int


@click.group("gateway")
def command() -> None:
    """Record what an agent samples, token for token, so that it can be trained: an agent of somebody else's is told an
    address and an API key of no account, and talks to it as to OpenAI or Anthropic.

    \b
    Examples:
      quintain gateway serve http://localhost:8000/v1       (a vLLM server; leave it running)
      quintain gateway open task#0                          (prints the agent's base address)
      quintain gateway close task#0 --rows task.jsonl --reward 1.0
    """


@command.command("serve")
@click.argument("upstream", metavar="URL")
@click.option("--model", help="The model's name there, whatever the agent asks for.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address that agents reach.")
@click.option("--port", type=click.IntRange(0, 65535), default=8421, show_default=True, help="0 takes a free one.")
@click.option("--policy-version", default="0", show_default=True, help="Recorded where the server tells none.")
@click.option("--connections", type=click.IntRange(min=1), default=1024, show_default=True, help="To the server.")
@_in_folder
def serve(
    upstream: str, model: str | None, host: str, port: int, policy_version: str, connections: int, folder: Path,
) -> None:
    """Stand in front of the model server at URL (…/v1), which must give token ids (vLLM from 0.10.2 on).

    All is kept in the folder: after kill -9 the same command goes on with the episodes that are open, under the same
    addresses. The server's own key is OPENAI_API_KEY; agents never see it. Episodes are opened and closed through a
    socket in the folder that only its owner can open. SIGTERM ends it.
    """
    try:
        from quintain.serve import refuse_another
    except ImportError as error:
        raise HostCannot(f"expected the extra serve, found no {error.name}: pip install 'quintain[serve]'") from None
    if not upstream.startswith(("http://", "https://")):
        raise Usage(f"expected the address of a model server, such as http://localhost:8000/v1, found {upstream!r}")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        refuse_another(folder / SOCKET)  # before the records of the other one are read
        asyncio.run(_serve(upstream, model, host, port, policy_version, connections, folder))
    except (OSError, ValueError) as error:
        raise Failed(plain(str(error))) from None


async def _serve(
    upstream: str, model: str | None, host: str, port: int, version: str, connections: int, folder: Path,
) -> None:
    from quintain.serve import ChatUpstream, Gateway, gateway_admin, listening, listening_at

    where = f"in {folder} (quintain gateway open NAME --folder {folder})"
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    behind = ChatUpstream(upstream, model=model, connections=connections)
    door = Gateway(behind, policy_version=version, folder=folder)
    try:
        async with (
            listening(door.app, host=host, port=port, most_at_once=None) as url,
            listening_at(gateway_admin(door, url), folder / SOCKET),
        ):
            click.echo(f"recording at {url} what {upstream} answers, {where}; open: {len(door.episodes)}", err=True)
            await told.wait()
    finally:
        await behind.aclose()


@command.command("open")
@click.argument("episode")
@click.option("--seed", type=int, default=0, show_default=True, help="Of requests that bring none.")
@click.option("--turns", type=click.IntRange(min=1), default=1000, show_default=True, help="How often it may ask.")
@click.option("--tokens", type=click.IntRange(min=1), help="How many tokens it may sample. [no bound]")
@click.option("--at-once", type=click.IntRange(min=1), default=32, show_default=True, help="Requests at a time.")
@_in_folder
@_as_json
def open_one(
    episode: str, seed: int, turns: int, tokens: int | None, at_once: int, folder: Path, as_json: bool,
) -> None:
    """Begin to record EPISODE, and print the base address that its agent is to be told: this once."""
    from quintain.serve import Allowance

    try:
        opened = _admin(folder).open(episode, seed=seed, allowance=Allowance(
            turns=turns, sampled_tokens=tokens, at_once=at_once))
    except (ValueError, ConnectionError) as error:
        raise Failed(plain(str(error))) from None
    if as_json:
        say_json(opened)
    else:
        click.echo(opened.base_url)


@command.command("list")
@_in_folder
@_as_json
def list_open(folder: Path, as_json: bool) -> None:
    """List the episodes that are open."""
    try:
        names = _admin(folder).episodes()
    except ConnectionError as error:
        raise Failed(plain(str(error))) from None
    if as_json:
        say_json({"episodes": names})
    else:
        click.echo("".join(f"{plain(name)}\n" for name in names), nl=False)


@command.command("close")
@click.argument("episode")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the whole record here, as JSON.")
@click.option("--rows", "rows_file", type=click.Path(path_type=Path, dir_okay=False), help="Append the trajectories to "
              "train on to this file, one JSON object a line.")
@click.option("--reward", type=float, help="Of the episode [default: none, which is no reward and not 0].")
@click.option("--task", help="That it was an attempt at [default: its own name].")
@_in_folder
@_as_json
def close_one(
    episode: str, out: Path | None, rows_file: Path | None, reward: float | None, task: str | None, folder: Path,
    as_json: bool,
) -> None:
    """End EPISODE: what its agent still asks gets 401. Its record stays in the folder."""
    try:
        captured = _admin(folder).close(episode)
    except (LookupError, ConnectionError) as error:
        raise Failed(plain(str(error.args[0]))) from None
    paid = None if reward is None else Reward(total=reward, solved=reward > 0)
    rows = captured.rows(task=task or episode, group=task or episode, reward=paid)
    if out is not None:
        out.write_bytes(msgspec.json.encode(captured) + b"\n")
    if rows_file is not None:
        with rows_file.open("ab") as file:
            file.write(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    told = Closed(
        episode=episode, replies=len(captured.turns), lost=captured.lost, rows=len(rows),
        prompt_tokens=sum(len(turn.prompt_token_ids or ()) for turn in captured.turns),
        sampled_tokens=sum(len(turn.output_token_ids or ()) for turn in captured.turns))
    if as_json:
        say_json(told)
    else:
        click.echo(f"{told.replies} replies of {told.sampled_tokens} tokens, {told.lost} requests without one, "
                   f"{told.rows} rows to train on")


def _admin(folder: Path) -> GatewayAdmin:
    try:
        from quintain.serve import GatewayAdmin
    except ImportError as error:
        raise HostCannot(f"expected the extra serve, found no {error.name}: pip install 'quintain[serve]'") from None
    return GatewayAdmin(folder / SOCKET)

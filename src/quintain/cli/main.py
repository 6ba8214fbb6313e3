"""The entrance: which commands there are, and what an exit code means."""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn

import click

from quintain import __version__
from quintain.cli.exits import DONE, FAILED, HOST_CANNOT, INTERRUPTED
from quintain.types import FaultKind, HouseError, TaskError

#: Each command with the line that `--help` shows; its module `quintain.cli.NAME` is imported only when it is used.
COMMANDS = {
    "run": "Let a policy attempt tasks in sandboxes, and keep what happened.",
    "show": "Tell the story of a run or of one episode.",
    "watch": "Look at runs in a browser: live, episode by episode, reviews and alerts.",
    "replay": "Run an episode again from any step, and say what differs and why.",
    "anomalies": "Find what in a run does not look right, with the command that runs it again.",
    "rescore": "Judge a whole run again, by another suite or another reward, without a model.",
    "export": "Write episodes as ATIF, OpenAI messages, or what trainers read (sft, dpo, kto).",
    "query": "Ask all runs in SQL.",
    "library": "Take what runs have journalled into Parquet, and look after it.",
    "gc": "Thin the library by rules, dry run first, and put back what went.",
    "tasks": "List, look into, check and write tasks.",
    "admit": "Decide which tasks deserve a place, and say what to do about the others.",
    "eval": "Measure a policy on tasks that it never learns from, or compare two.",
    "train": "Let a small policy learn from executed work, and watch it learn.",
    "audit": "Look at attempts, decide whether they were honest, and see what that proves.",
    "alerts": "See which alerts are on, silence and test them, and undo what they stopped.",
    "worker": "Play episodes of a run beside other workers.",
    "queue": "Look into a queue of jobs, stop and resume kinds of them, and deal with the dead.",
    "serve": "Serve runs, tasks and sandboxes over HTTP.",
    "gateway": "Record what an agent samples from a model server, token for token.",
    "keys": "Make and revoke the API keys of a server, and say what tenants may use.",
    "doctor": "Say what this host can do, and clean up what a killed run left.",
}

#: Commands whose module is called otherwise.
MODULES = {"queue": "queueing", "serve": "serving"}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"quintain.cli.{MODULES.get(cmd_name, cmd_name)}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="quintain %(version)s")
def command() -> None:
    """Agent reinforcement learning in executable environments, with rewards that can be trusted.

    \b
    Examples:
      quintain run humaneval --policy oracle --take 10
      quintain show runs/…            (a run folder, or a run folder and an episode)

    Exit codes: 0 done, 1 something failed, 2 wrong usage, 3 this host cannot, 130 interrupted.
    """


def main() -> NoReturn:
    """Run the command line and exit with its code; the last of the three places where errors are caught."""
    try:
        code = command.main(prog_name="quintain", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as problem:
        problem.show()
        sys.exit(problem.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has gone, as in `quintain show | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except OSError as problem:
        if problem.filename is None:  # no file of the user's: a flaw of ours, and its place matters
            raise
        click.echo(f"Error: {problem.filename}: {problem.strerror}", err=True)
        sys.exit(FAILED)
    except (HouseError, TaskError) as problem:
        click.echo(f"Error: {problem}", err=True)
        sys.exit(exit_code_of(problem))
    sys.exit(code if isinstance(code, int) else DONE)


def exit_code_of(problem: HouseError | TaskError) -> int:
    """A house without sandboxes cannot work on this host; everything else that broke has failed."""
    cannot = isinstance(problem, HouseError) and problem.kind is FaultKind.SANDBOX_CREATE_FAILED
    return HOST_CANNOT if cannot else FAILED

"""What the exit codes mean."""

from __future__ import annotations

import click

DONE = 0
FAILED = 1
USAGE = 2
HOST_CANNOT = 3
INTERRUPTED = 130


class Failed(click.ClickException):
    """Something that was asked for did not work."""

    exit_code = FAILED


class Usage(click.ClickException):
    """The command line asks for something that there is not."""

    exit_code = USAGE


class HostCannot(click.ClickException):
    """This host lacks what is needed."""

    exit_code = HOST_CANNOT

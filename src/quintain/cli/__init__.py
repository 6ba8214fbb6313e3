"""The command line: `quintain run | show | tasks | doctor`."""

from quintain.cli.main import main

__all__ = ["main"]

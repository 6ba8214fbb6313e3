"""Kinds of work: how each is asked, run, judged, and talked about."""

from quintain.env.around import Around
from quintain.env.base import Answer, Enterable, Environment, Feedback, Inside, Shown, Work
from quintain.env.by_kind import ByKind
from quintain.env.code import CodeEnvironment
from quintain.env.math import MathEnvironment
from quintain.env.shell import ShellEnvironment
from quintain.env.terminal import TerminalWorld
from quintain.env.terse import TerseEnvironment
from quintain.env.testgen import TestWritingEnvironment

__all__ = [
    "Answer", "Around", "ByKind", "CodeEnvironment", "Enterable", "Environment", "Feedback", "Inside",
    "MathEnvironment", "ShellEnvironment", "Shown", "TerminalWorld", "TerseEnvironment",
    "TestWritingEnvironment", "Work",
]

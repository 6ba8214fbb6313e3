"""Kinds of work: how each is asked, run, judged, and talked about."""

from quintain.env.around import Around
from quintain.env.base import Answer, Enterable, Environment, Feedback, Inside, Shown, Work
from quintain.env.by_kind import ByKind
from quintain.env.code import CodeEnvironment
from quintain.env.docs import DocsEnvironment
from quintain.env.judges import judges_of
from quintain.env.judging import Judge
from quintain.env.math import MathEnvironment
from quintain.env.ops import OpsEnvironment
from quintain.env.perf import PerfEnvironment
from quintain.env.services import ServiceEnvironment
from quintain.env.shell import ShellEnvironment
from quintain.env.terminal import TerminalWorld
from quintain.env.terse import TerseEnvironment
from quintain.env.testgen import TestWritingEnvironment

__all__ = [
    "Answer", "Around", "ByKind", "CodeEnvironment", "DocsEnvironment", "Enterable", "Environment", "Feedback",
    "Inside", "Judge", "MathEnvironment", "OpsEnvironment", "PerfEnvironment", "ServiceEnvironment",
    "ShellEnvironment", "Shown", "TerminalWorld", "TerseEnvironment", "TestWritingEnvironment", "Work", "judges_of",
]

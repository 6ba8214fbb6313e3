"""Kinds of work: how each is asked, run, judged, and talked about."""

from quintain.env.base import Answer, Environment, Feedback, Shown, Work
from quintain.env.code import CodeEnvironment

__all__ = ["Answer", "CodeEnvironment", "Environment", "Feedback", "Shown", "Work"]

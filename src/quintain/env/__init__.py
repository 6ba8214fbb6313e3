"""Kinds of work: how each is asked, run, judged, and talked about."""

from quintain.env.base import Answer, Environment, Feedback, Shown, Work

__all__ = ["Answer", "Environment", "Feedback", "Shown", "Work"]

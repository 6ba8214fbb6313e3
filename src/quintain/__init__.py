"""Quintain: agent reinforcement learning in executable environments. Importing it has no side effect."""

__version__ = "0.1.0"

"""Who answers."""

from quintain.policy.base import Policy

__all__ = ["Policy"]

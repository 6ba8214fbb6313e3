"""The public test kit: parts that stand in for the dear ones, and say so."""

from quintain.testing.fakes import (
    FakeEnvironment,
    FlakyBackend,
    FlakyPolicy,
    Plan,
    fail_first,
    fail_sometimes,
    fake_item,
    never,
)
from quintain.testing.process_backend import ProcessBackend

__all__ = [
    "FakeEnvironment", "FlakyBackend", "FlakyPolicy", "Plan", "ProcessBackend", "fail_first", "fail_sometimes",
    "fake_item", "never",
]

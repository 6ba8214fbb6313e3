"""How much a program, a turn or an episode may use."""

from __future__ import annotations

import msgspec

MEBIBYTE = 1024 * 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One value at three scopes: episode ⊇ turn ⊇ command.

    `memory_bytes` bounds memory and files in memory together; `disk_bytes` and `inodes` bound the writable tree;
    `output_bytes` bounds what is kept of each of stdout and stderr (the rest is drained and marked truncated);
    `turns` and `sampled_tokens` have a meaning at episode scope only.
    """

    wall_seconds: float = 10.0
    cpu_seconds: float = 10.0
    memory_bytes: int = 512 * MEBIBYTE
    disk_bytes: int = 128 * MEBIBYTE
    inodes: int = 16_384
    output_bytes: int = MEBIBYTE
    processes: int = 64
    turns: int = 8
    sampled_tokens: int = 65_536

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not value > 0:
                raise ValueError(f"limits.{name} must be greater than 0, found {value!r}")

    def within(self, outer: Limits) -> Limits:
        """The smaller of the two, field by field: a command never outlives its turn, a turn never its episode."""
        return Limits(**{name: min(getattr(self, name), getattr(outer, name)) for name in self.__struct_fields__})


class Scopes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a task at its three scopes; `command` is clipped by `turn`, and `turn` by `episode`."""

    episode: Limits = Limits(wall_seconds=600.0, cpu_seconds=600.0)
    turn: Limits = Limits(wall_seconds=120.0, cpu_seconds=120.0)
    command: Limits = Limits()

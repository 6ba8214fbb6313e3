"""Checkpoints: all that decides a training's next step, whole or not at all, the old ones pruned."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quintain.train.judging import write_atomically
from quintain.types import FaultKind, HouseError

#: Of the content of a checkpoint; one of another version is refused.
FORMAT = 1
_NAME = re.compile(r"step-(\d{8})\.pt")


class Checkpoints:
    """`step-00000120.pt` below a folder. The newest `keep` stay, and so do every `every`-th step and whatever is marked
    as the best; the others go when a new one is there.

    A checkpoint is written beside its place, flushed and moved there: a kill leaves the one before. What cannot be read
    is passed over for the next older one.
    """

    def __init__(self, folder: Path, *, keep: int = 2, every: int | None = None) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, found {keep}")
        self.folder = folder
        self._keep = keep
        self._every = every

    def steps(self) -> list[int]:
        """Which steps have one, oldest first."""
        found = (_NAME.fullmatch(path.name) for path in self.folder.glob("step-*.pt"))
        return sorted(int(match[1]) for match in found if match)

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08}.pt"

    def save(self, step: int, state: Mapping[str, Any], *, best: bool = False, sync: bool = True) -> Path:
        """`sync` waits for the disk: without, it survives the end of this process and not that of the host. Raises
        HouseError(STORE_ERROR) where it cannot be written."""
        import torch

        buffer = io.BytesIO()
        torch.save({"format": FORMAT, "step": step, "state": dict(state)}, buffer)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path(step), buffer.getvalue(), sync=sync)
            if best:
                write_atomically(self.folder / "best", f"{step}\n".encode(), sync=sync)
            self._prune()
        except OSError as error:
            raise HouseError(FaultKind.STORE_ERROR, f"{self.path(step)}: {error.strerror}") from error
        return self.path(step)

    @property
    def best(self) -> int | None:
        """The step that was marked as the best so far."""
        try:
            return int((self.folder / "best").read_text())
        except (OSError, ValueError):
            return None

    def newest(self) -> tuple[int, dict[str, Any]] | None:
        """The newest that can be read. Raises HouseError(STORE_ERROR) for one of another format."""
        for step in reversed(self.steps()):
            state = self.load(step)
            if state is not None:
                return step, state
        return None

    def load(self, step: int) -> dict[str, Any] | None:
        """None where it is not there or torn."""
        import torch

        try:
            held = torch.load(self.path(step), weights_only=True)
        except (OSError, EOFError, RuntimeError, pickle.UnpicklingError, ValueError, KeyError):
            return None
        if not isinstance(held, dict) or held.get("format") != FORMAT:
            raise HouseError(FaultKind.STORE_ERROR, f"{self.path(step)}: expected a checkpoint of format {FORMAT}")
        state: dict[str, Any] = held["state"]
        return state

    def _prune(self) -> None:
        steps = self.steps()
        stay = {*steps[-self._keep:], self.best}
        if self._every:
            stay |= {step for step in steps if step % self._every == 0}
        for step in steps:
            if step not in stay:
                self.path(step).unlink(missing_ok=True)
        for draft in self.folder.glob(".step-*"):  # what a kill left half written
            draft.unlink(missing_ok=True)

"""Sandboxes for a program of yours: `Sandbox` for asyncio, `SyncSandbox` for everyone else."""

from quintain.sandbox.sdk import (
    SANDBOX_LIMITS,
    Change,
    CommandError,
    CommandHandle,
    CommandInfo,
    CommandResult,
    FileEvent,
    Sandbox,
    Session,
    Snapshot,
)
from quintain.sandbox.sync import SyncSandbox

__all__ = [
    "Change", "CommandError", "CommandHandle", "CommandInfo", "CommandResult", "FileEvent", "SANDBOX_LIMITS", "Sandbox",
    "Session", "Snapshot", "SyncSandbox",
]

"""Places where untrusted programs run."""

from quintain.sandbox._sessions import Session
from quintain.sandbox._warm import Warm
from quintain.sandbox.agent_sandbox import AgentSandboxBackend
from quintain.sandbox.base import (
    DEFAULT_LIMITS,
    Backend,
    Capabilities,
    FileInfo,
    Files,
    Forking,
    Interactive,
    Networked,
    Process,
    ProcessInfo,
    Sandbox,
    Snapshot,
    Snapshots,
)
from quintain.sandbox.bubblewrap import BubblewrapBackend
from quintain.sandbox.choice import choose
from quintain.sandbox.container import ContainerBackend
from quintain.sandbox.doctor import Host, Layer, Sweep, clean, examine, report
from quintain.sandbox.gvisor import GvisorBackend
from quintain.sandbox.image.place import published
from quintain.sandbox.native import NativeBackend
from quintain.sandbox.pool import Pool

__all__ = [
    "AgentSandboxBackend", "Backend", "BubblewrapBackend", "Capabilities", "ContainerBackend", "DEFAULT_LIMITS",
    "FileInfo", "Files", "Forking", "GvisorBackend", "Host", "Interactive", "Layer", "NativeBackend", "Networked",
    "Pool", "Process", "ProcessInfo", "Sandbox", "Session", "Snapshot", "Snapshots", "Sweep", "Warm", "choose",
    "clean", "examine", "published", "report",
]

"""Places where untrusted programs run."""

from quintain.sandbox._warm import Warm
from quintain.sandbox.base import DEFAULT_LIMITS, Backend, Capabilities, FileInfo, Files, Sandbox
from quintain.sandbox.doctor import Host, Layer, Sweep, clean, examine, report
from quintain.sandbox.native import NativeBackend
from quintain.sandbox.pool import Pool

__all__ = [
    "Backend", "Capabilities", "DEFAULT_LIMITS", "FileInfo", "Files", "Host", "Layer", "NativeBackend", "Pool",
    "Sandbox", "Sweep", "Warm", "clean", "examine", "report",
]

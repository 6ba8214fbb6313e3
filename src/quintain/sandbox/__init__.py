"""Places where untrusted programs run."""

from quintain.sandbox.base import Backend, Capabilities, FileInfo, Files, Sandbox

__all__ = ["Backend", "Capabilities", "FileInfo", "Files", "Sandbox"]

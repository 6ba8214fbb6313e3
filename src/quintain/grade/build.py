"""Which code judged: the digest of the verifier itself, so that a verdict can be told from one by another build."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable


@cache
def verifier_build() -> str:
    """sha256 (hex, 16 digits) over the files of this package, by name and content, and the interpreter's version;
    computed once for each process."""
    digest = hashlib.sha256(f"{platform.python_implementation()} {platform.python_version()}\n".encode())
    for name, content in _sources("", resources.files("quintain.grade")):
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _sources(below: str, folder: Traversable) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__":
            found += _sources(f"{below}{entry.name}/", entry)
        elif entry.is_file() and not entry.name.endswith(".pyc"):
            found.append((below + entry.name, entry.read_bytes()))
    return found

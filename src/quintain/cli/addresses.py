"""Where the queue and the register of a run are. Pure but for a look into the run's definition."""

from __future__ import annotations

import hashlib
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit


def queue_of(run: Path, where: str | None = None) -> str:
    """Where a run's queue is: in its folder, or at `where`; on a server of which no queue is named, one of its own."""
    if where is None:
        return str(run / "queue.db")
    return f"{where.rstrip('/')}/{own_name(run)}" if "://" in where and not urlsplit(where).path.strip("/") else where


def register_of(run: Path, where: str | None = None) -> str:
    """Where a run's register is: in its folder, or at `where`; in a database of which no schema is named, in one of
    its own. Two runs in one register would take each other's results for their own."""
    if where is None:
        return str(run / "register.db")
    query = dict(parse_qsl(urlsplit(where).query))
    if "://" not in where or "schema" in query:
        return where
    return f"{where}{'&' if query else '?'}schema={own_name(run)}"


def own_name(run: Path) -> str:
    """The same for all who have the run's definition, and for no other run: it has its second of creation."""
    return f"run_{hashlib.sha256((run / 'run.json').read_bytes()).hexdigest()[:12]}"

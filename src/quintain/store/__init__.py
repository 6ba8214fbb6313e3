"""What is kept: everything that happened, and the bytes that it is made of."""

from quintain.store._compact import Compacted
from quintain.store._manifest import Aside
from quintain.store.base import Blobs, FileBlobs
from quintain.store.blobs import LocalBlobs
from quintain.store.journal import Journal, Mode, Sync
from quintain.store.ledger import Ledger
from quintain.store.library import Library, Log, Status
from quintain.store.objects import ObjectBlobs, open_blobs
from quintain.store.resume import Progress, Standing, last_attempt, progress, standing
from quintain.store.run import Definition, Result, Run, find_run, list_runs
from quintain.store.segment import Segment
from quintain.store.tail import Tail

__all__ = [
    "Aside", "Blobs", "Compacted", "Definition", "FileBlobs", "Journal", "Ledger", "Library", "LocalBlobs", "Log",
    "Mode", "ObjectBlobs", "Progress", "Result", "Run", "Segment", "Standing", "Status", "Sync", "Tail", "find_run",
    "last_attempt", "list_runs", "open_blobs", "progress", "standing",
]

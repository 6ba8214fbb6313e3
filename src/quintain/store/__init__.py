"""What is kept: everything that happened, and the bytes that it is made of."""

from quintain.store._compact import Compacted
from quintain.store._manifest import Aside
from quintain.store.base import Blobs, FileBlobs
from quintain.store.blobs import LocalBlobs
from quintain.store.journal import Journal, Mode, Sync
from quintain.store.keeping import Keeping, Pin, Swept
from quintain.store.ledger import Ledger
from quintain.store.library import Library, Log, Status
from quintain.store.lifecycle import STANDARD, Lifecycle, Rule, read_lifecycle, render_s3
from quintain.store.objects import ObjectBlobs, open_blobs
from quintain.store.origin import Origin, made_by, origin
from quintain.store.resume import Progress, Standing, last_attempt, progress, standing
from quintain.store.run import Definition, Result, Run, find_run, list_runs
from quintain.store.segment import Segment
from quintain.store.tail import Tail

__all__ = [
    "Aside", "Blobs", "Compacted", "Definition", "FileBlobs", "Journal", "Keeping", "Ledger", "Library", "Lifecycle",
    "LocalBlobs", "Log", "Mode", "ObjectBlobs", "Origin", "Pin", "Progress", "Result", "Rule", "Run", "STANDARD",
    "Segment", "Standing", "Status", "Swept", "Sync", "Tail", "find_run", "last_attempt", "list_runs", "made_by",
    "open_blobs", "origin", "progress", "read_lifecycle", "render_s3", "standing",
]

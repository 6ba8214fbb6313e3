"""What is kept: everything that happened, and the bytes that it is made of."""

from quintain.store.base import Blobs
from quintain.store.blobs import LocalBlobs
from quintain.store.journal import Journal, Mode, Sync
from quintain.store.ledger import Ledger
from quintain.store.resume import Progress, Standing, last_attempt, progress, standing
from quintain.store.run import Definition, Result, Run, find_run, list_runs

__all__ = [
    "Blobs", "Definition", "Journal", "Ledger", "LocalBlobs", "Mode", "Progress", "Result", "Run", "Standing", "Sync",
    "find_run", "last_attempt", "list_runs", "progress", "standing",
]

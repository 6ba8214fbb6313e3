"""What looks at an attempt and says whether it was honest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quintain.tasks import Item
from quintain.types import Attempt, Flag


class Detector(Protocol):
    """Pure: looks at an attempt and at what was seen of it, and raises flags. HARD only on deterministic evidence from
    the verifier's side (it penalises); everything else is SOFT (it masks, and queues the attempt for review)."""

    @property
    def name(self) -> str: ...

    def inspect(self, attempt: Attempt, item: Item) -> Sequence[Flag]: ...

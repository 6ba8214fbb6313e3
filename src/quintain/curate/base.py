"""What looks at a task before it is admitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from quintain.curate.finding import Finding
from quintain.curate.site import Site
from quintain.tasks import Item


class Check(Protocol):
    """One step of the admission. `version` changes whenever the check may say something else of the same task, be
    it by its settings: what was kept of another one is measured again. Empty: what it says depends on more than the
    task, and is never kept. `runs` says that it needs sandboxes: such checks are left out once
    a cheaper one has failed.

    `examine` raises HouseError when the house fails and TaskError when the task cannot be tried; `earlier` holds what
    the checks before it found, by name.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def runs(self) -> bool: ...

    async def examine(self, item: Item, site: Site, earlier: Mapping[str, Finding]) -> Finding: ...

"""Step 12: what a verdict costs, and whether the author's answer has room within its limits."""

from __future__ import annotations

from collections.abc import Mapping

from quintain.curate.finding import Finding, Problem, Result, found, unmeasured
from quintain.curate.site import Site, command_limits
from quintain.tasks import Item
from quintain.types import MEBIBYTE

#: Headroom: the share of its memory that the author's answer may use, and the share at which it is too much.
ROOM, NONE_LEFT = 1 / 3, 0.8
#: An interpreter alone takes this much; below it nothing is said of shares.
FLOOR_BYTES = 32 * MEBIBYTE


class Cost:
    """CPU as the backend measured it in the oracle's runs (not wall time: other work on this machine would be blamed on
    the task), memory at its peak in the same, or in one more run where those do not tell."""

    name = "cost"
    version = "2"
    runs = True

    async def examine(self, item: Item, site: Site, earlier: Mapping[str, Finding]) -> Finding:
        seen = earlier.get("oracle")
        if item.exam.oracle is None or seen is None or seen.result is Result.NOT_MEASURED:
            return unmeasured(self.name, "no run of the author's answer was measured")
        limits = command_limits(item)
        cpu = seen.figures.get("cpu_seconds_p95", 0.0)
        figures = {"cpu_seconds_p95": cpu, "wall_seconds_p95": seen.figures.get("wall_seconds_p95", 0.0)}
        problems = [_of("time", cpu, limits.cpu_seconds, f"{cpu:.2f} s of CPU", f"{limits.cpu_seconds:g} s")]
        peak = seen.figures.get("peak_memory_bytes")
        if peak is None:
            outcome = await site.measure(item, item.exam.oracle)
            peak = outcome.peak_memory_bytes if outcome is not None else None
        if peak is not None:
            figures["peak_memory_bytes"] = float(peak)
            if peak > FLOOR_BYTES:
                problems.append(_of("memory", peak, limits.memory_bytes, f"{peak / MEBIBYTE:.0f} MiB",
                                    f"{limits.memory_bytes / MEBIBYTE:.0f} MiB"))
        return found(self.name, [p for p in problems if p is not None], figures=figures,
                     remedy="raise the limit to three times what the author's answer needs, or make the work smaller")


def _of(what: str, used: float, limit: float, said: str, most: str) -> Problem | None:
    share = used / limit
    if share <= ROOM:
        return None
    return Problem(code="headroom", fails=share > NONE_LEFT,
                   text=f"the author's answer needs {said} ({share:.0%} of the {what} limit of {most}): a right answer "
                        "of another shape may not fit")

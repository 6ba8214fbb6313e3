"""How tidy the lines are that an answer changed: new findings of ruff for each of them.

Covers: suppressions (`noqa`) are ignored and so is every configuration of the answer's; a finding that the given files
or the reference had already is no news; lines beyond twice the reference's change do not thin findings out. Does not
cover: other languages than Python, and taste.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from quintain.grade._analyser import analysed, installed, selected
from quintain.grade._subject import is_visible_test
from quintain.grade.findings import Finding, beyond, changed_lines, new_findings, told, with_text
from quintain.tasks import Item
from quintain.types import Attempt, FaultKind, HouseError, Score

#: Errors, unused and undefined names, bugbear, simplifications, comprehensions, needless parts, returns, complexity.
RULES = "E4,E7,E9,F,B,SIM,C4,PIE,RET,C901,PLE,PLW"
#: So many new findings for each changed line are as bad as can be.
WORST_DENSITY = 0.5
#: Without a reference, changed lines beyond these do not count.
MOST_LINES = 400


class _Place(msgspec.Struct):
    row: int


class _Row(msgspec.Struct):
    filename: str
    location: _Place
    message: str
    code: str | None = None


async def ruff(files: Mapping[str, bytes]) -> list[Finding]:
    """What ruff finds in the Python files, suppressed or not; `syntax` for a file that it cannot read. Raises
    HouseError."""
    chosen = selected(files, (".py",))
    if not chosen:
        return []
    arguments = ("check", "--isolated", "--ignore-noqa", "--no-cache", "--quiet", "--exit-zero",
                 "--output-format", "json", "--select", RULES, "--target-version", "py311", "--")
    printed, names = await analysed("ruff", arguments, chosen)
    try:
        rows = msgspec.json.decode(printed or b"[]", type=list[_Row])
    except msgspec.MsgspecError as error:
        raise HouseError(FaultKind.VERIFIER_ERROR, f"expected ruff's findings as JSON, found {error}") from None
    found = [
        Finding(rule=row.code or "syntax", path=names.get(row.filename.rpartition("/")[2], ""), line=row.location.row,
                message=row.message.splitlines()[0] if row.message else "") for row in rows]
    return with_text(found, chosen)


class Untidy(msgspec.Struct, frozen=True, kw_only=True):
    """What a change brought. `lines` are those that count."""

    findings: tuple[Finding, ...]
    lines: Annotated[int, msgspec.Meta(ge=0)]

    @property
    def value(self) -> float:
        """0.5 for nothing new, down to 0 at WORST_DENSITY."""
        return 0.5 * (1.0 - min(1.0, len(self.findings) / max(1, self.lines) / WORST_DENSITY))


async def untidy(
    after: Mapping[str, bytes], before: Mapping[str, bytes], reference: Mapping[str, bytes] | None = None
) -> Untidy:
    """The findings on changed lines that neither `before` nor the change to `reference` has. Raises HouseError."""
    old = await ruff(before)
    found = await _on_changed(after, before, old)
    lines = sum(map(len, changed_lines(selected(after, (".py",)), before).values()))
    most = MOST_LINES
    if reference is not None:
        found = beyond(found, await _on_changed(reference, before, old))
        most = max(20, 2 * sum(map(len, changed_lines(selected(reference, (".py",)), before).values())))
    return Untidy(findings=tuple(found), lines=min(lines, most))


async def _on_changed(
    after: Mapping[str, bytes], before: Mapping[str, bytes], old: Sequence[Finding]
) -> list[Finding]:
    lines = changed_lines(after, before)
    return [one for one in new_findings(await ruff(after), old) if one.line in lines.get(one.path, ())]


class Style:
    """Scores `style`: 0.5 for an answer without new findings, less with them."""

    name = "style"

    def __init__(self, *, weight: float = 0.04) -> None:
        self._weight = weight

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]:
        """One score, None where there is no Python or no ruff. Raises HouseError."""
        if not installed("ruff"):
            return (self._score(None, "ruff is not installed: pip install 'quintain[quality]'"),)
        files = {p: c for p, c in attempt.changed.items() if p.endswith(".py") and not is_visible_test(p)}
        if not selected(files, (".py",)):
            return (self._score(None, "the answer changed no Python file that can be read"),)
        found = await untidy(files, item.task.files, item.exam.oracle)
        said = f"{len(found.findings)} new on {found.lines} changed lines"
        return (self._score(found.value, f"{said}: {told(found.findings)}" if found.findings else said),)

    def _score(self, value: float | None, evidence: str) -> Score:
        return Score(name=self.name, value=value, weight=self._weight, evidence=evidence)

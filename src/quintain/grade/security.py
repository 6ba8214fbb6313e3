"""Whether an answer brings code that lets others in: new findings of bandit, and of a small table for JavaScript and
shell.

Covers: suppressions (`nosec`) are ignored; findings that the given files or the reference had already are no news;
strings and comments of JavaScript and shell are taken out before the table is asked, as far as a scan by lines can.
Does not cover: data flow. What only looks dangerous counts, and what is built at run time is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from quintain.grade._analyser import analysed, installed, selected
from quintain.grade._subject import is_visible_test
from quintain.grade.findings import Finding, beyond, new_findings, told, with_text
from quintain.tasks import Item
from quintain.types import Attempt, FaultKind, HouseError, Score

JAVASCRIPT = (".js", ".mjs", ".cjs", ".ts")
SHELL = (".sh", ".bash")
_SEVERITY = {"HIGH": 1.0, "MEDIUM": 0.5, "LOW": 0.0}
#: (suffixes, rule, pattern, severity, whether texts in quotes are left in for it).
_TABLE: tuple[tuple[tuple[str, ...], str, str, float, bool], ...] = (
    (JAVASCRIPT, "js-eval", r"(?<![\w.$])eval\s*\(|new\s+Function\s*\(", 1.0, False),
    (JAVASCRIPT, "js-timer-text", r"set(?:Timeout|Interval)\s*\(\s*['\"`]", 0.5, True),
    (JAVASCRIPT, "js-shell", r"(?<![\w$])exec(?:Sync)?\s*\(\s*(?:`[^`]*\$\{|['\"][^'\"]*['\"]\s*\+|\w+\s*\+)", 1.0,
     True),
    (JAVASCRIPT, "js-shell-option", r"shell\s*:\s*true", 0.5, False),
    (JAVASCRIPT, "js-inner-html", r"\.(?:inner|outer)HTML\s*\+?=(?!=)|document\.write\s*\(", 0.5, False),
    (JAVASCRIPT, "js-tls-off", r"rejectUnauthorized\s*:\s*false|NODE_TLS_REJECT_UNAUTHORIZED", 1.0, True),
    (JAVASCRIPT, "js-vm", r"vm\.(?:runIn\w+|Script)\s*\(", 0.5, False),
    (JAVASCRIPT, "js-weak-hash", r"createHash\s*\(\s*['\"](?:md5|sha1)['\"]", 0.5, True),
    (SHELL, "sh-pipe-to-shell", r"(?:curl|wget)\b[^|;&]*\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b", 1.0, True),
    (SHELL, "sh-eval", r"(?:^|[;&|(]\s*|\s)eval\s+[^#\s]*\$?", 1.0, True),
    (SHELL, "sh-open-to-all", r"chmod\s+(?:-\w+\s+)*(?:0?777|a\+rwx|o\+w)", 0.5, True),
    (SHELL, "sh-remove-variable", r"rm\s+-\w*[rR]\w*\s+(?:--\s+)?\"?\$\{?\w+\}?/?\*?\"?(?:\s|$)", 0.5, True),
    (SHELL, "sh-fixed-temporary", r">\s*/tmp/[\w.-]+(?:\s|$)", 0.5, True),
    (SHELL, "sh-tls-off", r"curl\b.*\s(?:-k|--insecure)\b|wget\b.*--no-check-certificate", 1.0, True),
)
_RULES = tuple((suffixes, rule, re.compile(p), severity, quoted) for suffixes, rule, p, severity, quoted in _TABLE)
_MOST_LINE = 2_000
_JS_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`(?:\\.|[^`\\])*`")
_JS_COMMENT = re.compile(r"(?<![:'\"`])//.*$|/\*.*?\*/")
_SH_COMMENT = re.compile(r"(?:^|\s)#.*$")


class _Row(msgspec.Struct):
    filename: str
    line_number: int
    test_id: str
    issue_text: str
    issue_severity: str
    issue_confidence: str


class _Report(msgspec.Struct):
    results: list[_Row]


async def bandit(files: Mapping[str, bytes]) -> list[Finding]:
    """What bandit finds in the Python files with at least medium confidence, suppressed or not; severity is 1 for high,
    0.5 for medium, 0 for low. Raises HouseError."""
    chosen = selected(files, (".py",))
    if not chosen:
        return []
    printed, names = await analysed(
        "bandit", ("--format", "json", "--quiet", "--ignore-nosec", "--exit-zero"), chosen)
    try:
        report = msgspec.json.decode(printed, type=_Report)
    except msgspec.MsgspecError as error:
        raise HouseError(FaultKind.VERIFIER_ERROR, f"expected bandit's findings as JSON, found {error}") from None
    found = [
        Finding(rule=row.test_id, path=names.get(row.filename.rpartition("/")[2], ""), line=row.line_number,
                message=row.issue_text.splitlines()[0], severity=_SEVERITY.get(row.issue_severity, 0.0))
        for row in report.results if row.issue_confidence != "LOW"]
    return with_text(found, chosen)


def scan(files: Mapping[str, bytes]) -> list[Finding]:
    """What the table finds in JavaScript and shell files, in the order of the files. Pure."""
    found: list[Finding] = []
    for path, content in selected(files, JAVASCRIPT + SHELL).items():
        javascript = path.endswith(JAVASCRIPT)
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
            code = (_JS_COMMENT if javascript else _SH_COMMENT).sub(" ", line[:_MOST_LINE])
            bare = _JS_QUOTED.sub("''", code) if javascript else code
            found += [Finding(rule=rule, path=path, line=number, severity=severity, text=line.strip())
                      for suffixes, rule, pattern, severity, quoted in _RULES
                      if path.endswith(suffixes) and pattern.search(code if quoted else bare)]
    return found


class Security:
    """Scores `security`: 0.5 without new findings, 0 with one of high severity or two of medium."""

    name = "security"

    def __init__(self, *, weight: float = 0.07) -> None:
        self._weight = weight

    async def grade(self, attempt: Attempt, item: Item) -> Sequence[Score]:
        """One score, None where nothing can be looked at. Raises HouseError."""
        files = {p: c for p, c in attempt.changed.items() if not is_visible_test(p)}
        if not selected(files, (".py", *JAVASCRIPT, *SHELL)):
            return (self._score(None, "the answer changed no file of Python, JavaScript or shell"),)
        if selected(files, (".py",)) and not installed("bandit"):
            return (self._score(None, "bandit is not installed: pip install 'quintain[quality]'"),)
        before = await self._findings(item.task.files)
        found = new_findings(await self._findings(files), before)
        found = beyond(found, new_findings(await self._findings(item.exam.oracle or {}), before))
        weighty = sorted((one for one in found if one.severity > 0), key=lambda one: -one.severity)
        value = 0.5 * (1.0 - min(1.0, sum(one.severity for one in weighty)))
        return (self._score(value, told(weighty) or "nothing new"),)

    async def _findings(self, files: Mapping[str, bytes]) -> list[Finding]:
        return [*await bandit(files), *scan(files)]

    def _score(self, value: float | None, evidence: str) -> Score:
        return Score(name=self.name, value=value, weight=self._weight, evidence=evidence)

"""Admissions as an author reads them: lines for a terminal, and one page of HTML that needs nothing else. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

from quintain.curate.finding import Admission, Finding, Result, Ruling

_SHOWN = 8


def lines_of_admission(admission: Admission, *, every: bool = False) -> Iterator[str]:
    """What an author has to do about one task; of what is well only a line, unless `every` check is asked for."""
    yield f"{admission.ruling.value:9} {admission.task}"
    for finding in admission.findings:
        wrong = finding.result in (Result.FAIL, Result.WARN)
        if not wrong and not every and not (finding.result is Result.NOT_MEASURED and not _left_out(finding)
                                            and admission.ruling is Ruling.UNPROVEN):
            continue
        yield f"    {finding.result.value:12} {finding.check}{f': {finding.evidence[0]}' if finding.evidence else ''}"
        for problem in finding.problems[:_SHOWN]:
            yield f"        {'✗' if problem.fails else '!'} {problem}"
        if len(finding.problems) > _SHOWN:
            yield f"        … and {len(finding.problems) - _SHOWN} more"
        if finding.remedy and (wrong or every):
            yield f"        → {finding.remedy}"


def _left_out(finding: Finding) -> bool:
    return any(line.startswith("left out") for line in finding.evidence)


def summary_of(admissions: Sequence[Admission]) -> str:
    counts = Counter(admission.ruling for admission in admissions)
    return f"{len(admissions)} task(s): " + ", ".join(f"{counts[ruling]} {ruling.value}" for ruling in Ruling)


_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}
details{border:1px solid #ddd;border-radius:6px;margin:.4rem 0;padding:.3rem .8rem}summary{cursor:pointer}
.admitted{color:#18794e}.augment{color:#946800}.rejected{color:#b42318}.unproven{color:#555}
.fail{color:#b42318}.warn{color:#946800}.pass{color:#18794e}.not_measured{color:#777}
table{border-collapse:collapse;width:100%}td{vertical-align:top;padding:.2rem .6rem;border-top:1px solid #eee}
code{background:#f5f5f5;padding:0 .2rem}"""


def page_of(admissions: Sequence[Admission], *, title: str) -> str:
    """One HTML page: a summary, and for each task what was found, those to be mended first."""
    order = {ruling: at for at, ruling in enumerate((
        Ruling.REJECTED, Ruling.AUGMENT, Ruling.UNPROVEN, Ruling.ADMITTED))}
    rows = "\n".join(_task(one) for one in sorted(admissions, key=lambda a: (order[a.ruling], a.task)))
    return (f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title><style>{_STYLE}</style>"
            f"<h1>{escape(title)}</h1><p>{escape(summary_of(admissions))}</p>\n{rows}\n</html>\n")


def _task(admission: Admission) -> str:
    opened = " open" if admission.ruling in (Ruling.REJECTED, Ruling.AUGMENT) else ""
    findings = "".join(_finding(finding) for finding in admission.findings)
    return (f"<details{opened}><summary><b class={admission.ruling.value}>{admission.ruling.value}</b> "
            f"<code>{escape(admission.task)}</code></summary><table>{findings}</table></details>")


def _finding(finding: Finding) -> str:
    told = [escape(line) for line in finding.evidence]
    told += [f"<span class={'fail' if p.fails else 'warn'}>{escape(p.code)}</span>: {escape(str(p))}"
             for p in finding.problems]
    told += [f"→ {escape(finding.remedy)}"] if finding.remedy else []
    return (f"<tr><td>{escape(finding.check)}<td class={finding.result.value}>"
            f"{finding.result.value.replace('_', ' ')}<td>{'<br>'.join(told)}<td>{finding.seconds:.2f} s</tr>")

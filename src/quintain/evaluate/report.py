"""An evaluation for people: as Markdown, and as one page of HTML with plots that needs nothing else. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from quintain.evaluate.compare import Comparison, Gap
from quintain.evaluate.intervals import Range
from quintain.evaluate.measures import Measures
from quintain.evaluate.plots import bars, curves

Row = tuple[str, ...]
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0}th,td{text-align:left;padding:.2rem .8rem;border-top:1px solid #ddd}
td+td,th+th{text-align:right}figure{margin:1rem 0}figcaption{color:#555}"""
#: pass@k and pass^k are told for these k, where there are as many episodes.
_TOLD = (1, 2, 4, 8, 16, 32, 64)


def markdown_of(measures: Sequence[Measures], *, title: str, comparison: Comparison | None = None) -> str:
    """The tables of an evaluation."""
    parts = [f"# {_flat(title)}", *_notes(measures)]
    for heading, rows in _tables(measures, comparison):
        head, *body = rows
        parts.append("\n".join([f"## {heading}\n", f"| {' | '.join(map(_flat, head))} |", f"|{'---|' * len(head)}",
                                *(f"| {' | '.join(map(_flat, row))} |" for row in body)]))
    if comparison is not None:
        parts.append(_sentence(comparison))
    return "\n\n".join(parts) + "\n"


def page_of(measures: Sequence[Measures], *, title: str, comparison: Comparison | None = None) -> str:
    """The same with plots: completion by kind of work, and how pass@k and pass^k go with k."""
    parts = [f"<h1>{escape(title)}</h1>", *(f"<p>{escape(note)}</p>" for note in _notes(measures))]
    parts.append(_figure(bars([(f"{one.policy}{f', {kind}' if kind else ''}", found) for one in measures
                               for kind, found in (("", one.completion), *_kinds(one))]),
                         "Completion, with 95 % intervals over tasks"))
    if max(len(one.curves) for one in measures) > 1:
        lines = [(f"{one.policy}: {name}", [(c.k, c.any if name == "pass@k" else c.all) for c in one.curves])
                 for one in measures for name in ("pass@k", "pass^k")]
        parts.append(_figure(curves(lines), "At least one of k attempts (pass@k), and all of k (pass^k)"))
    for heading, rows in _tables(measures, comparison):
        head, *body = rows
        cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}' for cell in row)}" for row in body)
        parts.append(f"<h2>{escape(heading)}</h2><table><tr>{''.join(f'<th>{escape(c)}' for c in head)}{cells}</table>")
    if comparison is not None:
        parts.append(f"<p>{escape(_sentence(comparison))}</p>")
    return (f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title><style>{_STYLE}</style>\n"
            + "\n".join(parts) + "\n</html>\n")


def _figure(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"


def _notes(measures: Sequence[Measures]) -> Iterator[str]:
    for one in measures:
        yield (f"{_flat(one.policy)}: {one.episodes} episodes of {one.tasks} tasks, {one.solved} solved"
               + "".join(f"; {count} lost to the {owner}" for owner, count in one.lost.items() if count) + ".")


def _tables(measures: Sequence[Measures], comparison: Comparison | None) -> Iterator[tuple[str, list[Row]]]:
    names = tuple(one.policy for one in measures)
    rows: list[Row] = [("", *names), ("completion", *(_percent(one.completion) for one in measures))]
    for k in (k for k in _TOLD if any(k <= len(one.curves) for one in measures)):
        at = [one.curves[k - 1] if k <= len(one.curves) else None for one in measures]
        rows.append((f"pass@{k}", *("" if c is None else _percent(c.any) for c in at)))
        rows.append((f"pass^{k}", *("" if c is None else _percent(c.all) for c in at)))
    rows.append(("tasks solved sometimes", *(str(one.sometimes) for one in measures)))
    rows.append(("recovery after failure", *(
        "no turn failed" if one.recovery is None else f"{_percent(one.recovery)} of {one.failed_once}"
        for one in measures)))
    rows.append(("hack rate", *(_percent(one.hack_rate) for one in measures)))
    rows.append(("suspect (soft evidence)", *(_percent(one.suspect_rate) for one in measures)))
    yield "What it completes", rows
    units = dict.fromkeys(unit.name for one in measures for unit in one.to_solve)
    if units:
        yield "What it takes to solve a task (means)", [("", *names), *(
            (name.replace("_", " "), *(next((_number(u.mean) for u in one.to_solve if u.name == name), "not told")
                                       for one in measures)) for name in units)]
    if any(len(one.by_kind) > 1 for one in measures):
        kinds = dict.fromkeys(kind for one in measures for kind in one.by_kind)
        yield "Completion by kind of work", [("", *names), *(
            (kind, *(_percent(one.by_kind[kind]) if kind in one.by_kind else "" for one in measures))
            for kind in kinds)]
    if comparison is not None:
        gaps = (comparison.completion, *comparison.to_solve)
        yield "Compared, task by task", [
            ("", comparison.first, comparison.second, "difference", "p", "tasks"), *map(_gap_row, gaps)]


def _gap_row(gap: Gap) -> Row:
    if gap.name == "completion":
        told = (f"{gap.first:.1%}", f"{gap.second:.1%}", _percent(gap.gap, sign="+"))
    else:
        told = (f"{gap.first:.3g}", f"{gap.second:.3g}",
                f"{gap.gap.at:+.3g} [{gap.gap.low:+.3g}, {gap.gap.high:+.3g}]")
    return (gap.name.replace("_", " "), *told, f"{gap.p:.3g}", str(gap.tasks))


def _sentence(comparison: Comparison) -> str:
    gap = comparison.completion
    better = comparison.second if gap.gap.at > 0 else comparison.first
    verdict = (f"{_flat(better)} completes more: the 95 % interval of the difference excludes zero" if gap.signed
               else "The difference in completion may be chance: its 95 % interval includes zero")
    out = comparison.left_out
    left = f" {out} tasks were asked of one of them only, and are left out." if out else ""
    return (f"{verdict} (paired bootstrap over {gap.tasks} tasks). {_flat(comparison.second)} does better on "
            f"{comparison.better} tasks, worse on {comparison.worse}, the same on {comparison.even}.{left}")


def _kinds(one: Measures) -> list[tuple[str, Range]]:
    return list(one.by_kind.items()) if len(one.by_kind) > 1 else []


def _percent(found: Range, *, sign: str = "") -> str:
    return f"{100 * found.at:{sign}.1f} % [{100 * found.low:{sign}.1f}, {100 * found.high:{sign}.1f}]"


def _number(found: Range) -> str:
    return f"{found.at:.3g} [{found.low:.3g}, {found.high:.3g}]"


def _flat(text: str) -> str:
    """A name as one cell of a table, whatever is in it."""
    return " ".join(text.split()).replace("|", "\\|")

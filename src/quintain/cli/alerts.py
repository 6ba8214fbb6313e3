"""`quintain alerts`: what is on in a run, silences, what was stopped and how to undo it, and the rules themselves."""

from __future__ import annotations

import getpass
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from quintain.cli.exits import FAILED, Failed, Usage
from quintain.cli.output import console, one_line, plain, say_json
from quintain.cli.watching import rules_of
from quintain.store import Run
from quintain.watch import (
    Alerts,
    EpisodeMeters,
    Gate,
    History,
    Meters,
    OtelSpans,
    Rules,
    Scope,
    Silence,
    Tracer,
    Turn,
    alerts_on,
    exposition,
    folder_of,
    parse_duration,
    read_recording,
    rule_file,
    silence,
    silences,
    unsilence,
)

_SCOPES = ", ".join(scope.value for scope in Scope)


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a test of rules saw. `at_seconds` counts from the recording's beginning."""

    at_seconds: float
    turn: str
    rule: str
    labels: dict[str, str]
    severity: str
    text: str


@click.group("alerts")
def command() -> None:
    """See which alerts are on, silence and test them, and undo what they and the breakers stopped.

    RUN is the folder of a run, going or ended.

    \b
    Examples:
      quintain alerts list runs/first
      quintain alerts stops runs/first
      quintain alerts release runs/first kind:ops
      quintain alerts test incident.jsonl.gz --alerts rules.toml
      quintain alerts export > quintain-rules.yml
    """


def _run_folder(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))(function)


_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_rules = click.option("--alerts", "rules", type=click.Path(path_type=Path, exists=True, dir_okay=False),
                      metavar="FILE", help="Rules over the shipped ones.")


@command.command("list", short_help="The alerts of a run that are pending or fire; without RUN, the rules.")
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False), required=False)
@_rules
@_as_json
def list_(run: Path | None, rules: Path | None, as_json: bool) -> None:
    """The alerts of RUN that are pending or fire; without RUN, the rules that there are.

    \b
    Examples:
      quintain alerts list runs/first
      quintain alerts list --alerts rules.toml
    """
    if run is None:
        _show_rules(rules_of(rules), as_json)
        return
    found, hushed = alerts_on(folder_of(run)), silences(folder_of(run))
    if as_json:
        say_json({"alerts": found, "silences": hushed})
        return
    rows = [(alert.rule, alert.state.value, alert.severity.value, f"{alert.held_seconds:.0f} s",
             "silenced" if any(one.covers(alert, time.time()) for one in hushed) else "", one_line(alert.text))
            for alert in found]
    _table(("alert", "state", "severity", "for", "", "what"), rows, "none")
    for one in hushed:
        if one.until_unix_seconds > time.time():
            left = (one.until_unix_seconds - time.time()) / 60
            click.echo(f"silence {one.id}: {plain(one.rule)}, {left:.0f} min still: {plain(one.reason)}", err=True)


def _show_rules(rules: Rules, as_json: bool) -> None:
    if as_json:
        say_json([{"name": rule.name, "expression": rule.expression, "by": rule.by, "for_seconds": rule.for_seconds,
                   "severity": rule.severity, "action": rule.actions} for rule in rules.rules])
        return
    _table(("rule", "severity", "for", "action", "expression"),
           [(rule.name, rule.severity.value, f"{rule.for_seconds:g} s", ", ".join(rule.actions), rule.expression)
            for rule in rules.rules], "none")


@command.command("test", short_help="Let rules look at a recording.")
@click.argument("recording", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_rules
@click.option("--expect", multiple=True, metavar="RULE", help="Fail where this one does not fire.")
@_as_json
@click.pass_context
def test(ctx: click.Context, recording: Path, rules: Path | None, expect: Sequence[str], as_json: bool) -> None:
    """Let rules look at a RECORDING as if it happened now, and say what fires and resolves. Each run keeps one:
    watch/recording.jsonl in its folder.

    Exit code 1 where an expected rule did not fire.

    \b
    Examples:
      quintain alerts test runs/first/watch/recording.jsonl --alerts rules.toml
      quintain alerts test incident.jsonl.gz --expect crash-rate
    """
    asked = rules_of(rules)
    unknown = sorted(set(expect) - {rule.name for rule in asked.rules})
    if unknown:
        raise Usage(f"--expect: no rule is called {', '.join(unknown)}")
    found = tuple(replayed(asked, recording))
    fired = {one.rule for one in found if one.turn == Turn.FIRED}
    if as_json:
        say_json(found)
    else:
        _table(("after", "", "alert", "labels", "what"), [
            (f"{one.at_seconds:.0f} s", one.turn, one.rule, " ".join(f"{k}={v}" for k, v in one.labels.items()),
             one_line(one.text)) for one in found], "nothing fires")
    missing = sorted(set(expect) - fired)
    if missing:
        click.echo(f"expected to fire, and did not: {', '.join(missing)}", err=True)
        ctx.exit(FAILED)


def replayed(rules: Rules, recording: Path) -> list[Fired]:
    """What rules make of a recording."""
    alerts, history = Alerts(rules.rules), History(keep_seconds=max(300.0, rules.longest_window))
    found: list[Fired] = []
    first: float | None = None
    for at, snapshot in read_recording(recording):
        first = at if first is None else first
        taken = history.add(at, snapshot)
        for change in alerts.look(history, at_seconds=taken, now_unix_seconds=at):
            alert = change.alert
            found.append(Fired(at_seconds=round(taken - first, 3), turn=change.turn.value, rule=alert.rule,
                               labels=alert.labels, severity=alert.severity.value, text=alert.text))
    return found


@command.command("silence", short_help="Let alerts be shown, but do nothing, for a while.")
@_run_folder
@click.argument("rule")
@click.option("--for", "duration", default="1h", show_default=True, metavar="TIME", help="As in 30m, 2h, 1d.")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="Only those with this label.")
@click.option("--reason", default="", help="Why: whoever looks will ask.")
def silence_(run: Path, rule: str, duration: str, labels: Sequence[str], reason: str) -> None:
    """Let the alerts of RUN whose rule is like RULE (* stands for anything) be shown, but do nothing, for a while. What
    still fires when that is over is told then.

    \b
    Examples:
      quintain alerts silence runs/first slow-store --for 2h --reason "the disk is being moved"
      quintain alerts silence runs/first '*' --label kind=ops
    """
    try:
        seconds = parse_duration(duration)
    except ValueError as error:
        raise Usage(f"--for: {error}") from error
    made = Silence(id=secrets.token_hex(4), rule=rule, until_unix_seconds=time.time() + seconds,
                   labels=dict(map(_label, labels)), reason=reason, by=getpass.getuser())
    silence(folder_of(run), made)
    click.echo(f"silence {made.id}; to end it: quintain alerts unsilence {run} {made.id}")


@command.command("unsilence", short_help="End a silence.")
@_run_folder
@click.argument("id")
def unsilence_(run: Path, id: str) -> None:
    """End the silence ID of RUN.

    \b
    Examples:
      quintain alerts unsilence runs/first 1c9b02aa
    """
    if not unsilence(folder_of(run), id):
        known = ", ".join(one.id for one in silences(folder_of(run))) or "none"
        raise Failed(f"no silence of {run} is called {id}; known: {known}")
    click.echo(f"silence {id} is over")


@command.command("stops", short_help="What is stopped in a run, why and by whom.")
@_run_folder
@_as_json
def stops(run: Path, as_json: bool) -> None:
    """What is stopped in RUN, why and by whom: by a breaker (it tries again by itself), by an alert, by a person.

    \b
    Examples:
      quintain alerts stops runs/first
    """
    found = Gate(folder_of(run) / "gate.json").holds
    if as_json:
        say_json(found)
        return
    _table(("what", "state", "since", "by", "why"), [
        (f"{one.scope.value}:{one.key}", one.state.value, f"{max(0.0, time.time() - one.since_unix_seconds):.0f} s",
         one.by, one_line(one.reason)) for one in found], "nothing is stopped")


@command.command("stop", short_help="Stop a kind, an image, a host, a worker or the run.")
@_run_folder
@click.argument("what")
@click.option("--reason", default="", help="Why.")
def stop(run: Path, what: str, reason: str) -> None:
    """Stop WHAT, as in kind:ops, image:IMAGE, host:NAME, worker:NAME, run:NAME. What runs goes on; what waits is kept,
    and is played when it is released.

    \b
    Examples:
      quintain alerts stop runs/first kind:ops --reason "its image is being rebuilt"
    """
    scope, key = _what(what)
    Gate(folder_of(run) / "gate.json").stop(scope, key, reason=reason or "stopped by hand", by=getpass.getuser())
    click.echo(f"stopped; to undo it: quintain alerts release {run} {what}")


@command.command("release", short_help="Undo a stop, whoever made it.")
@_run_folder
@click.argument("what")
def release(run: Path, what: str) -> None:
    """Undo a stop of RUN, whoever made it; a breaker begins anew.

    \b
    Examples:
      quintain alerts release runs/first kind:ops
    """
    scope, key = _what(what)
    gate = Gate(folder_of(run) / "gate.json")
    if not gate.release(scope, key):
        known = ", ".join(f"{one.scope.value}:{one.key}" for one in gate.holds) or "nothing"
        raise Failed(f"{what} is not stopped in {run}; stopped: {known}")
    click.echo(f"{what} is free")


@command.command("export", short_help="The rules as a Prometheus rule file.")
@_rules
def export(rules: Path | None) -> None:
    """The rules as a rule file for a Prometheus server that scrapes `quintain run --metrics`. What our own actions
    stop, it only tells of.

    \b
    Examples:
      quintain alerts export > quintain-rules.yml && promtool check rules quintain-rules.yml
    """
    click.echo(rule_file(rules_of(rules).rules), nl=False)


@command.command("metrics", short_help="Meter a run again from its journal.")
@_run_folder
def metrics(run: Path) -> None:
    """Meter RUN again from its journal: what its episodes came to, as Prometheus text, the same figures as live.

    \b
    Examples:
      quintain alerts metrics runs/first
    """
    meters = Meters()
    fold = EpisodeMeters(meters)
    with Run.open(run) as opened:
        for event in opened.journal.read():
            fold.feed(event)
    click.echo(exposition(meters.snapshot()), nl=False)


@command.command("traces", short_help="A run's traces, as JSON lines or to an OpenTelemetry collector.")
@_run_folder
@click.option("--otlp", metavar="URL", help="Send them there, as in http://localhost:4318/v1/traces.")
def traces(run: Path, otlp: str | None) -> None:
    """The spans of RUN from its journal, as JSON lines; or to a collector, for which the extra `otel` is needed.

    \b
    Examples:
      quintain alerts traces runs/first > spans.jsonl
      quintain alerts traces runs/first --otlp http://localhost:4318/v1/traces
    """
    tracer = Tracer(run.resolve().name)
    try:
        sink = OtelSpans(otlp) if otlp else None
    except ImportError as error:
        raise Usage(f"--otlp needs the packages of OpenTelemetry: pip install 'quintain[otel]' ({error})") from error
    count = 0
    with Run.open(run) as opened:
        for event in opened.journal.read():
            spans = tuple(tracer.feed(event))
            count += len(spans)
            if sink is None:
                for span in spans:
                    say_json(span)
            elif spans and not sink.export(spans):
                raise Failed(f"the collector at {otlp} took no more after {count - len(spans)} spans")
    if sink is not None:
        sink.close()
        click.echo(f"{count} spans sent", err=True)


def _what(text: str) -> tuple[Scope, str]:
    scope, colon, key = text.partition(":")
    if not colon or not key or scope not in {one.value for one in Scope}:
        raise Usage(f"expected SCOPE:NAME with a scope of {_SCOPES}, found {text!r}")
    return Scope(scope), key


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise Usage(f"expected --label NAME=VALUE, found {text!r}")
    return name, value


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], none: str) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    console().print(table if rows else none, markup=False)

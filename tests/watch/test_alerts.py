"""Rules are read strictly, alerts fire once and resolve, and clocks, silences and restarts do not confuse them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quintain.cli.alerts import replayed
from quintain.types import TaskError
from quintain.watch import (
    Action,
    Alerts,
    BadExpression,
    History,
    Meters,
    Silence,
    Turn,
    default_rules,
    evaluate,
    parse,
    promql,
    read_rules,
    rule_file,
)

INCIDENTS = Path(__file__).parent / "incidents"
CLOSED = "quintain_attempts_closed_total"


@pytest.mark.parametrize(("text", "position", "says"), [
    ("", 0, "expected a number"), ("quintain_nothing > 1", 0, "expected a metric"),
    ("rate(quintain_attempts_closed_total[5m]) >", 42, "found the end"),
    ("rate(quintain_attempts_closed_total)", 5, "looks back"), ("1 > 2 > 3", 6, "comparison"),
    ('quintain_workers{kind="a"}', 17, "a label of"), ("__import__('os')", 11, "means nothing"),
    ("mean(quintain_workers[5m])", 5, "asks a histogram"), ("quantile(2, quintain_reward[5m])", 9, "in [0, 1]"),
    ("(" * 60 + "1" + ")" * 60, 40, "levels"), ("1 $ 2", 2, "means nothing"),
])
def test_an_expression_that_is_wrong_is_refused_at_its_place(text: str, position: int, says: str) -> None:
    with pytest.raises(BadExpression, match=says.replace("[", r"\[")) as caught:
        parse(text)
    assert caught.value.position == position


@pytest.mark.parametrize(("text", "says"), [
    ("[alert.a", "expected TOML"), ("[rule.a]", "expected \\[alert.NAME\\]"),
    ('[alert.a]\nexpression = "1 >"', "alert.a.*character 4"), ('[alert."A b"]\nexpression = "1 > 0"', "small letters"),
    ('[alert.a]\nexpression = "1 > 0"\ncolour = "red"', "colour"),
    ('[alert.a]\nexpression = "1 > 0"\nfor = "soon"', "expected a duration"),
    ('[alert.a]\nexpression = "quintain_workers > 0"\naction = ["suspend"]', "expected by = \\['kind'\\]"),
    ('[alert.a]\nexpression = "quintain_workers > 0"\nsays = "{kind}"', "found \\['kind'\\]"),
    ('[notify.n]\nurl = "ftp://x"', "https"), ("[notify.n]", "url or url_env"),
])
def test_a_rule_file_that_is_wrong_is_refused_by_file_and_rule(text: str, says: str) -> None:
    with pytest.raises(TaskError, match=says) as caught:
        read_rules(text, file="rules.toml")
    assert str(caught.value).startswith("rules.toml: ")


def history(*counts: tuple[float, int]) -> History:
    """A history in which so many attempts of the kind `code` had ended at these times."""
    made = History()
    for at, count in counts:
        meters = Meters()
        meters.add(CLOSED, count, kind="code", stop="solved")
        made.add(at, meters.snapshot())
    return made


def test_growth_is_counted_across_a_process_that_begins_anew() -> None:
    seen = history((0.0, 10), (60.0, 40), (120.0, 5))
    assert evaluate(parse(f"increase({CLOSED}[2m])"), seen) == {(): 35.0}
    assert evaluate(parse(f"rate({CLOSED}[2m])"), seen, by=("kind",)) == {("code",): 35.0 / 120.0}


def test_what_was_not_measured_is_never_true() -> None:
    seen = history((0.0, 1), (60.0, 2))
    assert evaluate(parse("quintain_workers < 5 or quintain_workers >= 5"), seen) == {}
    assert evaluate(parse("absent(quintain_workers)"), seen) == {(): 1.0}
    assert evaluate(parse(f"ratio(quintain_workers, increase({CLOSED}[1m])) > 0"), seen) == {}


RULES = read_rules("""
[alert.few]
expression = "quintain_workers < 3"
for = "60s"
severity = "page"
action = ["notify", "pause"]
says = "{value} left"
""", file="r").rules


def look(alerts: Alerts, seen: History, at: float, workers: int, *silences: Silence) -> list[tuple[str, int]]:
    meters = Meters()
    meters.set("quintain_workers", workers, host="h")
    taken = seen.add(at, meters.snapshot())
    found = alerts.look(seen, at_seconds=taken, now_unix_seconds=at, silences=silences)
    return [(change.turn.value, len(change.actions)) for change in found]


def test_an_alert_waits_fires_once_and_resolves() -> None:
    alerts, seen = Alerts(RULES), History()
    told = [look(alerts, seen, 30.0 * n, workers) for n, workers in enumerate((5, 2, 2, 2, 2, 2, 5, 5))]
    assert told == [[], [], [], [("fired", 2)], [], [], [("resolved", 1)], []]


def test_a_clock_that_goes_back_or_leaps_neither_fires_nor_forgets() -> None:
    alerts, seen = Alerts(RULES), History()
    assert [look(alerts, seen, at, 2) for at in (1000.0, 10.0, 500.0, 1000.0)] == [[], [], [], []]
    assert look(alerts, seen, 1070.0, 2) == [("fired", 2)]


def test_what_is_silenced_is_shown_and_told_when_the_silence_is_over_and_it_still_fires() -> None:
    alerts, seen = Alerts(RULES), History()
    hush = Silence(id="1", rule="f*", until_unix_seconds=150.0)
    told = [look(alerts, seen, at, 2, hush) for at in (0.0, 60.0, 120.0, 180.0, 240.0)]
    assert told == [[], [("fired", 0)], [], [("fired", 2)], []]


def test_what_was_told_before_a_restart_is_not_told_again() -> None:
    alerts, seen = Alerts(RULES), History()
    for at in (0.0, 60.0):
        look(alerts, seen, at, 2)
    later, fresh = Alerts(RULES, known=alerts.on), History()
    assert [look(later, fresh, at, 2) for at in (300.0, 360.0)] == [[], []]
    assert look(later, fresh, 420.0, 9) == [("resolved", 1)]


@pytest.mark.parametrize("name", sorted(path.name for path in INCIDENTS.iterdir() if path.name != "quiet"))
def test_a_recorded_incident_fires_its_alert_in_time_and_no_other(name: str) -> None:
    wanted = json.loads((INCIDENTS / name / "expected.json").read_text())
    found = replayed(default_rules(), INCIDENTS / name / "recording.jsonl.gz")
    fired = [one for one in found if one.turn == Turn.FIRED]
    late = [one.at_seconds - wanted["begins_seconds"] for one in fired
            if one.rule == wanted["rule"] and one.labels.items() >= wanted["labels"].items()]
    assert late, f"expected {wanted['rule']} to fire, found {fired}"
    assert 0 <= min(late) <= wanted["within_seconds"]
    assert {one.rule for one in fired} <= {wanted["rule"], *wanted["may"]}
    resolved = [one for one in found if one.turn == Turn.RESOLVED and one.rule == wanted["rule"]]
    assert resolved, "it was mended, and nobody said so"


def test_the_shipped_rules_are_a_prometheus_rule_file_too() -> None:
    text = rule_file(default_rules().rules)
    assert text.count("- alert: Quintain") == len(default_rules().rules)
    assert promql(parse("mean(quintain_reward[5m]) < 0.1"), ("kind",)) == (
        "((sum by (kind) (increase(quintain_reward_sum[5m])) / (sum by (kind) (increase(quintain_reward_count[5m])) "
        "> 0)) < 0.1)")
    assert Action.SUSPEND not in {action for rule in default_rules().rules for action in rule.actions}

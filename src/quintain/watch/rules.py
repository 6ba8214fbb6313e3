"""Alert rules: declared in TOML, read with every error named by its file, rule and character."""

from __future__ import annotations

import string
import tomllib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from importlib.resources import files

import msgspec

from quintain.types import TaskError
from quintain.watch.evaluate import is_grouped
from quintain.watch.expression import BadExpression, Tree, parse, parse_duration, selectors, windows

_NAME = frozenset(string.ascii_lowercase + string.digits + "-")
_MOST = 500


class Severity(StrEnum):
    INFO = "info"
    WARN = "warn"
    PAGE = "page"


class Action(StrEnum):
    """What is done when an alert fires; it is always logged. What was suspended, paused or drained is given free by
    `quintain alerts release` only."""

    NOTIFY = "notify"  # every receiver that takes this severity
    SUSPEND = "suspend"  # the task kind that its label `kind` names
    PAUSE = "pause"  # the run
    DRAIN = "drain"  # the host or worker that its label names: it takes no more


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """`says` may name its labels and `{value}`, the left number of the (first) comparison, or `{share}`, the same in
    percent."""

    name: str
    expression: str
    tree: Tree
    by: tuple[str, ...] = ()
    for_seconds: float = 0.0
    severity: Severity = Severity.WARN
    actions: tuple[Action, ...] = (Action.NOTIFY,)
    says: str = ""

    @property
    def longest_window(self) -> float:
        return max(windows(self.tree), default=0.0)

    def text(self, labels: Mapping[str, str], value: float) -> str:
        told = self.says or f"{self.name} {{value}}"
        for name, label in labels.items():
            told = told.replace("{" + name + "}", label)
        return told.replace("{value}", f"{value:.3g}").replace("{share}", f"{100 * value:.3g} %")


class Form(StrEnum):
    JSON = "json"
    SLACK = "slack"  # also Mattermost, Rocket.Chat, Discord's /slack


class Receiver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom to tell: a POST to `url`, or to what the environment has under `url_env` (a secret belongs there)."""

    name: str
    url: str = ""
    url_env: str = ""
    form: Form = Form.JSON
    least: Severity = Severity.WARN


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    rules: tuple[Rule, ...]
    receivers: tuple[Receiver, ...] = ()

    @property
    def longest_window(self) -> float:
        return max((rule.longest_window for rule in self.rules), default=0.0)

    def plus(self, other: Rules) -> Rules:
        """Both; of two rules or receivers of one name the other's."""
        rules = {rule.name: rule for rule in (*self.rules, *other.rules)}
        receivers = {one.name: one for one in (*self.receivers, *other.receivers)}
        return Rules(rules=tuple(rules.values()), receivers=tuple(receivers.values()))


def default_rules() -> Rules:
    """What is shipped: alerts.toml of this package."""
    return read_rules(files("quintain.watch").joinpath("alerts.toml").read_text("utf-8"), file="alerts.toml")


def read_rules(text: str, *, file: str) -> Rules:
    """Raises TaskError with the file, the rule, what was expected and what was found."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TaskError(f"expected TOML: {error}", file=file) from None
    unknown = sorted(set(document) - {"alert", "notify"})
    if unknown:
        raise TaskError(f"expected [alert.NAME] and [notify.NAME], found {', '.join(map(repr, unknown))}", file=file)
    alerts, receivers = document.get("alert", {}), document.get("notify", {})
    for name, table in (("alert", alerts), ("notify", receivers)):
        if not isinstance(table, dict) or len(table) > _MOST:
            raise TaskError(f"expected up to {_MOST} tables [{name}.NAME], found {type(table).__name__}", file=file)
    return Rules(
        rules=tuple(_rule(name, table, file) for name, table in alerts.items()),
        receivers=tuple(_receiver(name, table, file) for name, table in receivers.items()),
    )


class _Written(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    expression: str
    by: tuple[str, ...] = ()
    for_: str = msgspec.field(default="0s", name="for")
    severity: Severity = Severity.WARN
    action: tuple[Action, ...] = (Action.NOTIFY,)
    says: str = ""


def _rule(name: str, table: object, file: str) -> Rule:
    place = f"[alert.{name}]"
    if not name or not set(name) <= _NAME:
        raise TaskError(f"{place}: expected a name of small letters, digits and hyphens", file=file)
    try:
        written = msgspec.convert(table, _Written)
    except msgspec.ValidationError as error:
        raise TaskError(f"{place}: {error}", file=file) from None
    try:
        tree = parse(written.expression)
    except BadExpression as error:
        raise TaskError(f"{place} expression, {error}", file=file) from None
    try:
        seconds = parse_duration(written.for_)
    except ValueError as error:
        raise TaskError(f"{place} for: {error}", file=file) from None
    rule = Rule(
        name=name, expression=written.expression, tree=tree, by=written.by, for_seconds=seconds,
        severity=written.severity, actions=written.action, says=written.says,
    )
    _check(rule, place, file)
    return rule


def _check(rule: Rule, place: str, file: str) -> None:
    if rule.by and not any(is_grouped(one, rule.by) for one in selectors(rule.tree)):
        raise TaskError(f"{place} by: no metric of its expression has the labels {', '.join(rule.by)}", file=file)
    needed = {Action.SUSPEND: ("kind",), Action.DRAIN: ("host", "worker")}
    for action in rule.actions:
        wanted = needed.get(action)
        if wanted and not set(wanted) & set(rule.by):
            raise TaskError(f"{place} action {action.value}: expected by = [{wanted[0]!r}], so that it is known what "
                            f"to {action.value}; found {list(rule.by)}", file=file)
    try:
        named = {field for _, field, _, _ in string.Formatter().parse(rule.says) if field is not None}
    except ValueError as error:
        raise TaskError(f"{place} says: {error}", file=file) from None
    unknown = named - {*rule.by, "value", "share"}
    if unknown:
        raise TaskError(f"{place} says: expected {{value}}, {{share}} and its labels {list(rule.by)}, found "
                        f"{sorted(unknown)}", file=file)


def _receiver(name: str, table: object, file: str) -> Receiver:
    place = f"[notify.{name}]"
    if not isinstance(table, dict):
        raise TaskError(f"{place}: expected a table, found {type(table).__name__}", file=file)
    try:
        receiver = msgspec.convert({"name": name, **table}, Receiver)
    except msgspec.ValidationError as error:
        raise TaskError(f"{place}: {error}", file=file) from None
    if bool(receiver.url) == bool(receiver.url_env):
        raise TaskError(f"{place}: expected url or url_env, one of them", file=file)
    if receiver.url and not receiver.url.startswith(("https://", "http://")):
        raise TaskError(f"{place} url: expected https://… or http://…, found {receiver.url[:40]!r}", file=file)
    return receiver


def named(rules: Iterable[Rule], name: str) -> Rule | None:
    return next((rule for rule in rules if rule.name == name), None)

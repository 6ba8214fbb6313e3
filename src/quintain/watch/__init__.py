"""What is seen of a run, and what is done about it: meters, traces, logs, alerts and circuit breakers."""

from quintain.watch.alerts import Alert, Alerts, Change, Silence, State, Turn
from quintain.watch.beats import Beat, Heard, Heart
from quintain.watch.breaker import Breaker, Terms, lower_bound
from quintain.watch.breaker import State as BreakerState
from quintain.watch.episodes import CRASHES, Attempted, EpisodeMeters
from quintain.watch.evaluate import Vector, evaluate
from quintain.watch.exposition import CONTENT_TYPE, exposition, metrics_table
from quintain.watch.expression import BadExpression, Tree, parse, parse_duration
from quintain.watch.gate import Gate, Hold, Scope
from quintain.watch.history import History
from quintain.watch.host import HostMeters
from quintain.watch.logs import Bounded, JsonLines, Pretty, correlated, correlation, logging_to
from quintain.watch.meters import Merged, Meters, Part, Series, Snapshot
from quintain.watch.metric import OTHER, Kind, Label, Metric
from quintain.watch.notify import Notice, Notifier
from quintain.watch.otel import OtelSpans
from quintain.watch.promql import promql, rule_file
from quintain.watch.recording import read_recording, write_recording
from quintain.watch.rules import Action, Form, Receiver, Rule, Rules, Severity, default_rules, read_rules
from quintain.watch.table import METRICS, SECTIONS
from quintain.watch.trace import Span, Tracer, span_id, trace_id, traceparent
from quintain.watch.watching import (
    Watch,
    alerts_on,
    folder_of,
    last_snapshot,
    silence,
    silences,
    unsilence,
)

__all__ = [
    "Action", "Alert", "Alerts", "Attempted", "BadExpression", "Beat", "Bounded", "Breaker", "BreakerState",
    "CONTENT_TYPE", "CRASHES", "Change", "EpisodeMeters", "Form", "Gate", "Heard", "Heart", "History", "Hold",
    "HostMeters", "JsonLines", "Kind", "Label", "METRICS", "Merged", "Meters", "Metric", "Notice", "Notifier", "OTHER",
    "OtelSpans", "Part", "Pretty", "Receiver", "Rule", "Rules", "SECTIONS", "Scope", "Series", "Severity", "Silence",
    "Snapshot", "Span", "State", "Terms", "Tracer", "Tree", "Turn", "Vector", "Watch", "alerts_on", "correlated",
    "correlation", "default_rules", "evaluate", "exposition", "folder_of", "last_snapshot", "logging_to", "lower_bound",
    "metrics_table", "parse", "parse_duration", "promql", "read_recording", "read_rules", "rule_file", "silence",
    "silences", "span_id", "trace_id", "traceparent", "unsilence", "write_recording",
]

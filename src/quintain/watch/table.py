"""Every metric that there is, declared once: names, units, labels, and what they tell."""

from __future__ import annotations

from quintain.types import CLASS_OF, FaultKind, Owner, Severity, Status, Stop
from quintain.watch.metric import Kind, Label, Merge, Metric

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_REWARDS = (-1.0, -0.75, -0.5, -0.25, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_BYTES = tuple(float(2**n) for n in range(20, 36))
_COUNTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)

#: The steps of an episode that take time, in their order.
STAGES = ("sample", "build", "run", "grade", "say")

KIND = Label(name="kind")
_IMAGE = Label(name="image")
_STOP = Label(name="stop", values=tuple(stop.value for stop in Stop))
_OWNER = Label(name="owner", values=tuple(owner.value for owner in Owner))
_CLASS = Label(name="class", values=tuple(sorted(set(CLASS_OF.values()))))
_FAULT = Label(name="fault", values=tuple(kind.value for kind in FaultKind))
_STATUS = Label(name="status", values=tuple(status.value for status in Status))
_STAGE = Label(name="stage", values=STAGES)
_WORKER = Label(name="worker", most=256)
_HOST = Label(name="host", most=1024)


def _counter(name: str, help: str, *labels: Label, unit: str = "") -> Metric:
    return Metric(name=f"quintain_{name}_total", kind=Kind.COUNTER, help=help, labels=labels, unit=unit)


def _gauge(name: str, help: str, *labels: Label, unit: str = "", merge: Merge = Merge.SUM) -> Metric:
    return Metric(name=f"quintain_{name}", kind=Kind.GAUGE, help=help, labels=labels, unit=unit, merge=merge)


def _histogram(name: str, help: str, buckets: tuple[float, ...], *labels: Label, unit: str = "") -> Metric:
    return Metric(
        name=f"quintain_{name}", kind=Kind.HISTOGRAM, help=help, labels=labels, buckets=buckets, unit=unit)


_EPISODES = (
    _counter("attempts_opened", "Attempts at episodes that began; a retry after a house fault is another.", KIND),
    _counter("attempts_closed", "Attempts that ended, and why.", KIND, _STOP),
    _counter("attempts_solved", "Attempts that ended with every expected test passed.", KIND),
    _counter("attempts_graded", "Attempts that ended with a reward.", KIND),
    _counter("attempts_crashed", "Attempts that were lost with their sandbox, verifier or node.", KIND),
    _counter("attempts_lost", "Attempts that ended by a fault of the house of any sort.", KIND),
    _gauge("attempts_open", "Attempts that run now.", KIND),
    _histogram("attempt_seconds", "How long attempts took from opening to end.", _SECONDS, KIND, unit="seconds"),
    _histogram("stage_seconds", "How long each step of an episode took.", _SECONDS, _STAGE, unit="seconds"),
    _histogram("attempt_turns", "Replies of the policy in an attempt.", _COUNTS, KIND),
    _counter("sampled_tokens", "Tokens that the policy sampled, where they are counted.", KIND, unit="tokens"),
    _counter("faults", "Faults by owner, class (A to J) and kind.", KIND, _OWNER, _CLASS, _FAULT),
)
_COMMANDS = (
    _counter("commands", "Commands that ran in sandboxes, and how they ended.", KIND, _STATUS),
    _histogram("command_seconds", "Wall time of a command in a sandbox.", _SECONDS, KIND, unit="seconds"),
    _counter("command_cpu_seconds", "CPU time of commands in sandboxes.", KIND, unit="seconds"),
    _histogram("command_memory_bytes", "Peak memory of a command.", _BYTES, KIND, unit="bytes"),
    _histogram("command_processes", "Most processes at once of a command.", _COUNTS, KIND),
    _histogram("command_disk_bytes", "What a command's tree took on the disk.", _BYTES, KIND, unit="bytes"),
    _counter("outputs_cut", "Commands whose output was more than is kept: a flood is a status.", KIND),
    _counter("denials", "What sandboxes refused to their programs.", KIND),
)
_REWARD = (
    _histogram("reward", "Rewards, in [-1, 1].", _REWARDS, KIND),
    _histogram("score_share", "Scores that rewards are made of, in [0, 1].", _SHARES, Label(name="score", most=48),
               unit="share"),
    _histogram("visible_share", "Share of the visible tests that the last run of an attempt passed.", _SHARES, KIND,
               unit="share"),
    _histogram("hidden_share", "Share of the hidden tests that a rewarded attempt passed, of attempts with visible "
               "tests.", _SHARES, KIND, unit="share"),
    _counter("flags", "What detectors said of rewarded attempts.", KIND, Label(name="detector", most=64),
             Label(name="severity", values=tuple(severity.value for severity in Severity))),
    _counter("attempts_flagged", "Attempts with a hard flag: caught at a hack.", KIND),
    _gauge("groups", "Groups with at least two rewards: of no difference (they teach nothing), or some.",
           Label(name="spread", values=("none", "some"))),
)
_SANDBOXES = (
    _gauge("sandboxes", "Sandboxes by state.", Label(name="state", values=("starting", "in_use", "closing"))),
    _counter("sandboxes_opened", "Sandboxes that were made."),
    _counter("sandboxes_failed", "Sandboxes that could not be made."),
    _gauge("sandboxes_leaked", "Sandboxes whose end has failed, or has not come within 30 s of being asked for."),
    _histogram("sandbox_start_seconds", "From asking for a sandbox to having it.", _QUICK, unit="seconds"),
)
_QUEUE = (
    _gauge("queue_jobs", "Jobs of a queue by where they are.", KIND,
           Label(name="place", values=("ready", "delayed", "leased", "dead")), merge=Merge.MOST),
    _gauge("queue_oldest_seconds", "How long the first ready job of a kind has waited.", KIND, unit="seconds",
           merge=Merge.MOST),
    _gauge("queue_stopped", "1 where a kind is not handed out.", KIND, merge=Merge.MOST),
    _counter("queue_deliveries", "Jobs that a worker began.", KIND),
    _counter("queue_redeliveries", "Jobs that a worker began which had been handed out before.", KIND),
)
_HOSTS = (
    _gauge("host_cpu_share", "Share of a host's CPU time that was in use.", _HOST, unit="share", merge=Merge.MOST),
    _gauge("host_memory_share", "Share of a host's memory that is in use.", _HOST, unit="share", merge=Merge.MOST),
    _gauge("host_disk_free_bytes", "What is free where runs are kept.", _HOST, unit="bytes", merge=Merge.LEAST),
    _gauge("host_disk_share", "Share of the disk that is in use where runs are kept.", _HOST, unit="share",
           merge=Merge.MOST),
    _gauge("host_processes", "Processes and threads of a host.", _HOST, merge=Merge.MOST),
    _gauge("worker_silent_seconds", "How long nothing was heard of a worker that has not said goodbye.", _WORKER,
           unit="seconds", merge=Merge.MOST),
    _gauge("workers", "Workers that are heard of.", _HOST),
    _counter("worker_attempts", "Attempts that a worker played to an end that says something of it.", _HOST, _WORKER),
    _counter("worker_crashes", "Attempts that crashed at a worker.", _HOST, _WORKER),
    _counter("process_cpu_seconds", "CPU time of our own processes.", unit="seconds"),
    _gauge("process_memory_bytes", "Resident memory of our own processes.", unit="bytes"),
    _histogram("loop_lag_seconds", "How late an event loop came to its turn.", _QUICK, unit="seconds"),
    _histogram("store_append_seconds", "How long it took to keep an event.", _QUICK, unit="seconds"),
)
_NUMBER = Label(name="number", most=48)
_TRAINING = (
    _counter("updates", "Updates of the policy."),
    _gauge("training", "The numbers of the last update, as the learner calls them: loss, entropy, drift, tokens, …",
           _NUMBER, merge=Merge.MOST),
    _gauge("held_out", "The numbers of the last evaluation on tasks that are never trained on.", _NUMBER,
           merge=Merge.MOST),
    _gauge("training_alarms", "1 for each alarm that is on (quintain.train.alarms).", Label(name="illness", values=(
        "collapse", "no_signal", "entropy", "length", "hacks", "gap", "component", "control", "house")),
        merge=Merge.MOST),
)
_TASKS = (
    _gauge("tasks", "Tasks of the health ledger by state.", Label(name="state", values=(
        "candidate", "probation", "active", "suspended", "retired")), merge=Merge.MOST),
    _gauge("breakers", "What is stopped or probed, by what it is: a kind, an image, a host, a worker, the run.",
           Label(name="scope", values=("kind", "image", "host", "worker", "run")),
           Label(name="state", values=("open", "half_open", "held")), merge=Merge.MOST),
    _gauge("alerts", "Alerts by state.", Label(name="state", values=("pending", "firing")), merge=Merge.MOST),
    _counter("notices_dropped", "Notices to receivers that were given up, or for which there was no room."),
    _counter("log_lines", "Lines of the log by level.", Label(name="level", values=(
        "debug", "info", "warning", "error", "critical"))),
    _counter("log_lines_cut", "Lines of the log that were counted and not written: a flood."),
    _counter("labels_folded", "Readings whose label had a value too many, by metric.", Label(name="metric", most=128)),
    _counter("readings_refused", "Readings that were no finite number, or took from a counter.",
             Label(name="metric", most=128)),
)

#: All of them, by what they tell of.
SECTIONS: dict[str, tuple[Metric, ...]] = {
    "Episodes": _EPISODES, "Commands in sandboxes": _COMMANDS, "Rewards": _REWARD, "Sandboxes": _SANDBOXES,
    "Queue": _QUEUE, "Hosts, workers, our own processes": _HOSTS, "Training": _TRAINING,
    "Tasks, stops, alerts, and the watch itself": _TASKS,
}

METRICS: dict[str, Metric] = {metric.name: metric for section in SECTIONS.values() for metric in section}

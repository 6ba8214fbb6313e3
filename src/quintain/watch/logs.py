"""The log: one line for each record, as JSON or for people, tied to its run, episode and trace, and bounded."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from quintain.watch.lines import Lines
from quintain.watch.meters import Meters
from quintain.watch.trace import trace_id

#: What a record is tied to, where it was written.
FIELDS = ("run", "episode", "sandbox", "trace")
_HERE: ContextVar[dict[str, str]] = ContextVar("quintain_log", default={})  # noqa: B039 - replaced, never changed

_TEXT = 8000
_BURST = 200.0
_PER_SECOND = 20.0
_PLACES = 256


@contextmanager
def correlated(**fields: str) -> Iterator[None]:
    """While the block runs, and in the tasks that begin in it, records carry these `FIELDS`; the trace is that of the
    run and the episode."""
    wrong = sorted(set(fields) - set(FIELDS))
    if wrong:
        raise ValueError(f"expected fields of {FIELDS}, found {wrong}")
    here = {**_HERE.get(), **fields}
    if "episode" in fields and "trace" not in fields:
        here["trace"] = trace_id(here.get("run", ""), here["episode"])
    token = _HERE.set(here)
    try:
        yield
    finally:
        _HERE.reset(token)


def correlation() -> dict[str, str]:
    """What a record written here would be tied to."""
    return _HERE.get()


class JsonLines(logging.Formatter):
    """One JSON object for each record, whatever is in it: no text of a program can begin a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, object] = {
            "time": _time(record.created), "level": record.levelname.lower(), "logger": record.name,
            "message": _cut(record.getMessage()), **_fields(record), "process": record.process,
        }
        if record.exc_info and record.exc_info[0] is not None:
            told["exception"] = _cut(self.formatException(record.exc_info))
        return json.dumps(told, ensure_ascii=True)


class Pretty(logging.Formatter):
    """For people: time, level, what, and what it is tied to. Control characters are shown, not done."""

    def format(self, record: logging.LogRecord) -> str:
        here = " ".join(f"{name}={_shown(value)}" for name, value in _fields(record).items() if name != "trace")
        text = f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {record.levelname.lower():8}" \
               f"{_shown(_cut(record.getMessage()))}{'  ' + here if here else ''}"
        if record.exc_info and record.exc_info[0] is not None:
            text += "\n" + "\n".join("    " + _shown(line) for line in
                                     _cut(self.formatException(record.exc_info)).splitlines())
        return text


class Bounded(logging.Filter):
    """Lets a burst of records of one place in the code pass, and then so many a second; counts the rest, and says how
    many when it lets one pass again."""

    def __init__(
        self, meters: Meters | None = None, *, burst: float = _BURST, per_second: float = _PER_SECOND,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._meters = meters
        self._burst = burst
        self._per_second = per_second
        self._clock = clock
        self._places: dict[tuple[str, int], list[float]] = {}  # (tokens, when, cut)

    def filter(self, record: logging.LogRecord) -> bool:
        if hasattr(record, "quintain_passed"):  # another handler's filter has seen it
            return bool(record.quintain_passed)
        if self._meters is not None:
            self._meters.add("quintain_log_lines_total", level=record.levelname.lower())
        passed = self._passes(record)
        record.quintain_passed = passed
        if not passed and self._meters is not None:
            self._meters.add("quintain_log_lines_cut_total")
        return passed

    def _passes(self, record: logging.LogRecord) -> bool:
        about = (record.pathname, record.lineno)
        now = self._clock()
        place = self._places.get(about)
        if place is None:
            if len(self._places) >= _PLACES:
                self._places.pop(next(iter(self._places)))
            place = self._places[about] = [self._burst, now, 0.0]
        place[0] = min(self._burst, place[0] + max(0.0, now - place[1]) * self._per_second)
        place[1] = now
        if place[0] < 1.0:
            place[2] += 1
            return False
        place[0] -= 1.0
        if place[2]:
            record.msg = f"{record.getMessage()} ({int(place[2])} like this were not written)"
            record.args = None
            place[2] = 0.0
        return True


class _ToLines(logging.Handler):
    """Into bounded files."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.write((self.format(record) + "\n").encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        self._lines.close()
        super().close()


@contextmanager
def logging_to(
    path: Path, *, meters: Meters | None = None, level: int = logging.INFO, run: str = "", to_stderr: bool = True,
) -> Iterator[None]:
    """While the block runs, records of `quintain` go to a file as JSON lines, and warnings to stderr for people; both
    bounded. Records of other packages are left to their own ways."""
    bounded = Bounded(meters)
    file = _ToLines(Lines(path, bytes_each=16 * 1024 * 1024))
    file.setFormatter(JsonLines())
    handlers: list[logging.Handler] = [file]
    if to_stderr:
        screen = logging.StreamHandler(sys.stderr)
        screen.setFormatter(Pretty())
        screen.setLevel(logging.WARNING)
        handlers.append(screen)
    logger = logging.getLogger("quintain")
    before, was = logger.level, logger.propagate
    logger.setLevel(level)
    logger.propagate = False
    for handler in handlers:
        handler.addFilter(bounded)
        logger.addHandler(handler)
    try:
        with correlated(run=run) if run else _nothing():
            yield
    finally:
        for handler in handlers:
            logger.removeHandler(handler)
            if handler is file:
                handler.close()
        logger.setLevel(before)
        logger.propagate = was


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _fields(record: logging.LogRecord) -> dict[str, str]:
    here = dict(_HERE.get())
    here.update({name: str(getattr(record, name)) for name in FIELDS if hasattr(record, name)})
    return here


def _time(unix_seconds: float) -> str:
    whole, part = divmod(unix_seconds, 1)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{int(part * 1000):03}Z"


def _cut(text: str) -> str:
    if len(text) <= _TEXT:
        return text
    return f"{text[:_TEXT // 2]} … {len(text) - _TEXT} characters … {text[-(_TEXT // 2):]}"


def _shown(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)

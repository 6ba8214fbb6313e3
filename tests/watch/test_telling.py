"""What is logged, traced and sent is bounded, tied together, and cannot be forged from inside a sandbox."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from quintain.cli.alerts import command as alerts
from quintain.store import Definition, Run
from quintain.watch import (
    Alert,
    Change,
    Form,
    Meters,
    Notifier,
    OtelSpans,
    Pretty,
    Receiver,
    Severity,
    State,
    Tracer,
    Turn,
    correlated,
    logging_to,
    read_recording,
    trace_id,
    traceparent,
)
from quintain.watch.lines import Lines
from quintain.watch.recording import Recorder
from tests.watch.logs import broken, solved

EVIL = 'x\n{"level": "critical", "message": "forged"}\x1b[2J\x07\u202e'


def test_a_text_of_a_program_cannot_begin_a_line_or_drive_a_terminal(tmp_path: Path) -> None:
    with logging_to(tmp_path / "log.jsonl", run="r", to_stderr=False), correlated(episode="e#0", sandbox="s1"):
        logging.getLogger("quintain.test").warning("it said %s", EVIL)
    [line] = (tmp_path / "log.jsonl").read_bytes().splitlines()
    told = json.loads(line)
    assert told["message"] == f"it said {EVIL}"
    assert (told["run"], told["episode"], told["sandbox"]) == ("r", "e#0", "s1")
    assert told["trace"] == trace_id("r", "e#0")
    assert b"\x1b" not in line
    record = logging.LogRecord("quintain", logging.WARNING, "f", 1, EVIL, None, None)
    assert Pretty().format(record).isprintable()


def test_a_flood_is_counted_and_cut(tmp_path: Path) -> None:
    meters = Meters()
    with logging_to(tmp_path / "log.jsonl", meters=meters, to_stderr=False):
        for nth in range(5000):
            logging.getLogger("quintain.test").info("line %d", nth)
    written = len((tmp_path / "log.jsonl").read_bytes().splitlines())
    assert 200 <= written < 1000
    assert meters.snapshot().value("quintain_log_lines_total") == 5000
    assert meters.snapshot().value("quintain_log_lines_cut_total") == 5000 - written


def test_a_file_of_lines_never_grows_beyond_its_bound(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "x.jsonl", bytes_each=1000, files=3)
    for nth in range(1000):
        lines.write(b"%099d\n" % nth)
    lines.close()
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 3 and max(sizes) <= 1000
    assert (tmp_path / "x.jsonl").read_bytes().splitlines()[-1].endswith(b"999")


def test_an_episode_is_one_trace_down_to_its_commands() -> None:
    tracer = Tracer("run")
    events = [*broken("e#0"), *(e for e in solved("e#0"))]
    spans = [span for event in events for span in tracer.feed(event)]
    assert {span.trace for span in spans} == {trace_id("run", "e#0")}
    by_id = {span.span: span for span in spans}
    [command] = [span for span in spans if span.name == "command"]
    run = by_id[command.parent]
    attempt = by_id[run.parent]
    whole = by_id[attempt.parent]
    assert (run.name, whole.parent, whole.span) == ("run", "", traceparent("run", "e#0").split("-")[2])
    assert whole.start_unix_seconds <= attempt.start_unix_seconds <= command.start_unix_seconds
    assert command.end_unix_seconds <= whole.end_unix_seconds
    assert any(span.error.startswith("house/sandbox_lost") for span in spans)


def test_spans_reach_an_exporter_of_opentelemetry_with_their_ids() -> None:
    memory = pytest.importorskip(
        "opentelemetry.sdk.trace.export.in_memory_span_exporter", reason="needs the extra otel")
    exporter = memory.InMemorySpanExporter()
    tracer = Tracer("run")
    spans = [span for event in solved("e#0") for span in tracer.feed(event)]
    assert OtelSpans(exporter=exporter).export(spans)
    sent = exporter.get_finished_spans()
    assert {f"{span.context.trace_id:032x}" for span in sent} == {trace_id("run", "e#0")}
    assert len(sent) == len(spans)


def test_spans_reach_a_collector_by_otlp(tmp_path: Path) -> None:
    proto = pytest.importorskip(
        "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="needs the extra otel")
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otel")
    got: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with Run.create(tmp_path, Definition(taskset="t", policy="p"), name="first") as run:
        for event in solved("e#0"):
            run.journal.append(event)
    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1/traces"
        done = CliRunner().invoke(alerts, ["traces", str(tmp_path / "first"), "--otlp", url])
        server.shutdown()
    assert done.exit_code == 0, done.output
    sent = [span for body in got for resource in proto.ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans for span in scope.spans]
    assert f"{len(sent)} spans sent" in done.output
    assert {span.trace_id.hex() for span in sent} == {trace_id("first", "e#0")}
    names = {span.name for span in sent}
    assert len(sent) > 3 and len(names) > 3, names


def test_a_recording_whose_beginning_was_put_aside_can_be_read(tmp_path: Path) -> None:
    meters, recorder = Meters(), Recorder(whole_every=3)
    lines = []
    for nth in range(7):
        meters.set("quintain_workers", nth, host="h")
        lines.append(recorder.line(float(nth), meters.snapshot()))
    path = tmp_path / "recording.jsonl"
    path.write_bytes(b"".join(lines[1:]))
    assert [(at, shown.value("quintain_workers")) for at, shown in read_recording(path)] == [
        (3.0, 3), (4.0, 4), (5.0, 5), (6.0, 6)]


def fired(nth: int = 0) -> Change:
    alert = Alert(rule=f"r{nth}", labels={"kind": "ops"}, state=State.FIRING, value=1.0, severity=Severity.PAGE,
                  text="<!channel> & so on")
    return Change(turn=Turn.FIRED, alert=alert, at_unix_seconds=0.0)


@asynccontextmanager
async def webhook(answer: bytes | None, got: list[bytes]) -> AsyncIterator[str]:
    """A server that answers this, or never (`None`)."""
    held = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        got.append(await reader.readexactly(size))
        if answer is None:
            await held.wait()
        else:
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/secret"
    finally:
        held.set()
        server.close()


async def deliver(url: str, count: int, *, form: Form = Form.JSON) -> Notifier:
    notifier = Notifier([Receiver(name="n", url=url, form=form)], run="r", seconds=0.1, pause_seconds=0.01)
    async with asyncio.TaskGroup() as group:
        delivering = group.create_task(notifier.deliver())
        for nth in range(count):
            notifier.tell(fired(nth))
        await notifier.flush(20.0)
        delivering.cancel()
    return notifier


def test_a_receiver_is_told_once_and_a_chat_is_told_nothing_it_would_act_on() -> None:
    async def tell() -> None:
        got: list[bytes] = []
        async with webhook(b"HTTP/1.1 204 No Content\r\n\r\n", got) as url:
            notifier = await deliver(url, 1, form=Form.SLACK)
        assert (notifier.sent, notifier.dropped, len(got)) == (1, 0, 1)
        assert json.loads(got[0])["text"] == "[page] r0 (r): &lt;!channel&gt; &amp; so on"

    asyncio.run(tell())


@pytest.mark.parametrize(("answer", "tries"), [
    (None, 3), (b"HTTP/1.1 503 No\r\n\r\n", 3), (b"HTTP/1.1 404 No\r\n\r\n", 1),
])
def test_a_receiver_that_hangs_or_fails_is_given_up_and_its_address_is_never_logged(
    answer: bytes | None, tries: int, caplog: pytest.LogCaptureFixture,
) -> None:
    async def tell() -> None:
        got: list[bytes] = []
        async with webhook(answer, got) as url:
            notifier = await deliver(url, 1)
        assert (notifier.sent, notifier.dropped, len(got)) == (0, 1, tries)

    asyncio.run(tell())
    assert "was not told of r0" in caplog.text
    assert "secret" not in caplog.text


def test_telling_never_waits_and_what_finds_no_room_is_counted() -> None:
    async def tell() -> None:
        notifier = Notifier([Receiver(name="n", url="http://127.0.0.1:9/")], run="r")
        for nth in range(150):
            notifier.tell(fired(nth))
        assert notifier.dropped == 50

    asyncio.run(tell())

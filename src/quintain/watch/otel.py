"""Spans for OpenTelemetry: to a collector by OTLP over HTTP. Needs the extra `otel`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from quintain.watch.trace import Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

_NANO = 1_000_000_000


class OtelSpans:
    """Hands spans to an exporter of OpenTelemetry in batches; `endpoint` is a collector's, as in
    http://localhost:4318/v1/traces. It waits for the collector, at most as long as its exporter does: use it behind the
    run (`quintain alerts traces`), or from a thread. Raises ImportError without the extra."""

    def __init__(
        self, endpoint: str = "", *, exporter: SpanExporter | None = None, service: str = "quintain",
    ) -> None:
        from opentelemetry.sdk.resources import Resource

        if exporter is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            exporter = OTLPSpanExporter(endpoint=endpoint or None)
        self._exporter = exporter
        self._resource = Resource.create({"service.name": service})

    def export(self, spans: Iterable[Span]) -> bool:
        """Whether all of them were taken."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        made = [self._readable(span) for span in spans]
        return not made or self._exporter.export(made) is SpanExportResult.SUCCESS

    def close(self) -> None:
        self._exporter.shutdown()

    def _readable(self, span: Span) -> ReadableSpan:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
        from opentelemetry.trace.status import Status, StatusCode

        def context(id: str) -> Any:
            return SpanContext(int(span.trace, 16), int(id, 16), is_remote=False,
                               trace_flags=TraceFlags(TraceFlags.SAMPLED))

        status = Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.OK)
        return ReadableSpan(
            name=span.name, context=context(span.span), parent=context(span.parent) if span.parent else None,
            resource=self._resource, attributes=dict(span.attributes), kind=SpanKind.INTERNAL, status=status,
            start_time=int(span.start_unix_seconds * _NANO), end_time=int(span.end_unix_seconds * _NANO),
        )

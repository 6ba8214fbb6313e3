"""The judges of those kinds of work whose verdict is not simply that of the hidden tests."""

from __future__ import annotations

from quintain.env.docs import DocsEnvironment
from quintain.env.judging import Judge
from quintain.env.perf import PerfEnvironment
from quintain.env.services import ServiceEnvironment
from quintain.env.testgen import TestWritingEnvironment
from quintain.grade import Oracle
from quintain.sandbox import Backend


def judges_of(backend: Backend, oracle: Oracle | None = None) -> dict[str, Judge]:
    """By kind of work. They hold nothing that would have to be closed."""
    made = (
        DocsEnvironment(backend, oracle=oracle), PerfEnvironment(backend, oracle=oracle),
        ServiceEnvironment(backend, oracle=oracle), TestWritingEnvironment(backend, oracle=oracle),
    )
    return {one.kind: one for one in made}

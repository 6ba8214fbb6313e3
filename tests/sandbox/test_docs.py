"""What docs/rooms/sandbox.md says of the backends is what they declare, and its examples run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from quintain.sandbox import Backend, BubblewrapBackend, ContainerBackend, GvisorBackend, NativeBackend
from quintain.testing.sandbox import scenarios

PAGE = (Path(__file__).parents[2] / "docs" / "rooms" / "sandbox.md").read_text()
FLOWING = re.sub(r"\s+", " ", PAGE)
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
BACKENDS: list[Backend] = [NativeBackend(), BubblewrapBackend(), ContainerBackend(), GvisorBackend()]
AS_DOCUMENTED = os.geteuid() == 0 and NativeBackend().probe().memory == "hard"


@pytest.mark.skipif(not AS_DOCUMENTED, reason="the page describes root with control groups")
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_the_page_says_what_the_backend_declares(backend: Backend) -> None:
    can = backend.probe()
    words = [
        can.name, can.isolation.value, can.memory, can.processes, can.cpu, can.disk,
        ", ".join(network.value for network in can.networks), "yes" if can.unique_uid else "no",
        "yes" if can.channel else "no",
    ]
    assert f"| {' | '.join(words)} |" in PAGE
    assert f"* **{can.name}** does not cover {'; '.join(can.does_not_cover)}." in FLOWING


def test_the_page_counts_the_scenarios() -> None:
    assert f"runs {len(scenarios())} scenarios" in FLOWING


@pytest.mark.slow
@pytest.mark.skipif(not NativeBackend().probe().available, reason="the native backend is not available here")
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_example_runs(number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXAMPLES[number]], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "ok hello from inside" in done.stdout or " 0 failed" in done.stdout

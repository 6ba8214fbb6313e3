"""Whatever is sent to the API that its document allows, or nearly, it answers; schemathesis draws the requests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the HTTP faces need starlette: pip install quintain[serve]")
pytest.importorskip("schemathesis", reason="the requests are drawn by schemathesis: pip install schemathesis")

from quintain.serve import Quota
from tests.serve.house import serving


@pytest.mark.whole
@pytest.mark.parametrize("phase", ["coverage", "fuzzing"])
def test_no_request_makes_the_server_fail(tmp_path: Path, phase: str) -> None:
    with serving(tmp_path) as (url, api):
        api.ring.allow("local", Quota(requests_per_second=10_000, burst=10_000))
        done = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--phases", phase,
             "--max-examples", "20", "--checks", "not_a_server_error", "--request-timeout", "60"],
            capture_output=True, text=True, check=False)
    asked = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_bytes().splitlines()]
    assert done.returncode == 0, done.stdout[-5000:]
    assert len(asked) > 200
    assert not [one for one in asked if one["status"] >= 500]

"""The process that places hosts on a Ray cluster, as far as it goes without one; `test_three_nodes` has a cluster."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import msgspec
import pytest

from quintain.fleet import CANNOT, Post


def placing(word: str) -> subprocess.CompletedProcess[str]:
    post = msgspec.json.encode(Post(crew_id="none", words=("true",))).decode()
    return subprocess.run([sys.executable, "-m", "quintain.fleet.placing", word], capture_output=True, text=True,
                          check=False, timeout=120, env={**os.environ, "QUINTAIN_POST": post})


def test_the_settings_for_a_cluster_can_be_sourced_by_a_shell() -> None:
    settings = placing("settings").stdout
    told = subprocess.run(["sh", "-c", f"{settings}\nenv"], capture_output=True, text=True, check=True).stdout
    assert "RAY_health_check_period_ms=1000" in told.splitlines()
    assert all(line.startswith("export RAY_") for line in settings.splitlines())


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="says what is missing: ray is installed here")
def test_without_ray_nobody_tries_again() -> None:
    done = placing("ray:auto")
    assert done.returncode == CANNOT
    assert "pip install 'quintain[ray]'" in done.stderr

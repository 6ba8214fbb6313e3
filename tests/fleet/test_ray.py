"""A real Ray cluster of one node: a host is placed, started again, and gone when it is told to go."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from quintain.fleet import Crew, Post
from quintain.fleet.ray import SETTINGS
from tests.fleet.nodes import ROOT

pytestmark = [
    pytest.mark.alone, pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the package ray (the extra ray)"),
]
PATIENCE_SECONDS = 100.0
SCRIPT = 'echo "$$ $PPID $0" >> "$NOTES"; trap "exit 0" TERM; while :; do sleep 0.1; done'


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of whoever uses it; RAY_ADDRESS is where it is."""
    (tmp_path / "token").write_text("0" * 64)
    env = {**os.environ, **SETTINGS, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token"),
           "TMPDIR": str(tmp_path)}
    short = Path(f"/tmp/q{os.getpid()}r")  # the path of a socket has 107 bytes at most
    words = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--port=0", "--num-cpus=1",
             "--node-ip-address=127.0.0.1", "--object-store-memory=80000000", "--disable-usage-stats",
             "--include-dashboard=false", f"--temp-dir={short}", "--block"]
    with (tmp_path / "ray.log").open("wb") as log:
        head = subprocess.Popen(words, env=env, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
    try:
        address = short / "ray_current_cluster"
        until(lambda: address.exists() or head.poll() is not None)
        assert head.poll() is None, (tmp_path / "ray.log").read_text()
        yield {**env, "RAY_ADDRESS": address.read_text().strip()}
    finally:
        head.send_signal(signal.SIGTERM)  # it ends its processes, and then itself
        head.wait(60)
        shutil.rmtree(short, ignore_errors=True)


def until(wanted: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not wanted():
        assert time.monotonic() < end, "expected it to happen, found that it did not"
        time.sleep(0.1)


def test_a_host_is_placed_and_started_again_and_goes_when_it_is_told(cluster: dict[str, str], tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.touch()

    def workers() -> list[list[str]]:
        return [line.split() for line in notes.read_text().splitlines()]

    post = Post(crew_id=f"ray-{os.getpid()}", words=("sh", "-c", SCRIPT, "{name}"), env={"NOTES": str(notes)},
                crew=Crew(workers=1, pause_seconds=(0.1, 1.0), drain_seconds=5.0))
    env = {**cluster, "QUINTAIN_POST": msgspec.json.encode(post).decode()}
    words = [sys.executable, "-m", "quintain.fleet.placing", f"ray:{cluster['RAY_ADDRESS']}"]
    with (tmp_path / "placer.log").open("wb") as log:
        placer = subprocess.Popen(words, env=env, cwd=ROOT, stdout=log, stderr=log)
    try:
        until(lambda: len(workers()) == 1 or placer.poll() is not None)
        assert placer.poll() is None, (tmp_path / "placer.log").read_text()
        os.kill(int(workers()[0][0]), signal.SIGKILL)
        until(lambda: len(workers()) == 2)
        assert workers()[1][1] == workers()[0][1], "by the same host"
        os.kill(int(workers()[1][1]), signal.SIGKILL)
        until(lambda: len(workers()) == 3)
        assert workers()[2][1] != workers()[1][1], "by another one, which Ray has started"
        until(lambda: not Path(f"/proc/{workers()[1][0]}").exists())
        placer.terminate()
        assert placer.wait(60) == 0, (tmp_path / "placer.log").read_text()
        until(lambda: not Path(f"/proc/{workers()[2][0]}").exists())
    finally:
        placer.kill()
        placer.wait(20)
    assert not list(tmp_path.glob(f"quintain-hosts-*/ray-{os.getpid()}*")), "and its folder with it"

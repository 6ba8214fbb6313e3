"""A real Ray cluster on one machine, and runs of the command line on it: hosts, nodes and in the end the head die."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from quintain.fleet.ray import SETTINGS
from quintain.store import Run
from tests.flow.house import SLOW, closings, command, last_json, needs_sandbox, quintain, small_set

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.alone, pytest.mark.slow, pytest.mark.whole, needs_sandbox,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the package ray (the extra ray)"),
]
PATIENCE_SECONDS = 100.0
SIZE = 120  # episodes of the run that is not to end by itself


class Cluster:
    """Of one node, its head. `env` is the environment of whoever uses it; `mark` is in that of all that Ray starts."""

    def __init__(self, folder: Path, tokens: Path) -> None:
        self.folder = folder
        self.mark = f"TMPDIR={folder}"
        tokens.write_text("0" * 64)
        self.env = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(tokens),
                    "RAY_gcs_rpc_server_reconnect_timeout_s": "5"}
        self.client_port = free_port()
        self.address = ""

    @contextmanager
    def node(self, log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """Until the block ends; it may end before."""
        common = ["--num-cpus=1", "--node-ip-address=127.0.0.1", "--object-store-memory=80000000",
                  "--disable-usage-stats", "--block"]
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "ray.scripts.scripts", "start", *common, *words], stdout=file, stderr=file,
                cwd=ROOT, env={**self.env, **SETTINGS, "TMPDIR": str(self.folder)}, start_new_session=True)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)  # it ends its processes, and then itself
            process.wait(60)

    def processes(self, *words: str) -> list[int]:
        """The pids of what Ray has started here, of which the command line has these words."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                is_ours = self.mark.encode() in (path / "environ").read_bytes().split(b"\0")
                said = (path / "cmdline").read_bytes().decode()
            except OSError:
                continue
            if is_ours and all(word in said for word in words):
                found.append(int(path.name))
        return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = Path(f"/tmp/q{os.getpid()}r")  # the path of a socket has 107 bytes at most
    folder.mkdir(mode=0o700)
    place = tmp_path_factory.mktemp("ray")
    one = Cluster(folder, place / "token")
    address = folder / "ray" / "ray_current_cluster"
    try:
        with one.node(place / "head.log", "--head", "--port=0", f"--ray-client-server-port={one.client_port}",
                      "--include-dashboard=false", f"--temp-dir={folder}/ray") as head:
            until(lambda: address.exists() or head.poll() is not None)
            assert head.poll() is None, (place / "head.log").read_text()
            one.address = address.read_text().strip()
            yield one
    finally:
        for pid in one.processes():  # what a head that was killed left behind
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder)


def until(wanted: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not wanted():
        assert time.monotonic() < end, "expected it to happen, found that it did not"
        time.sleep(0.1)


@contextmanager
def going(
    cluster: Cluster, place: Path, engine: str, *, size: int, turn_seconds: float = 1.0,
) -> Iterator[subprocess.Popen[bytes]]:
    """A run of the command line that has begun to play; what it says is in `out` and `errors`."""
    small_set(place, 1)
    (place / "slow.py").write_text(SLOW.replace("0.4", str(turn_seconds)))
    words = command("run", "set", "--policy", "slow:Slow", "-n", str(size), "--sandboxes", "2", "--engine", engine,
                    "--out", str(place / "run"), "--json")
    with (place / "out").open("wb") as out, (place / "errors").open("wb") as errors:
        run = subprocess.Popen(words, cwd=place, env=cluster.env, stdout=out, stderr=errors)
    try:
        until(lambda: turns_of(place / "run") or run.poll() is not None)
        assert run.poll() is None, (place / "errors").read_text()
        yield run
    finally:
        run.kill()
        run.wait(20)


def turns_of(run: Path) -> int:
    """Of episodes that have ended."""
    journal = run / "journal.jsonl"
    return journal.read_bytes().count(b'"sampled"') if journal.exists() else 0


def host_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_run_in_a_cluster_goes_on_when_a_worker_and_its_host_are_killed(cluster: Cluster, tmp_path: Path) -> None:
    with going(cluster, tmp_path, f"ray:{cluster.address}", size=24) as run:
        [first] = cluster.processes("quintain", "worker", "--apart")
        host = host_of(first)
        os.kill(first, signal.SIGKILL)
        until(lambda: not is_alive(first) and cluster.processes("quintain", "worker", "--apart"))
        [second] = cluster.processes("quintain", "worker", "--apart")
        assert host_of(second) == host, "started again by the same host"
        os.kill(host, signal.SIGKILL)
        until(lambda: not is_alive(second))
        until(lambda: cluster.processes("quintain", "worker", "--apart") or run.poll() is not None)
        assert run.wait(PATIENCE_SECONDS) == 0, (tmp_path / "errors").read_text()
    assert closings(tmp_path / "run") == {f"sum-0#{nth}": 1 for nth in range(24)}
    until(lambda: not cluster.processes("quintain", "worker", "--apart"))
    assert not list(cluster.folder.glob("quintain-hosts-*/*")), "its hosts' folders go with it"


def test_a_drained_node_gives_back_and_a_run_whose_head_is_lost_ends_to_be_resumed(
    cluster: Cluster, tmp_path: Path,
) -> None:
    engine = f"ray://127.0.0.1:{cluster.client_port}?wait=3"
    with ExitStack() as stack:
        stack.enter_context(cluster.node(tmp_path / "node.log", f"--address={cluster.address}"))
        until(lambda: len(cluster.processes("raylet/raylet")) == 2)
        run = stack.enter_context(going(cluster, tmp_path, engine, size=SIZE, turn_seconds=2.0))
        errors = tmp_path / "errors"
        until(lambda: len(cluster.processes("quintain", "worker", "--apart")) == 2)
        drain(cluster, placed(errors)[1])
        until(lambda: "its host has ended: drained" in errors.read_text() or run.poll() is not None)
        assert run.poll() is None, errors.read_text()
        assert len(cluster.processes("quintain", "worker", "--apart")) == 1, "the other node's goes on"
        [head] = cluster.processes("gcs_server")
        os.kill(head, signal.SIGKILL)
        assert run.wait(PATIENCE_SECONDS) == 1
    said = errors.read_text()
    assert f"no Ray cluster at ray://127.0.0.1:{cluster.client_port} for 3 s" in said
    assert f"to go on: quintain run --resume {tmp_path / 'run'}" in said
    until(lambda: not cluster.processes("quintain", "worker", "--apart"))
    played = len(closings(tmp_path / "run"))
    assert 0 < played < SIZE
    shorter(tmp_path)
    done = quintain("run", "--resume", str(tmp_path / "run"), "--workers", "1", "--sandboxes", "16", "--json",
                    cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (last_json(done)["episodes"], last_json(done)["solved"]) == (SIZE, SIZE)
    assert set(closings(tmp_path / "run").values()) == {1}
    with Run.open(tmp_path / "run") as opened:
        assert not opened.progress().broken


def shorter(place: Path) -> None:
    """The same policy without its pause."""
    (place / "slow.py").write_text(SLOW.replace("0.4", "0.0"))


def placed(errors: Path) -> list[str]:
    """The nodes that have got a host, as the placer names them."""
    return [line.split()[1].rstrip(":") for line in errors.read_text().splitlines() if "a host is placed" in line]


def drain(cluster: Cluster, node: str) -> None:
    """As an autoscaler, or whoever pays for the node, announces its end."""
    asked = (
        "import ray, sys; ray.init(sys.argv[1], log_to_driver=False); "
        "print([one['NodeID'] for one in ray.nodes() if one['NodeID'].startswith(sys.argv[2])][0])"
    )
    found = subprocess.run([sys.executable, "-c", asked, cluster.address, node], env=cluster.env, check=True, text=True,
                           stdout=subprocess.PIPE, timeout=60).stdout.split()[-1]
    subprocess.run(
        [sys.executable, "-m", "ray.scripts.scripts", "drain-node", "--address", cluster.address, "--node-id", found,
         "--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "a test", "--deadline-remaining-seconds",
         "600"], env=cluster.env, check=True, capture_output=True, timeout=60)

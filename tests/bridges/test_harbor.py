"""Harbor's own command line runs its trials in sandboxes of ours; its agents, its verifier, its transfers.

Harbor needs Python 3.12: where it is not installed beside us, all of this file is played by the interpreter that
QUINTAIN_HARBOR_PYTHON names, which has harbor, pytest and quintain."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from quintain.bridges import read_trials
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, StdioCase, StdioSuite, write_taskset
from quintain.types import Entry, Stop, fold

pytestmark = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")
HERE = importlib.util.find_spec("harbor") is not None
ELSEWHERE = os.environ.get("QUINTAIN_HARBOR_PYTHON")
harbor = pytest.mark.skipif(not HERE, reason="needs harbor (Python ≥ 3.12): pip install harbor")
PATH = "quintain.bridges.harbor:QuintainEnvironment"
OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "DO_NOT_TRACK": "1", "OPENAI_API_KEY": "none"}
SUM = Item.sealed(
    Exam(hidden=StdioSuite(cases=(StdioCase(name="sum", stdin=b"2 3\n", stdout=b"5\n"),)),
         oracle={"solve.py": b"print(sum(map(int, input().split())))\n"}),
    id="sum", instructions="Read a line of numbers and print their sum.",
    entry=Entry(path="solve.py", language="python"))
LEAVES = "#!/bin/bash\n(while sleep 0.1; do date > /app/beat; done) &\n"


@pytest.mark.skipif(HERE or not ELSEWHERE,
                    reason="harbor is here, or QUINTAIN_HARBOR_PYTHON names no interpreter that has it")
def test_the_interpreter_that_has_harbor_passes_this_file() -> None:
    program = "import harbor, pytest, quintain.bridges"
    has = subprocess.run([str(ELSEWHERE), "-c", program], capture_output=True, text=True, check=False)
    if has.returncode != 0:
        pytest.skip(f"QUINTAIN_HARBOR_PYTHON lacks harbor, pytest or quintain: {has.stderr.strip()[-200:]}")
    done = subprocess.run([str(ELSEWHERE), "-m", "pytest", "-q", __file__], capture_output=True, text=True,
                          timeout=550, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


def run(folder: Path, task: Path, agent: str, *more: str) -> dict[str, Any]:
    """The result.json of the one trial that `harbor run` makes."""
    done = subprocess.run(
        [sys.executable, "-c", "from harbor.cli.main import app; app()", "run", "-y", "-q", "-p", str(task),
         "-a", agent, "-e", PATH, "-o", "jobs", "--job-name", agent, *more],
        cwd=folder, capture_output=True, text=True, timeout=180, check=False,
        env={**os.environ, **OFFLINE, "HOME": str(folder)})
    found = list((folder / "jobs" / agent).glob("*/result.json"))
    assert len(found) == 1, done.stdout[-3000:] + done.stderr[-3000:]
    read: dict[str, Any] = json.loads(found[0].read_text())
    return read


def written(folder: Path, **files: str) -> Path:
    """A Harbor task that asks for a file /app/answer that says 42."""
    texts = {
        "task.toml": 'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n',
        "instruction.md": "Write 42 into /app/answer.\n",
        "environment/Dockerfile": "FROM host\nENV GREETING=hello\nWORKDIR /app\nCOPY tool /usr/local/bin/tool\n",
        "environment/tool": "#!/bin/sh\necho 42\n",
        "solution/solve.sh": "#!/bin/bash\ntool > answer\n",
        "tests/test.sh": "#!/bin/bash\n[ \"$(cat /app/answer)\" = 42 ]\n"
                         "echo $((1 - $?)) > /logs/verifier/reward.txt\n",
        **files,
    }
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "environment" / "tool").chmod(0o755)
    return folder


@harbor
@pytest.mark.bridge("harbor", "theirs drives ours", "`harbor run`: oracle solves a task that we have written, nop not")
def test_the_oracle_solves_a_task_of_ours_in_a_sandbox_of_ours_and_nop_does_not(tmp_path: Path) -> None:
    write_taskset([SUM], tmp_path, format="harbor")
    bases = ("--ek", 'bases={"python:3.12-slim": "host"}')
    solved, idle = (run(tmp_path, tmp_path / "sum", agent, *bases) for agent in ("oracle", "nop"))
    assert solved["verifier_result"]["rewards"] == {"reward": 1, "passed_share": 1.0}
    assert solved["exception_info"] is None and solved["reward_valid"]
    assert idle["verifier_result"]["rewards"]["reward"] == 0
    assert idle["exception_info"] is None and idle["reward_valid"]
    stops = [fold(log).stop for agent in ("oracle", "nop") for log in read_trials(tmp_path / "jobs" / agent)]
    assert stops == [Stop.SOLVED, Stop.SUBMITTED]


@harbor
@pytest.mark.bridge("harbor", "theirs drives ours", "a Dockerfile without Docker; a verifier that runs apart")
def test_a_dockerfile_is_built_and_a_separate_verifier_gets_a_sandbox_of_its_own(tmp_path: Path) -> None:
    config = ('schema_version = "1.4"\nartifacts = ["/app/answer"]\n[verifier]\nenvironment_mode = "separate"\n'
              '[environment]\nnetwork_mode = "no-network"\n')
    own = ("#!/bin/bash\n[ \"$(cat /app/answer)\" = 42 ] && [ ! -e /app/beat ]\n"
           "echo $((1 - $?)) > /logs/verifier/reward.txt\n")
    task = written(tmp_path / "t", **{
        "task.toml": config, "tests/test.sh": own, "solution/solve.sh": LEAVES + "tool > answer\n",
        "tests/Dockerfile": "FROM host\nWORKDIR /app\nCOPY test.sh /tests/test.sh\nRUN chmod +x /tests/test.sh\n"})
    found = run(tmp_path, task, "oracle")
    assert found["exception_info"] is None, found["exception_info"]
    assert (found["verifier_environment_mode"], found["verifier_result"]["rewards"]) == ("separate", {"reward": 1.0})


@harbor
@pytest.mark.bridge("harbor", "theirs drives ours", "a trial that no sandbox can be made for has no valid reward")
def test_a_registrys_image_that_nothing_stands_for_is_told_and_never_rewarded(tmp_path: Path) -> None:
    task = written(tmp_path / "t", **{"environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\n"})
    found = run(tmp_path, task, "oracle")
    assert found["exception_info"]["exception_type"] == "SandboxBuildFailedError"
    assert "ubuntu:24.04" in found["exception_info"]["exception_message"]
    assert found["verifier_result"] is None and not found["reward_valid"]


class Model(BaseHTTPRequestHandler):
    """A model of OpenAI's interface that writes the solution, and says two times that it is done."""

    asked = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        Model.asked += 1
        typed = "echo 'print(sum(map(int, input().split())))' > /app/solve.py\n"
        said = {"analysis": "Add.", "plan": "Write it.", "task_complete": Model.asked > 1,
                "commands": [{"keystrokes": typed, "duration": 1.0}] if Model.asked == 1 else []}
        told = json.dumps({
            "id": "x", "object": "chat.completion", "created": 1, "model": "fake", "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": json.dumps(said)}}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@harbor
@pytest.mark.skipif(shutil.which("tmux") is None, reason="terminus works in tmux: apt-get install tmux")
@pytest.mark.bridge("harbor", "theirs drives ours", "its agent terminus-2 works in tmux inside; its trajectory is read")
def test_harbors_own_agent_works_in_a_sandbox_of_ours_and_its_trajectory_becomes_an_episode(tmp_path: Path) -> None:
    write_taskset([SUM], tmp_path, format="harbor")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        found = run(tmp_path, tmp_path / "sum", "terminus-2", "-m", "openai/fake", "--ek", 'bases={"*": "host"}',
                    "--ak", f"api_base=http://127.0.0.1:{server.server_port}/v1")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert found["verifier_result"]["rewards"]["reward"] == 1, found["exception_info"]
    (log,) = read_trials(tmp_path / "jobs" / "terminus-2")
    episode = fold(log)
    assert (episode.stop, len(episode.turns)) == (Stop.SOLVED, 3)
    assert "Read a line of numbers" in log[0].conversation[-1].text  # type: ignore[union-attr]
    assert "solve.py" in episode.turns[0].text


def environment(folder: Path, config: dict[str, Any] | None = None, **options: Any) -> Any:
    from harbor.models.task.config import EnvironmentConfig
    from harbor.models.trial.paths import TrialPaths

    from quintain.bridges.harbor import QuintainEnvironment

    task = folder if (folder / "environment").exists() else written(folder)
    paths = TrialPaths(folder / "trial")
    paths.mkdir()
    return QuintainEnvironment(
        environment_dir=task / "environment", environment_name="t", session_id="t__1", trial_paths=paths,
        task_env_config=EnvironmentConfig.model_validate({"network_mode": "no-network", **(config or {})}),
        logger=logging.getLogger("t"), **{"network_policy": _closed(), **options})


def _closed() -> Any:
    from harbor.models.task.config import NetworkMode, NetworkPolicy

    return NetworkPolicy(network_mode=NetworkMode.NO_NETWORK)


def within(box: Any, play: Callable[[Any], Awaitable[None]]) -> None:
    async def main() -> None:
        await box.start(force_build=False)
        try:
            await play(box)
        finally:
            await box.stop(delete=True)

    asyncio.run(main())


@harbor
@pytest.mark.bridge("harbor", "theirs drives ours", "its contract of exec: cwd, env, time, root, output as it comes")
def test_commands_have_the_folder_the_variables_and_the_time_that_they_are_given(tmp_path: Path) -> None:
    async def play(box: Any) -> None:
        done = await box.exec("pwd; echo $GREETING $OWN $SAID; id -un; echo wrong >&2; exit 3", env={"SAID": "x"})
        assert (done.stdout, done.stderr, done.return_code) == ("/app\nhello own x\nroot\n", "wrong\n", 3)
        assert (await box.exec("pwd", cwd="/usr", user="root")).stdout == "/usr\n"
        assert (await box.exec("kill -9 $$")).return_code == 137
        with pytest.raises(RuntimeError, match="timed out after 1 s"):
            await box.exec("sleep 60", timeout_sec=1)
        with pytest.raises(ValueError, match="one user, found 'agent'"):
            await box.exec("true", user="agent")
        heard: list[tuple[str, str]] = []

        async def hear(text: str, stream: str) -> None:
            heard.append((stream, text))

        with box.scoped_output_callback(hear):
            await box.exec("echo a; sleep 0.3; echo ö >&2")
        assert heard == [("stdout", "a\n"), ("stderr", "ö\n")]
        await box.exec(LEAVES)
        await box.exec("rm -f /app/beat; sleep 0.5; test -s /app/beat || exit 1")
        assert await box.is_file("/app/beat") and await box.is_dir("/logs/verifier")
        many = await box.exec("seq 5000000")
        assert len(many.stdout) < 17 << 20 and "left out" in many.stderr

    within(environment(tmp_path / "t", persistent_env={"OWN": "own"}), play)


@harbor
@pytest.mark.bridge("harbor", "theirs drives ours", "its contract of transfers: modes, links, large files")
def test_files_and_folders_cross_with_modes_and_links_and_no_link_leads_out(tmp_path: Path) -> None:
    given, large = tmp_path / "given", os.urandom(3 << 20) + b"x"
    (given / "empty").mkdir(parents=True)
    (given / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (given / "run.sh").chmod(0o755)
    (given / "with space").write_bytes(large)
    (given / "link").symlink_to("run.sh")

    async def play(box: Any) -> None:
        await box.upload_dir(given, "/opt/new place")
        done = await box.exec("'/opt/new place/link' && ls -A '/opt/new place'")
        assert done.stdout == "ran\nempty\nlink\nrun.sh\nwith space\n"
        await box.upload_file(given / "run.sh", "/opt/one.sh")
        assert (await box.exec("/opt/one.sh")).stdout == "ran\n"
        await box.exec("ln -s /etc/passwd '/opt/new place/out'; mkfifo '/opt/new place/pipe'")
        await box.download_dir("/opt/new place", tmp_path / "back")
        assert sorted(path.name for path in (tmp_path / "back").iterdir()) == ["empty", "link", "run.sh", "with space"]
        assert (tmp_path / "back" / "with space").read_bytes() == large
        assert os.access(tmp_path / "back" / "run.sh", os.X_OK) and (tmp_path / "back" / "link").is_symlink()
        await box.download_file("/opt/new place/with space", tmp_path / "x" / "one")
        assert (tmp_path / "x" / "one").read_bytes() == large
        with pytest.raises(FileNotFoundError):
            await box.download_file("/nowhere", tmp_path / "none")
        with pytest.raises(RuntimeError, match="No such file"):
            await box.download_dir("/nowhere", tmp_path / "none")
        await box.exec("truncate -s 40M /logs/agent/{a,b,c}")  # holes: within the quota, and larger than it
        with pytest.raises(RuntimeError, match="at most"):
            await box.download_dir("/logs/agent", tmp_path / "huge")
        await box.exec("ln -sf /dev/zero /logs/agent/endless")
        with pytest.raises(OSError, match="Invalid argument"):
            await box.download_file("/logs/agent/endless", tmp_path / "endless")

    within(environment(tmp_path / "t", {"storage_mb": 64, "memory_mb": 256}), play)


@harbor
@pytest.mark.bridge("harbor", "theirs drives ours", "networks: none; an allow list refuses other hosts")
def test_a_sandbox_reaches_what_its_policy_lists_and_nothing_else(tmp_path: Path) -> None:
    from harbor.models.task.config import NetworkMode, NetworkPolicy

    async def none(box: Any) -> None:
        assert (await box.exec("echo ${http_proxy:-closed}; grep -c : /proc/net/dev")).stdout == "closed\n1\n"

    async def listed(box: Any) -> None:
        door = "port=${http_proxy##*:}; exec 3<>/dev/tcp/127.0.0.1/${port%/}; "
        asked = "printf 'CONNECT other.test:443 HTTP/1.1\\r\\n\\r\\n' >&3; head -1 <&3"
        found = await box.exec(door + asked)
        assert " 403 " in found.stdout, found

    within(environment(tmp_path / "a"), none)
    policy = NetworkPolicy(network_mode=NetworkMode.ALLOWLIST, allowed_hosts=["pypi.org", "*.pythonhosted.org"])
    within(environment(tmp_path / "b", network_policy=policy), listed)


@harbor
def test_a_lost_sandbox_is_an_error_after_which_harbor_neither_grades_nor_believes_a_reward(tmp_path: Path) -> None:
    from harbor.environments.base import HealthcheckError
    from harbor.models.trial.error_policy import policy_for

    async def play(box: Any) -> None:
        box._box().let_go()
        for ask in (lambda: box.exec("true"), lambda: box.download_dir("/logs/agent", tmp_path / "logs")):
            with pytest.raises(HealthcheckError, match="the sandbox is gone") as told:
                await ask()
            policy = policy_for(type(told.value).__name__)
            assert policy.should_retry and not policy.should_grade and not policy.has_valid_reward

    within(environment(tmp_path / "t"), play)


@harbor
@pytest.mark.parametrize(("config", "options", "name", "said"), [
    ({"gpus": 1}, {}, "", "does not support GPU"), ({"os": "windows"}, {}, "", "does not support Windows"),
    ({}, {"mounts": [{"type": "bind", "source": "/etc", "target": "/mnt"}]}, "", "shows nothing of the host"),
    ({}, {}, "docker-compose.yaml", "expected one container"), ({}, {"base": {}}, "", "Unknown option 'base'"),
    ({"docker_image": "a:1"}, {"auto_mounting": True}, "", "does not support automatic host mounts"),
])
def test_what_a_sandbox_of_ours_is_not_is_refused_before_it_starts(
    tmp_path: Path, config: dict[str, Any], options: dict[str, Any], name: str, said: str,
) -> None:
    written(tmp_path / "t", **({f"environment/{name}": "services: {main: {}, db: {}}\n"} if name else {}))
    with pytest.raises((ValueError, RuntimeError), match=said):
        environment(tmp_path / "t", config, **options)

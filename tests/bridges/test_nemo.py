"""NeMo Gym's own sandbox API over sandboxes of ours, and a resources server of its own kind with our judges.

NeMo Gym asks for Python 3.13.14: where it is not installed beside us, all of this file is played by the interpreter
that QUINTAIN_NEMO_PYTHON names, which has nemo_gym, pytest and quintain."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from quintain.bridges import nemo_rows, nemo_server
from quintain.env import CodeEnvironment
from quintain.rollout import Collector
from quintain.sandbox import NativeBackend
from quintain.tasks import Exam, Item, PythonSuite
from quintain.testing import fail_first
from quintain.train import Stage
from quintain.types import Entry, FaultKind, HouseError
from tests.bridges.stages import stage as fake_stage

pytestmark = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="needs namespaces: see `quintain doctor`")
HERE = importlib.util.find_spec("nemo_gym") is not None
GONE = HouseError(FaultKind.SANDBOX_LOST, "gone")
ELSEWHERE = os.environ.get("QUINTAIN_NEMO_PYTHON")
nemo = pytest.mark.skipif(not HERE, reason="needs nemo-gym (Python ≥ 3.13.14)")


@pytest.mark.skipif(HERE or not ELSEWHERE,
                    reason="nemo-gym is here, or QUINTAIN_NEMO_PYTHON names no interpreter that has it")
def test_the_interpreter_that_has_nemo_gym_passes_this_file() -> None:
    program = "import nemo_gym, pytest, quintain.bridges"
    has = subprocess.run([str(ELSEWHERE), "-c", program], capture_output=True, text=True, check=False)
    if has.returncode != 0:
        pytest.skip(f"QUINTAIN_NEMO_PYTHON lacks nemo_gym, pytest or quintain: {has.stderr.strip()[-200:]}")
    done = subprocess.run([str(ELSEWHERE), "-m", "pytest", "-q", __file__], capture_output=True, text=True,
                          timeout=550, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


def within(play: Callable[[Any], Awaitable[None]], spec: dict[str, Any] | None = None, **options: Any) -> None:
    from nemo_gym.sandbox import AsyncSandbox, SandboxSpec

    async def main() -> None:
        box = AsyncSandbox({"quintain": options}, SandboxSpec(**(spec or {})))
        await box.start()
        try:
            await play(box)
        finally:
            await box.stop()

    asyncio.run(main())


@nemo
@pytest.mark.bridge("nemo-gym", "theirs drives ours", "the provider by entry point: commands, files, pause")
def test_its_sandbox_api_drives_a_sandbox_of_ours_found_by_entry_point(tmp_path: Path) -> None:
    from nemo_gym.sandbox import SandboxStatus

    async def play(box: Any) -> None:
        done = await box.exec("pwd; echo $A $B; cat given.txt; echo e >&2; exit 3", env={"B": "b"})
        assert (done.stdout, done.stderr, done.return_code, done.error_type) == ("/app\na b\ngiven\n", "e\n", 3, None)
        assert (await box.exec("kill -9 $$")).return_code == 137
        late = await box.exec("echo begun; sleep 60", timeout_s=1)
        assert (late.return_code, late.error_type, late.stdout) == (125, "timeout", "begun\n")
        with pytest.raises(ValueError, match="one user, found 'agent'"):
            await box.exec("true", user="agent")
        await box.exec("(while sleep 0.1; do date > beat; done) &", preserve_background_services=True)
        assert (await box.exec("rm -f beat; sleep 0.5; test -s beat")).return_code == 0
        (tmp_path / "run.sh").write_text("#!/bin/sh\necho ran\n")
        (tmp_path / "run.sh").chmod(0o755)
        await box.upload(tmp_path / "run.sh", "bin/run.sh")
        assert (await box.exec("bin/run.sh > out; ./bin/run.sh")).stdout == "ran\n"
        await box.download("out", tmp_path / "back" / "out")
        assert (tmp_path / "back" / "out").read_text() == "ran\n"
        with pytest.raises(FileNotFoundError):
            await box.download("/nowhere", tmp_path / "none")
        assert await box.status() is SandboxStatus.RUNNING
        await box.pause()
        assert await box.status() is SandboxStatus.PAUSED
        await box.resume()
        assert (await box.exec("curl -s -m 2 http://192.0.2.1")).return_code != 0

    within(play, {"image": "python:3.12-slim", "workdir": "/app", "env": {"A": "a"}, "ttl_s": 300,
                  "files": {"given.txt": "given\n"}, "resources": {"memory_mib": 256, "cpu": 1}}, bases={"*": "host"})


@nemo
@pytest.mark.bridge("nemo-gym", "theirs drives ours", "what a sandbox of ours is not is a SandboxCreateError")
@pytest.mark.parametrize(("spec", "said"), [
    ({"image": "python:3.12-slim"}, "a registry's"), ({"resources": {"gpu": 1}}, "no gpu"),
    ({"ports": [80]}, "no ports"), ({"entrypoint": ["sh"]}, "no entrypoint"), ({"image": "oci:/nowhere"}, "nowhere"),
    ({"ready_timeout_s": 0.0}, "no sandbox within"),
])
def test_what_cannot_be_had_is_refused(spec: dict[str, Any], said: str) -> None:
    from nemo_gym.sandbox import SandboxCreateError

    async def never(box: Any) -> None:
        raise AssertionError("expected no sandbox")

    with pytest.raises(SandboxCreateError, match=said):
        within(never, spec)


@nemo
def test_a_sandbox_whose_time_is_over_is_told_as_a_sandbox_s_failure_not_the_command_s() -> None:
    from nemo_gym.sandbox import SandboxStatus

    async def play(box: Any) -> None:
        done = await box.exec("sleep 30")
        assert (done.return_code, done.error_type) == (125, "sandbox")
        assert await box.status() is SandboxStatus.STOPPED

    within(play, {"ttl_s": 1})


HIDDEN = b"from solution import add\n\n\ndef test_add():\n    assert add(20, 22) == 42\n"
ADD = Item.sealed(Exam(hidden=PythonSuite(files={"test_add.py": HIDDEN})), id="add", instructions="Write `add(a, b)`.",
                  entry=Entry(name="add"))


def served(stage: Stage, **items: Item) -> Any:
    from fastapi.testclient import TestClient
    from nemo_gym.server_utils import ServerClient

    kind = nemo_server(stage, items)
    server = kind(config=kind.Config(host="127.0.0.1", port=1, entrypoint="", name="quintain"),
                  server_client=MagicMock(spec=ServerClient))
    return TestClient(server.setup_webserver(), raise_server_exceptions=False)


def verify(client: Any, text: str, row: dict[str, Any]) -> dict[str, Any]:
    said = {"type": "message", "id": "m", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]}
    body = {**row, "response": {
        "id": "r", "created_at": 0.0, "model": "m", "object": "response", "output": [said], "tools": [],
        "parallel_tool_calls": False, "tool_choice": "auto"}}
    answer = client.post("/verify", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@nemo
@pytest.mark.bridge("nemo-gym", "theirs drives ours", "a SimpleResourcesServer whose /verify is our judges")
def test_verify_is_what_our_judges_say() -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Collector]:
        async with NativeBackend() as backend:
            yield Collector(CodeEnvironment(backend), lambda event: None, concurrency=4)

    async def asked() -> list[dict[str, Any]]:
        async with NativeBackend() as backend:
            return list(nemo_rows([ADD], CodeEnvironment(backend).opening))

    (row,) = asyncio.run(asked())
    assert "add(a, b)" in row["responses_create_params"]["input"][-1]["content"]
    assert "test_add" not in json.dumps(row)
    with Stage(opened) as stage:
        client = served(stage, add=ADD)
        code = "```python\ndef add(a, b):\n    return a {} b\n```"
        right, wrong = (verify(client, code.format(sign), row) for sign in "+-")
        assert (right["solved"], right["mask_sample"], right["verifier_metadata"]) == (True, False, {"task": "add"})
        assert right["reward"] > 0.5 > wrong["reward"]
        assert (wrong["solved"], wrong["mask_sample"], wrong["failure_kind"]) == (False, False, None)
        assert client.post("/verify", json={**row, "verifier_metadata": {"task": "none"}}).status_code >= 400
        assert client.get("/reverify_mode").json() == "stateless"


@nemo
@pytest.mark.bridge("nemo-gym", "theirs drives ours", "what the house broke is masked; its session contract")
def test_what_the_house_broke_is_masked_and_its_session_contract_holds() -> None:
    from nemo_gym.base_resources_server import ResourcesSeedSessionRequest
    from nemo_gym.failure_kinds import is_registered
    from nemo_gym.testing.session_conformance import check_resources_session_contract

    with fake_stage(plan=fail_first(1, GONE, call="grade")) as stage:
        client = served(stage, add=ADD)
        row = {"responses_create_params": {"input": "x"}, "verifier_metadata": {"task": "add"}}
        broken = verify(client, "anything", row)
        assert (broken["reward"], broken["mask_sample"], broken["solved"]) == (0.0, True, False)
        assert is_registered(broken["failure_kind"]) and broken["failure_reason"]
        seed = ResourcesSeedSessionRequest.model_validate({
            "resources_session_id": "s", "task_data": {}, "episode_id": {"rollout_id": "r"},
            "task_id": {"taskset": "t", "task_id": "add"}})
        check_resources_session_contract(client.app, seed, keeps_state=False)

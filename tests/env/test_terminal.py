"""Terminal tasks written for Docker, on this host: what they fetch is there or named, and what crosses of an answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quintain.env import ShellEnvironment, TerminalWorld
from quintain.policy import ScriptedPolicy
from quintain.rollout import Driver, tickets
from quintain.sandbox import NativeBackend
from quintain.tasks import open_taskset
from quintain.types import TaskError, Verdict

needs_native = pytest.mark.skipif(
    not NativeBackend().probe().available, reason="the native backend is not available here: see `quintain doctor`")

TOML = 'version = "1.0"\n[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 60.0\n[environment]\n' \
    'docker_image = "somebody/task:1"\nmemory = "1G"\n'
#: Tests as Terminal-Bench 2 has them; the last command stands for pytest, which CI's interpreter need not have.
TEST = """#!/bin/bash
set -e
apt-get update
apt-get install -y curl
curl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh
source $HOME/.local/bin/env
pip install pytest==8.4.1
if uvx -p 3.13 -w pytest==8.4.1 python3 /tests/check.py; then echo 1 > /logs/verifier/reward.txt
else echo 0 > /logs/verifier/reward.txt; fi
"""
CHECK = """import os, subprocess
assert open("/app/seed.txt").read() == "seed\\n"
assert os.readlink("/app/link") == "seed.txt" and os.path.isdir("/app/empty")
assert os.stat("/app/secret").st_mode & 0o777 == 0o600
assert subprocess.run(["answer-tool"], capture_output=True, check=True).stdout == b"tool\\n"
assert not [name for name in os.listdir("/app") if name.startswith("leak")]
"""
SOLVE = """#!/bin/bash
set -e
apt-get install -y curl
ln -s seed.txt link; mkdir empty; echo x > secret; chmod 600 secret
printf '#!/bin/sh\\necho tool\\n' > /usr/local/bin/answer-tool; chmod +x /usr/local/bin/answer-tool
"""


DOCKERFILE = "FROM debian:12\nWORKDIR /app\nCOPY seed.txt .\n"


def written(root: Path, *, solve: str = SOLVE, dockerfile: str = DOCKERFILE) -> Path:
    files = {"task.toml": TOML, "instruction.md": "Do it.\n", "tests/test.sh": TEST, "tests/check.py": CHECK,
             "solution/solve.sh": solve, "environment/Dockerfile": dockerfile, "environment/seed.txt": "seed\n"}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


async def verdict_of(folder: Path, cache: Path) -> Verdict:
    (item,) = open_taskset(str(folder))
    async with NativeBackend(engines=1) as backend:
        world = TerminalWorld(backend, cache=cache, bases={"*": "host"})
        made = await world.make(item, item.exam.oracle or {}, oracle=True)
        return await world.grade(item, made.trees)


@needs_native
def test_a_task_that_fetches_its_tools_is_solved_by_its_author_without_a_network(tmp_path: Path) -> None:
    verdict = asyncio.run(verdict_of(written(tmp_path / "task"), tmp_path / "cache"))
    assert verdict.solved, verdict


@needs_native
def test_no_link_crosses_that_leads_to_the_tests(tmp_path: Path) -> None:
    targets = ("/tests/check.py", "../tests/check.py", "/", "../../logs", "empty/../../tests")
    links = "".join(f"ln -s {target} /app/leak{n}\n" for n, target in enumerate(targets))
    folder = written(tmp_path / "task", solve=SOLVE + links)
    assert asyncio.run(verdict_of(folder, tmp_path / "cache")).solved  # the check asserts that no link is there


@needs_native
def test_a_command_in_place_of_the_tests_own_does_not_cross(tmp_path: Path) -> None:
    solve = "#!/bin/bash\nfor name in uvx python3 curl; do printf '#!/bin/sh\\nexit 0\\n' > /usr/local/bin/$name; " \
        "chmod +x /usr/local/bin/$name; done\nprintf '#!/bin/sh\\nexit 0\\n' > /opt/quintain/bin/uvx\n"
    folder = written(tmp_path / "task", solve=solve)
    assert not asyncio.run(verdict_of(folder, tmp_path / "cache")).solved


def test_what_the_host_lacks_is_told_before_anything_is_opened(tmp_path: Path) -> None:
    folder = written(tmp_path / "task", dockerfile="FROM debian:12\nRUN apt-get install -y no-such-package-anywhere\n")
    (item,) = open_taskset(str(folder))
    world = TerminalWorld(NativeBackend(), cache=tmp_path / "cache", bases={"*": "host"})
    with pytest.raises(TaskError, match=r"environment/Dockerfile:2: .*no-such-package-anywhere"):
        world.image(item)


SERVED = """import http.server, os
class Said(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.end_headers()
        self.wfile.write(text.upper() + b"".join(b"seen" for p in ("/tests", "/logs/verifier") if os.path.exists(p)))
http.server.ThreadingHTTPServer(("127.0.0.1", 8123), Said).serve_forever()
"""
ASKS = """import random, threading, urllib.request
def ask(text):
    assert urllib.request.urlopen("http://localhost:8123/", text.encode(), 20).read().strip() == text.upper().encode()
def note(text):
    ask(text); good.append(text)
good = []
asked = [threading.Thread(target=note, args=("a" * random.randrange(200_000),)) for _ in range(4)]
for one in asked: one.start()
for one in asked: one.join()
assert len(good) == 4
for _ in range(3): ask("once more")
"""
SERVES = f"{SOLVE}cat > s.py <<'END'\n{SERVED}END\nnohup python3 s.py > log 2>&1 &\n" \
    "until (exec 3<>/dev/tcp/127.0.0.1/8123) 2>/dev/null; do sleep 0.05; done\n"
FORGES = "#!/bin/bash\nmkdir -p /logs/verifier\n" \
    "(while true; do echo 1 > /logs/verifier/reward.txt; sleep 0.02; done) &\n" \
    "nohup python3 -m http.server 8123 > /dev/null 2>&1 &\nsleep 0.3\n"


def serving(root: Path, solve: str) -> Path:
    folder = written(root, solve=solve)
    (folder / "tests" / "check.py").write_text(CHECK + ASKS)
    return folder


@needs_native
def test_what_is_left_running_writes_no_reward(tmp_path: Path) -> None:
    assert not asyncio.run(verdict_of(serving(tmp_path / "task", FORGES), tmp_path / "cache")).solved


@needs_native
def test_services_left_running_are_asked_and_see_neither_tests_nor_reward_whoever_left_them(tmp_path: Path) -> None:
    (item,) = open_taskset(str(serving(tmp_path / "task", SERVES)))

    async def play() -> bool:
        async with NativeBackend(engines=1) as backend:
            world = TerminalWorld(backend, cache=tmp_path / "cache", bases={"*": "host"})
            await world.make(item, item.exam.oracle or {}, oracle=True)  # never judged: it ends with the house
            made = await world.make(item, item.exam.oracle or {}, oracle=True)
            verdict = await world.grade(item, made.trees)
            shell = ShellEnvironment(backend, cache=tmp_path / "cache", bases={"*": "host"})
            (ticket,) = tickets(item, size=1, seed=0)
            said = [f"```bash\n{SERVES}\n```", "SUBMIT"]
            policy = ScriptedPolicy({item.task.id: said})
            return verdict.solved and (await Driver(shell, policy, lambda event: None).play(ticket)).solved

    assert asyncio.run(play())

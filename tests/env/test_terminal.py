"""Terminal tasks written for Docker, on this host: what they fetch is there or named, and what crosses of an answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quintain.env import TerminalWorld
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
assert os.path.lexists("/app/leak") is False
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
@pytest.mark.parametrize("link", [
    "/tests/check.py /app/leak", "../tests/check.py /app/leak", "/ /app/leak", "../../logs /app/leak",
    "empty/../../tests /app/leak",
])
def test_no_link_crosses_that_leads_to_the_tests(link: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "task", solve=f"{SOLVE}ln -s {link}\n")
    assert asyncio.run(verdict_of(folder, tmp_path / "cache")).solved  # the check asserts that the link is not there


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

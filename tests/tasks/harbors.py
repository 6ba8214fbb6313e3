"""Harbor directories made by hand: a small one, one that says every key of schema 1.4, one in steps, one of 1.0."""

from __future__ import annotations

from pathlib import Path

TEST = "#!/bin/bash\n[ \"$(cat /app/answer.txt)\" = 42 ] && echo 1 > /logs/verifier/reward.txt || " \
    "echo 0 > /logs/verifier/reward.txt\n"
SOLVE = "#!/bin/bash\necho 42 > /app/answer.txt\n"

SMALL = {
    "task.toml": 'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\nworkdir = "/app"\n',
    "instruction.md": "<!-- demo-canary GUID 1234 -->\n\nWrite 42 to /app/answer.txt.\n",
    "tests/test.sh": TEST, "solution/solve.sh": SOLVE,
}

EVERY_KEY = '''\
# a comment, which is kept like everything else
schema_version = "1.4"
source = "demo"
artifacts = ["/app/out.txt", {source = "/var/log/app", destination = "logs", exclude = ["*.tmp"], service = "main"}]
made_up = "unknown at the top"

[task]
name = "demo/every-key"
version = "2.1"
description = "says every key"
authors = [{name = "A. Author", email = "a@example.org"}]
keywords = ["demo", "keys"]

[metadata]
difficulty = "easy"
category = "files"
anything = {goes = [1, 2.5, true]}

[agent]
timeout_sec = 120.0
user = "agent"
network_mode = "allowlist"
allowed_hosts = ["pypi.org", "*.pythonhosted.org", "192.0.2.0/24", "2001:db8::1"]

[verifier]
timeout_sec = 60.0
env = {MODE = "strict", TOKEN = "${TOKEN:-none}"}
user = 1001
environment_mode = "separate"
network_mode = "no-network"

[[verifier.collect]]
command = "cp /app/state.db /logs/artifacts/"
service = "main"
timeout_sec = 30.0
user = "root"

[verifier.environment]
docker_image = "python:3.12-slim"
os = "linux"

[environment]
network_mode = "allowlist"
allowed_hosts = ["pypi.org"]
build_timeout_sec = 300.0
docker_image = "ubuntu:24.04"
os = "Linux"
cpus = 2
memory_mb = 1024
storage_mb = 2048
gpus = 1
gpu_types = ["T4"]
skills_dir = "/skills"
workdir = "/app"
env = {GREETING = "hello", HOME_DIR = "${HOME_DIR:-/root}"}
surprise = "unknown further in"

[environment.tpu]
type = "v6e"
topology = "2x2"

[[environment.mcp_servers]]
name = "files"
transport = "stdio"
command = "mcp-files"
args = ["--root", "/app"]

[[environment.mcp_servers]]
name = "web"
transport = "sse"
url = "http://localhost:8000/sse"
headers = {X-Mode = "demo"}

[environment.healthcheck]
command = "true"
interval_sec = 1.0
timeout_sec = 2.0
start_period_sec = 0.0
start_interval_sec = 1.0
retries = 2

[solution]
env = {KEY = "value"}
'''

STEPS = '''\
schema_version = "1.3"
multi_step_reward_strategy = "final"

[task]
name = "demo/in-steps"

[environment]
network_mode = "no-network"
workdir = "/app"

[[steps]]
name = "scaffold"
min_reward = 1.0
artifacts = ["/app/one.txt"]

[steps.agent]
timeout_sec = 30

[steps.verifier]
timeout_sec = 20
env = {WANTED = "one"}

[[steps]]
name = "finish"
min_reward = {reward = 0.5}
'''

OLD = '''\
version = "1.0"
[metadata]
author_name = "somebody"
[environment]
memory = "2G"
storage = "512M"
allow_internet = false
'''


def write(root: Path, files: dict[str, str], *, plain: tuple[str, ...] = ()) -> Path:
    """The files below a root; scripts get their x bit, except those in `plain`."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        if name.endswith(".sh") and name not in plain:
            path.chmod(0o755)
    return root


def small(root: Path, **files: str) -> Path:
    """The small task; more files, by name with '__' for '/', may be added or replaced; an empty text removes one."""
    named = {name.replace("__", "/").replace("_dot_", "."): content for name, content in files.items()}
    return write(root, {name: content for name, content in {**SMALL, **named}.items() if content})


def every_key(root: Path) -> Path:
    write(root, {
        **SMALL, "task.toml": EVERY_KEY, "environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\n",
        "environment/data/in.csv": "a,b\n1,2\n", "tests/data/expected.txt": "42\n", "README.md": "about\n",
        "trajectory.json": "{}\n", ".harborignore": "*.tmp\n", "notes/todo.txt": "mine\n", ".gitignore": "x\n",
    })
    (root / "empty" / "folder").mkdir(parents=True)
    return root


def in_steps(root: Path) -> Path:
    test = "#!/bin/bash\necho \"{\\\"reward\\\": $([ -f /app/$WANTED.txt ] && echo 1 || echo 0)}\" " \
        "> /logs/verifier/reward.json\n"
    return write(root, {
        "task.toml": STEPS, "tests/helper.txt": "shared\n",
        "steps/scaffold/instruction.md": "Write one.txt.\n", "steps/scaffold/tests/test.sh": test,
        "steps/scaffold/solution/solve.sh": "#!/bin/bash\ncat seed.txt > one.txt\n",
        "steps/scaffold/workdir/seed.txt": "seed\n",
        "steps/scaffold/workdir/setup.sh": "echo set > /app/was_set_up.txt\n",
        "steps/finish/instruction.md": "Write two.txt.\n",
        "steps/finish/tests/test.sh": test.replace("$WANTED", "two"),
        "steps/finish/solution/solve.sh": "#!/bin/bash\ncp one.txt two.txt; rm one.txt\n",
    })


def old(root: Path) -> Path:
    return write(root, {**SMALL, "task.toml": OLD})


def listing(root: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a root: mode and content of files, -1 for folders."""
    return {
        str(path.relative_to(root)): (path.stat().st_mode & 0o777, path.read_bytes()) if path.is_file() else (-1, b"")
        for path in sorted(root.rglob("*"))
    }

"""Whether an episode comes out the same when it is run again, and whether what was planted in it is named.

1,000 deterministic episodes are recorded in real sandboxes (functions in one turn and in several, right, wrong and
mutated; shells of several commands, whose files are kept after each) and replayed from their first step: `identical`
counts those of which every byte came out as recorded. Deterministic is what the text says, not what a replay found: a
task whose tests or answers draw on unseeded chance or a clock (the rule is in `_chance.py`) is left out, and others
take its place. `left_out` names each such task of the set with what it draws on; its episodes are recorded and replayed
all the same, `left_out_identical` of them as recorded, and `identical_share_with_left_out` is the share with them. Then
differences of known cause are planted between record and replay: another image, the clock, the network, another reply,
another suite, seeds of hashes, addresses. `planted` counts them, `named` those whose first differing step and cause
were both named.

    python bench/replay.py [--episodes 1000] [--at-once 4]
"""

from __future__ import annotations

import argparse
import asyncio
import http.server
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
from _chance import chance_of
from _machine import Account, finish

from quintain.cli.answers import null_reply, oracle_reply, repairs
from quintain.env import ByKind, CodeEnvironment, ShellEnvironment
from quintain.grade import Oracle, warm_oracle
from quintain.policy import Policy, RepairingPolicy, ScriptedPolicy
from quintain.replay import Cause, EpisodeReplay, Known, Replayer, snapshots_of, survey
from quintain.rollout import Driver, tickets
from quintain.sandbox import NativeBackend
from quintain.store import Definition, Run
from quintain.tasks import Exam, Item, PythonSuite, ScriptSuite, open_taskset
from quintain.types import Entry, Event, Grading, Limits, Network, Scopes

CHECK = b"mkdir -p /logs/verifier; grep -q 42 answer.txt && echo 1 > /logs/verifier/reward.txt || " \
        b"echo 0 > /logs/verifier/reward.txt\n"
SHELL = (
    ("mkdir -p a/b && printf '%s\\n' {n} 2 3 > a/b/list", "sort -n a/b/list | tee sorted", "wc -c sorted; ls -R"),
    ("x={n}; f() {{ echo \"$1:$x\"; }}; cd /tmp", "f one; pwd", "x=$((x + 1)); f two >&2; exit 3"),
    ("seq {n} | awk '{{s += $1}} END {{print s}}' > sum", "cat sum missing", "head -c 64 /dev/zero | od -c"),
    ("printf 'def f(a):\\n    return a * {n}\\n' > m.py", "python3 -B -c 'import m; print(m.f(6))'", "rm m.py; ls -A"),
    ("ln -s list link; echo {n} > list; mkfifo pipe", "cat link; readlink link", "chmod 600 list; stat -c %a list"),
    ("printf '\\377\\000\\001{n}' > bin", "cat bin; cksum bin", "tar cf - bin --mtime=@0 --owner=0 | cksum"),
)


def shell_item(name: str, image: str = "host+rw") -> Item:
    limits = Scopes(episode=Limits(wall_seconds=120.0, cpu_seconds=120.0, turns=8))
    return Item.sealed(
        Exam(hidden=ScriptSuite(files={"test.sh": CHECK})), files=None, id=name, kind="shell", image=image,
        instructions="Write 42 to answer.txt.", entry=Entry(path="solve.sh", language="shell"), limits=limits,
        grading=Grading.ON_SUBMIT)


def commanded(*commands: str) -> list[str]:
    return [*(f"```bash\n{command}\n```\n" for command in commands), "```bash\necho 42 > answer.txt\n```\nSUBMIT"]


def mutated(reply: str, nth: int) -> str:
    """The author's answer with what it returns last spoilt in one of four ways."""
    spoilt = (r"return (\1,)", r"return None", r"return not (\1)", r"return [\1, \1]")[nth % 4]
    head, found, tail = reply.rpartition("return ")
    line, newline, rest = tail.partition("\n")
    return head + re.sub(r"^return (.*)$", spoilt, found + line) + newline + rest if found else reply


Played = list[tuple[Item, Policy]]


def deterministic(count: int) -> tuple[Played, Played, dict[str, tuple[str, ...]]]:
    """The episodes to record, of six kinds in turn, until there are `count` of tasks that leave nothing to chance;
    those of the other tasks that came up meanwhile; and what each of these tasks draws on."""
    code = list(open_taskset("humaneval"))
    drawing = {item.task.id: drawn for item in code if (drawn := chance_of(item.exam))}
    made: Played = []
    left_out: Played = []
    rounds = 0
    while len(made) < count:
        for nth, item in enumerate(code):
            if len(made) >= count:
                break
            right, again = oracle_reply(item), f"{item.task.id}.{rounds}"
            kinds: list[tuple[str, Policy]] = [
                ("oracle", ScriptedPolicy({f"{again}.oracle": [right]})),
                ("null", ScriptedPolicy({f"{again}.null": [null_reply(item)]})),
                ("repair", RepairingPolicy({f"{again}.repair": repairs(item)})),
                ("mutated", ScriptedPolicy({f"{again}.mutated": [mutated(right, nth)]})),
            ]
            for kind, policy in kinds:
                (left_out if item.task.id in drawing else made).append((renamed(item, f"{again}.{kind}"), policy))
            for kind in range(2):
                name = f"shell.{rounds}.{nth}.{kind}"
                commands = [c.format(n=nth + 3) for c in SHELL[(2 * nth + kind) % len(SHELL)]]
                made.append((shell_item(name), ScriptedPolicy({name: commanded(*commands)})))
        rounds += 1
    return made[:count], left_out, drawing


def renamed(item: Item, name: str) -> Item:
    return msgspec.structs.replace(item, task=msgspec.structs.replace(item.task, id=name))


class House:
    """Where episodes are recorded and replayed: a run folder, environments on one backend, and what is known of it."""

    def __init__(self, backend: NativeBackend, run: Run, cache: Path) -> None:
        self.backend, self.run, self.cache = backend, run, cache
        self.code = CodeEnvironment(backend, oracle=Oracle(backend))

    def environment(
        self, *, bases: dict[str, str] | None = None, network: Network = Network.NONE, allow: Sequence[str] = (),
    ) -> ByKind:
        # the oracle's backend keeps a warm interpreter, which images of tasks need not have
        shell = ShellEnvironment(self.images, cache=self.cache, bases=bases, network=network, allow=allow,
                                 keep=lambda snapshot: self.run.blobs.put(snapshot.encode()))
        return ByKind([self.code, shell])

    images: NativeBackend

    async def record(self, item: Item, policy: Policy, environment: ByKind) -> list[Event]:
        (ticket,) = tickets(item, size=1, seed=0)
        await Driver(environment, policy, self.run.journal.append).play(ticket)
        return list(self.run.journal.read(ticket.episode))

    async def replay(
        self, item: Item, log: Sequence[Event], environment: ByKind, *, known: Known | None = None,
        policy: Policy | None = None,
    ) -> EpisodeReplay:
        booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        known = msgspec.structs.replace(known or Known(), booted_unix_seconds=booted)
        files = snapshots_of(self.run.blobs.get)
        return await Replayer(environment, files=files, known=known, policy=policy).replay(item, log)


@asynccontextmanager
async def house(folder: Path) -> AsyncIterator[House]:
    run = Run.create(folder, Definition(taskset="bench", policy="scripted"), name="run")
    async with NativeBackend(warm=warm_oracle()) as backend, NativeBackend() as images:
        made = House(backend, run, folder / "cache")
        made.images = images
        with run:
            yield made


async def at_once(work: Sequence[Callable[[], object]], count: int) -> list[object]:
    """The answers of coroutine functions in order, `count` at a time."""
    answers: list[object] = [None] * len(work)
    left = iter(enumerate(work))

    async def worker() -> None:
        for nth, one in left:
            answers[nth] = await one()  # type: ignore[misc]

    async with asyncio.TaskGroup() as workers:
        for _ in range(count):
            workers.create_task(worker())
    return answers


async def reproduce(made: House, episodes: Played, crowd: int) -> tuple[int, Counter[str]]:
    environment = made.environment()
    logs = await at_once([lambda i=item, p=policy: made.record(i, p, environment) for item, policy in episodes], crowd)
    replays = await at_once(
        [lambda i=item, g=log: made.replay(i, g, environment) for (item, _), log in zip(episodes, logs, strict=True)],
        crowd)
    wrong: Counter[str] = Counter()
    for one in replays:
        assert isinstance(one, EpisodeReplay)
        if not one.identical:
            wrong[one.cause.cause.value if one.cause else "house"] += 1
            print(f"not identical: {one.episode} step {one.diverged}: {one.cause} {one.house}")
    return sum(one.identical for one in replays), wrong  # type: ignore[attr-defined]


class Pages(http.server.BaseHTTPRequestHandler):
    """A server whose one page can be changed."""

    page = b"one\n"

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, *words: object) -> None:
        """Says nothing."""


@contextmanager
def served() -> object:  # type: ignore[misc]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


Planted = tuple[str, Cause, int, EpisodeReplay]

CLOCKS = (
    "date", "python3 -c 'import time; print(time.time())'", "date +%s%N", "touch f; stat -c %y f",
    "python3 -c 'from datetime import datetime; print(\"begun\", datetime.now().isoformat())'",
    "echo \"[$(date +%H:%M:%S)] started\"", "python3 -c 'import uuid; print(uuid.uuid1())'",
    "cut -d' ' -f1 /proc/uptime",
)
OTHER: tuple[tuple[str, Cause], ...] = (
    ("python3 -c 'print({\"ab\", \"cd\", \"ef\", \"gh\", \"ij\"})'", Cause.HASH_SEED),
    ("python3 -c 'print(hash(\"quintain\"))'", Cause.HASH_SEED),
    ("python3 -c 'print(object())'", Cause.ADDRESSES),
    ("echo $RANDOM $RANDOM", Cause.RANDOMNESS), ("mktemp", Cause.RANDOMNESS),
    ("python3 -c 'import random; print(random.random())'", Cause.RANDOMNESS),
    ("head -c 8 /dev/urandom | od -x", Cause.RANDOMNESS),
    ("python3 -c 'import time; a = time.perf_counter(); sum(range(99999)); print(time.perf_counter() - a)'",
     Cause.TIMING),
)


async def clocks(made: House) -> list[Planted]:
    environment = made.environment()
    found: list[Planted] = []
    for nth, (command, cause) in enumerate([*((c, Cause.CLOCK) for c in CLOCKS), *OTHER]):
        item = shell_item(f"jitter.{nth}")
        replies = commanded("echo a first command", command)
        log = await made.record(item, ScriptedPolicy({item.task.id: replies}), environment)
        if cause is Cause.CLOCK:
            await asyncio.sleep(1.1)  # for clocks that show whole seconds
        found.append((command, cause, 2, await made.replay(item, log, environment)))
    return found


async def environments(made: House, folder: Path) -> list[Planted]:
    """Episodes in one image, replayed in another that goes by the same name."""
    changes = (  # what the image of the record says, and that of the replay; a command that shows it
        ("RUN echo 1.4.2 > /etc/tool-version", "RUN echo 1.5.0 > /etc/tool-version", "cat /etc/tool-version"),
        ("ENV GREETING=hello", "ENV GREETING=goodbye", "echo $GREETING"),
        ("RUN printf '#!/bin/sh\\necho a\\n' > /usr/bin/tool && chmod 755 /usr/bin/tool", "RUN true", "tool"),
        ("RUN mkdir -p /srv/lib && echo 'V = 1' > /srv/lib/pack.py", "RUN mkdir -p /srv/lib && echo 'V = 2' > "
         "/srv/lib/pack.py", "PYTHONPATH=/srv/lib python3 -c 'import pack; print(pack.V)'"),
        ("RUN echo x > /data", "RUN echo x > /data && chmod 000 /data", "stat -c %a /data"),
    )
    found: list[Planted] = []
    for nth, (before, after, command) in enumerate(changes):
        images = []
        for side, line in (("then", before), ("now", after)):
            context = folder / f"{nth}-{side}"
            context.mkdir(parents=True)
            (context / "Dockerfile").write_text(f"FROM host\n{line}\n")
            images.append(f"build:{context}")
        item = shell_item(f"environment.{nth}", image="docker:app+rw")
        log = await made.record(item, ScriptedPolicy({item.task.id: commanded("pwd", command)}),
                                made.environment(bases={"*": images[0]}))
        then, now = [await survey(made.images, image + "+rw") for image in images]
        known = Known(then={"app": then}, now={"app": msgspec.structs.replace(now, image=then.image)})
        replay = await made.replay(item, log, made.environment(bases={"*": images[1]}), known=known)
        found.append((command, Cause.ENVIRONMENT, 2, replay))
    return found


FETCH = """python3 - <<'X'
import http.client
line = http.client.HTTPConnection("127.0.0.1", 3128, timeout=5)
line.request("GET", "http://127.0.0.1:PORT/page")
answer = line.getresponse()
print(answer.status, answer.read().decode()[:200])
X"""


async def networks(made: House) -> list[Planted]:
    """A page that is there when it is recorded; later it says something else, or is gone, or no network is there."""
    found: list[Planted] = []
    looked = await survey(made.images, "host+rw")
    with_network = msgspec.structs.replace(looked, network=Network.ALLOW_LIST)
    for nth, after in enumerate(("changed", "gone", "none", "changed", "gone", "none")):
        with served() as server:  # type: ignore[attr-defined]
            port = server.server_address[1]
            Pages.page = b"one\n"
            environment = made.environment(network=Network.ALLOW_LIST, allow=[f"127.0.0.1:{port}"])
            item = shell_item(f"network.{nth}")
            fetch = FETCH.replace("PORT", str(port)) if nth < 3 else (
                f"curl -sS --noproxy '' -x http://127.0.0.1:3128 http://127.0.0.1:{port}/page")
            log = await made.record(item, ScriptedPolicy({item.task.id: commanded("id -u", fetch)}), environment)
            Pages.page = b"two\n"
            if after == "changed":
                replay = await made.replay(item, log, environment,
                                           known=Known(then={"host": with_network}, now={"host": with_network}))
        if after == "gone":
            replay = await made.replay(item, log, environment,
                                       known=Known(then={"host": with_network}, now={"host": with_network}))
        elif after == "none":
            replay = await made.replay(item, log, made.environment(),
                                       known=Known(then={"host": with_network}, now={"host": looked}))
        step = 0 if after == "none" else 2  # what is asked says whether there is a network
        found.append((f"{after} {nth}", Cause.NETWORK, step, replay))
    return found


async def policies(made: House) -> list[Planted]:
    """The policy is asked again and says something else, at the first reply or the second, in code and in a shell."""
    environment = made.environment()
    found: list[Planted] = []
    for nth, item in enumerate(list(open_taskset("humaneval"))[:4]):
        item = renamed(item, f"policy.{nth}")
        right, wrong = oracle_reply(item), null_reply(item)
        log = await made.record(item, ScriptedPolicy({item.task.id: [wrong, right]}), environment)
        other = [right] if nth % 2 else [wrong, right + "\n"]
        replay = await made.replay(item, log, environment, policy=ScriptedPolicy({item.task.id: other}))
        found.append((item.task.id, Cause.POLICY, 1 if nth % 2 else 2, replay))
    for nth in range(3):
        item = shell_item(f"policy.shell.{nth}")
        said = commanded("echo a", "echo b", "echo c")
        log = await made.record(item, ScriptedPolicy({item.task.id: said}), environment)
        other = [*said[:nth], "```bash\necho other\n```\n", *said[nth + 1:]]
        replay = await made.replay(item, log, environment, policy=ScriptedPolicy({item.task.id: other}))
        found.append((item.task.id, Cause.POLICY, nth + 1, replay))
    return found


async def suites(made: House) -> list[Planted]:
    """Judged by other tests than then."""
    environment = made.environment()
    found: list[Planted] = []
    for nth in range(4):
        exams = [Exam(hidden=PythonSuite(files={"test_f.py": f"from solution import f\n\n\ndef test_f():\n"
                      f"    assert f(1) == {wanted}\n".encode()})) for wanted in (nth, nth + 1)]
        then, now = (Item.sealed(exam, id=f"suite.{nth}", instructions="Write f.", entry=Entry(name="f"))
                     for exam in exams)
        reply = f"```python\ndef f(x):\n    return {nth}\n```\n"
        log = await made.record(then, ScriptedPolicy({then.task.id: [reply]}), environment)
        replay = await made.replay(msgspec.structs.replace(now, task=then.task), log, environment)
        found.append((then.task.id, Cause.GRADER, 1, replay))
    return found


async def measure(count: int, crowd: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="quintain-replay-") as folder:
        async with house(Path(folder)) as made:
            began = time.monotonic()
            episodes, left_out, drawing = deterministic(count)
            identical, wrong = await reproduce(made, episodes, crowd)
            left_identical, left_wrong = await reproduce(made, left_out, crowd)
            between = time.monotonic()
            kinds = await at_once([
                lambda: clocks(made), lambda: environments(made, Path(folder) / "contexts"), lambda: networks(made),
                lambda: policies(made), lambda: suites(made)], crowd)
    planted: list[Planted] = [one for kind in kinds for one in kind]  # type: ignore[attr-defined]
    named = 0
    by_cause: dict[str, list[int]] = {}
    for what, cause, step, replay in planted:
        right = replay.cause is not None and replay.cause.cause is cause and replay.diverged == step
        named += right
        tally = by_cause.setdefault(cause.value, [0, 0])
        tally[0] += right
        tally[1] += 1
        if not right:
            print(f"planted {cause.value} at step {step} ({what!r}), named {replay.cause} at {replay.diverged}; "
                  f"{replay.house or ''}")
    return {
        "episodes": count, "identical": identical, "identical_share": round(identical / count, 4),
        "not_identical": dict(wrong),
        "left_out_tasks": len(drawing), "left_out": {task: list(drawn) for task, drawn in drawing.items()},
        "left_out_episodes": len(left_out), "left_out_identical": left_identical,
        "left_out_not_identical": dict(left_wrong),
        "identical_share_with_left_out": round((identical + left_identical) / (count + len(left_out)), 4),
        "planted": len(planted), "named": named,
        "by_cause": {cause: f"{right}/{of}" for cause, (right, of) in by_cause.items()},
        "seconds_reproducing": round(between - began, 1), "seconds_planted": round(time.monotonic() - between, 1),
    }


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--episodes", type=int, default=1000)
    options.add_argument("--at-once", type=int, default=4)
    asked = options.parse_args()
    with Account() as account:
        figures = asyncio.run(measure(asked.episodes, asked.at_once))
        cpu = account.seconds()
    finish(bench="replay", **figures, cpu_seconds=round(cpu, 1))
    if figures["identical_share"] < 0.995 or figures["named"] != figures["planted"]:  # type: ignore[operator]
        sys.exit(1)


if __name__ == "__main__":
    main()

"""An episode that is run again: what comes out the same, what does not, and why."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from quintain.policy import ScriptedPolicy
from quintain.replay import (
    Blame,
    Cause,
    EpisodeReplay,
    Known,
    Rebuilt,
    Surroundings,
    compared,
    entered,
    first_divergence,
    page,
    snapshots_of,
    steps_of,
)
from quintain.sandbox import Snapshot
from quintain.tasks import write_taskset
from quintain.types import Broke, Closed, Event, Fault, FaultKind, Network, Opened, Owner, Ran, Stop

from .made import Scene, adding, code_item, commanded, kept, needs_native, played, shell_item

pytestmark = needs_native


def test_a_function_comes_out_byte_for_byte_and_its_state_is_in_the_journal(tmp_path: Path) -> None:
    async def act(scene: Scene) -> EpisodeReplay:
        log = await scene.record(code_item(), ["no code at all", adding("a - b"), adding("a + b")])
        return await scene.replayer().replay(code_item(), log, step=2)

    replay = played(tmp_path, act)
    assert replay.identical
    assert [step.step for step in replay.steps] == [2, 3]
    assert replay.rebuilt is Rebuilt.PROGRAM
    assert {"file solution.py", "tests", "reward", "told"} <= set(replay.steps[0].compared)


def test_a_shell_is_brought_to_its_step_by_its_commands_and_the_files_are_compared(tmp_path: Path) -> None:
    async def act(scene: Scene) -> EpisodeReplay:
        log = await scene.record(shell_item(), commanded(
            "cd /tmp; x=5; printf '\\377\\000' > bin; ln -s /etc/passwd link", "echo $x; pwd; cat bin; exit 3"))
        assert all(event.files for event in log if isinstance(event, Ran))
        return await scene.replayer().replay(shell_item(), log, step=2)

    replay = played(tmp_path, act)
    assert replay.identical, replay
    assert replay.rebuilt is Rebuilt.REEXECUTED
    assert {"stdout", "stderr", "ended", "files"} <= set(replay.steps[2].compared)


@pytest.mark.parametrize(("command", "cause"), [
    ("python3 -c 'import time; print(time.time())'", Cause.CLOCK),
    ("python3 -c 'print({\"ab\", \"cd\", \"ef\", \"gh\", \"ij\", \"kl\"})'", Cause.HASH_SEED),
    ("mktemp", Cause.RANDOMNESS),
])
def test_jitter_is_told_by_repeating_and_named(tmp_path: Path, command: str, cause: Cause) -> None:
    async def act(scene: Scene) -> EpisodeReplay:
        log = await scene.record(shell_item(), commanded("echo same", command))
        return await scene.replayer().replay(shell_item(), log)

    replay = played(tmp_path, act)
    assert replay.diverged == 2
    assert replay.times == 3
    assert replay.cause is not None
    assert (replay.cause.cause, replay.cause.blame) == (cause, Blame.JITTER)


def test_files_that_came_out_otherwise_are_put_as_they_were_kept(tmp_path: Path) -> None:
    async def act(scene: Scene) -> tuple[EpisodeReplay, bytes, bytes, bytes]:
        item = shell_item()
        log = await scene.record(item, commanded("cd /tmp; echo $RANDOM$RANDOM > secret; y=7", "cat secret; echo $y"))
        replay = await scene.replayer().replay(item, log, step=2)
        first = next(event for event in log if isinstance(event, Ran))
        second = [event for event in log if isinstance(event, Ran)][1]
        assert first.files is not None
        assert second.outcome is not None
        async with entered(scene.environment, item, log, step=1, files=scene.files, from_snapshot=True) as inside:
            secret = await inside.sandbox.files.read("/tmp/secret")
            now = await inside.sandbox.run(["cat", "/tmp/secret"])
            assert "cd -- /tmp" in inside.state
            assert 'y="7"' in inside.state
        return replay, second.outcome.stdout, secret, now.stdout

    replay, recorded, secret, now = played(tmp_path, act)
    assert replay.rebuilt is Rebuilt.SNAPSHOT
    assert [step.step for step in replay.steps if not step.identical] == [1], "step 2 stands on the recorded files"
    assert secret == now
    assert recorded == secret + b"7\n"


def test_another_image_is_named_and_nothing_that_is_unknown_is_guessed(tmp_path: Path) -> None:
    async def act(scene: Scene) -> tuple[EpisodeReplay, EpisodeReplay]:
        item = shell_item()
        log = await scene.record(item, commanded("echo one"))
        event = next(event for event in log if isinstance(event, Ran))
        assert event.outcome is not None
        forged = [msgspec.structs.replace(e, outcome=msgspec.structs.replace(event.outcome, stdout=b"two\n"))
                  if e is event else e for e in log]
        then = Surroundings(image="host", backend="native", packages={"python:numpy": "1.0"})
        now = msgspec.structs.replace(then, packages={"python:numpy": "2.0"})
        known = Known(then={"host": then}, now={"host": now})
        return (await scene.replayer(known=known).replay(item, forged), await scene.replayer().replay(item, forged))

    changed, unknown = played(tmp_path, act)
    assert changed.cause is not None
    assert changed.cause.cause is Cause.ENVIRONMENT
    assert "numpy was 1.0, is 2.0" in changed.cause.evidence[0]
    assert unknown.cause is not None
    assert (unknown.cause.cause, unknown.diverged) == (Cause.HOUSE, 1)


def test_a_network_that_is_gone_is_named(tmp_path: Path) -> None:
    then = Surroundings(image="host", backend="native", network=Network.FULL)
    known = Known(then={"host": then}, now={"host": msgspec.structs.replace(then, network=Network.NONE)})

    async def act(scene: Scene) -> EpisodeReplay:
        item = shell_item()
        reach = "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 9))' 2>&1 | tail -n 1"
        log = await scene.record(item, commanded(reach))
        event = next(event for event in log if isinstance(event, Ran))
        assert event.outcome is not None
        answered = msgspec.structs.replace(event, outcome=msgspec.structs.replace(event.outcome, stdout=b"200 OK\n"))
        return await scene.replayer(known=known).replay(item, [answered if e is event else e for e in log])

    replay = played(tmp_path, act)
    assert replay.cause is not None
    assert (replay.cause.cause, replay.diverged) == (Cause.NETWORK, 1)


def test_a_policy_that_answers_otherwise_and_another_suite_are_named(tmp_path: Path) -> None:
    async def act(scene: Scene) -> tuple[EpisodeReplay, EpisodeReplay]:
        item = code_item()
        log = await scene.record(item, [adding("a - b"), adding("a + b")])
        other = ScriptedPolicy({"add": [adding("a - b"), adding("b + a")]})
        asked = await scene.replayer(policy=other).replay(item, log)
        harder = msgspec.structs.replace(item, exam=code_item(wanted=43).exam)
        return asked, await scene.replayer().replay(harder, log)

    asked, judged = played(tmp_path, act)
    assert asked.cause is not None
    assert (asked.cause.cause, asked.diverged) == (Cause.POLICY, 2)
    assert judged.cause is not None
    assert (judged.cause.cause, judged.diverged) == (Cause.GRADER, 1), "the fault of its test quotes what was expected"
    assert judged.steps[2].differing[0].part == "tests"


def test_each_attempt_of_an_episode_that_the_house_broke_can_be_replayed(tmp_path: Path) -> None:
    fault = Fault(owner=Owner.HOUSE, kind=FaultKind.SANDBOX_LOST, message="gone")

    async def act(scene: Scene) -> tuple[EpisodeReplay, EpisodeReplay, EpisodeReplay]:
        item = code_item()
        whole = await scene.record(item, [adding("a + b")])
        cut = [event for event in whole if type(event).__name__ in ("Opened", "Sampled", "Built")]
        name, count = whole[0].episode, len(cut)
        cut += [Broke(episode=name, index=count, at_seconds=1.0, fault=fault),
                Closed(episode=name, index=count + 1, at_seconds=1.0, stop=Stop.BROKEN)]
        second = [msgspec.structs.replace(event, index=event.index + len(cut), **(
            {"attempt": 2} if isinstance(event, Opened) else {})) for event in whole]
        log: list[Event] = [*cut, *second]
        replayer = scene.replayer()
        return (await replayer.replay(item, log), await replayer.replay(item, log, attempt=1),
                await replayer.replay(item, cut[:2]))

    last, first, torn = played(tmp_path, act)
    assert (last.attempt, last.attempts, last.identical) == (2, 2, True)
    assert (first.attempt, first.identical) == (1, True)
    assert "sandbox_lost" in first.skipped[0]
    assert torn.identical
    assert torn.last == 1


def test_what_the_house_does_wrong_is_in_the_answer_and_a_step_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async def act(scene: Scene) -> EpisodeReplay:
        log = await scene.record(shell_item(), commanded("true"))
        with pytest.raises(ValueError, match="expected a step from 0 to 2, found 3"):
            await scene.replayer().replay(shell_item(), log, step=3)
        with pytest.raises(ValueError, match="expected an attempt from 1 to 1, found 2"):
            await scene.replayer().replay(shell_item(), log, attempt=2)
        nowhere = msgspec.structs.replace(shell_item(), task=msgspec.structs.replace(
            shell_item().task, image="oci:/nowhere"))
        return await scene.replayer().replay(nowhere, log)

    replay = played(tmp_path, act)
    assert not replay.identical
    assert replay.house is not None or replay.cause is not None


def test_two_episodes_part_where_the_policy_said_something_else(tmp_path: Path) -> None:
    async def act(scene: Scene) -> tuple[list[Event], list[Event]]:
        item = code_item()
        return (await scene.record(item, [adding("a - b"), adding("a + b")]),
                await scene.record(item, [adding("a - b"), adding("a * b")], number=1))

    one, other = played(tmp_path, act)
    parted = first_divergence(one, other)
    assert parted is not None
    assert (parted.step, parted.event) == (2, "sampled")
    assert parted.named[0].cause is Cause.POLICY
    assert first_divergence(one, one) is None
    ended = first_divergence(one, one[:-1])
    assert ended is not None
    assert ended.difference is None


def test_a_page_escapes_whatever_a_program_chose_to_call_its_files(tmp_path: Path) -> None:
    async def act(scene: Scene) -> EpisodeReplay:
        item = shell_item()
        name = "$'<script>alert(1)</script>\\x1b[2J'"
        log = await scene.record(item, commanded(f"mkdir w; cd w; mkdir -p {name}; echo $RANDOM > {name}/x; ls; "
                                                 "echo '</pre><img src=x onerror=alert(1)>' $RANDOM"))
        return await scene.replayer().replay(item, log)

    replay = played(tmp_path, act)
    written = page(replay)
    assert not replay.identical
    assert "<script" not in written
    assert "<img" not in written
    assert "\x1b" not in written
    assert "&lt;img" in written


def test_a_tree_is_compared_without_its_times(tmp_path: Path) -> None:
    async def act(scene: Scene) -> tuple[Snapshot, Snapshot, Snapshot]:
        async with scene.backend.open() as [box]:
            await box.run(["sh", "-c", "echo a > one; ln -s one two"])
            first = await box.snapshot()  # type: ignore[attr-defined]
            await box.run(["touch", "-d", "2001-01-01", "one"])
            second = await box.snapshot()  # type: ignore[attr-defined]
            await box.run(["sh", "-c", "echo b > one; ln -sf /etc two; mkdir d"])
            return first, second, await box.snapshot()  # type: ignore[attr-defined]

    first, second, third = played(tmp_path, act)
    assert first.content != second.content
    assert compared(first, second) == ()
    told = "\n".join(compared(second, third))
    assert "added: 'work/d'" in told
    assert "-a" in told
    assert "changed: 'work/two'" in told
    with pytest.raises(ValueError, match="expected a snapshot's tar"):
        compared(first, msgspec.structs.replace(first, content=b"no tar"))


@pytest.fixture(scope="module")
def run_of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a task, and a run of it in which one episode is a function's."""
    folder = tmp_path_factory.mktemp("run")
    item = code_item()
    write_taskset([item], folder / "tasks")

    async def act(scene: Scene) -> list[list[Event]]:
        return [await scene.record(item, [adding("a - b"), adding("a + b")])]

    kept(folder / "runs", played(folder, act), taskset=str(folder / "tasks"))
    return folder


def quintain(*arguments: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "quintain", *arguments], cwd=cwd, input=stdin, capture_output=True,
                          text=True, check=False, timeout=60)


def test_the_command_says_what_came_out_and_opens_a_shell_in_that_very_state(run_of_two: Path) -> None:
    done = quintain("replay", "add", "--html", "page.html", cwd=run_of_two)
    assert "everything came out as recorded" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
    assert (run_of_two / "page.html").read_text().startswith("<!doctype html>")
    done = quintain("replay", "add", "--step", "1", "--shell", cwd=run_of_two, stdin="pwd; cat solution.py; exit 7")
    assert done.returncode == 7, done.stderr
    assert done.stdout.startswith("/work\n")
    assert "return a - b" in done.stdout
    missing = quintain("replay", "nobody", cwd=run_of_two)
    assert missing.returncode == 2
    assert "found 'nobody'" in missing.stderr


def test_at_a_terminal_each_line_is_answered_before_the_next_is_typed(run_of_two: Path) -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "quintain", "replay", "add", "--step", "1", "--shell"]
    shell = subprocess.Popen(words, cwd=run_of_two, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    said = b""
    try:
        for line, answer in (("", b"$ "), ("echo $((6*7))", b"\r42\r"), ("echo $((7*8))", b"\r56\r"), ("pwd", b"k\r")):
            os.write(ours, line.encode() + b"\r" if line else b"")
            while answer not in said:
                assert select.select([ours], [], [], 60)[0], f"no answer to {line!r} after {said!r}"
                said += os.read(ours, 4096)
            said = b""
        os.write(ours, b"exit 7\r")
        assert shell.wait(60) == 7
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


def test_a_replay_that_is_killed_leaves_no_sandbox(run_of_two: Path) -> None:
    words = [sys.executable, "-m", "quintain", "replay", "add", "--step", "1", "--shell"]
    shell = subprocess.Popen(words, cwd=run_of_two, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert shell.stdin is not None and shell.stdout is not None
    shell.stdin.write(b"echo ready; sleep 600")
    shell.stdin.close()
    assert shell.stdout.readline() == b"ready\n"
    there = below(shell.pid)
    assert len(there) >= 3
    shell.kill()
    shell.wait()
    until(lambda: not there & below(1))
    shell.stdout.close()


def below(root: int) -> set[tuple[int, str]]:
    """Those that came of a process, by (id, time of start)."""
    born: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                words = (entry / "stat").read_text().rpartition(")")[2].split()
                born.setdefault(int(words[1]), []).append((int(entry.name), words[19]))
    found = set(born.get(root, ()))
    left = list(found)
    while left:
        new = born.get(left.pop()[0], [])
        found.update(new)
        left += new
    return found


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.05)


def test_a_snapshot_that_is_lost_is_no_snapshot() -> None:
    def lost(name: str) -> bytes:
        return b"no snapshot"

    assert snapshots_of(lost)("x") is None


def test_steps_are_cut_where_the_policy_answers() -> None:
    with pytest.raises(ValueError, match="begins with Opened"):
        steps_of([])

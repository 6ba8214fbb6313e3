"""Every attack of the corpus is run inside a native sandbox, does what it can, and stays inside.

An attack is a folder in tests/adversary/escapes: `attack.toml` says what it tries, which step of the hardening
checklist stands against it, and what must come of it; the program beside it ends in .txt so that nothing here takes it
for code. `refused` names every single attempt, so that an attack that did not get to its attempts fails the test.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

import msgspec
import pytest

from quintain.sandbox import NativeBackend, Sandbox
from quintain.testing.sandbox.canary import Canary, canary
from quintain.testing.sandbox.scenario import Expect
from quintain.testing.sandbox.verdict import Seen, complaints
from quintain.types import Limits, Outcome

CORPUS = Path(__file__).parent.parent / "adversary" / "escapes"
NAMES = sorted(path.parent.name for path in CORPUS.glob("*/attack.toml"))

#: What a refusal looks like. EINVAL, EFAULT, EBADF or ENOTTY would mean that the kernel had listened.
REFUSALS = {
    "EPERM", "EACCES", "ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EROFS", "ENOENT", "ESRCH",
    "EXDEV", "ECONNREFUSED", "ENETUNREACH", "ENODEV", "ENXIO", "ETXTBSY",
}

HERE = NativeBackend().probe()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HERE.available, reason=f"the native backend is missing {HERE.missing}"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the attacks call x86-64 system calls by number"),
]


class Attack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """attack.toml. `step` is the step of the hardening checklist; `after` is a command that runs when it is over."""

    what: str
    step: int
    limits: Limits = Limits()
    refused: tuple[str, ...] = ()
    expect: Expect = Expect()
    after: str = "echo still here"
    after_stdout: str = "still here\n"


def attack(name: str) -> Attack:
    return msgspec.convert(tomllib.loads((CORPUS / name / "attack.toml").read_text()), Attack)


def program(name: str, bird: Canary) -> tuple[dict[str, bytes], list[str]]:
    """The files of an attack and how it is started."""
    [source] = (CORPUS / name).glob("attack.*.txt")
    kind = source.name.split(".")[1]
    text = bird.fill(source.read_text()).replace("@PID@", str(os.getpid()))
    files = {"attempts.py": (CORPUS / "attempts.py.txt").read_bytes(), f"attack.{kind}": text.encode()}
    if kind == "c":
        return {"attack": compiled(text)}, ["./attack"]
    return files, [{"py": "python3", "sh": "sh"}[kind], f"attack.{kind}"]


def compiled(text: str) -> bytes:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc")
    with tempfile.TemporaryDirectory() as folder:
        words = [compiler, "-static", "-O1", "-x", "c", "-", "-o", f"{folder}/attack"]
        done = subprocess.run(words, input=text.encode(), capture_output=True, check=False)
        if done.returncode:
            pytest.skip(f"gcc builds no static program here: {done.stderr.decode()[-200:]}")
        return Path(folder, "attack").read_bytes()


async def strike(name: str, bird: Canary) -> tuple[Outcome, Outcome, Outcome, float]:
    """Run an attack beside a neighbour: its outcome, what its own sandbox and the neighbour then say, house growth."""
    told = attack(name)
    files, argv = program(name, bird)
    async with NativeBackend(engines=1) as backend, backend.open(limits=told.limits, count=2) as [box, other]:
        await plant(other)
        for path, content in files.items():
            await box.files.write(path, content, mode=0o755)
        before = resident_mib()
        outcome = await box.run(argv)
        grown = resident_mib() - before
        after = await box.run(["sh", "-c", told.after])
        beside = await other.run(["sh", "-c", "cat /tmp/neighbour.txt"])
    return outcome, after, beside, grown


async def plant(other: Sandbox) -> None:
    await other.files.write_many({
        f"{folder}/neighbour.txt": b"untouched" for folder in ("/tmp", "/work", "/dev/shm")
    })


def resident_mib() -> float:
    return int(re.findall(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[0]) / 1024


@pytest.mark.parametrize("name", NAMES)
def test_the_attack_stays_inside(name: str) -> None:
    told = attack(name)
    with canary() as bird:
        outcome, after, beside, grown = asyncio.run(strike(name, bird))
        assert bird.file.read_text() == bird.word
    said = outcome.text[-4000:] + outcome.error_text[-4000:]
    assert "ESCAPED" not in said, said
    attempts = dict(line.split()[1:3] for line in outcome.text.splitlines() if line.startswith("refused "))
    assert set(attempts) == set(told.refused), f"{told.what}: {said}"
    assert {name: error for name, error in attempts.items() if error not in REFUSALS} == {}
    seen = Seen(outcomes=(outcome,), seconds=outcome.wall_seconds, house_growth_mib=grown)
    assert complaints(told.expect, seen) == []
    assert after.text == told.after_stdout
    assert beside.text == "untouched"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who may do these things outside a sandbox")
@pytest.mark.parametrize("name", ["capabilities", "chroot", "namespaces", "personality"])
def test_the_attack_succeeds_where_there_are_no_walls(name: str, tmp_path: Path) -> None:
    """Only attacks that change nothing beyond their own process are run here."""
    with canary() as bird:
        files, argv = program(name, bird)
        for path, content in files.items():
            (tmp_path / path).write_bytes(content)
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=20)
    assert "ESCAPED" in done.stdout


def test_every_step_of_the_checklist_that_a_program_can_attack_is_attacked() -> None:
    by_house = {1, 8, 14, 15, 18}  # probing, names, environment, host settings, honesty: not attacked by programs
    assert {attack(name).step for name in NAMES} | by_house == set(range(1, 19))

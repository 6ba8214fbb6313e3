"""Every backend that this host has passes the conformance kit; what it lacks is declared, and the kit can fail."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from quintain.sandbox import (
    DEFAULT_LIMITS,
    Backend,
    BubblewrapBackend,
    Capabilities,
    ContainerBackend,
    Files,
    GvisorBackend,
    NativeBackend,
    Sandbox,
    Warm,
)
from quintain.testing.process_backend import ProcessBackend
from quintain.testing.sandbox import Report, Verdict, check_backend, scenarios
from quintain.types import Limits, Network, Outcome

SOURCES = Path(__file__).parents[2] / "src"
UNPRIVILEGED = 54_321  # nobody's number


def run_kit(make: Callable[[], Backend], only: Sequence[str] = ()) -> Report:
    async def all_of_it() -> Report:
        backend = make()
        try:
            return await check_backend(backend, only)
        finally:
            await backend.aclose()

    return asyncio.run(all_of_it())


def needs(capabilities: Capabilities) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        not capabilities.available, reason=f"{capabilities.name} is missing {'; '.join(capabilities.missing.values())}"
    )


def accept(report: Report, *, not_offered: set[str]) -> None:
    """No failure, and exactly the gaps that the backend is known to declare."""
    assert not report.failures, str(report)
    assert {r.id for r in report.rows if r.verdict is Verdict.NOT_OFFERED} == not_offered
    assert len(report.rows) == len(scenarios())


@pytest.mark.slow
@needs(NativeBackend().probe())
def test_the_native_backend_passes() -> None:
    accept(run_kit(lambda: NativeBackend(warm=Warm())), not_offered=set())


@pytest.mark.whole
@needs(BubblewrapBackend().probe())
def test_bubblewrap_passes() -> None:
    accept(run_kit(BubblewrapBackend), not_offered={"cpu-of-the-tree", "identity-warm", "inodes"})


STORMS = {"fork-storm", "fork-bomb", "processes-exactly", "threads-count"}
OF_THE_WHOLE = {"oom-is-named", "memory-of-the-tree", "full-tmp-is-no-oom", "cpu-of-the-tree"}


#: What a launcher of somebody else could get wrong on its own; the whole kit takes them a minute of CPU each.
SOME = (
    "kill-on-cancel", "daemon-dies", "streams-apart", "not-started", "channel", "disk-full", "usage-is-measured",
    "nothing-of-the-last-tenant", "first-process-stands", "write-read", "link-to-the-house", "environment",
    "files-of-the-house", "read-only-system", "no-network", "neighbours",
)


#: What is made in another way where there are no rights.
OF_RIGHTS = (
    "oom-is-named", "memory-is-bounded", "cpu-of-one-process", "cpu-of-the-tree", "processes-exactly", "fork-storm",
    "inodes", "open-files", "timeout-grandchild-port", "kill-stubborn", "no-zombies", "loopback-of-its-own",
    "fifo-and-device", "undeletable", "identity-cold",
)


@pytest.mark.slow
@pytest.mark.parametrize("make", [
    pytest.param(BubblewrapBackend, marks=needs(BubblewrapBackend().probe())),
    pytest.param(GvisorBackend, marks=needs(GvisorBackend().probe())),
    pytest.param(ContainerBackend, marks=needs(ContainerBackend().probe())),
])
def test_a_launcher_of_somebody_else_passes_a_part_of_it(make: Callable[[], Backend]) -> None:
    report = run_kit(make, SOME)
    assert not report.failures, str(report)
    assert {row.id for row in report.rows} >= set(SOME)


@pytest.mark.whole
@needs(GvisorBackend().probe())
def test_gvisor_passes() -> None:
    accept(run_kit(GvisorBackend), not_offered=STORMS | OF_THE_WHOLE | {"identity-warm", "inodes"})


@pytest.mark.whole
@needs(ContainerBackend().probe())
def test_a_container_engine_passes() -> None:
    accept(run_kit(ContainerBackend), not_offered=OF_THE_WHOLE | {"identity-warm", "inodes"})


def system_python() -> str | None:
    """An interpreter that other users may run, able to load the libraries of ours."""
    found = shutil.which("python3", path="/usr/bin:/bin")
    if found is None:
        return None
    words = [found, "-c", "import sys; print(sys.version_info[:2])"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return found if done.stdout.strip() == str(sys.version_info[:2]) else None


@pytest.fixture
def readable() -> Iterator[Path]:
    """The sources, and what the kit imports, where any user may read them."""
    folder = Path(os.path.realpath("/tmp")) / f"quintain-readable-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        shutil.copytree(SOURCES / "quintain", folder / "quintain", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "quintain" / "testing" / "__init__.py").write_text("")  # its face needs libraries, the kit none
        shutil.copytree(Path(msgspec.__file__).parent, folder / "msgspec")
        subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
        yield folder
    finally:
        shutil.rmtree(folder)


RUN_KIT = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("quintain.testing.sandbox", run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
@pytest.mark.parametrize(("backend", "only"), [
    ("native", (*SOME, *OF_RIGHTS)), pytest.param("native", (), marks=pytest.mark.whole),
    pytest.param("bubblewrap", (), marks=pytest.mark.whole),
], ids=["native, a part", "native", "bubblewrap"])
def test_it_passes_without_any_rights(readable: Path, backend: str, only: tuple[str, ...]) -> None:
    python, become = system_python(), shutil.which("setpriv")
    if python is None or become is None:
        pytest.skip(f"needs setpriv, and a /usr/bin/python3 of version {sysconfig.get_python_version()}")
    user = str(UNPRIVILEGED)
    done = subprocess.run(
        [become, "--reuid", user, "--regid", user, "--clear-groups", python, "-I", "-S", "-c", RUN_KIT, str(readable),
         backend, *only],
        capture_output=True, text=True, check=False, timeout=900, cwd="/",
        env={"PATH": os.defpath, "HOME": "/nonexistent"},
    )
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed" in done.stdout


class Leaky:
    """A backend with faults on purpose: it forgets the end of every output, and takes every limit for none."""

    name = "leaky"

    def __init__(self) -> None:
        self._inner = ProcessBackend()

    def probe(self) -> Capabilities:
        return msgspec.structs.replace(self._inner.probe(), name=self.name)

    def open(
        self, image: str = "host", *, limits: Limits = DEFAULT_LIMITS, count: int = 1, network: Network = Network.NONE,
    ) -> AbstractAsyncContextManager[Sequence[Sandbox]]:
        return self._open(limits, count)

    @asynccontextmanager
    async def _open(self, limits: Limits, count: int) -> AsyncIterator[Sequence[Sandbox]]:
        async with self._inner.open(limits=limits, count=count) as boxes:
            yield [LeakySandbox(box) for box in boxes]

    async def aclose(self) -> None:
        await self._inner.aclose()


class LeakySandbox:
    def __init__(self, inner: Sandbox) -> None:
        self._inner = inner

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def files(self) -> Files:
        return self._inner.files

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: str = "/work",
        limits: Limits | None = None, channel: int | None = None, warm: bool = False,
        on_stdout: Callable[[bytes], None] | None = None, on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        outcome = await self._inner.run(argv, stdin=stdin, env=env, cwd=cwd, channel=channel)
        return msgspec.structs.replace(outcome, stdout=outcome.stdout[:-1])

    async def close(self) -> None:
        await self._inner.close()


def test_the_kit_finds_the_faults_of_a_bad_backend() -> None:
    report = run_kit(Leaky, ["timeout-on-time", "streams-apart", "own-signal", "partial-output", "descriptors"])
    verdicts = {row.id: row.verdict for row in report.rows}
    assert verdicts == {
        "timeout-on-time": Verdict.FAILED, "streams-apart": Verdict.FAILED, "own-signal": Verdict.PASSED,
        "partial-output-kept": Verdict.FAILED, "descriptors": Verdict.NOT_OFFERED,
    }
    assert not report.passed
    [row] = [row for row in report.rows if row.id == "streams-apart"]
    assert "expected 'out', found 'ou'" in row.evidence


def test_the_kit_refuses_a_backend_that_is_not_there() -> None:
    absent = BubblewrapBackend(program="no-such-bwrap")
    with pytest.raises(ValueError, match="apt-get install bubblewrap"):
        run_kit(lambda: absent)


def test_the_kit_refuses_names_that_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="none that begin with"):
        run_kit(ProcessBackend, ["no-such-scenario"])


def test_every_scenario_names_the_report_it_follows_and_expects_something() -> None:
    for scenario in scenarios():
        assert scenario.source
        assert any(step.cycles or step.expect != type(step.expect)() for step in scenario.steps), scenario.id

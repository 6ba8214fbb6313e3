"""A program in a fork of the warm interpreter behaves as in one of its own, and is as isolated."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from quintain.sandbox import NativeBackend, Warm
from quintain.types import HouseError, Limits, Outcome, Status

SITE = (Path(pytest.__file__).parent.parent,)
Run = Callable[..., Awaitable[Outcome]]


def _python() -> str:
    return str(Path(getattr(sys, "_base_executable", None) or sys.executable).resolve())


def warm(*programs: list[str], preload: tuple[str, ...] = (), limits: Limits | None = None) -> list[Outcome]:
    async def main() -> list[Outcome]:
        warmed = Warm(preload=preload, site=SITE)
        async with NativeBackend(engines=1, warm=warmed) as backend, backend.open() as [box]:
            return [await box.run(p, warm=True, limits=limits, stdin=b"given\n") for p in programs]

    return asyncio.run(main())


def test_argv_streams_and_exit_codes_are_those_of_an_interpreter() -> None:
    out, code, text, error = warm(
        ["-c", "import sys; print(sys.argv, input()); print('e', file=sys.stderr)", "a", "b"],
        ["-c", "import sys; sys.exit(7)"], ["-c", "import sys; sys.exit('why')"], ["-c", "1/0"],
    )
    assert (out.text, out.error_text, out.exit_code) == ("['-c', 'a', 'b'] given\n", "e\n", 0)
    assert (code.exit_code, text.exit_code, text.error_text, error.exit_code) == (7, 1, "why\n", 1)
    assert error.error_text.startswith("Traceback") and "ZeroDivisionError" in error.error_text
    assert "_zygote" not in error.error_text


def test_exit_handlers_and_threads_finish_first() -> None:
    [out] = warm(["-c", "import atexit, threading, time\natexit.register(print, 'bye')\n"
                  "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\nprint('main')"])
    assert out.text.split() == ["main", "thread", "bye"]


def test_forks_of_one_interpreter_do_not_share_their_chance() -> None:
    program = ["-c", "import random, uuid, tempfile\nprint(random.random(), uuid.uuid4(), tempfile.mktemp())"]
    answers = {out.text for out in warm(*[program] * 6, preload=("random", "uuid", "tempfile"))}
    assert len(answers) == 6


def test_a_preloaded_module_is_there_without_being_imported() -> None:
    look = ["-c", "import sys; print('fractions' in sys.modules, 'pytest' in sys.modules)"]
    [out] = warm(look, preload=("fractions",))
    assert out.text == "True False\n"


def test_it_is_as_isolated_as_any_program() -> None:
    [out] = warm(["-c", "import os\nprint(os.getuid() != 0, sorted(os.listdir('/proc/self/fd')),"
                  " [l.split()[1] for l in open('/proc/self/status')"
                  " if l.startswith(('CapEff', 'NoNewPrivs', 'Seccomp:'))])\n"
                  "for path in ('/usr/x', '/x', '/opt/site/0/x'):\n"
                  "    try: open(path, 'w')\n    except OSError as e: print(e.errno)\n"])
    first, *errors = out.text.splitlines()
    assert first.startswith("True ['0', '1', '2', '3']")  # 3 is the listing's own
    assert "'0000000000000000', '1', '2'" in first
    assert set(errors) <= {"13", "30"} and len(errors) == 3


LOOK = """
import os, resource, json
status = dict(line.rstrip().split(":", 1) for line in open("/proc/self/status"))
same = "Uid Gid Groups CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Seccomp_filters Umask".split()
same += ["SigBlk", "SigIgn", "NSpid"]
seen = {name: " ".join(status.get(name, "").split()) for name in same}
seen["NSpid"] = len(seen["NSpid"].split())
seen["namespaces"] = {n: os.readlink("/proc/self/ns/" + n) for n in sorted(os.listdir("/proc/self/ns")) if n != "ipc"}
seen["limits"] = {n: resource.getrlimit(getattr(resource, n)) for n in sorted(dir(resource)) if n.startswith("RLIMIT_")}
seen["groups"] = open("/proc/self/cgroup").read()
seen["score"] = int(open("/proc/self/oom_score_adj").read()) >= 900
seen["files"] = sorted(os.listdir("/proc/self/fd"))
seen["rest"] = [os.getppid(), os.getsid(0) == os.getpid(), os.getcwd(), dict(os.environ), open("/proc/mounts").read()]
print(json.dumps(seen))
"""


@pytest.mark.parametrize("rootless", [False, True])
def test_whatever_the_kernel_knows_of_it_is_what_it_knows_of_any_other_program_there(rootless: bool) -> None:
    async def main() -> list[Outcome]:
        backend = NativeBackend(engines=1, warm=Warm(site=SITE), rootless=rootless or None)
        async with backend, backend.open() as [box]:
            return [await box.run(["-c", LOOK], warm=True), await box.run([_python(), "-I", "-S", "-c", LOOK])]

    warmed, plain = (json.loads(out.text or out.error_text) for out in asyncio.run(main()))
    warmed["SigIgn"] = plain["SigIgn"]  # an interpreter ignores SIGPIPE and SIGXFSZ, whichever way it started
    assert warmed == plain


def test_words_of_any_length_reach_it() -> None:
    text = "x" * 300_000
    [out] = warm(["-c", f"import sys; print(len(sys.argv[1]), {len(text)})", text])
    assert out.text == "300000 300000\n", out


def test_a_sandbox_left_in_the_middle_of_a_warm_program_harms_no_other() -> None:
    async def main() -> list[Outcome]:
        async with NativeBackend(engines=1, warm=Warm(site=SITE)) as backend:
            for _ in range(5):
                async with backend.open(count=3) as boxes:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(0.05):
                            await boxes[0].run(["-c", "while True: pass"], warm=True)
            async with backend.open(count=4) as boxes, asyncio.TaskGroup() as group:
                runs = [group.create_task(box.run(["-c", "print(6 * 7)"], warm=True)) for box in boxes]
            return [run.result() for run in runs]

    assert [out.text for out in asyncio.run(main())] == ["42\n"] * 4


def test_a_killed_interpreter_is_the_houses_fault_and_is_replaced() -> None:
    async def main() -> Outcome:
        async with NativeBackend(engines=1, warm=Warm(site=SITE)) as backend:
            async with backend.open() as [box]:
                found = [pid for pid in children_of(os.getpid()) if "python" in program_of(pid)]
                assert len(found) == 1
                os.kill(found[0], signal.SIGKILL)
                with pytest.raises(HouseError):
                    await asyncio.wait_for(_run_on(box), 30)
            async with backend.open() as [box]:
                return await box.run(["-c", "print(1)"], warm=True)

    assert asyncio.run(main()).text == "1\n"


async def _run_on(box: Any) -> None:
    while True:
        await box.run(["-c", "print(1)"], warm=True)


def children_of(pid: int) -> list[int]:
    """All that descend from a process."""
    found = [int(p) for t in Path(f"/proc/{pid}/task").iterdir() for p in (t / "children").read_text().split()]
    return found + [grandchild for child in found for grandchild in children_of(child)]


def program_of(pid: int) -> str:
    return os.path.basename(os.readlink(f"/proc/{pid}/exe"))


def test_one_program_cannot_change_the_next() -> None:
    _, after = warm(["-c", "import builtins, sys, os\nbuiltins.print = None\nsys.path.clear()\nos.environ['X'] = '1'"],
                    ["-c", "import os; print(os.environ.get('X'), bool(__import__('sys').path))"])
    assert after.text == "None True\n"


def test_limits_hold_for_a_fork_too() -> None:
    [slow] = warm(["-c", "while True: pass"], limits=Limits(wall_seconds=0.5))
    [big] = warm(["-c", "x = bytearray(2**32)"])
    assert slow.status is Status.TIMED_OUT
    assert big.status is Status.OUT_OF_MEMORY or "MemoryError" in big.error_text


def test_a_backend_without_a_warm_interpreter_says_so() -> None:
    async def main() -> None:
        async with NativeBackend(engines=1) as backend, backend.open() as [box]:
            assert not backend.probe().warm
            with pytest.raises(ValueError, match="warm interpreter"):
                await box.run(["-c", "pass"], warm=True)

    asyncio.run(main())


def test_a_preload_that_does_not_exist_is_an_error_that_names_it() -> None:
    async def main() -> None:
        async with NativeBackend(engines=1, warm=Warm(preload=("no_such_module_zz",))) as backend, backend.open():
            pass

    with pytest.raises(Exception, match="no_such_module_zz"):
        asyncio.run(main())


def test_a_warm_pytest_tells_right_from_wrong() -> None:
    async def main() -> list[int | None]:
        codes = []
        async with NativeBackend(engines=1, warm=Warm.pytest(site=SITE)) as backend:
            for answer in ("a + b", "a - b", "a +"):
                async with backend.open() as [box]:
                    await box.files.write("solution.py", f"def add(a, b):\n    return {answer}\n".encode())
                    await box.files.write(
                        "test_x.py", b"from solution import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
                    )
                    run = "import sys, quintain_warm\nsys.exit(quintain_warm.run('/work/test_x.py'))"
                    codes.append((await box.run(["-c", run], warm=True)).exit_code)
        return codes

    assert asyncio.run(main()) == [0, 1, 2]


def test_the_interpreter_is_the_one_that_runs_the_house() -> None:
    [out] = warm(["-c", "import sys; print(sys.version_info[:3])"])
    assert out.text.strip() == str(tuple(sys.version_info[:3]))

"""Static analysers run over text that nobody trusts: in a process of their own, bounded, on copies with names of ours.

Covers: CPU, memory, size of what is written, time; an empty environment and folder, isolated mode, so that no
configuration file, plug-in or module of the text's is found; the text is never imported or executed. Does not cover: a
flaw in the analyser's own parser, which would act as the user that runs Quintain.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from quintain.types import FaultKind, HouseError

MAX_FILES = 200
MAX_FILE_BYTES = 512 * 1024
_WALL_SECONDS = 30.0
#: CPU seconds, KiB of address space, blocks of 512 bytes for what is written, open files.
_BOUNDED = 'ulimit -t 20; ulimit -v 4194304; ulimit -f 65536; ulimit -n 64; exec "$@"'


def installed(module: str) -> bool:
    """Whether an analyser is there (`pip install quintain[quality]`)."""
    return importlib.util.find_spec(module) is not None


def selected(files: Mapping[str, bytes], suffixes: Sequence[str]) -> dict[str, bytes]:
    """The files that an analyser is given: with these suffixes, not too large, not too many."""
    wanted = [p for p in sorted(files) if p.endswith(tuple(suffixes)) and len(files[p]) <= MAX_FILE_BYTES]
    return {path: files[path] for path in wanted[:MAX_FILES]}


async def analysed(
    module: str, arguments: Sequence[str], files: Mapping[str, bytes], *, suffix: str = ".py"
) -> tuple[bytes, dict[str, str]]:
    """What `python -I -m MODULE ARGUMENTS FILES` prints, and the path of each file by the name that it had there.
    Raises HouseError when the analyser ends by a signal or in no time."""
    with tempfile.TemporaryDirectory(prefix="quintain-analyser-") as place:
        folder, names = Path(place), {}
        (folder / "in").mkdir()
        for number, (path, content) in enumerate(sorted(files.items())):
            name = f"f{number}{suffix}"
            (folder / "in" / name).write_bytes(content)
            names[name] = path
        with (folder / "out").open("wb") as out, (folder / "error").open("wb") as error:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh", "-c", _BOUNDED, "sh", sys.executable, "-I", "-B", "-m", module, *arguments, *names,
                cwd=folder / "in", stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=error, start_new_session=True,
                env={"PATH": "/usr/bin:/bin", "HOME": place, "TMPDIR": place, "LANG": "C.UTF-8", "NO_COLOR": "1"},
            )
            code = await _ended(process)
        said = (folder / "error").read_bytes()[-500:].decode("utf-8", "replace")
        if code is None or code < 0 or code >= 126:
            raise HouseError(FaultKind.VERIFIER_ERROR, (
                f"{module} over {len(files)} files: expected it to end by itself, found "
                f"{'no end' if code is None else f'code {code}'}: {said}"))
        return (folder / "out").read_bytes(), names


async def _ended(process: asyncio.subprocess.Process) -> int | None:
    """Its exit code, None where it had to be ended; nothing of it is left either way."""
    try:
        async with asyncio.timeout(_WALL_SECONDS):
            return await process.wait()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

"""`python -m quintain.testing.sandbox BACKEND [SCENARIO ...]`: run the kit and print its table; exit 1 when one fails.

BACKEND is a name of `quintain.sandbox` (native, native-rootless, bubblewrap, gvisor, container) or a dotted path
`package.module:factory` to a callable without arguments.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable

from quintain import sandbox
from quintain.sandbox import Backend
from quintain.testing.process_backend import ProcessBackend
from quintain.testing.sandbox import check_backend

KNOWN: dict[str, Callable[[], Backend]] = {
    "native": sandbox.NativeBackend, "native-rootless": lambda: sandbox.NativeBackend(rootless=True),
    "bubblewrap": sandbox.BubblewrapBackend, "gvisor": sandbox.GvisorBackend, "container": sandbox.ContainerBackend,
    "process": ProcessBackend,
}


def named(name: str) -> Backend:
    """Raises SystemExit naming what is known."""
    if name in KNOWN:
        return KNOWN[name]()
    module, _, attribute = name.partition(":")
    if not attribute:
        raise SystemExit(f"expected one of {', '.join(KNOWN)} or package.module:factory, found {name!r}")
    found: Backend = getattr(importlib.import_module(module), attribute)()
    return found


async def _main(words: list[str]) -> int:
    backend = named(words[0])
    try:
        report = await check_backend(backend, words[1:])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    finally:
        await backend.aclose()
    print(report)
    return 0 if report.passed else 1


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if len(sys.argv) > 1 else 2)
    sys.exit(asyncio.run(_main(sys.argv[1:])))

"""What a warm interpreter has ready before any program asks."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import msgspec


class Warm(msgspec.Struct, frozen=True, kw_only=True):
    """Modules to import once, and where to find them beside the standard library.

    `site` are directories that every sandbox of the backend can read, at /opt/site/0 and so on. `prelude` is trusted
    source run once after the imports, as the module `quintain_warm`; programs find what it left there. `codes` are
    texts that programs will be given with `-c`, compiled beforehand.
    """

    preload: tuple[str, ...] = ()
    site: tuple[Path, ...] = ()
    prelude: str = ""
    codes: tuple[str, ...] = ()

    def places(self) -> list[tuple[Path, str]]:
        """Each site directory, and its place inside; never below /work or /tmp, which belong to the program."""
        return [(path, f"opt/site/{number}") for number, path in enumerate(self.site)]

    @classmethod
    def pytest(cls, *, site: tuple[Path, ...], preload: tuple[str, ...] = ()) -> Warm:
        """A warm pytest: programs call `quintain_warm.run("/work/test_x.py")` and exit with what it returns.
        `site` holds pytest and what the tests import."""
        prelude = Path(__file__).with_name("_warm_pytest.py").read_text()
        return cls(preload=("pytest", *preload), site=site, prelude=prelude)

    def command(self, library: Path) -> tuple[list[str], int]:
        """How the zygote is started, up to the words for the engine, and the descriptor from which it reads what to
        prepare: that may be longer than a word of a command line. The caller passes it on and closes it."""
        config = {
            "preload": self.preload, "site": [f"/{inside}" for _, inside in self.places()], "prelude": self.prelude,
            "codes": self.codes, "library": str(library),
        }
        script = Path(__file__).with_name("_zygote.py")
        fd = os.memfd_create("quintain-warm")
        os.write(fd, json.dumps(config).encode())
        os.lseek(fd, 0, os.SEEK_SET)
        return [interpreter(), "-I", "-S", str(script), str(fd)], fd


def interpreter() -> str:
    """The interpreter outside any virtual environment, the same that sandboxes find."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    return str(Path(base).resolve())

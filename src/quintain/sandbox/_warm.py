"""What a warm interpreter has ready before any program asks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec


class Warm(msgspec.Struct, frozen=True, kw_only=True):
    """Modules to import once, and where to find them beside the standard library.

    `site` are directories that become readable inside every sandbox of the backend. `prelude` is trusted source run
    once after the imports, as the module `quintain_warm`; programs find what it left there.
    """

    preload: tuple[str, ...] = ()
    site: tuple[Path, ...] = ()
    prelude: str = ""

    def command(self, library: Path) -> list[str]:
        """How the zygote is started, up to the words for the engine."""
        config = {
            "preload": self.preload, "site": [str(p) for p in self.site], "prelude": self.prelude,
            "library": str(library),
        }
        script = Path(__file__).with_name("_zygote.py")
        return [interpreter(), "-I", "-S", str(script), json.dumps(config)]


def interpreter() -> str:
    """The interpreter outside any virtual environment, the same that sandboxes find."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    return str(Path(base).resolve())

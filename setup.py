"""Builds the one thing here that is not Python: the native sandbox's program, an executable beside its sources."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

NATIVE = Path("src/quintain/sandbox/native")
FLAGS = ["-O2", "-Wall", "-Wextra"]


class BuildPrograms(build_ext):
    """Makes executables instead of shared objects; in place (below src/) in an editable install, in the wheel else."""

    def get_ext_filename(self, fullname: str) -> str:
        return os.path.join(*fullname.split("."))

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(target.name + ".new")
        compiler = shlex.split(os.environ.get("CC", "cc")) + shlex.split(os.environ.get("CFLAGS", "")) + FLAGS
        complaint = ""
        for link in (["-static"], []):  # static: the program must run below any root file system
            command = [*compiler, *link, "-o", str(draft), *ext.sources]
            complaint = _compile(command)
            if not complaint:
                os.replace(draft, target)
                print(f"built {target} ({'static' if link else 'dynamic: no static libc found here'})")
                return
        raise CompileError(f"{target.name} did not compile:\n{complaint}")


def _compile(command: list[str]) -> str:
    """What the compiler complains of; empty when it is content. Raises CompileError when there is none."""
    print(shlex.join(command), flush=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError as error:
        raise CompileError(
            f"Quintain's native sandbox needs a C compiler, and {command[0]!r} was not found: "
            "install one (Debian: apt-get install gcc libc6-dev) or name one in CC"
        ) from error
    if done.stderr:
        print(done.stderr, file=sys.stderr, flush=True)
    return done.stderr or f"{command[0]} exited with {done.returncode}" if done.returncode else ""


def _programs() -> list[Extension]:
    sources = sorted(map(str, NATIVE.glob("*.c")))
    if not sys.platform.startswith("linux") or not sources:
        return []
    headers = sorted(map(str, NATIVE.glob("*.h")))
    return [Extension("quintain.sandbox.native.quintain-sandbox", sources, depends=headers)]


setup(ext_modules=_programs(), cmdclass={"build_ext": BuildPrograms})

"""Builds what is not Python here, beside its sources: the native sandbox's program, and the library of its zygote."""

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
PROGRAM = "quintain.sandbox.native.quintain-sandbox"
LIBRARY = "quintain.sandbox.native.libquintain"


class BuildPrograms(build_ext):
    """Plain programs and libraries; in place (below src/) in an editable install, in the wheel otherwise."""

    def get_ext_filename(self, fullname: str) -> str:
        return os.path.join(*fullname.split(".")) + (".so" if fullname.endswith("libquintain") else "")

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(target.name + ".new")
        compiler = shlex.split(os.environ.get("CC", "cc")) + shlex.split(os.environ.get("CFLAGS", "")) + FLAGS
        complaint = ""
        library = ext.name.endswith(LIBRARY)
        # static: the program must run below any root file system
        for link in [["-shared", "-fPIC", "-fvisibility=hidden"]] if library else [["-static"], []]:
            command = [*compiler, *link, *(f"-D{n}" for n, _ in ext.define_macros), "-o", str(draft), *ext.sources]
            complaint = _compile(command)
            if not complaint:
                os.replace(draft, target)
                print(f"built {target} ({link[0][1:] if link else 'dynamic: no static libc found here'})")
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
    program = Extension(PROGRAM, sources, depends=headers)
    shared = [s for s in sources if not s.endswith("main.c")]
    return [program, Extension(LIBRARY, shared, depends=headers, define_macros=[("QUINTAIN_LIBRARY", None)])]


setup(ext_modules=_programs(), cmdclass={"build_ext": BuildPrograms})

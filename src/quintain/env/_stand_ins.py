"""Stand-ins for the programs by which tests fetch what they need, for a sandbox without a network.

`apt-get install` and `pip install` of what is there succeed, as they would have; `uvx` and `uv run` run the host's
Python with what it has. What is not there fails where it is used, and nothing is fetched.
"""

from __future__ import annotations

import base64
import io
import sys
import tarfile

FOLDER = "/opt/quintain/bin"

_INSTALLER = """#!/bin/sh
# Nothing can be fetched here: what is there is there.
for word in "$@"; do
  case $word in install|update|upgrade|clean|autoremove|autoclean|dist-upgrade|add) exit 0 ;; esac
done
exec "$(PATH=${PATH#FOLDER:} command -v NAME)" "$@"
"""
_CURL = """#!/bin/sh
for word in "$@"; do
  case $word in *astral.sh/uv*) mkdir -p "$HOME/.local/bin"; : >> "$HOME/.local/bin/env"; echo :; exit 0 ;; esac
done
exec "$(PATH=${PATH#FOLDER:} command -v NAME)" "$@"
"""
_UV = """#!/usr/bin/env python3
import importlib.util, os, shutil, sys

words, name = sys.argv[1:], os.path.basename(sys.argv[0])
if name == "uv":
    while words and words[0].startswith("-"):
        words.pop(0)
    verb = words.pop(0) if words else ""
    if verb == "tool" and words[:1] == ["run"]:
        words.pop(0)
    elif verb not in ("run", "tool"):
        sys.exit(0)  # init, add, venv, sync, pip install: what is there is there
VALUED = {"-p", "--python", "-w", "--with", "--from", "--with-requirements", "--project", "--directory", "--index-url"}
while words and words[0].startswith("-"):
    if words.pop(0) in VALUED and words:
        words.pop(0)
if not words:
    sys.exit(0)
words[0] = words[0].split("@")[0].split("==")[0]
if words[0] == "pytest" and importlib.util.find_spec("pytest_jsonctrf") is None:
    while "--ctrf" in words:
        at = words.index("--ctrf")
        del words[at:at + 2]
if words[0].endswith(".py"):
    words.insert(0, sys.executable)
elif importlib.util.find_spec(words[0]) is not None and words[0] not in ("python", "python3"):
    words[:1] = [sys.executable, "-m", words[0]]
found = shutil.which(words[0])
if found is None:
    sys.exit(f"{name}: {words[0]} is not there, and nothing can be fetched")
os.execv(found, words)
"""


def programs() -> dict[str, str]:
    """Name → text."""
    made = {**dict.fromkeys(("apt-get", "apt", "pip", "pip3"), _INSTALLER), "curl": _CURL}
    filled = {name: text.replace("FOLDER", FOLDER).replace("NAME", name) for name, text in made.items()}
    return {**filled, "uv": _UV, "uvx": _UV}


def head() -> str:
    """The lines of a Dockerfile that lay them, first on the PATH."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in sorted(programs().items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text.encode()), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    coded = base64.b64encode(packed.getvalue()).decode()
    path = f"{FOLDER}:{sys.base_prefix}/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
    return f"ENV PATH={path}\nRUN mkdir -p {FOLDER} && printf %s {coded} | base64 -d | tar -x -C {FOLDER}"

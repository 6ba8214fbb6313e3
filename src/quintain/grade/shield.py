"""The shield of a judging script: laid before an answer, so that names mean to the tests' Python what they always do.

Covers: what `inside/shield.py` does. Does not cover: an interpreter whose packages lie at a place that is not listed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import msgspec

from quintain.grade.frozen import Frozen
from quintain.grade.shadow import Wording, shadowing
from quintain.sandbox import Sandbox
from quintain.tasks import ScriptSuite

SHIELD = "/opt/quintain"
#: Where interpreters look for packages, for sh.
_SITES = " ".join(["/usr/lib/python3/dist-packages", "/usr/lib/python3*/site-packages",
                   "/usr/local/lib/python3*/site-packages", "/usr/local/lib/python3*/dist-packages",
                   "/opt/*/lib/python3*/site-packages", "/opt/*/*/lib/python3*/site-packages",
                   "/.venv/lib/python3*/site-packages", "/venv/lib/python3*/site-packages",
                   "/root/.pyenv/versions/*/lib/python3*/site-packages",
                   f"{sys.base_prefix}/lib/python3*/site-packages"])
_LAY = f"""for d in {_SITES}; do [ -d "$d" ] && cp {SHIELD}/shield.pth "$d/a_quintain_shield.pth" 2>/dev/null; done
while IFS= read -r p; do [ -e "$p" ] && printf '%s\\n' "$p"; done; true"""
#: Imported from a folder that is first for just so long, so that what was compiled is kept.
_PTH = (f"import sys; sys.path.insert(0, '{SHIELD}/shield'); import quintain_shield; "
        f"sys.path.remove('{SHIELD}/shield')\n")


async def laid(sandbox: Sandbox, suite: ScriptSuite, answer: Frozen) -> tuple[Frozen, dict[str, str], tuple[str, ...]]:
    """Lay the shield before an answer: the answer that is to be laid, the environment that the script needs, and what
    is told. Nothing is done for an answer without files that Python would read."""
    found = shadowing(answer.files, Wording.of(suite))
    if not found.read:
        return answer, {}, ()
    try:
        await sandbox.files.write_many({
            f"{SHIELD}/shield/quintain_shield.py": _shield(), f"{SHIELD}/shield.pth": _PTH.encode()})
    except OSError as error:
        return answer, {}, (f"no shield is laid: {error.strerror or error}",)
    known = frozenset((await sandbox.run(["sh", "-c", _LAY], stdin="".join(f"{path}\n" for path in found.read).encode(),
                               cwd="/")).text.split("\n"))
    kept = {path for path in known if path.endswith("/conftest.py") and "conftest" not in found.asked}
    theirs = [path for path in found.read
              if path not in known or path.endswith((".ini", ".toml", ".cfg"))]
    head = "\n".join(found.asked) + "\n\n"
    await sandbox.files.write(f"{SHIELD}/answer.txt", (head + "\n".join(theirs)).encode("utf-8", "surrogateescape"))
    told = [f"{path}: is not taken for a module of the tests" for path in found.named if path in theirs]
    told += [f"{path}: the task's own stays" for path in sorted(kept)]
    rest = {path: content for path, content in answer.files.items() if f"/{path}" not in kept}
    answer = msgspec.structs.replace(answer, files=rest, executable=answer.executable & rest.keys())
    return answer, {"PYTHONNOUSERSITE": SHIELD} if found.user_site else {}, tuple(told)


@cache
def _shield() -> bytes:
    return files("quintain.grade.inside").joinpath("shield.py").read_bytes()


def told_of(told: Sequence[str]) -> str:
    """A few of them, in one line."""
    return f"{len(told)} in the way of the tests' own names: {'; '.join(told[:5])}"

"""Refuses a module of more than 400 lines, unless pyproject.toml names the reason in [tool.quintain.long-modules]."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

LINES = 400
ROOT = Path(__file__).parent.parent


def complaints(root: Path = ROOT) -> list[str]:
    with (root / "pyproject.toml").open("rb") as file:
        reasons: dict[str, str] = tomllib.load(file).get("tool", {}).get("quintain", {}).get("long-modules", {})
    found = []
    modules = sorted(p for p in (root / "src").rglob("*") if p.suffix in (".py", ".c", ".h"))
    for module in modules:
        lines = module.read_bytes().count(b"\n")
        name = module.relative_to(root).as_posix()
        if lines > LINES and not reasons.get(name):
            found.append(f"{name}: {lines} lines, expected at most {LINES}: what is its second idea?")
        if lines <= LINES and name in reasons:
            found.append(f"pyproject.toml: {name} has {lines} lines and needs no reason any more")
    names = {m.relative_to(root).as_posix() for m in modules}
    found += [f"pyproject.toml: no module {name} to give a reason for" for name in reasons if name not in names]
    return found


if __name__ == "__main__":
    problems = complaints()
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"module sizes: {len(problems)} complaint(s)")
    sys.exit(bool(problems))

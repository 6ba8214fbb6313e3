"""Checks the documentation: each relative link leads somewhere, each page is reached from docs/index.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def complaints(root: Path = ROOT) -> list[str]:
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    found: list[str] = []
    reached: set[Path] = set()
    for page in pages:
        for target in LINK.findall(page.read_text()):
            if "://" in target:
                continue
            path = (page.parent / target).resolve()
            reached.add(path)
            if not path.exists():
                found.append(f"{page.relative_to(root)}: no such file: {target}")
    start = root / "docs" / "index.md"
    found += [
        f"{page.relative_to(root)}: no page links to it"
        for page in pages[1:] if page != start and page.resolve() not in reached
    ]
    return found


if __name__ == "__main__":
    problems = complaints()
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"documentation: {len(problems)} complaint(s)")
    sys.exit(bool(problems))

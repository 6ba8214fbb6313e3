"""The checks of `make check` that are our own bite."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

CHECKS = Path(__file__).parent.parent / ".ci"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "README.md").write_text("[start](docs/index.md)\n")
    (tmp_path / "docs" / "index.md").write_text("[page](page.md)\n")
    (tmp_path / "docs" / "page.md").write_text("nothing to see\n")
    return tmp_path


def complaints(check: str, tree: Path) -> list[str]:
    found: list[str] = runpy.run_path(str(CHECKS / check))["complaints"](tree)
    return found


def test_a_module_of_more_than_400_lines_needs_a_reason(tree: Path) -> None:
    (tree / "src" / "long.py").write_text("x = 1\n" * 401)
    (tree / "src" / "short.py").write_text("x = 1\n" * 400)
    assert [said.split(":")[0] for said in complaints("module_size.py", tree)] == ["src/long.py"]
    (tree / "pyproject.toml").write_text('[tool.quintain.long-modules]\n"src/long.py" = "a table"\n')
    assert complaints("module_size.py", tree) == []


def test_a_reason_for_a_module_that_is_short_or_gone_is_itself_a_complaint(tree: Path) -> None:
    (tree / "src" / "short.py").write_text("x = 1\n")
    reasons = '"src/short.py" = "old"\n"src/gone.py" = "old"\n'
    (tree / "pyproject.toml").write_text(f"[tool.quintain.long-modules]\n{reasons}")
    assert len(complaints("module_size.py", tree)) == 2


def test_a_link_that_leads_nowhere_and_a_page_that_nobody_links_to_are_found(tree: Path) -> None:
    assert complaints("docs_links.py", tree) == []
    (tree / "docs" / "page.md").write_text("[gone](gone.md)\n")
    (tree / "docs" / "lonely.md").write_text("hello\n")
    assert complaints("docs_links.py", tree) == [
        "docs/page.md: no such file: gone.md", "docs/lonely.md: no page links to it",
    ]

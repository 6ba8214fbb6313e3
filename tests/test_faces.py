"""A room is used through its face, and the face is sorted and true."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "quintain"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
#: Modules that stand before the rooms are faces too: of a room whose own face would have a name twice.
DOORSTEPS = sorted(path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__"))


def imports(path: Path) -> list[tuple[int, str, tuple[str, ...]]]:
    """(line, module, names) of each import of one of our modules in a file, wherever in the file it stands."""
    found: list[tuple[int, str, tuple[str, ...]]] = []
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides which room it enters"
            found.append((node.lineno, node.module or "", tuple(alias.name for alias in node.names)))
        elif isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, ()) for alias in node.names]
    return [entry for entry in found if entry[1].split(".")[0] == "quintain"]


@pytest.mark.parametrize("room", [*ROOMS, *DOORSTEPS])
def test_a_face_is_sorted_and_true(room: str) -> None:
    face = importlib.import_module(f"quintain.{room}")
    assert list(face.__all__) == sorted(set(face.__all__)), f"quintain.{room}.__all__ must be sorted, each name once"
    missing = [name for name in face.__all__ if not hasattr(face, name)]
    assert not missing, f"quintain.{room}.__all__ promises {missing}"
    source = PACKAGE / room / "__init__.py" if room in ROOMS else PACKAGE / f"{room}.py"
    shown = {name for _, _, names in imports(source) for name in names}
    hidden = {name for name in shown - set(face.__all__) if not name.startswith("_")}
    assert not hidden, f"quintain.{room} imports {sorted(hidden)} without showing them in __all__"


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_in_its_first_line_what_it_is(room: str) -> None:
    face = importlib.import_module(f"quintain.{room}")
    assert face.__doc__
    assert face.__doc__.splitlines()[0].strip()


def test_a_room_is_entered_through_its_face_only() -> None:
    problems = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.parent == PACKAGE and path.stem in DOORSTEPS:
            continue
        own = path.relative_to(PACKAGE).parts[0]
        for line, module, names in imports(path):
            parts = module.split(".")
            full = [parts] if names == () or len(parts) > 1 else [[*parts, name] for name in names]
            for entered in full:
                if len(entered) > 2 and entered[1] != own and (PACKAGE / entered[1]).is_dir():
                    problems.append(f"{path.relative_to(PACKAGE)}:{line}: {module} is the back of a room")
    assert not problems, "\n".join(problems)


def test_each_module_opens_with_what_it_is() -> None:
    silent = [
        str(path.relative_to(PACKAGE)) for path in sorted(PACKAGE.rglob("*.py"))
        if not ast.get_docstring(ast.parse(path.read_text(), str(path)))
    ]
    assert not silent

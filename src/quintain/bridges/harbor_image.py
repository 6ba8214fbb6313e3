"""What our sandboxes open for the environment folder of a Harbor task: its Dockerfile, or the image that it names."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from quintain.env import TerminalWorld
from quintain.sandbox import NativeBackend, published
from quintain.tasks import Exam, Item, Package, ScriptSuite, context_digest
from quintain.types import Entry, Grading

COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")


def image_of(
    folder: Path, *, docker_image: str | None, bases: Mapping[str, str], cache: Path, backend: NativeBackend,
) -> str:
    """The image, with a writable root. `bases` says what to take for the images of a registry, as `World` reads it;
    where that is the host, a Dockerfile is built as `TerminalWorld` says, with what the host has.

    Raises TaskError for a registry's image that `bases` does not name, and for what the host does not have.
    """
    found = _files(folder)
    files = {path: content for path, (content, _) in found.items()}
    word = f"docker:{docker_image}+rw" if docker_image else f"context:{context_digest(files)}+rw"
    package = Package(format="harbor", files={f"environment/{path}": content for path, content in files.items()})
    suite = ScriptSuite(files={}, argv=("true",), package=package)
    item = Item.sealed(
        Exam(hidden=suite), id=folder.parent.name or "task", kind="shell", instructions="", image=word,
        entry=Entry(path="solve.sh", language="shell"), grading=Grading.ON_SUBMIT)
    image = TerminalWorld(backend, cache=cache, bases=bases).image(item)
    executable = sorted(path for path, (_, runs) in found.items() if runs)
    if not image.startswith("build:") or not executable:
        return image
    return f"build:{_marked(Path(image.removeprefix('build:').removesuffix('+rw')), executable, cache)}+rw"


def _files(folder: Path) -> dict[str, tuple[bytes, bool]]:
    """path → content, and whether it may be executed. No link is followed."""
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), os.access(path, os.X_OK))
        for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()
    }


def _marked(laid: Path, executable: list[str], cache: Path) -> Path:
    """The same build context with the bits that make its files executable; written once."""
    digest = hashlib.sha256(msgspec.json.encode([laid.name, executable])).hexdigest()[:32]
    place = cache / "harbor" / digest
    with published(place) as draft:
        if draft is not None:
            shutil.copytree(laid, draft, dirs_exist_ok=True)
            for path in executable:
                if (draft / path).exists():
                    (draft / path).chmod(0o755)
    return place

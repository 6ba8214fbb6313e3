"""Small packages of our own, of which tasks on documentation and on repositories are made."""

from __future__ import annotations

import ast
import tomllib
from functools import lru_cache
from pathlib import Path

import msgspec


class Name(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One public function: what is said of it, an example as typed, and its tests."""

    name: str
    words: str
    example: str
    tests: str


class PackageFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """In `file`, `old` was once `new`; `issue` is who noticed it. `fails` are the ids of the tests that show it;
    `extra` are tests that only came with its repair, in the file of the first function."""

    file: str
    old: str
    new: str
    issue: str
    fails: list[str]
    extra: str = ""


class Package(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`files` are its modules; `command` is a shell command that uses it and `printed` what that prints; `main` is what
    `python3 -m NAME` does."""

    name: str
    about: str
    command: str
    printed: str
    main: str
    files: dict[str, str]
    names: list[Name]
    faults: list[PackageFault]

    def source(self, fault: PackageFault | None = None) -> dict[str, bytes]:
        """Its files, by their paths in a repository; with a fault, as they once were."""
        found = {path: text.lstrip("\n") for path, text in self.files.items()}
        if fault is not None:
            found[fault.file] = found[fault.file].replace(fault.old, fault.new)
        homes = {one.name: next(path for path, text in found.items() if f"def {one.name}(" in text)
                 for one in self.names}
        imports = "".join(f"from {self.name}.{homes[name].removesuffix('.py')} import {name}\n"
                          for name in sorted(homes, key=lambda name: (homes[name], name)))
        public = ", ".join(f'"{name}"' for name in sorted(homes))
        found["__init__.py"] = f'"""{self.about}"""\n\n{imports}\n__all__ = [{public}]\n'
        used = "".join(f"from {self.name} import {', '.join(sorted(name for name in homes if name in self.main))}\n")
        found["__main__.py"] = f"import sys\n\n{used}\n{self.main}\n"
        return {f"{self.name}/{path}": text.encode() for path, text in sorted(found.items())}

    def tests(self) -> dict[str, bytes]:
        """A file of tests for each public function."""
        return {f"tests/test_{one.name}.py": f"from {self.name} import {one.name}\n\n\n{one.tests.strip()}\n".encode()
                for one in self.names}

    def signature(self, name: str) -> str:
        """How a function is called, with its defaults."""
        for text in self.files.values():
            for node in ast.parse(text).body:
                if isinstance(node, ast.FunctionDef) and node.name == name:
                    return f"{name}({ast.unparse(node.args)})".replace("'", '"')
        raise KeyError(name)


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    packages: list[Package]


@lru_cache(maxsize=1)
def packages() -> tuple[Package, ...]:
    """All of them."""
    text = Path(__file__).with_name("packages.toml").read_text("utf-8")
    return tuple(msgspec.convert(tomllib.loads(text), _File).packages)

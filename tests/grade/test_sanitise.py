"""What crosses to the verifier: ordinary files, and of test infrastructure only what the task gave or asks for."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.grade import Artefacts, export, infrastructure, sanitise
from quintain.sandbox import NativeBackend
from tests.grade.ground import LIMITS, needs_native

INFRASTRUCTURE = {
    "conftest.py": b"", "tests/conftest.py": b"", "pytest.ini": b"", ".pytest.ini": b"", "tox.ini": b"",
    "sub/sitecustomize.py": b"", "usercustomize.py": b"", "evil.pth": b"", ".coveragerc": b"", "noxfile.py": b"",
    "jest.config.js": b"", "vitest.config.ts": b"", ".mocharc.json": b"", ".npmrc": b"", ".yarnrc.yml": b"",
    "node_modules/chai/index.js": b"", "__pycache__/a.cpython-311.pyc": b"", "a.pyc": b"", ".git/HEAD": b"",
    "sub/.git": b"", ".gitattributes": b"", ".husky/pre-commit": b"", ".bashrc": b"", ".profile": b"",
    "setup.cfg": b"[metadata]\nname = x\n\n[tool:pytest]\naddopts = --co\n",
    "pyproject.toml": b"[project]\n[tool.pytest.ini_options]\naddopts = '--co'\n",
    "package.json": b'{"scripts": {"test": "true"}}', "Makefile": b"all:\n\ntest: all\n\ttrue\n",
}
ORDINARY = {
    "solution.py": b"", "src/conftest_like.py": b"", "tests/test_mine.py": b"", "setup.cfg": b"[metadata]\nname = x\n",
    "pyproject.toml": b"[project]\nname = 'x'\n", "package.json": b'{"name": "x", "type": "module"}',
    "Makefile": b"all:\n\tcc x.c\n", "git.py": b"", "profile.py": b"", "site.py": b"", "a.pth.py": b"",
    "data/jest.json": b"{}", "my_node_modules.py": b"", "README.md": b"pytest.ini",
}


@pytest.mark.parametrize("path", INFRASTRUCTURE)
def test_infrastructure_is_dropped_and_told(path: str) -> None:
    clean = sanitise({path: INFRASTRUCTURE[path], "solution.py": b"x"})
    assert clean.files == {"solution.py": b"x"}
    assert list(clean.dropped) == [path]
    assert path in clean.evidence[0].text


@pytest.mark.parametrize("path", ORDINARY)
def test_an_ordinary_file_crosses_untouched(path: str) -> None:
    assert infrastructure(path, ORDINARY[path]) is None
    assert sanitise({path: ORDINARY[path]}).files == {path: ORDINARY[path]}


def test_what_the_task_gave_comes_back_as_it_was_given() -> None:
    given_files = {"conftest.py": b"the task's", "pytest.ini": b"[pytest]\n", "solution.py": b"stub"}
    clean = sanitise({"conftest.py": b"the answer's", "solution.py": b"answer"}, given=given_files)
    assert clean.files == {"conftest.py": b"the task's", "pytest.ini": b"[pytest]\n", "solution.py": b"answer"}
    assert sorted(clean.restored) == ["conftest.py", "pytest.ini"]
    assert not clean.dropped


def test_what_a_right_answer_touches_is_let_through_but_never_in_the_place_of_a_test() -> None:
    clean = sanitise({"package.json": INFRASTRUCTURE["package.json"], "tests/test_a.py": b"pass"},
                     allowed=["package.json", "tests/test_a.py"], trusted=["tests/test_a.py"])
    assert list(clean.files) == ["package.json"]
    assert list(clean.dropped) == ["tests/test_a.py"]


_PATHS = st.sampled_from([*INFRASTRUCTURE, *ORDINARY])


@given(st.dictionaries(_PATHS, st.binary(max_size=20)), st.dictionaries(_PATHS, st.binary(max_size=20)))
def test_what_crosses_is_the_answers_or_the_tasks_and_crosses_again(
    files: dict[str, bytes], given_files: dict[str, bytes]
) -> None:
    clean = sanitise(files, given=given_files)
    for path, content in clean.files.items():
        assert content in (files.get(path), given_files.get(path))
        assert infrastructure(path, content) is None or given_files.get(path) == content
    assert set(files) <= set(clean.files) | set(clean.dropped)
    assert sanitise(clean.files, given=given_files).files == clean.files


MAKE = """
import os
os.makedirs("out/deep")
open("out/a.txt", "w").write("a")
open("out/deep/b.txt", "w").write("bb")
open("out/big.txt", "w").write("x" * 5000)
open("other.txt", "w").write("o")
os.symlink("/etc/passwd", "out/link.txt")
os.symlink("/etc", "out/folder")
os.mkfifo("out/pipe.txt")
"""


async def _exported(*, allow: tuple[str, ...], **caps: int) -> Artefacts:
    async with NativeBackend() as backend, backend.open(limits=LIMITS) as (sandbox,):
        await sandbox.run(["python3", "-c", MAKE])
        return await export(sandbox, allow=allow, **caps)


@needs_native
def test_only_ordinary_files_on_the_list_and_within_the_caps_are_exported() -> None:
    found = asyncio.run(_exported(allow=("out/*",), max_file_bytes=1000))
    assert found.files == {"out/a.txt": b"a", "out/deep/b.txt": b"bb"}
    assert found.left_out["other.txt"] == "not on the list"
    assert "symlink" in found.left_out["out/link.txt"]
    assert "symlink" in found.left_out["out/folder"]
    assert "5000 bytes" in found.left_out["out/big.txt"]
    assert "out/pipe.txt" in found.left_out
    assert found.evidence


@needs_native
def test_the_sum_and_the_number_of_exported_files_are_bounded() -> None:
    assert len(asyncio.run(_exported(allow=("*",), max_files=2)).files) == 2
    found = asyncio.run(_exported(allow=("*",), max_bytes=4))
    assert sum(map(len, found.files.values())) <= 4


@needs_native
def test_a_folder_that_is_gone_exports_nothing() -> None:
    async def gone() -> Artefacts:
        async with NativeBackend() as backend, backend.open(limits=LIMITS) as (sandbox,):
            return await export(sandbox, folder="/work/nowhere")

    found = asyncio.run(gone())
    assert found.files == {}
    assert list(found.left_out) == ["/work/nowhere"]

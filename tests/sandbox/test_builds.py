"""Dockerfiles become layers without Docker; what is not supported is refused at its line."""

from __future__ import annotations

import asyncio
import os
import tarfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from quintain.sandbox import NativeBackend
from quintain.sandbox.image import ImageError
from quintain.sandbox.image.dockerfile import DockerfileError, expand, pairs, parse
from tests.sandbox.layouts import layout, member, static_program

ROOTLESS = [False, True] if os.geteuid() == 0 else [True]
HOST = NativeBackend().probe()
needs_native = pytest.mark.skipif(not HOST.available, reason=f"needs the native backend: {HOST.missing}")


@pytest.fixture(scope="module")
def hello(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    program = static_program(tmp_path_factory.mktemp("hello"))
    if program is None:
        pytest.skip("needs a C compiler and a static libc")
    return program


def run(test: Callable[[NativeBackend], Awaitable[None]], cache: Path, *, rootless: bool = ROOTLESS[0]) -> None:
    async def main() -> None:
        async with NativeBackend(engines=1, rootless=rootless, cache=cache) as backend:
            await test(backend)

    asyncio.run(main())


def context(tmp_path: Path, dockerfile: str, files: dict[str, bytes] | None = None) -> Path:
    place = tmp_path / "context"
    for name, content in {"Dockerfile": dockerfile.encode(), **(files or {})}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    return place


FULL = r"""# syntax=docker/dockerfile:1
ARG COLOUR=green
FROM host AS base
ARG COLOUR
ARG SIZE=3
ENV NAME="a b" PLACE=/opt/tool
LABEL who=me "what=some thing"
WORKDIR $PLACE
COPY src/ lib/
COPY one.txt two.txt ./texts/
COPY --chmod=600 one.txt renamed
ADD pack.tar.gz /opt/unpacked/
RUN echo "$COLOUR $SIZE $NAME" > colour && \
    # a comment in between
    rm lib/sub/gone && \
    python3 -c "import os; print(os.getuid(), os.getcwd())" >> colour
RUN ["sh", "-c", "cat colour lib/a > /usr/local/bin/both; rm /usr/bin/env; echo t > /tmp/t; echo w > /work/w"]
USER nobody
EXPOSE 80/tcp
CMD ["python3"]
ENTRYPOINT run it
"""


@needs_native
@pytest.mark.parametrize("rootless", ROOTLESS)
def test_a_dockerfile_builds_into_layers_that_are_kept(rootless: bool, tmp_path: Path) -> None:
    files = {"src/a": b"A\n", "src/sub/gone": b"", "src/sub/kept": b"K", "one.txt": b"1", "two.txt": b"2",
             "src/skip.log": b"", ".dockerignore": b"**/*.log\n"}
    place = context(tmp_path, FULL, files)
    with tarfile.open(place / "pack.tar.gz", "w:gz") as tar:
        tar.add(place / "src", arcname="inner")
    look = "cat /usr/local/bin/both; ls lib lib/sub texts; stat -c %a renamed; ls /opt/unpacked/inner; ls /usr/bin/env"

    async def test(backend: NativeBackend) -> None:
        async with backend.open(f"build:{place}+rw") as [box]:
            assert box.workdir == "/opt/tool"
            outcome = await box.run(["sh", "-c", look], cwd=box.workdir)
            assert " ".join(outcome.text.split()) == (
                "green 3 a b 0 /opt/tool A lib: a sub lib/sub: kept texts: one.txt two.txt 600 a skip.log sub"
            ), outcome
            assert "No such file" in outcome.error_text
            assert (await box.run(["sh", "-c", "echo $NAME $SIZE; cat /tmp/t /work/w"])).text == "a b\nt\nw\n"

    cache = tmp_path / "cache"
    run(test, cache, rootless=rootless)
    layers = {p.name: p.stat().st_mtime_ns for p in (cache / "layers").iterdir()}
    began = time.monotonic()
    run(test, cache, rootless=rootless)
    assert {p.name: p.stat().st_mtime_ns for p in (cache / "layers").iterdir()} == layers, "nothing was built again"
    assert time.monotonic() - began < 20


@needs_native
def test_a_changed_file_builds_its_step_and_what_follows_again(tmp_path: Path) -> None:
    place = context(tmp_path, "FROM host\nRUN date +%N > /first\nCOPY f /f\nRUN cat /f > /g\n", {"f": b"1"})
    found: list[list[str]] = []

    async def test(backend: NativeBackend) -> None:
        async with backend.open(f"build:{place}") as [box]:
            found.append([(await box.files.read(p)).decode() for p in ("/first", "/g")])

    run(test, tmp_path / "cache")
    (place / "f").write_bytes(b"2")
    run(test, tmp_path / "cache")
    (place / "other").write_bytes(b"not copied")
    run(test, tmp_path / "cache")
    assert found[1] == [found[0][0], "2"] == found[2]


@needs_native
def test_from_scratch_and_from_a_layout(hello: bytes, tmp_path: Path) -> None:
    steps = 'FROM scratch\nCOPY hello /bin/hello\nRUN ["hello", "write", "/made"]\n'
    place = context(tmp_path, steps, {"hello": hello})
    (place / "hello").chmod(0o755)
    layout(place / "base", [[member("bin/hello", hello), member("etc/os", b"base")]], config={"Env": ["A=1"]})
    (place / "Other").write_text('FROM ./base:latest\nENV B=${A}2\nRUN ["hello", "rm", "/etc/os"]\n')

    async def test(backend: NativeBackend) -> None:
        async with backend.open(f"build:{place}") as [box]:
            assert await box.files.read("/made") == b"written\n"
        async with backend.open(f"build:{place}/Other") as [box]:
            assert not await box.files.exists("/etc/os")
            assert (await box.run(["hello", "env", "B"])).text == "12\n"

    run(test, tmp_path / "cache")


@needs_native
def test_files_that_an_empty_work_tree_would_hide_are_not_hidden_in_silence(tmp_path: Path) -> None:
    place = context(tmp_path, "FROM host\nWORKDIR /work\nCOPY f .\n", {"f": b"seen"})

    async def test(backend: NativeBackend) -> None:
        with pytest.raises(ImageError, match=r"expected nothing in /work .* use build:.*\+rw"):
            async with backend.open(f"build:{place}"):
                pass
        async with backend.open(f"build:{place}+rw") as [box]:
            assert await box.files.read("f") == b"seen"

    run(test, tmp_path / "cache")


@needs_native
@pytest.mark.parametrize(("dockerfile", "line", "match"), [
    ("FROM host\n\nRUN echo no; \\\n  exit 3\n", 3, "RUN to succeed, found exit code 3: no"),
    ("FROM host\nRUN python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 3)'\n", 2, "unreachable"),
    ("FROM python:3.12\n", 1, "no registry is asked"),
    ("FROM host\nCOPY ../secret /x\n", 2, "inside the context"),
    ("FROM host\nCOPY link /x\n", 2, "inside the context"),
    ("FROM host\nCOPY absent /x\n", 2, "found nothing of that name"),
    ("FROM host\nADD https://example.org/x /x\n", 2, "nothing is fetched"),
    ("FROM host\nCOPY f /proc/x\n", 2, "outside /proc"),
    ("FROM scratch\n", 1, "a step that makes files"),
    ("FROM host\nCOPY --from=other f /x\n", 2, "without --from"),
    ("FROM host\nVOLUME /x\n", 2, "no volumes"),
])
def test_what_cannot_be_built_is_refused_at_its_line(dockerfile: str, line: int, match: str, tmp_path: Path) -> None:
    place = context(tmp_path, dockerfile, {"f": b""})
    (place / "link").symlink_to("/etc/passwd")
    (tmp_path / "secret").write_text("s")

    async def test(backend: NativeBackend) -> None:
        async with backend.open(f"build:{place}"):
            pass

    with pytest.raises(ImageError, match=match) as caught:
        run(test, tmp_path / "cache")
    assert (caught.value.file, caught.value.line) == (str(place / "Dockerfile"), line)


@pytest.mark.parametrize(("text", "line", "match"), [
    ("", 1, "expected FROM"), ("RUN x\nFROM host\n", 1, "FROM .* first, found RUN"),
    ("FROM a\nFROM b\n", 2, "one stage"), ("FROM a\nRUN <<EOF\nx\nEOF\n", 2, "here-document"),
    ("FROM a\nFOO x\n", 2, "found FOO"), ("FROM a\nRUN\n", 2, "none"),
    ("FROM a\nRUN --mount=type=cache x\n", 2, "--mount"), ("FROM a\nSHELL bash\n", 2, "expected SHELL"),
    ("FROM a\nHEALTHCHECK NONE\n", 2, "runs no service"), ("FROM a\nCOPY --chown x y\n", 2, "--chown"),
])
def test_a_dockerfile_outside_the_subset_is_refused_at_its_line(text: str, line: int, match: str) -> None:
    with pytest.raises(DockerfileError, match=match) as caught:
        parse(text)
    assert caught.value.line == line


def test_lines_are_joined_and_counted_as_docker_does() -> None:
    steps = parse("# escape=`\nFROM host\n\nRUN one `\n# between\n\n  two\nrun [\"a\", \"b c\"]\nCMD echo [x]\n")
    assert [(s.line, s.name, s.words, s.exec) for s in steps] == [
        (2, "FROM", ("host",), False), (4, "RUN", ("one   two",), False), (8, "RUN", ("a", "b c"), True),
        (9, "CMD", ("echo [x]",), False),
    ]


@pytest.mark.parametrize(("text", "value"), [
    ("$A/${B}", "1/2 3"), ("${C:-no}${A:+yes}${C:+no}", "noyes"), (r"\$A", "$A"), ("${C:-$A}", "1"),
    ("a$", "a$"), ("$C", ""),
])
def test_variables_expand(text: str, value: str) -> None:
    assert expand(text, {"A": "1", "B": "2 3"}, 1) == value


@pytest.mark.parametrize(("text", "found"), [
    ("ENV A=1 B='$X' C=\"$X y\" D=$X E=a\\ b", {"A": "1", "B": "$X", "C": "p q y", "D": "p q", "E": "a b"}),
    ("ENV OLD the rest $X", {"OLD": "the rest p q"}), ("LABEL \"a b\"=c", {"a b": "c"}), ("ENV A=", {"A": ""}),
    ("ARG ONE", {}), ("ARG ONE=1 TWO", {"ONE": "1"}),
])
def test_pairs_are_read_as_a_shell_would(text: str, found: dict[str, str]) -> None:
    step = parse("FROM host\n" + text)[1]
    assert pairs(step, {"X": "p q"}) == found


@pytest.mark.parametrize("text", ["ENV A", "ENV =x", "LABEL x", "ENV A='x", "ENV A=${B", "ENV A=${}"])
def test_bad_pairs_are_refused(text: str) -> None:
    with pytest.raises(DockerfileError, match="line 2: expected"):
        pairs(parse("FROM host\n" + text)[1], {})

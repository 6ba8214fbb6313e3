"""Dockerfiles as they can be built on the host's own system."""

from __future__ import annotations

import pytest

from quintain.tasks import Lacking, Needs, bases_of, for_the_host
from quintain.tasks.formats.dockerfile import workdir_of

HAS = Needs(system=lambda name: name in ("git", "curl"), python=lambda name: name == "pytest")


def built(text: str, **files: bytes) -> list[str]:
    return for_the_host(text, needs=HAS, context={name.replace("_", "."): c for name, c in files.items()}).splitlines()


def test_what_the_host_has_is_not_installed_and_the_rest_of_the_step_is_run() -> None:
    text = """# a comment
FROM ubuntu:24.04
RUN apt-get update && \\
    # of what follows all is there
    apt-get install -y --no-install-recommends git=1:2.43 curl && \\
    rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir 'pytest>=8' && echo "a && b" > /made; touch /too
"""
    assert built(text) == ["FROM host", 'RUN echo "a && b" > /made ; touch /too']


def test_a_step_that_installs_nothing_is_left_as_it_is() -> None:
    step = "case $A in x) echo 1;; *) awk '{print; n++}' /f&&true;; esac"
    assert built(f"FROM x\nRUN {step}\n")[1] == f"RUN {step}"


@pytest.mark.parametrize(("step", "what"), [
    ("apt-get install -y git nginx", "system packages that this host has not: nginx"),
    ("apt install -qq -y redis > /dev/null", "redis"), ("pip3 install torch==2.1 pytest", "Python packages.*: torch"),
    ("python3 -m pip install -r req.txt", "numpy, scipy"), ("uv pip install --system jax", "jax"),
])
def test_what_the_host_lacks_is_named_with_its_line(step: str, what: str) -> None:
    with pytest.raises(Lacking, match=what) as error:
        built(f"FROM x\n\nRUN {step}\n", req_txt=b"scipy>1  # why\nnumpy\n\npytest\n")
    assert error.value.line == 3


def test_stages_follow_one_another_on_one_root() -> None:
    text = "ARG B=debian\nFROM ${B}:12 AS one\nWORKDIR /a\nRUN make\nFROM alpine\nCOPY --from=one /a/x /b/x\n" \
        "VOLUME /v\nUSER me\n"
    assert built(text) == ["FROM host", "WORKDIR /a", "RUN make", "WORKDIR /",
                           'RUN mkdir -p "$(dirname /b/x)" && cp -a /a/x /b/x', "USER me"]
    assert bases_of(text) == ("debian:12", "alpine")


def test_here_documents_become_commands() -> None:
    text = "FROM x\nRUN <<EOF\napt-get install -y git\necho hi > /hi\nEOF\nCOPY <<'END' /etc/conf\n$kept\nEND\n" \
        "ENV A=1\n"
    run, copy, env = built(text)[1:]
    assert run == "RUN printf %s ZWNobyBoaSA+IC9oaQ== | base64 -d | sh"
    assert copy == 'RUN mkdir -p "$(dirname /etc/conf)" && printf %s JGtlcHQK | base64 -d > /etc/conf'
    assert env == "ENV A=1"


@pytest.mark.parametrize(("text", "place"), [
    ("FROM x\nWORKDIR /app/\n", "/app"), ("FROM x\nENV APP=/opt/app\nWORKDIR $APP\nWORKDIR sub\n", "/opt/app/sub"),
    ("FROM x\nWORKDIR /a\nFROM y\n", None), ("FROM x\nARG D\nWORKDIR ${D:-/d}\n", "/d"),
    ("", None), ("WORKDIR /\n", "/"),
])
def test_a_work_folder_is_followed_through_variables_and_stages(text: str, place: str | None) -> None:
    assert workdir_of(text) == place
